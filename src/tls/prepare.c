/* SPDX-License-Identifier: BSD-3-Clause */
#include "tls/prepare.h"

#include <errno.h>
#include <stdint.h>
#include <sys/socket.h>

#include <openssl/ssl.h>

#include "base/err.h"
#include "tls/admission.h"
#include "tls/context.h"
#include "tls/failure.h"
#include "tls/keys.h"
#include "tls/stream.h"

/* Flights of a handshake, with some to spare. */
#define TURNS_MAX 8

static const uint8_t no_secret[ADMISSION_SECRET_BYTES];

static int context_make(int (*make)(const struct tls_params *params,
				    struct tls_context **ret_context),
			struct tls_context **ret_context)
{
	struct tls_params params = { .keys = NULL };
	int err = tls_keys_of("none", no_secret, sizeof(no_secret), &params.keys);

	return err ? err : make(&params, ret_context);
}

static int client_make(const struct tls_params *params, struct tls_context **ret)
{
	return tls_context_client(params, "localhost", ret);
}

static int handshake(struct stream *server, struct stream *client)
{
	int err = -EAGAIN;

	for (unsigned i = 0; err == -EAGAIN && i < TURNS_MAX; i++) {
		err = stream_handshake(client);
		if (!err || err == -EAGAIN)
			err = stream_handshake(server);
	}
	return err;
}

static int streams_try(struct tls_context *ours, struct tls_context *theirs)
{
	struct stream server = { .fd = -1 }, client = { .fd = -1 };
	int fds[2], err;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds))
		return err_errno(-errno, "a pair of sockets");
	err = stream_tls(&server, fds[0], ours);
	/* they own their sockets, also on failure */
	if (stream_tls(&client, fds[1], theirs) || err)
		err = -ENOMEM;
	if (!err)
		err = handshake(&server, &client);
	stream_close(&server);
	stream_close(&client);
	return err;
}

static int prepare(void)
{
	struct tls_context *server = NULL, *client = NULL;
	uint8_t token[ADMISSION_BYTES];
	int err;

	if (!OPENSSL_init_ssl(OPENSSL_INIT_LOAD_SSL_STRINGS, NULL))
		return tls_failure(-ENOMEM, "no memory");
	err = admission_token(no_secret, 0, 0, token);
	if (!err)
		err = context_make(tls_context_server, &server);
	if (!err)
		err = context_make(client_make, &client);
	if (!err)
		err = streams_try(server, client);
	tls_context_unref(client);
	tls_context_unref(server);
	return err;
}

int tls_prepare(void)
{
	int err = prepare();

	return err ? err_prefix(err, "OpenSSL cannot be initialised") : 0;
}

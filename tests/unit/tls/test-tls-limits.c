/* SPDX-License-Identifier: BSD-3-Clause */
/* What whoever begins a handshake can make the other side do: which groups of the key exchange, how
 * many keys are looked up, how many bytes are received, and by how many calls. */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/ssl.h>

#include "base/err.h"
#include "tls/alpn.h"
#include "tls/pipe.h"
#include "tls/stream.h"
#include "unit/tls/certificates.h"
#include "unit/tls/client-hello.h"
#include "unit/unit.h"

static char folder[] = "/tmp/rmem-tls-XXXXXX";
static struct stream server;
static struct tls_context *context;
static struct tls_pipe *pipe_end;
static int peer; /* the other end of the socket */
static SSL_CTX *raw_context;
static SSL *raw; /* a peer that is not ours */
static uint8_t hello[CLIENT_HELLO_MAX];
static const uint8_t key[32] = { 1, 2, 3 };

/* ---- what is counted ---- */

static unsigned n_lookups, n_receives, n_hellos;

/* Each key that is looked up is one. */
SSL_SESSION *SSL_SESSION_new(void)
{
	SSL_SESSION *(*real)(void) = dlsym(RTLD_NEXT, "SSL_SESSION_new");

	n_lookups++;
	return real();
}

ssize_t recv(int fd, void *buf, size_t bytes, int flags)
{
	ssize_t (*real)(int, void *, size_t, int) = dlsym(RTLD_NEXT, "recv");

	n_receives++;
	return real(fd, buf, bytes, flags);
}

/* ---- contexts ---- */

static void setup(void)
{
	const struct test_certificate ca = { .subject = "test CA", .days = 10 };
	const struct test_certificate host = { .subject = "localhost",
					       .names = "DNS:localhost",
					       .days = 10 };

	ck_assert_ptr_nonnull(mkdtemp(folder));
	certificate_write(folder, "ca", NULL, &ca);
	certificate_write(folder, "host", "ca", &host);
	server.fd = peer = -1;
}

static void teardown(void)
{
	char command[64];

	stream_close(&server);
	tls_pipe_free(pipe_end);
	tls_context_unref(context);
	SSL_free(raw);
	SSL_CTX_free(raw_context);
	(void)close(peer);
	(void)snprintf(command, sizeof(command), "rm -rf %s", folder);
	ck_assert_int_eq(system(command), 0);
}

static const char *file(const char *name, char *ret_path)
{
	(void)sprintf(ret_path, "%s/%s.pem", folder, name);
	return ret_path;
}

enum kind { SERVER_KEYS, SERVER_CA, SERVER_BOTH, SERVER_CHANNELS, SERVERS };

static int client_open(const struct tls_params *params, struct tls_context **ret)
{
	return tls_context_client(params, "localhost", ret);
}

static void context_open(int (*open)(const struct tls_params *params,
				     struct tls_context **ret_context),
			 bool keys, bool ca)
{
	char ca_path[64], host_path[64];
	struct tls_params params = { 0 };

	if (keys)
		ck_assert_int_eq(tls_keys_of("a", key, sizeof(key), &params.keys), 0);
	if (ca) {
		params.certificate = file("host", host_path);
		params.ca = file("ca", ca_path);
	}
	ck_assert_int_eq(open(&params, &context), 0);
}

static int socket_pair(void)
{
	const int bytes = 16 << 20;
	int pair[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
	ck_assert_int_eq(
		setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)), 0);
	peer = pair[1];
	return pair[0];
}

static void server_open(enum kind kind)
{
	int fd = socket_pair();

	if (kind == SERVER_CHANNELS)
		ck_assert_int_eq(tls_context_channels(true, &context), 0);
	else
		context_open(tls_context_server, kind != SERVER_CA,
			     kind != SERVER_KEYS);
	ck_assert_int_eq(stream_tls(&server, fd, context), 0);
}

static void raw_open(const SSL_METHOD *method)
{
	raw_context = SSL_CTX_new(method);
	raw = SSL_new(raw_context);
	ck_assert_int_eq(SSL_set_fd(raw, peer), 1);
}

/* ---- groups ---- */

static struct {
	char name[16]; /* OpenSSL takes no const */
	bool ours;
} groups[] = { { "X25519", true },     { "P-256", true },  { "P-384", true },
	       { "ffdhe8192", false }, { "P-521", false }, { "X448", false },
	       { "ffdhe2048", false } };
#define N_GROUPS (int)(sizeof(groups) / sizeof(groups[0]))

/* A client that offers one group alone: the context of each kind of server. */
START_TEST(server__has_three_groups)
{
	static const char none[] = "TLS: the two sides have no group of the key "
				   "exchange in common: X25519, P-256 or P-384";
	struct channel_secrets secrets = { .key = { 1 } };
	int group = _i / SERVERS, err;

	server_open((enum kind)(_i % SERVERS));
	server.channel = &secrets;
	raw_open(TLS_client_method());
	ck_assert_int_eq(SSL_set_alpn_protos(raw, alpn_name, sizeof(alpn_name)), 0);
	ck_assert_int_eq(SSL_set1_groups_list(raw, groups[group].name), 1);
	ck_assert_int_eq(SSL_connect(raw), -1);
	err = stream_handshake(&server);
	/* with a group they go on to the key or the certificate, which the client does not have */
	if (groups[group].ours) {
		ck_assert_int_ne(err, 0);
		ck_assert(err == -EAGAIN || strcmp(err_text(), none) != 0);
		return;
	}
	ck_assert_int_eq(err, -EPROTO);
	ck_assert_str_eq(err_text(), none);
	ck_assert_int_eq(SSL_get_error(raw, SSL_connect(raw)), SSL_ERROR_SSL);
}
END_TEST

static int on_hello(SSL *ssl, int *, void *)
{
	static const uint8_t three[] = { 0, 6, 0, 29, 0, 23, 0, 24 };
	const uint8_t *list;
	size_t bytes;

	ck_assert_int_eq(SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_supported_groups,
						   &list, &bytes),
			 1);
	ck_assert_uint_eq(bytes, sizeof(three));
	ck_assert_mem_eq(list, three, sizeof(three));
	n_hellos++;
	return SSL_CLIENT_HELLO_ERROR;
}

static void expect_three_groups(void)
{
	raw_open(TLS_server_method());
	SSL_CTX_set_client_hello_cb(raw_context, on_hello, NULL);
	(void)SSL_accept(raw);
	ck_assert_uint_eq(n_hellos, 1);
}

START_TEST(client__offers_three_groups)
{
	context_open(client_open, _i != 0, _i != 1);
	ck_assert_int_eq(stream_tls(&server, socket_pair(), context), 0);
	ck_assert_int_eq(stream_handshake(&server), -EAGAIN);
	expect_three_groups();
}
END_TEST

START_TEST(channel__offers_three_groups)
{
	server.fd = socket_pair();
	ck_assert_int_eq(tls_context_channels(false, &context), 0);
	ck_assert_int_eq(tls_pipe_open(server.fd, context, key, &pipe_end), 0);
	ck_assert_int_eq(tls_pipe_handshake(pipe_end), -EAGAIN);
	expect_three_groups();
}
END_TEST

/* ---- identities ---- */

static void hello_send(const struct client_hello *what)
{
	size_t bytes = client_hello_write(what, hello);

	ck_assert_int_eq(send(peer, hello, bytes, 0), (ssize_t)bytes);
}

/* With a hash that no key fits, OpenSSL goes on to the next one; and with one that fits, if nobody
 * has the key. */
START_TEST(identities__are_looked_up_once)
{
	const struct client_hello what = { .suite = _i ? 0x1302 : 0x1301,
					   .n_identities = 1900 };

	server_open(SERVER_BOTH);
	hello_send(&what);
	n_lookups = 0;
	ck_assert_int_ne(stream_handshake(&server), 0);
	ck_assert_uint_eq(n_lookups, 1);
	ck_assert(server.unknown);
}
END_TEST

/* A server that asks for another group gets the message again, with the same key. */
START_TEST(key__is_named_again_with_another_group)
{
	static char two[] = "P-521:P-256";
	struct tls_context *server_context;
	struct stream client;
	int err = -EAGAIN, server_err = -EAGAIN;

	server_open(SERVER_KEYS);
	server_context = context;
	context_open(client_open, true, false);
	ck_assert_int_eq(stream_tls(&client, peer, context), 0);
	peer = -1;
	ck_assert_int_eq(SSL_set1_groups_list(client.ssl, two), 1);
	for (unsigned i = 0; i < 10 && (err || server_err); i++) {
		err = stream_handshake(&client);
		server_err = stream_handshake(&server);
	}
	ck_assert_int_eq(err, 0);
	ck_assert_int_eq(server_err, 0);
	ck_assert_int_eq(SSL_get_negotiated_group(client.ssl), NID_X9_62_prime256v1);
	ck_assert_str_eq(server.key->tenant, "a");
	stream_close(&client);
	tls_context_unref(server_context);
}
END_TEST

/* ---- bytes and calls ---- */

static void expect_endless(void)
{
	ck_assert_int_eq(stream_handshake(&server), -EPROTO);
	ck_assert_str_eq(err_text(), "TLS: the other side's handshake has more than "
				     "16384 bytes");
	ck_assert_uint_eq(server.handshake_bytes, STREAM_HANDSHAKE_MAX);
	/* a look, and what was seen */
	ck_assert_uint_eq(n_receives, 2);
}

START_TEST(server__receives_a_limited_handshake)
{
	const struct client_hello hellos[] = {
		{ .padding = 20000 },
		{ .padding = 20000, .record_bytes = 1 },
		{ .n_groups = 20000, .n_shares = 5000 },
		{ .n_identities = 7000 },
	};

	server_open(SERVER_BOTH);
	hello_send(&hellos[_i]);
	n_receives = 0;
	expect_endless();
}
END_TEST

/* A message that is begun, and comes in records of one byte. */
START_TEST(client__receives_a_limited_handshake)
{
	static const uint8_t begin[] = { 22, 3, 3, 0, 4, 2, 0, 0x4e, 0x20 },
			     more[] = { 22, 3, 3, 0, 1, 3 };

	context_open(client_open, true, false);
	ck_assert_int_eq(stream_tls(&server, socket_pair(), context), 0);
	ck_assert_int_eq(stream_handshake(&server), -EAGAIN);
	ck_assert_int_eq(send(peer, begin, sizeof(begin), 0), sizeof(begin));
	for (unsigned i = 0; i < 3000; i++)
		ck_assert_int_eq(send(peer, more, sizeof(more), 0), sizeof(more));
	n_receives = 0;
	expect_endless();
}
END_TEST

/* What follows the handshake stays in the socket, which may be the kernel's to decrypt. */
START_TEST(bytes__behind_the_handshake_stay_in_the_socket)
{
	struct channel_secrets secrets = { .key = { 1 } };
	uint8_t channel_key[CHANNEL_KEY_BYTES] = { 1 }, byte = 7;
	struct tls_context *server_context;
	struct iovec iov = { &byte, 1 };
	char left[64];

	server_open(SERVER_CHANNELS);
	server_context = context;
	server.channel = &secrets;
	ck_assert_int_eq(tls_context_channels(false, &context), 0);
	ck_assert_int_eq(tls_pipe_open(peer, context, channel_key, &pipe_end), 0);
	ck_assert_int_eq(tls_pipe_handshake(pipe_end), -EAGAIN);
	ck_assert_int_eq(stream_handshake(&server), -EAGAIN);
	ck_assert_int_eq(tls_pipe_handshake(pipe_end), 0);
	ck_assert_int_eq(tls_pipe_send(pipe_end, &iov, 1), 1);
	ck_assert_int_eq(stream_handshake(&server), 0);
	ck_assert_int_gt(recv(server.fd, left, sizeof(left), MSG_PEEK), 0);
	ck_assert_int_eq(stream_receive(&server, left, sizeof(left)), 1);
	ck_assert_int_eq(left[0], 7);
	tls_context_unref(server_context);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("tls-limits", setup, teardown);

	tcase_add_loop_test(tc, server__has_three_groups, 0, N_GROUPS * SERVERS);
	tcase_add_loop_test(tc, client__offers_three_groups, 0, 3);
	tcase_add_test(tc, channel__offers_three_groups);
	tcase_add_loop_test(tc, identities__are_looked_up_once, 0, 2);
	tcase_add_test(tc, key__is_named_again_with_another_group);
	tcase_add_loop_test(tc, server__receives_a_limited_handshake, 0, 4);
	tcase_add_test(tc, client__receives_a_limited_handshake);
	tcase_add_test(tc, bytes__behind_the_handshake_stay_in_the_socket);
	return unit_main();
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "impostor.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "attack.h"
#include "fabric/tcp/stream.h"
#include "wire/errors.h"
#include "hello.h"
#include "peer.h"
#include "tls/alpn.h"
#include "tls/keys.h"
#include "wire/codec.h"

#define LINGER_MS 10000

static struct tls_key key;

static int on_find_key(SSL *ssl, const unsigned char *, size_t,
		       SSL_SESSION **ret_session)
{
	static const unsigned char suite[] = { 0x13, 0x01 };
	SSL_SESSION *session = SSL_SESSION_new();

	must(session && SSL_SESSION_set1_master_key(session, key.bytes, key.n_bytes) &&
		     SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, suite)) &&
		     SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION),
	     "a key");
	*ret_session = session;
	return 1;
}

static unsigned on_find_old_key(SSL *, const char *, unsigned char *to, unsigned max)
{
	must(key.n_bytes <= max, "a key");
	memcpy(to, key.bytes, key.n_bytes);
	return (unsigned)key.n_bytes;
}

static int on_choose(SSL *, const unsigned char **ret_name, unsigned char *ret_bytes,
		     const unsigned char *, unsigned, void *ctx)
{
	const struct impostor_manner *manner = ctx;

	*ret_name = alpn_name + 1;
	*ret_bytes = alpn_name[0];
	return manner->no_protocol ? SSL_TLSEXT_ERR_NOACK : SSL_TLSEXT_ERR_OK;
}

static void key_load(const struct impostor_manner *manner)
{
	struct tls_keys *keys;
	char path[300];

	(void)snprintf(path, sizeof(path), "%s/%s.psk", attack_options.folder,
		       manner->key);
	must(!tls_keys_load(path, &keys), "the key of a tenant");
	key = *tls_keys_first(keys, NULL);
	tls_keys_free(keys);
	if (manner->wrong_key)
		key.bytes[0] ^= 1;
}

static SSL_CTX *ctx_new(const struct impostor_manner *manner)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	int version = manner->version ? manner->version : TLS1_3_VERSION;
	char path[300];

	must(ctx && SSL_CTX_set_max_proto_version(ctx, version) &&
		     SSL_CTX_set_cipher_list(ctx, "ALL:PSK:@SECLEVEL=0"),
	     "TLS");
	/* OpenSSL takes no const */
	SSL_CTX_set_alpn_select_cb(ctx, on_choose, (void *)(uintptr_t)manner);
	if (manner->key) {
		key_load(manner);
		SSL_CTX_set_psk_find_session_callback(ctx, on_find_key);
		SSL_CTX_set_psk_server_callback(ctx, on_find_old_key);
	}
	if (manner->certificate) {
		(void)snprintf(path, sizeof(path), "%s/%s.pem", attack_options.folder,
			       manner->certificate);
		must(SSL_CTX_use_certificate_chain_file(ctx, path) == 1 &&
			     SSL_CTX_use_PrivateKey_file(ctx, path, SSL_FILETYPE_PEM) ==
				     1,
		     "a certificate");
	}
	return ctx;
}

/* ---- without TLS ---- */

/* The client must send nothing but records of TLS: a hello, alerts. */
static void serve_plain(struct impostor *impostor, int fd)
{
	const struct impostor_manner *manner = impostor->manner;
	static const char magic[] = { 'r', 'm', 'e', 'm', WIRE_VERSION_MIN, 0 };
	uint8_t buf[4096];
	ssize_t n, sent;

	do
		sent = send(fd, manner->plain, manner->plain_bytes, MSG_NOSIGNAL);
	while (manner->endless && sent > 0);
	n = recv(fd, buf, sizeof(buf), 0);
	if (n > 0 && (n < 6 || buf[0] != 22 || buf[5] != 1))
		impostor->trusted = true;
	/* of a hello; TLS has the name in its ALPN, and in the identity of a key */
	if (n > 0 && memmem(buf, (size_t)n, magic, sizeof(magic)))
		impostor->trusted = true;
	(void)socket_await_end(fd, LINGER_MS);
}

/* ---- with TLS ---- */

bool impostor_send_bytes(struct impostor *impostor, const void *bytes, size_t n)
{
	return SSL_write(impostor->ssl, bytes, (int)n) > 0;
}

bool impostor_send(struct impostor *impostor)
{
	static uint8_t frame[WIRE_FRAME_MAX];
	int bytes = wire_encode(&impostor->msg, frame, sizeof(frame));

	must(bytes > 0, "a lie cannot be encoded");
	return impostor_send_bytes(impostor, frame, (size_t)bytes);
}

static bool receive(struct impostor *impostor)
{
	static uint8_t frame[WIRE_FRAME_MAX];
	int bytes;

	if (!hello_pull(impostor->ssl, frame, WIRE_HEADER_BYTES))
		return false;
	impostor->trusted = !impostor->manner->welcome;
	bytes = wire_frame_bytes(frame, WIRE_HEADER_BYTES);
	must(bytes > 0, "a frame of the client has an impossible length");
	return hello_pull(impostor->ssl, frame + WIRE_HEADER_BYTES,
			  (size_t)bytes - WIRE_HEADER_BYTES) &&
	       !wire_decode(frame, (size_t)bytes, &impostor->ask);
}

static void welcome_make(struct impostor *impostor)
{
	struct wire_welcome *welcome = &impostor->msg.welcome;

	wire_msg_init(&impostor->msg, WIRE_TYPE_welcome);
	impostor->msg.id = impostor->ask.id;
	welcome->version = WIRE_VERSION_MAX;
	welcome->session = 1;
	welcome->heartbeat_ms = 500;
	welcome->fence_ms = 2000;
	welcome->grace_ms = 2000;
	welcome->channels_max = 4;
	welcome->lease_bytes_max = UINT64_C(1) << 30;
	welcome->requests_max = 256;
	welcome->stream_bytes_max = 1 << 20;
	welcome->inband_bytes_max = 1 << 18;
	welcome->inband_requests_max = 8;
	(void)strcpy(welcome->server, "impostor");
	welcome->n_endpoints = 1;
	welcome->endpoints[0] = (struct wire_endpoint){ .fabric = WIRE_FABRIC_TCP,
							.version = 1,
							.family = 4,
							.address = { 127, 0, 0, 1 },
							.port = impostor->data_port,
							.node = -1 };
}

static void serve_requests(struct impostor *impostor)
{
	if (!receive(impostor) || !impostor->manner->welcome)
		return;
	welcome_make(impostor);
	impostor->manner->welcome(impostor);
	while (receive(impostor)) {
		wire_msg_init(&impostor->msg, WIRE_TYPE_ok);
		impostor->msg.id = impostor->ask.id;
		if (impostor->ask.type == WIRE_TYPE_open_channel) {
			impostor->msg.type = WIRE_TYPE_channel;
			impostor->msg.channel = (struct wire_channel){ .channel = 1 };
			(void)impostor_send(impostor);
		} else if (impostor->manner->answer) {
			impostor->manner->answer(impostor);
		}
	}
}

static void *admit(void *arg)
{
	static const struct stream_status admitted = { .status = WIRE_CODE_none };
	uint8_t hello[FABRIC_HELLO_BYTES];
	int fd;

	while ((fd = accept4((int)(intptr_t)arg, NULL, NULL, SOCK_CLOEXEC)) >= 0)
		if (recv(fd, hello, sizeof(hello), MSG_WAITALL) ==
		    (ssize_t)sizeof(hello))
			(void)!write(fd, &admitted, sizeof(admitted));
	return NULL;
}

void impostor_admit(int listener)
{
	pthread_t thread;

	must(!pthread_create(&thread, NULL, admit, (void *)(intptr_t)listener) &&
		     !pthread_detach(thread),
	     "a thread");
}

void impostor_serve(struct impostor *impostor, int fd)
{
	const struct timeval limit = { .tv_sec = LINGER_MS / 1000 };
	SSL_CTX *ctx;

	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	/* answers and events at once */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	if (impostor->manner->plain) {
		serve_plain(impostor, fd);
		(void)close(fd);
		return;
	}
	ctx = ctx_new(impostor->manner);
	impostor->ssl = SSL_new(ctx);
	must(impostor->ssl && SSL_set_fd(impostor->ssl, fd), "TLS");
	if (SSL_accept(impostor->ssl) == 1)
		serve_requests(impostor);
	ERR_clear_error();
	SSL_free(impostor->ssl);
	SSL_CTX_free(ctx);
	(void)close(fd);
}

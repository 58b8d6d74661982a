/* SPDX-License-Identifier: BSD-3-Clause */
#include "hello.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <openssl/err.h>

#include "attack.h"
#include "peer.h"
#include "tls/alpn.h"
#include "tls/keys.h"
#include "wire/codec.h"

static const unsigned char suite[] = { 0x13, 0x01 }; /* TLS_AES_128_GCM_SHA256 */

/* OpenSSL asks for the key of a connection. */
static int on_key(SSL *ssl, const EVP_MD *, const unsigned char **ret_identity,
		  size_t *ret_bytes, SSL_SESSION **ret_session)
{
	const struct hello_offer *offer = SSL_get_app_data(ssl);
	SSL_SESSION *session = SSL_SESSION_new();

	must(session &&
		     SSL_SESSION_set1_master_key(session, offer->key,
						 offer->key_bytes) &&
		     SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, suite)) &&
		     SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) &&
		     SSL_SESSION_set_max_early_data(session, offer->early_bytes),
	     "a key");
	*ret_identity = (const unsigned char *)offer->identity;
	*ret_bytes =
		offer->identity_bytes ? offer->identity_bytes : strlen(offer->identity);
	*ret_session = session;
	return 1;
}

/* The same of TLS 1.2 and before. */
static unsigned on_old_key(SSL *ssl, const char *, char *identity, unsigned max,
			   unsigned char *key, unsigned key_max)
{
	const struct hello_offer *offer = SSL_get_app_data(ssl);

	must(offer->key_bytes <= key_max, "a key");
	(void)snprintf(identity, max, "%s", offer->identity);
	memcpy(key, offer->key, offer->key_bytes);
	return (unsigned)offer->key_bytes;
}

struct hello_offer hello_offer_of(const char *key_tenant, const char *as)
{
	static char identities[2][TLS_IDENTITY_MAX + 1];
	static unsigned turn;
	struct hello_offer offer = { .tenant = as };
	struct tls_keys *keys;
	char path[300];

	(void)snprintf(path, sizeof(path), "%s/%s.psk", attack_options.folder, as);
	must(!tls_keys_load(path, &keys), "the key of a tenant");
	turn = !turn;
	(void)strcpy(identities[turn], tls_keys_first(keys, NULL)->identity);
	offer.identity = identities[turn];
	tls_keys_free(keys);
	(void)snprintf(path, sizeof(path), "%s/%s.psk", attack_options.folder,
		       key_tenant);
	must(!tls_keys_load(path, &keys), "the key of a tenant");
	offer.key_bytes = tls_keys_first(keys, NULL)->n_bytes;
	memcpy(offer.key, tls_keys_first(keys, NULL)->bytes, offer.key_bytes);
	tls_keys_free(keys);
	return offer;
}

static SSL_CTX *ctx_new(const struct hello_offer *offer)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	int version = offer->version ? offer->version : TLS1_3_VERSION;
	char path[300], groups[32];

	must(ctx && SSL_CTX_set_min_proto_version(ctx, version) &&
		     SSL_CTX_set_max_proto_version(ctx, version),
	     "TLS");
	/* also what OpenSSL finds too weak to offer */
	must(SSL_CTX_set_cipher_list(ctx, "ALL:PSK:@SECLEVEL=0"), "TLS");
	if (offer->suites)
		must(SSL_CTX_set_ciphersuites(ctx, offer->suites), "TLS");
	if (offer->groups) {
		/* the macro casts it to char * */
		(void)snprintf(groups, sizeof(groups), "%s", offer->groups);
		must(SSL_CTX_set1_groups_list(ctx, groups), "TLS");
	}
	if (offer->protocol)
		must(!SSL_CTX_set_alpn_protos(ctx,
					      (const unsigned char *)offer->protocol,
					      (unsigned)strlen(offer->protocol)),
		     "TLS");
	else
		must(!SSL_CTX_set_alpn_protos(ctx, alpn_name, sizeof(alpn_name)),
		     "TLS");
	if (offer->psk_alone)
		(void)SSL_CTX_set_options(ctx, SSL_OP_ALLOW_NO_DHE_KEX);
	if (offer->identity && version == TLS1_3_VERSION)
		SSL_CTX_set_psk_use_session_callback(ctx, on_key);
	else if (offer->identity)
		SSL_CTX_set_psk_client_callback(ctx, on_old_key);
	if (offer->certificate) {
		(void)snprintf(path, sizeof(path), "%s/%s.pem", attack_options.folder,
			       offer->certificate);
		must(SSL_CTX_use_certificate_chain_file(ctx, path) == 1 &&
			     SSL_CTX_use_PrivateKey_file(ctx, path, SSL_FILETYPE_PEM) ==
				     1,
		     "a certificate");
	}
	return ctx;
}

size_t hello_frame(const char *tenant, uint8_t *frame, size_t frame_bytes)
{
	static struct wire_msg msg;
	int bytes;

	wire_msg_init(&msg, WIRE_TYPE_hello);
	msg.id = 1;
	msg.hello.magic = WIRE_MAGIC;
	msg.hello.version_min = WIRE_VERSION_MIN;
	msg.hello.version_max = WIRE_VERSION_MAX;
	(void)snprintf(msg.hello.tenant, sizeof(msg.hello.tenant), "%s", tenant);
	bytes = wire_encode(&msg, frame, frame_bytes);
	must(bytes > 0, "a hello");
	return (size_t)bytes;
}

bool hello_pull(SSL *ssl, uint8_t *at, size_t n)
{
	while (n > 0) {
		int got = SSL_read(ssl, at, (int)n);

		if (got <= 0)
			return false;
		at += got;
		n -= (size_t)got;
	}
	return true;
}

int hello_receive(SSL *ssl)
{
	static uint8_t frame[WIRE_FRAME_MAX];
	int bytes;

	if (!hello_pull(ssl, frame, WIRE_HEADER_BYTES))
		return -ECONNRESET;
	bytes = wire_frame_bytes(frame, WIRE_HEADER_BYTES);
	if (bytes <= 0 || !hello_pull(ssl, frame + WIRE_HEADER_BYTES,
				      (size_t)bytes - WIRE_HEADER_BYTES))
		return -ECONNRESET;
	return (int)wire_frame_type(frame);
}

static int say(SSL *ssl, const struct hello_offer *offer)
{
	uint8_t frame[1024];
	size_t bytes = hello_frame(offer->tenant, frame, sizeof(frame)), written;

	if (offer->early_bytes &&
	    SSL_write_early_data(ssl, frame, bytes, &written) == 1 &&
	    SSL_do_handshake(ssl) == 1 &&
	    SSL_get_early_data_status(ssl) == SSL_EARLY_DATA_ACCEPTED)
		return 0;
	if (SSL_do_handshake(ssl) != 1)
		return -ECONNRESET;
	if (SSL_write(ssl, frame, (int)bytes) <= 0)
		return -ECONNRESET;
	return hello_receive(ssl) == WIRE_TYPE_welcome ? 0 : -ECONNRESET;
}

void hello_end(SSL *ssl)
{
	int fd = SSL_get_fd(ssl);

	ERR_clear_error();
	SSL_free(ssl);
	(void)close(fd);
}

size_t hello_first(const struct hello_offer *offer, uint8_t *to, size_t max)
{
	BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
	SSL_CTX *ctx = ctx_new(offer);
	SSL *ssl = SSL_new(ctx);
	struct hello_offer own = *offer;
	int n;

	must(ssl && in && out && SSL_set_app_data(ssl, &own), "TLS");
	SSL_set_bio(ssl, in, out);
	(void)SSL_connect(ssl);
	n = BIO_read(out, to, (int)max);
	must(n > 0, "a hello of TLS");
	SSL_free(ssl);
	SSL_CTX_free(ctx);
	return (size_t)n;
}

int hello_say(const struct hello_offer *offer, SSL **ret_ssl)
{
	int fd = socket_open(attack_options.address, attack_options.control_port, NULL);
	const struct timeval limit = { .tv_sec = ATTACK_WAIT_MS / 1000 };
	SSL_CTX *ctx = ctx_new(offer);
	SSL *ssl = SSL_new(ctx);
	struct hello_offer own = *offer;
	int err;

	must(fd >= 0 && ssl, "connecting");
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	SSL_CTX_free(ctx);
	must(SSL_set_fd(ssl, fd) && SSL_set_app_data(ssl, &own), "TLS");
	SSL_set_connect_state(ssl);
	if (offer->session)
		must(SSL_set_session(ssl, offer->session), "a session of TLS");
	err = say(ssl, &own);
	if (!err && ret_ssl)
		*ret_ssl = ssl;
	else
		hello_end(ssl);
	return err;
}

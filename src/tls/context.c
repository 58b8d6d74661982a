/* SPDX-License-Identifier: BSD-3-Clause */
#include "tls/context.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/err.h"
#include "base/given_file.h"
#include "tls/alpn.h"
#include "tls/certificate.h"
#include "tls/failure.h"
#include "tls/context_use.h"
#include "tls/stream.h"

/* A pre-shared key is bound to a hash: SHA-256, as RFC 8446 has it for keys from outside. */
#define SUITES_OF_KEYS "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"
#define SUITES SUITES_OF_KEYS ":TLS_AES_256_GCM_SHA384"
/* Of the key exchange.  Others that OpenSSL has cost up to a hundred times as much, and whoever
 * begins a handshake chooses. */
#define GROUPS "X25519:P-256:P-384"
static const unsigned char key_suite[] = { 0x13, 0x01 }; /* TLS_AES_128_GCM_SHA256 */

struct tls_context {
	SSL_CTX *ctx;
	struct tls_keys *keys;
	bool server;
	char servername[256]; /* of a client with a CA */
	atomic_uint refs;
};

/* ---- pre-shared keys ---- */

/* A session of TLS that this key stands for; OpenSSL copies the key, and wipes its copy. */
static SSL_SESSION *key_session(SSL *ssl, const uint8_t *bytes, size_t n_bytes)
{
	const SSL_CIPHER *suite = SSL_CIPHER_find(ssl, key_suite);
	SSL_SESSION *session = SSL_SESSION_new();

	if (!session || !suite ||
	    !SSL_SESSION_set1_master_key(session, bytes, n_bytes) ||
	    !SSL_SESSION_set_cipher(session, suite) ||
	    !SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION)) {
		SSL_SESSION_free(session);
		return NULL;
	}
	return session;
}

/* The server's: an identity that is unknown gets a random key, so that the client cannot tell it
 * from a key that is wrong.  A client has one key: OpenSSL would go on to each other identity of
 * its message, and those are taken for keys that do not fit. */
static int on_find_key(SSL *ssl, const unsigned char *identity, size_t len,
		       SSL_SESSION **ret_session)
{
	struct stream *stream = SSL_get_app_data(ssl);
	uint8_t nothing[32];

	*ret_session = NULL;
	if (stream->named)
		return 1;
	stream->named = true;
	stream->key = tls_keys_find(stream->context->keys, (const char *)identity, len);
	if (stream->key) {
		*ret_session =
			key_session(ssl, stream->key->bytes, stream->key->n_bytes);
	} else {
		stream->unknown = true;
		if (RAND_bytes(nothing, sizeof(nothing)) != 1)
			return 0;
		*ret_session = key_session(ssl, nothing, sizeof(nothing));
	}
	return *ret_session ? 1 : 0;
}

/* The client's. */
static int on_use_key(SSL *ssl, const EVP_MD *, const unsigned char **ret_identity,
		      size_t *ret_len, SSL_SESSION **ret_session)
{
	const struct stream *stream = SSL_get_app_data(ssl);
	const struct tls_key *key = tls_keys_first(stream->context->keys, NULL);

	*ret_session = key_session(ssl, key->bytes, key->n_bytes);
	*ret_identity = (const unsigned char *)key->identity;
	*ret_len = strlen(key->identity);
	return *ret_session ? 1 : 0;
}

/* ---- messages ---- */

static void on_message(int sent, int, int type, const void *message, size_t bytes,
		       SSL *ssl, void *)
{
	struct stream *stream = SSL_get_app_data(ssl);

	if (sent || type != SSL3_RT_HANDSHAKE || bytes == 0)
		return;
	if (*(const unsigned char *)message == SSL3_MT_KEY_UPDATE) {
		stream->key_updates += stream->receives < STREAM_KEY_RECEIVES_MIN;
		stream->receives = 0;
	}
	/* there may be a second one, with the same key */
	if (*(const unsigned char *)message == SSL3_MT_CLIENT_HELLO)
		stream->named = false;
}

/* ---- keys of data channels ---- */

static int on_find_channel_key(SSL *ssl, const unsigned char *, size_t,
			       SSL_SESSION **ret_session)
{
	const struct stream *stream = SSL_get_app_data(ssl);

	/* whatever its name, it is this channel's key or none */
	*ret_session = key_session(ssl, stream->channel->key, CHANNEL_KEY_BYTES);
	return *ret_session ? 1 : 0;
}

static int on_use_channel_key(SSL *ssl, const EVP_MD *,
			      const unsigned char **ret_identity, size_t *ret_len,
			      SSL_SESSION **ret_session)
{
	static const char identity[] = "channel";
	const struct stream *stream = SSL_get_app_data(ssl);

	*ret_session = key_session(ssl, stream->channel->key, CHANNEL_KEY_BYTES);
	*ret_identity = (const unsigned char *)identity;
	*ret_len = sizeof(identity) - 1;
	return *ret_session ? 1 : 0;
}

/* The secret of a line "LABEL RANDOM SECRET" in hex, if it has this label. */
static void secret_read(const char *line, const char *label,
			uint8_t ret_secret[STREAM_SECRET_BYTES])
{
	size_t len = strlen(label);
	const char *hex;

	if (strncmp(line, label, len) != 0 || line[len] != ' ')
		return;
	hex = strrchr(line, ' ') + 1;
	if (strlen(hex) != (size_t)2 * STREAM_SECRET_BYTES)
		return;
	(void)OPENSSL_hexstr2buf_ex(ret_secret, STREAM_SECRET_BYTES, NULL, hex, '\0');
}

/* OpenSSL's only way to tell the secrets of the traffic, which the kernel needs.  OpenSSL wipes the
 * line. */
static void on_secret(const SSL *ssl, const char *line)
{
	const struct stream *stream = SSL_get_app_data(ssl);
	struct channel_secrets *channel = stream->channel;
	bool server = stream->context->server;

	secret_read(line, "CLIENT_TRAFFIC_SECRET_0",
		    server ? channel->received : channel->sent);
	secret_read(line, "SERVER_TRAFFIC_SECRET_0",
		    server ? channel->sent : channel->received);
}

/* ---- certificates ---- */

static int file_failure(const char *what, const char *path)
{
	char text[300];

	(void)snprintf(text, sizeof(text), "%s %s", what, path);
	return tls_failure(-EINVAL, text);
}

/* A daemon and a library ask nobody for the password of a key. */
static int on_password(char *, int, int, void *)
{
	return -1;
}

static int key_read(SSL_CTX *ctx, const char *path, FILE *file)
{
	EVP_PKEY *key = PEM_read_PrivateKey(file, NULL, on_password, NULL);
	int result;

	if (!key)
		return file_failure("key", path);
	result = SSL_CTX_use_PrivateKey(ctx, key);
	EVP_PKEY_free(key);
	return result == 1 ? 0 : file_failure("key", path);
}

static int key_load(SSL_CTX *ctx, const char *path)
{
	char buffer[4096];
	FILE *file;
	int err = given_file_open("key", path, GIVEN_FILE_SECRET, &file);

	if (err)
		return err;
	(void)setvbuf(file, buffer, _IOFBF, sizeof(buffer));
	err = key_read(ctx, path, file);
	(void)fclose(file);
	explicit_bzero(buffer, sizeof(buffer));
	return err;
}

/* Whether the file ended where another certificate could begin. */
static bool pem_ended(void)
{
	bool ended = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;

	if (ended)
		ERR_clear_error();
	return ended;
}

/* A certificate, and those between it and the root. */
static bool chain_read(SSL_CTX *ctx, FILE *file)
{
	X509 *certificate = PEM_read_X509(file, NULL, on_password, NULL);
	bool good = certificate && SSL_CTX_use_certificate(ctx, certificate) == 1;

	X509_free(certificate);
	while (good && (certificate = PEM_read_X509(file, NULL, on_password, NULL))) {
		good = SSL_CTX_add1_chain_cert(ctx, certificate) == 1;
		X509_free(certificate);
	}
	return good && pem_ended();
}

static bool ca_read(SSL_CTX *ctx, FILE *file)
{
	X509_STORE *store = SSL_CTX_get_cert_store(ctx);
	X509 *certificate;
	bool good = true, any = false;

	while (good && (certificate = PEM_read_X509(file, NULL, on_password, NULL))) {
		good = X509_STORE_add_cert(store, certificate) == 1;
		any = true;
		X509_free(certificate);
	}
	return good && any && pem_ended();
}

/* Not by OpenSSL's functions for paths: what has the name that was checked may be another file
 * soon. */
static int trusted_load(SSL_CTX *ctx, const char *what, const char *path,
			bool (*read)(SSL_CTX *ctx, FILE *file))
{
	FILE *file;
	int err = given_file_open(what, path, GIVEN_FILE_TRUSTED, &file);

	if (err)
		return err;
	if (!read(ctx, file))
		err = file_failure(what, path);
	(void)fclose(file);
	return err;
}

static int certificate_load(SSL_CTX *ctx, const struct tls_params *params)
{
	const char *key = params->key ? params->key : params->certificate;
	int err = key_load(ctx, key);

	if (err)
		return err;
	err = trusted_load(ctx, "certificate", params->certificate, chain_read);
	if (err)
		return err;
	if (SSL_CTX_check_private_key(ctx) != 1) {
		ERR_clear_error();
		return err_set(-EINVAL, "key %s: it is not that of the certificate %s",
			       key, params->certificate);
	}
	return 0;
}

/* OpenSSL takes a certificate without extended key usage for any: any client could be a server. */
static int on_verify(int good, X509_STORE_CTX *check)
{
	X509 *certificate = X509_STORE_CTX_get_current_cert(check);

	if (!good || X509_STORE_CTX_get_error_depth(check) > 0 ||
	    X509_get_extension_flags(certificate) & EXFLAG_XKUSAGE)
		return good;
	X509_STORE_CTX_set_error(check, X509_V_ERR_INVALID_PURPOSE);
	return 0;
}

/* ---- the context ---- */

void tls_outlast_exit(void)
{
	(void)OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
}

static int ctx_new(SSL_CTX **ret_ctx, const struct tls_params *params)
{
	const char *suites = params->keys && !params->ca ? SUITES_OF_KEYS : SUITES;
	char groups[] = GROUPS; /* the macro casts it to char * */
	SSL_CTX *ctx = SSL_CTX_new(TLS_method());

	ERR_clear_error();
	if (!ctx || !SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) ||
	    !SSL_CTX_set_ciphersuites(ctx, suites) ||
	    !SSL_CTX_set1_groups_list(ctx, groups) || !alpn_require(ctx) ||
	    !SSL_CTX_set_num_tickets(ctx, 0) ||
	    /* who sends early data is refused: it could be sent again by anybody */
	    !SSL_CTX_set_recv_max_early_data(ctx, 0)) {
		SSL_CTX_free(ctx);
		return tls_failure(-ENOMEM, "TLS");
	}
	(void)SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION |
					       SSL_OP_IGNORE_UNEXPECTED_EOF);
	(void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF |
							  SSL_SESS_CACHE_NO_INTERNAL);
	SSL_CTX_set_max_cert_list(ctx, STREAM_HANDSHAKE_MAX);
	/* an idle connection has no buffers; what could not be sent may be at another place when it
	 * is sent again */
	(void)SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS |
					    SSL_MODE_ENABLE_PARTIAL_WRITE |
					    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_msg_callback(ctx, on_message);
	/* a read ends behind a record that has no bytes for us, as a change of keys: else it would
	 * not end while the other side sends more of them */
	(void)SSL_CTX_clear_mode(ctx, SSL_MODE_AUTO_RETRY);
	SSL_CTX_set_default_passwd_cb(ctx, on_password);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
			   on_verify);
	*ret_ctx = ctx;
	return 0;
}

static int context_new(const struct tls_params *params, bool server,
		       struct tls_context **ret_context)
{
	struct tls_context *context = calloc(1, sizeof(*context));
	int err;

	if (!context) {
		tls_keys_free(params->keys);
		return err_set(-ENOMEM, "no memory for TLS");
	}
	context->keys = params->keys;
	context->server = server;
	atomic_init(&context->refs, 1);
	err = ctx_new(&context->ctx, params);
	if (!err && params->certificate)
		err = certificate_load(context->ctx, params);
	if (!err && params->ca)
		err = trusted_load(context->ctx, "ca", params->ca, ca_read);
	if (err) {
		tls_context_unref(context);
		return err;
	}
	*ret_context = context;
	return 0;
}

/* A pre-shared key counts as a session, and one needs it where certificates are asked for. */
static void server_prepare(SSL_CTX *ctx)
{
	(void)SSL_CTX_set_session_id_context(ctx, (const unsigned char *)"rmem", 4);
}

int tls_context_server(const struct tls_params *params,
		       struct tls_context **ret_context)
{
	struct tls_context *context;
	int err = context_new(params, true, &context);

	if (err)
		return err;
	server_prepare(context->ctx);
	if (params->keys)
		SSL_CTX_set_psk_find_session_callback(context->ctx, on_find_key);
	*ret_context = context;
	return 0;
}

int tls_context_client(const struct tls_params *params, const char *servername,
		       struct tls_context **ret_context)
{
	struct tls_context *context;
	int err = context_new(params, false, &context);

	if (err)
		return err;
	if (params->keys)
		SSL_CTX_set_psk_use_session_callback(context->ctx, on_use_key);
	if (strlen(servername) >= sizeof(context->servername)) {
		tls_context_unref(context);
		return err_set(-EINVAL, "the server's name is too long");
	}
	(void)strcpy(context->servername, servername);
	*ret_context = context;
	return 0;
}

int tls_context_channels(bool server, struct tls_context **ret_context)
{
	const struct tls_params params = { .keys = NULL };
	struct tls_context *context;
	int err = context_new(&params, server, &context);

	if (err)
		return err;
	/* that of the kernel's half, see kernel.c */
	if (!SSL_CTX_set_ciphersuites(context->ctx, "TLS_AES_128_GCM_SHA256")) {
		tls_context_unref(context);
		return tls_failure(-ENOMEM, "TLS");
	}
	(void)SSL_CTX_clear_mode(context->ctx, SSL_MODE_RELEASE_BUFFERS);
	if (server) {
		server_prepare(context->ctx);
		SSL_CTX_set_psk_find_session_callback(context->ctx,
						      on_find_channel_key);
	} else {
		SSL_CTX_set_psk_use_session_callback(context->ctx, on_use_channel_key);
	}
	SSL_CTX_set_keylog_callback(context->ctx, on_secret);
	*ret_context = context;
	return 0;
}

int tls_context_check_certificate(const struct tls_context *context)
{
	X509 *certificate = SSL_CTX_get0_certificate(context->ctx);

	return certificate ? certificate_serves(certificate) : 0;
}

struct tls_context *tls_context_ref(struct tls_context *context)
{
	(void)atomic_fetch_add(&context->refs, 1);
	return context;
}

void tls_context_unref(struct tls_context *context)
{
	if (!context || atomic_fetch_sub(&context->refs, 1) > 1)
		return;
	SSL_CTX_free(context->ctx);
	tls_keys_free(context->keys);
	free(context);
}

/* ---- what differs ---- */

struct tls_difference tls_context_compare_keys(const struct tls_context *before,
					       const struct tls_context *after)
{
	const struct tls_keys *old = before ? before->keys : NULL;
	const struct tls_keys *new = after ? after->keys : NULL;

	return (struct tls_difference){
		.before = old ? tls_keys_count(old) : 0,
		.after = new ? tls_keys_count(new) : 0,
		.added = tls_keys_count_new(new, old),
		.removed = tls_keys_count_new(old, new),
	};
}

/* NULL: none, or no memory. */
static STACK_OF(X509) * ca_list(const struct tls_context *context)
{
	return context ? X509_STORE_get1_all_certs(SSL_CTX_get_cert_store(context->ctx))
		       : NULL;
}

static size_t ca_count(STACK_OF(X509) * list)
{
	return list ? (size_t)sk_X509_num(list) : 0;
}

/* How many of `list` are not in `others`. */
static size_t ca_count_new(STACK_OF(X509) * list, STACK_OF(X509) * others)
{
	size_t n = 0;

	for (size_t i = 0; i < ca_count(list); i++) {
		const X509 *one = sk_X509_value(list, (int)i);
		size_t k = 0;

		while (k < ca_count(others) &&
		       X509_cmp(one, sk_X509_value(others, (int)k)) != 0)
			k++;
		n += k == ca_count(others);
	}
	return n;
}

struct tls_difference tls_context_compare_ca(const struct tls_context *before,
					     const struct tls_context *after)
{
	STACK_OF(X509) *old = ca_list(before), *new = ca_list(after);
	const struct tls_difference difference = {
		.before = ca_count(old),
		.after = ca_count(new),
		.added = ca_count_new(new, old),
		.removed = ca_count_new(old, new),
	};

	sk_X509_pop_free(old, X509_free);
	sk_X509_pop_free(new, X509_free);
	ERR_clear_error();
	return difference;
}

void tls_context_fingerprint(const struct tls_context *context,
			     char ret[TLS_FINGERPRINT_CHARS + 1])
{
	const X509 *certificate =
		context ? SSL_CTX_get0_certificate(context->ctx) : NULL;
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned bytes;
	int used;

	(void)strcpy(ret, "none");
	if (!certificate || X509_digest(certificate, EVP_sha256(), digest, &bytes) != 1)
		return;
	used = snprintf(ret, TLS_FINGERPRINT_CHARS + 1, "sha256:");
	for (unsigned i = 0; used < TLS_FINGERPRINT_CHARS; i++)
		used += snprintf(ret + used, (size_t)(TLS_FINGERPRINT_CHARS + 1 - used),
				 "%02x", digest[i]);
}

/* ---- for streams ---- */

/* The name or the address that the server's certificate must have; not const for a macro of
 * OpenSSL. */
static bool servername_set(SSL *ssl, char *name)
{
	struct in6_addr address;

	if (inet_pton(AF_INET, name, &address) == 1 ||
	    inet_pton(AF_INET6, name, &address) == 1)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
	/* not the subject, which a CA may fill with anything */
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
				       X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
	return SSL_set1_host(ssl, name) == 1 &&
	       SSL_set_tlsext_host_name(ssl, name) == 1;
}

SSL *tls_context_ssl(struct tls_context *context)
{
	SSL *ssl = SSL_new(context->ctx);

	if (!ssl)
		return NULL;
	if (context->server) {
		SSL_set_accept_state(ssl);
	} else {
		SSL_set_connect_state(ssl);
		if (*context->servername && !servername_set(ssl, context->servername)) {
			SSL_free(ssl);
			return NULL;
		}
	}
	return ssl;
}

bool tls_context_has_key(const struct tls_context *context, const char *identity)
{
	return context->keys &&
	       tls_keys_find(context->keys, identity, strlen(identity));
}

bool tls_context_accepts(const struct tls_context *context, X509 *certificate,
			 STACK_OF(X509) * chain)
{
	X509_STORE_CTX *check = X509_STORE_CTX_new();
	bool good = check &&
		    X509_STORE_CTX_init(check, SSL_CTX_get_cert_store(context->ctx),
					certificate, chain) == 1 &&
		    X509_STORE_CTX_set_default(check, "ssl_client") == 1;

	if (good) {
		X509_STORE_CTX_set_verify_cb(check, on_verify);
		good = X509_verify_cert(check) == 1;
	}
	X509_STORE_CTX_free(check);
	ERR_clear_error();
	return good;
}

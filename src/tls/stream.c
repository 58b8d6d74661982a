/* SPDX-License-Identifier: BSD-3-Clause */
#include "tls/stream.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/err.h"
#include "tls/alpn.h"
#include "tls/certificate.h"
#include "tls/context_use.h"
#include "tls/failure.h"
#include "tls/records.h"

/* ---- the socket ---- */

static ssize_t socket_receive(int fd, void *buf, size_t bytes)
{
	ssize_t n = recv(fd, buf, bytes, MSG_DONTWAIT);

	return n < 0 ? -errno : n;
}

static ssize_t socket_send(int fd, const void *buf, size_t bytes)
{
	ssize_t n = send(fd, buf, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);

	return n < 0 ? -errno : n;
}

/* Whether the call is to be repeated, when there is something to receive or room to send. */
static bool is_full(ssize_t result)
{
	return result == -EAGAIN || result == -EINTR || result == -ENOTCONN;
}

/* What the socket holds for the handshake, which OpenSSL asks for in pieces, at least two for each
 * record.  It stays in the socket until OpenSSL has taken it: what follows the handshake may be the
 * kernel's to decrypt. */
struct stream_input {
	ssize_t n; /* bytes; or of what the socket says instead, 0 or -errno */
	bool looked;
	size_t taken;
	uint8_t bytes[STREAM_HANDSHAKE_MAX];
};

/* As recv(2), with -errno. */
static ssize_t input_take(struct stream *stream, void *buf, size_t bytes)
{
	struct stream_input *input = stream->input;

	if (!input->looked) {
		input->looked = true;
		input->n = recv(stream->fd, input->bytes,
				STREAM_HANDSHAKE_MAX - stream->handshake_bytes,
				MSG_PEEK | MSG_DONTWAIT);
		if (input->n < 0)
			input->n = -errno;
	}
	if (input->n <= 0)
		return input->n;
	if (bytes > (size_t)input->n - input->taken)
		bytes = (size_t)input->n - input->taken;
	if (bytes == 0)
		return -EAGAIN;
	memcpy(buf, input->bytes + input->taken, bytes);
	input->taken += bytes;
	stream->handshake_bytes += bytes;
	return (ssize_t)bytes;
}

/* On the heap, as the stack may be that of a program's small thread. */
static int input_begin(struct stream *stream)
{
	stream->input = malloc(sizeof(*stream->input));
	if (!stream->input)
		return err_set(-ENOMEM, "no memory for a handshake of TLS");
	stream->input->looked = false;
	stream->input->taken = 0;
	return 0;
}

/* Take from the socket what OpenSSL has taken, which is there. */
static void input_end(struct stream *stream)
{
	struct stream_input *input = stream->input;

	if (input->taken > 0)
		(void)socket_receive(stream->fd, input->bytes, input->taken);
	free(input);
	stream->input = NULL;
}

static bool is_endless(const struct stream *stream)
{
	return !stream->handshaken && stream->handshake_bytes >= STREAM_HANDSHAKE_MAX;
}

static bool is_flooded(const struct stream *stream)
{
	return stream->key_updates > STREAM_KEY_UPDATES_MAX;
}

/* OpenSSL's own BIO for sockets would raise SIGPIPE in programs that use the library. */
static int bio_read(BIO *bio, char *buf, size_t bytes, size_t *ret_bytes)
{
	struct stream *stream = BIO_get_data(bio);
	ssize_t n;

	if (is_flooded(stream) || is_endless(stream))
		n = -EPROTO;
	else if (stream->input)
		n = input_take(stream, buf, bytes);
	else
		n = socket_receive(stream->fd, buf, bytes);

	stream->dry = is_full(n);
	BIO_clear_retry_flags(bio);
	if (is_full(n))
		BIO_set_retry_read(bio);
	if (n == 0)
		BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
	errno = n < 0 ? (int)-n : 0;
	*ret_bytes = n > 0 ? (size_t)n : 0;
	return n > 0;
}

static int bio_write(BIO *bio, const char *buf, size_t bytes, size_t *ret_bytes)
{
	struct stream *stream = BIO_get_data(bio);
	ssize_t n = socket_send(stream->fd, buf, bytes);

	BIO_clear_retry_flags(bio);
	if (is_full(n))
		BIO_set_retry_write(bio);
	errno = n < 0 ? (int)-n : 0;
	*ret_bytes = n > 0 ? (size_t)n : 0;
	stream->answered |= n > 0;
	return n > 0;
}

static long bio_ctrl(BIO *bio, int command, long, void *)
{
	switch (command) {
	case BIO_CTRL_FLUSH:
		return 1;
	case BIO_CTRL_EOF:
		return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
	default:
		return 0;
	}
}

static BIO_METHOD *bio_method;
static int bio_number; /* 0: none yet */
static pthread_mutex_t bio_lock = PTHREAD_MUTEX_INITIALIZER;

/* Once in the process, as a number of a kind of BIO is never free again. */
static void bio_method_create(void)
{
	BIO_METHOD *method;

	if (!bio_number)
		bio_number = BIO_get_new_index();
	method = BIO_meth_new(bio_number | BIO_TYPE_SOURCE_SINK, "rmem socket");
	if (method && (!BIO_meth_set_read_ex(method, bio_read) ||
		       !BIO_meth_set_write_ex(method, bio_write) ||
		       !BIO_meth_set_ctrl(method, bio_ctrl))) {
		BIO_meth_free(method);
		method = NULL;
	}
	bio_method = method;
}

/* A failure for want of memory is no reason to fail for ever. */
static BIO *bio_create(void)
{
	BIO *bio;

	(void)pthread_mutex_lock(&bio_lock);
	if (!bio_method)
		bio_method_create();
	bio = bio_method ? BIO_new(bio_method) : NULL;
	(void)pthread_mutex_unlock(&bio_lock);
	return bio;
}

/* ---- opening and closing ---- */

void stream_plain(struct stream *stream, int fd)
{
	*stream = (struct stream){ .fd = fd, .handshaken = true };
}

static int no_memory(struct stream *stream)
{
	stream_close(stream);
	return err_set(-ENOMEM, "no memory for TLS");
}

int stream_tls(struct stream *stream, int fd, struct tls_context *context)
{
	BIO *bio;

	*stream = (struct stream){ .fd = fd, .context = tls_context_ref(context) };
	stream->ssl = tls_context_ssl(context);
	if (!stream->ssl)
		return no_memory(stream);
	/* the callbacks for keys need it */
	if (!SSL_set_app_data(stream->ssl, stream))
		return no_memory(stream);
	bio = bio_create();
	if (!bio)
		return no_memory(stream);
	BIO_set_data(bio, stream);
	BIO_set_init(bio, 1);
	SSL_set_bio(stream->ssl, bio, bio);
	return 0;
}

void stream_strip(struct stream *stream)
{
	SSL_free(stream->ssl);
	tls_context_unref(stream->context);
	stream_plain(stream, stream->fd);
}

void stream_move(struct stream *from, struct stream *to)
{
	*to = *from;
	if (to->ssl) {
		/* there was one before, so it has its place */
		(void)SSL_set_app_data(to->ssl, to);
		BIO_set_data(SSL_get_rbio(to->ssl), to);
	}
	*from = (struct stream){ .fd = -1 };
}

void stream_close(struct stream *stream)
{
	stream_strip(stream);
	if (stream->fd >= 0)
		(void)close(stream->fd);
	*stream = (struct stream){ .fd = -1 };
}

/* ---- the handshake ---- */

static int socket_failure(int err)
{
	return err_set(err, "%s", strerrordesc_np(-err));
}

/* The errno of a call of OpenSSL that failed; -EAGAIN: it is to be repeated. */
static int ssl_failure(struct stream *stream, int result)
{
	int saved = errno;

	if (is_flooded(stream))
		return err_set(-EPROTO,
			       "TLS: the other side has changed its keys %u times",
			       stream->key_updates);
	if (is_endless(stream))
		return err_set(-EPROTO,
			       "TLS: the other side's handshake has more than %u bytes",
			       STREAM_HANDSHAKE_MAX);
	switch (SSL_get_error(stream->ssl, result)) {
	case SSL_ERROR_WANT_READ:
		stream->wants_out = false;
		return -EAGAIN;
	case SSL_ERROR_WANT_WRITE:
		stream->wants_out = true;
		return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return err_set(-ECONNRESET, "the other side closed the connection");
	case SSL_ERROR_SYSCALL:
		ERR_clear_error();
		return saved ? socket_failure(-saved)
			     : err_set(-ECONNRESET,
				       "the other side closed the connection");
	default:
		return tls_connection_failure(stream->ssl);
	}
}

/* OpenSSL keeps its copy of the pre-shared key as long as the connection, on the ordinary heap,
 * which is in core dumps.  After the handshake nothing needs it. */
static void key_wipe(SSL *ssl)
{
	static const uint8_t nothing[TLS_KEY_MAX];
	SSL_SESSION *session = SSL_get_session(ssl);
	size_t bytes = session ? SSL_SESSION_get_master_key(session, NULL, 0) : 0;

	/* at least as long as a key may be */
	if (bytes > 0 && bytes <= sizeof(nothing))
		(void)SSL_SESSION_set1_master_key(session, nothing, bytes);
}

/* OpenSSL keeps its half of the key exchange as long as the connection too, in the secure heap,
 * which has room for those of handshakes.  The object stays, without a key. */
static void exchange_wipe(SSL *ssl)
{
	EVP_PKEY *key;

	if (!SSL_get_tmp_key(ssl, &key))
		return;
	(void)EVP_PKEY_set_type(key, EVP_PKEY_X25519);
	EVP_PKEY_free(key);
}

int stream_handshake(struct stream *stream)
{
	int result;

	if (stream->handshaken)
		return 0;
	if (input_begin(stream))
		return -ENOMEM;
	ERR_clear_error();
	errno = 0;
	result = SSL_do_handshake(stream->ssl);
	input_end(stream);
	if (result != 1)
		return ssl_failure(stream, result);
	/* a client may name the key of anyone, and then be accepted by its certificate: only a key
	 * that the handshake has used is the client's */
	if (!SSL_session_reused(stream->ssl))
		stream->key = NULL;
	key_wipe(stream->ssl);
	exchange_wipe(stream->ssl);
	if (alpn_check(stream->ssl))
		return -EPROTO;
	stream->handshaken = true;
	stream->wants_out = false;
	return 0;
}

/* ---- bytes ---- */

ssize_t stream_receive(struct stream *stream, void *buf, size_t bytes)
{
	size_t n;
	int result;

	if (!stream->ssl) {
		ssize_t got = socket_receive(stream->fd, buf, bytes);

		if (is_full(got))
			return -EAGAIN;
		return got < 0 ? socket_failure((int)got) : got;
	}
	ERR_clear_error();
	errno = 0;
	result = SSL_read_ex(stream->ssl, buf, bytes, &n);
	if (result == 1) {
		stream->receives++;
		return (ssize_t)n;
	}
	if (SSL_get_error(stream->ssl, result) == SSL_ERROR_ZERO_RETURN)
		return 0;
	return ssl_failure(stream, result);
}

/* Change this side's keys before they have encrypted too much.  It fails while a part of a record
 * waits to be sent, and is repeated then. */
static void keys_renew(struct stream *stream)
{
	if (stream->records >= tls_records_max &&
	    SSL_key_update(stream->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1)
		stream->records = 0;
}

ssize_t stream_send(struct stream *stream, const void *buf, size_t bytes)
{
	size_t n;
	int result;

	if (!stream->ssl) {
		ssize_t sent = socket_send(stream->fd, buf, bytes);

		if (is_full(sent))
			return -EAGAIN;
		return sent < 0 ? socket_failure((int)sent) : sent;
	}
	keys_renew(stream);
	ERR_clear_error();
	errno = 0;
	result = SSL_write_ex(stream->ssl, buf, bytes, &n);
	if (result != 1)
		return ssl_failure(stream, result);
	stream->records += tls_records(n);
	return (ssize_t)n;
}

bool stream_goes_on(const struct stream *stream)
{
	return stream->ssl && !stream->dry && !stream->wants_out;
}

bool stream_pending(const struct stream *stream)
{
	/* without read-ahead nothing else is in memory but a part of a record, which is no use */
	return stream->ssl && SSL_pending(stream->ssl) > 0;
}

void stream_end(struct stream *stream)
{
	if (stream->ssl && stream->handshaken) {
		ERR_clear_error();
		(void)SSL_shutdown(stream->ssl);
		ERR_clear_error();
	}
	(void)shutdown(stream->fd, SHUT_WR);
}

/* ---- who is it? ---- */

bool stream_tenant(const struct stream *stream, char ret_tenant[TLS_TENANT_MAX + 1])
{
	if (!stream->handshaken || !stream->key)
		return false;
	(void)strcpy(ret_tenant, stream->key->tenant);
	return true;
}

bool stream_certified(const struct stream *stream)
{
	return stream->ssl && stream->handshaken &&
	       SSL_get0_peer_certificate(stream->ssl);
}

bool stream_certified_as(const struct stream *stream, const char *patterns)
{
	return stream_certified(stream) &&
	       certificate_matches(SSL_get0_peer_certificate(stream->ssl), patterns);
}

bool stream_still_good(const struct stream *stream, const struct tls_context *context)
{
	if (!stream->ssl || !stream->handshaken)
		return true;
	if (stream->key)
		return tls_context_has_key(context, stream->key->identity);
	return tls_context_accepts(context, SSL_get0_peer_certificate(stream->ssl),
				   SSL_get_peer_cert_chain(stream->ssl));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The bytes of a connection over a non-blocking socket: as they are, or under TLS.
 * Threads: [any], not the same object from two. */
#ifndef TLS_STREAM_H
#define TLS_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tls/context.h"

/* Of a secret of TLS's own. */
#define STREAM_SECRET_BYTES 32
/* How often the other side may change its keys of TLS sooner than after so many calls that received
 * bytes: each change takes as long as many frames. */
#define STREAM_KEY_UPDATES_MAX 64
#define STREAM_KEY_RECEIVES_MIN 16

/* Bytes of the other side until the handshake is done: a chain of certificates fits, and what the
 * messages of this length cost is bounded, whatever they say. */
#define STREAM_HANDSHAKE_MAX 16384

#define CHANNEL_KEY_BYTES 32

/* Of a stream that carries a data channel.  The others are those of its traffic, once the handshake
 * is done. */
struct channel_secrets {
	uint8_t key[CHANNEL_KEY_BYTES]; /* pre-shared */
	uint8_t sent[STREAM_SECRET_BYTES], received[STREAM_SECRET_BYTES];
};

struct stream {
	int fd;             /* -1: none */
	struct ssl_st *ssl; /* NULL: no TLS */
	struct tls_context *context;
	/* secrets borrowed until the handshake is done; NULL: none */
	struct channel_secrets *channel;
	bool handshaken;
	bool answered;  /* server: the client's first message is answered */
	bool wants_out; /* TLS has something to send before it goes on */
	bool unknown;   /* server: the identity of the client's key is not known */
	bool named;     /* server: the client's first message has named a key */
	struct stream_input *input; /* while stream_handshake() runs */
	size_t handshake_bytes;     /* those received for the handshake */
	unsigned key_updates;       /* those received too soon */
	unsigned receives;          /* since the last one */
	uint64_t records;           /* sent since this side has changed its keys */
	bool dry;                   /* the socket was empty at the last look */
	/* server: key that the client names, and has after the handshake; borrowed; NULL: none */
	const struct tls_key *key;
};

/* Bytes as they are.  Owns the socket. */
void stream_plain(struct stream *stream, int fd);
/* Under TLS.  Owns the socket, on failure too.  -ENOMEM */
int stream_tls(struct stream *stream, int fd, struct tls_context *context);
/* Go on without TLS, before the handshake has begun: to tell the other side. */
void stream_strip(struct stream *stream);
/* Give the socket and TLS to another stream, which has none; `from` is closed then. */
void stream_move(struct stream *from, struct stream *to);
/* Close the socket.  No effect on a closed stream. */
void stream_close(struct stream *stream);

/* Go on with the handshake of TLS; without TLS there is none.  0: it is done.
 *   -EAGAIN  without text: it waits for the socket
 *   -EACCES  one side does not accept the other
 *   -ENOMEM
 *   -EPROTO  a violation, or more than STREAM_HANDSHAKE_MAX bytes
 *   -ECONNRESET ... */
int stream_handshake(struct stream *stream);

/* As recv(2) and send(2), without a signal, after the handshake; the number of bytes, which is 0
 * only at the end of what is received.
 *   -EAGAIN  without text: the socket is empty or full.  After that, call stream_send() with the
 *            same bytes, and more perhaps
 *   -errno   the connection is broken, or the other side refuses it; with text */
ssize_t stream_receive(struct stream *stream, void *buf, size_t bytes);
ssize_t stream_send(struct stream *stream, const void *buf, size_t bytes);
/* After stream_receive() has returned -EAGAIN: whether the socket was not empty, but bytes that are
 * none of the caller's came from it, as a change of keys. */
bool stream_goes_on(const struct stream *stream);
/* Whether bytes that were received wait in the stream, where poll(2) does not see them. */
bool stream_pending(const struct stream *stream);
/* Tell the other side that nothing more is sent. */
void stream_end(struct stream *stream);

/* The tenant of the client's key.  False: it showed none. */
bool stream_tenant(const struct stream *stream, char ret_tenant[TLS_TENANT_MAX + 1]);
/* Whether the client showed a certificate, and whether one of the patterns, separated by commas,
 * fits it:
 *   uri:URI, spiffe://ID  a name of that kind
 *   dns:HOST              a name of that kind
 *   subject:NAME          the whole subject as RFC 2253 writes it; the rest of the text, with its
 *                         commas
 * A `*` at the end of a pattern stands for any rest. */
bool stream_certified(const struct stream *stream);
bool stream_certified_as(const struct stream *stream, const char *patterns);
/* Whether the client would be accepted with this context, too: after a reload. */
bool stream_still_good(const struct stream *stream, const struct tls_context *context);

#endif

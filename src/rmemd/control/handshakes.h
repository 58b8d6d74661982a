/* SPDX-License-Identifier: BSD-3-Clause */
/* Handshakes of TLS of control connections, which take long, are chosen by whoever connects, and
 * come before anybody has shown a key or a certificate: threads of a lower priority than the loop
 * do them.  Each address has one under way at a time, and the one that has used the least time is
 * next; of IPv6 the first half of an address counts.
 *
 * While a thread has a handshake, its stream and its socket are the thread's.  Threads: [loop]. */
#ifndef RMEMD_CONTROL_HANDSHAKES_H
#define RMEMD_CONTROL_HANDSHAKES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "fabric/address.h"
#include "tls/stream.h"

struct event_base;
struct handshake;
struct handshakes;

enum handshake_end {
	HANDSHAKE_WAITS, /* not an end: for the socket */
	HANDSHAKE_DONE,
	HANDSHAKE_FAILED, /* `result` says why */
	HANDSHAKE_PLAIN,  /* it begins with a hello without TLS, with `plain_id` */
	HANDSHAKE_LEFT,   /* the client has closed its end before it was begun */
};

struct handshake_state {
	enum handshake_end end;
	struct err_saved result;
	uint64_t plain_id;
	bool wants_out; /* it waits for room in the socket */
	bool answered;  /* the client's first message is answered */
};

/* Borrows `base`.  The threads start with the first handshake.  -EMFILE, -ENOMEM with text */
int handshakes_open(struct event_base *base, struct handshakes **ret_handshakes);
/* After all of its handshakes are closed.  NULL: no effect. */
void handshakes_close(struct handshakes *handshakes);
/* How many a thread has, or will have. */
unsigned handshakes_under_way(const struct handshakes *handshakes);

/* Owns the socket, also on failure; done(ctx) is called after each handshake_go_on(), which may
 * close it.  -ENOMEM, -EAGAIN: no thread; with text */
int handshake_open(struct handshakes *handshakes, int fd, struct tls_context *context,
		   const struct fabric_address *address, void (*done)(void *ctx),
		   void *ctx, struct handshake **ret_handshake);
/* The socket is ready, or was never looked at.  No effect if it is under way. */
void handshake_go_on(struct handshake *handshake);
bool handshake_is_under_way(const struct handshake *handshake);
bool handshake_is_with(const struct handshake *handshake,
		       const struct tls_context *context);
/* In done(), or before the next handshake_go_on(). */
const struct handshake_state *handshake_state(const struct handshake *handshake);
/* Close it, and give its stream to the caller.  Not while it is under way. */
void handshake_give(struct handshake *handshake, struct stream *ret_stream);
/* Also while it is under way: the thread closes the socket when it is done.  NULL: no effect. */
void handshake_close(struct handshake *handshake);

#endif

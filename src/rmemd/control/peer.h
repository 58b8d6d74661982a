/* SPDX-License-Identifier: BSD-3-Clause */
/* The other end of a control connection, as the requests see it.  Embedded in what carries
 * the bytes: a connection, or a test.  Threads: [loop]. */
#ifndef RMEMD_CONTROL_PEER_H
#define RMEMD_CONTROL_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "rmemd/control/control.h"
#include "wire/msg.h"

struct peer;
struct session;

/* What carries the bytes.  None of these ends the peer before it returns. */
struct peer_ops {
	void (*send)(struct peer *peer, const struct wire_msg *msg);
	/* Nothing more is taken from it; what was sent goes out, then it ends and
	 * peer_gone() is called. */
	void (*close)(struct peer *peer);
	/* A pending hello is answered: the peer is no stranger any more, and what it sent
	 * behind the hello can be handled. */
	void (*greeted)(struct peer *peer);
	/* Whether what was sent has not all gone out yet; peer_idle() is called when it
	 * has. */
	bool (*busy)(const struct peer *peer);
};

struct peer {
	const struct peer_ops *ops;
	struct control *control;
	struct session *session; /* NULL before the hello and after the end */
	uint16_t version;        /* of the protocol, that it and we speak */
	bool greeting; /* its hello waits: nothing else is handled meanwhile */
	bool closed;   /* close() was called */
	char name[64]; /* address:port */
};

void peer_init(struct peer *peer, const struct peer_ops *ops, struct control *control,
	       const char *name);
/* Its connection is lost or at its end: a session is fenced.
 * `why` is one line. */
void peer_gone(struct peer *peer, const char *why);

/* It is not busy any more: what has waited for that is sent. */
void peer_idle(struct peer *peer);

void peer_send(struct peer *peer, const struct wire_msg *msg);
void peer_send_error(struct peer *peer, uint64_t id, int err, const char *text);
void peer_send_ok(struct peer *peer, uint64_t id);
/* Close it once. */
void peer_close(struct peer *peer);
/* Answer with an error, log it, close. */
void peer_refuse(struct peer *peer, uint64_t id, int err, const char *text);

#endif

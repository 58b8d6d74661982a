/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of a session: those that wait for their answer, and how one that is repeated
 * takes effect once.
 *
 * When the connection is lost, a request that can be undone is, and is forgotten; what
 * cannot goes on, or has its effect, and its answer is kept.  So whoever resumes and
 * repeats what has no answer yet gets what it would have got without the loss; whoever
 * does not come back leaves nothing but what ends with the session.
 *
 * Threads: [loop].  Functions return 0 or -errno with err_text(). */
#ifndef RMEMD_CONTROL_SESSION_REQUESTS_H
#define RMEMD_CONTROL_SESSION_REQUESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "rmemd/control/handlers.h"
#include "rmemd/lease/lease.h"

/* Requests of one session that wait for their answer at a time. */
#define REQUESTS_MAX 256

struct connection;
struct session;

/* A request that waits. */
struct request {
	struct lease_waiter waiter;
	struct list link; /* in session->requests */
	struct session *session;
	struct connection
		*connection; /* who asked last; NULL: its connection is lost */
	uint64_t id;
	uint64_t lease; /* that it resizes */
	enum wire_type type;
	bool keep; /* its answer is to be kept */
};

/* Have a request of a connection with a session handled, unless it is a repeated one that was.
 * The result is the handler's; a session that said bye may be gone.
 *   -EPROTO  what became of it is not known any more */
int request_handle(struct connection *connection, const struct wire_msg *msg,
		   struct wire_msg *out, handler *handle);

/* -EDQUOT, -ENOMEM.  Answers by itself when the waiter is done. */
int request_create(struct connection *connection, const struct wire_msg *msg,
		   struct request **ret_request);
/* It did not start. */
void request_free(struct request *request);

/* The session's connection is lost. */
void requests_orphan(struct session *session);
/* The session ends. */
void requests_cancel(struct session *session);

#endif

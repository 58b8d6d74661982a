/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of a session: those that wait for their reply, and those that are repeated.
 *
 * When the connection is lost, a request that can be undone is undone and forgotten.  Any other
 * goes on, or has its effect, and its reply is remembered.  So a client that resumes and
 * repeats what has no reply yet gets what it would have got without the loss, and a client that
 * does not come back leaves nothing but what ends with the session.
 *
 * Threads: [loop].  Functions return 0 or -errno with err_text(). */
#ifndef RMEMD_CONTROL_SESSION_REQUESTS_H
#define RMEMD_CONTROL_SESSION_REQUESTS_H

#include <stdint.h>

#include "base/list.h"
#include "rmemd/control/handlers.h"
#include "rmemd/lease/lease.h"

/* Requests of one session that wait for their reply at a time. */
#define REQUESTS_MAX 256

/* A request that waits. */
struct request {
	struct lease_waiter waiter;
	struct list link; /* in session->requests */
	struct session *session;
	struct connection *connection; /* that asked last; NULL: it is lost */
	uint64_t id;
	uint64_t lease; /* that it resizes */
	enum wire_type type;
	unsigned flags; /* REQUEST_* */
};

#define REQUEST_NEW 2

/* Before a request is handled.  REQUEST_NEW: handle it and call request_end() unless its reply
 * comes later.  HANDLER_*: it is a repeated one.
 *   -EPROTO  its reply is not remembered any more
 *   -ENOMEM, -ENOSPC  its reply could not be recorded */
int request_begin(struct session *session, const struct wire_msg *msg,
		  struct wire_msg *ret_reply);
/* It was handled: remember HANDLER_REPLY, or the error whose text is err_text(). */
void request_end(struct session *session, const struct wire_msg *msg, int result);

/* It replies by itself when the waiter is done.  -EDQUOT, -ENOMEM */
int request_create(struct session *session, const struct wire_msg *msg,
		   struct request **ret_request);
/* For one that did not start. */
void request_free(struct request *request);

/* The session's connection is lost. */
void requests_orphan(struct session *session);
/* The session ends. */
void requests_cancel(struct session *session);
/* The daemon ends: the leases that they wait for are gone already. */
void requests_free(struct session *session);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of a session: the table of types, waiting requests, and repeated requests.
 *
 * When the connection is lost, a waiting request that can be undone is undone and forgotten.  Any
 * other request goes on or has taken effect, and its reply is remembered.  So a client that
 * resumes and repeats its unanswered requests gets the replies it would have got without the loss;
 * of a client that does not resume only named leases remain after the session.
 *
 * Threads: [loop].  Functions return 0 or -errno with err_text(). */
#ifndef RMEMD_CONTROL_REQUEST_H
#define RMEMD_CONTROL_REQUEST_H

#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "rmemd/lease/lease.h"
#include "wire/msg.h"

struct connection;
struct session;

/* ---- types: a row for each; dispatcher and handlers are made from this table ---- */

/* The request's effect outlasts its connection, and handling it twice would be wrong: its reply is
 * remembered, for a client that repeats it; that of a refused allocate may be forgotten. */
#define REQUEST_REMEMBERED (1u << 0)
/* The request takes effect before its keys are dead, and keys die with the process too.  The reply
 * OK is staged in the ledger before the request is handled: after a restart it is true. */
#define REQUEST_ENDS (1u << 1)
/* The request cannot be undone; it goes on when its connection is lost. */
#define REQUEST_GOES_ON (1u << 2)

/* ANSWERED: handle_NAME() answers the request at once.  STARTED: start_NAME() starts the request,
 * which may wait for memory or keys.  hello is not in this table, as it has no session. */
#define REQUEST_TYPES(ANSWERED, STARTED)                                     \
	ANSWERED(open_channel, 0)                                            \
	ANSWERED(close_channel, 0)                                           \
	ANSWERED(join_channel, 0)                                            \
	STARTED(allocate, REQUEST_REMEMBERED)                                \
	STARTED(free, REQUEST_REMEMBERED | REQUEST_ENDS | REQUEST_GOES_ON)   \
	STARTED(attach, REQUEST_REMEMBERED) /* by name only */               \
	STARTED(detach, REQUEST_REMEMBERED | REQUEST_ENDS | REQUEST_GOES_ON) \
	ANSWERED(renew, REQUEST_REMEMBERED)                                  \
	STARTED(rename, REQUEST_REMEMBERED | REQUEST_GOES_ON)                \
	STARTED(resize, REQUEST_REMEMBERED)                                  \
	STARTED(remove, REQUEST_REMEMBERED | REQUEST_ENDS | REQUEST_GOES_ON) \
	STARTED(share, REQUEST_REMEMBERED | REQUEST_GOES_ON)                 \
	ANSWERED(stat, 0)                                                    \
	ANSWERED(list, 0)                                                    \
	ANSWERED(ping, 0)                                                    \
	ANSWERED(bye, 0)                                                     \
	ANSWERED(fix_atomic_device, 0)                                       \
	ANSWERED(watch, 0)                                                   \
	ANSWERED(unwatch, 0)

/* ---- handlers ---- */

#define HANDLER_OK 0    /* the reply is OK */
#define HANDLER_REPLY 1 /* *ret_reply is the reply, except its id */
#define HANDLER_LATER 2 /* the reply was sent, or will be */

typedef int request_handler(struct session *session, const struct wire_msg *msg,
			    struct wire_msg *ret_reply);
/* 0: the request is answered when the waiter is done. */
typedef int request_starter(struct session *session, const struct wire_msg *msg,
			    struct lease_waiter *waiter);

/* -EINVAL: a request that would be started is malformed.  Checked before the limits, so that the
 * reply does not depend on how busy the session is. */
int check_started(const struct wire_msg *msg);

#define DECLARE_HANDLER(name, flags) request_handler handle_##name;
#define DECLARE_STARTER(name, flags) request_starter start_##name;
REQUEST_TYPES(DECLARE_HANDLER, DECLARE_STARTER)
#undef DECLARE_HANDLER
#undef DECLARE_STARTER

/* An entry of the replies to stat and list. */
void fill_entry(const struct lease_status *status, struct wire_entry *entry);
/* The session's connection is lost: forget its requests `list`, which the client repeats. */
void listings_cancel(struct session *session);
/* The client has read its answers: go on with those that have waited for it. */
void listings_go_on(struct session *session);

/* Open or resume a session for a connection that has none; sends the reply. */
void handle_hello(struct connection *connection, const struct wire_msg *msg);

/* Handle one frame of a connection that is not closed and has no pending hello.  Every request gets
 * exactly one reply.  After a violation of the protocol the connection is closed, if possible with
 * an error. */
void dispatch_frame(struct connection *connection, const uint8_t *frame, size_t bytes);

/* ---- waiting and repeated requests ---- */

/* Limit of waiting requests of a session. */
#define REQUESTS_MAX WIRE_REQUESTS_MAX

/* A waiting request. */
struct request {
	struct lease_waiter waiter;
	struct list link; /* in session->requests */
	struct session *session;
	struct connection *connection; /* gets the reply; NULL: lost */
	uint64_t id;
	uint64_t lease; /* of a resize; else 0 */
	enum wire_type type;
	unsigned flags; /* REQUEST_* */
};

#define REQUEST_NEW 3

/* Call it before a request is handled.  REQUEST_NEW: handle the request, and call request_end()
 * unless the handler returns HANDLER_LATER.  HANDLER_*: the request is a repeated one, do not
 * handle it.
 *   -ENODATA  a repeated request, whose reply was dropped
 *   -ENOMEM, -ENOSPC  the ledger has no room for the reply */
int request_begin(struct session *session, const struct wire_msg *msg);
/* A request was handled: remember its reply.  result: HANDLER_OK, HANDLER_REPLY, or -errno with
 * err_text(). */
void request_end(struct session *session, const struct wire_msg *msg, int result);

/* Create a waiting request, which sends its reply when its waiter is done.  -EDQUOT, -ENOMEM */
int request_create(struct session *session, const struct wire_msg *msg,
		   struct request **ret_request);
/* Free a request that did not start. */
void request_free(struct request *request);

/* The session's connection is lost: undo requests that can be undone. */
void requests_orphan(struct session *session);
/* The session ends: cancel its requests. */
void requests_cancel(struct session *session);
/* The daemon ends, and has freed all leases: free the requests. */
void requests_free(struct session *session);

#endif

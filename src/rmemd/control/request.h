/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of a session: their types, waiting requests, and repeated requests.
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
struct reply;
struct session;

/* ---- types ---- */

/* The request's effect outlasts its connection, and handling it twice would be wrong: its reply is
 * remembered, for a client that repeats it; that of a refused allocate may be forgotten. */
#define REQUEST_REMEMBERED (1u << 0)
/* The request takes effect before its keys are dead, and keys die with the process too.  The reply
 * OK is staged in the ledger before the request is handled: after a restart it is true. */
#define REQUEST_ENDS (1u << 1)
/* The request cannot be undone; it goes on when its connection is lost.  Without this flag one that
 * waits is undone then. */
#define REQUEST_GOES_ON (1u << 2)

/* The requests of a session; hello has none.  Everything about a type is made from its row:
 *   ANSWERED  handle_NAME() answers it at once
 *   STARTED   start_NAME() starts it, and it may wait for memory or keys
 *   CHECKED   likewise, after check_NAME() has accepted it
 * What it needs, as in rmem-protocol(7): lease/ finds out whether that is there.
 * Flags of a repeated request, and of one whose connection is lost. */
#define REQUEST_TYPES(ANSWERED, STARTED, CHECKED)                                    \
	ANSWERED(open_channel, none, 0)                                              \
	ANSWERED(close_channel, none, 0)                                             \
	ANSWERED(join_channel, none, 0)                                              \
	CHECKED(allocate, change, REQUEST_REMEMBERED)                                \
	STARTED(free, own, REQUEST_REMEMBERED | REQUEST_ENDS | REQUEST_GOES_ON)      \
	CHECKED(attach, reach, REQUEST_REMEMBERED) /* by name only */                \
	CHECKED(detach, hold, REQUEST_REMEMBERED | REQUEST_ENDS | REQUEST_GOES_ON)   \
	ANSWERED(renew, own, REQUEST_REMEMBERED)                                     \
	CHECKED(rename, own, REQUEST_REMEMBERED | REQUEST_GOES_ON)                   \
	STARTED(resize, own, REQUEST_REMEMBERED)                                     \
	STARTED(remove, change, REQUEST_REMEMBERED | REQUEST_ENDS | REQUEST_GOES_ON) \
	CHECKED(share, own, REQUEST_REMEMBERED | REQUEST_GOES_ON)                    \
	ANSWERED(stat, reach, 0)                                                     \
	ANSWERED(list, none, 0)                                                      \
	ANSWERED(ping, none, 0)                                                      \
	ANSWERED(bye, none, 0)                                                       \
	ANSWERED(fix_atomic_device, write, 0)                                        \
	ANSWERED(watch, hold, 0)                                                     \
	ANSWERED(unwatch, hold, 0)

#define HANDLER_OK 0    /* the reply is OK */
#define HANDLER_REPLY 1 /* *ret_reply is the reply, except its id */
#define HANDLER_LATER 2 /* the reply was sent, or will be */

typedef int request_handler(struct session *session, const struct wire_msg *msg,
			    struct wire_msg *ret_reply);
/* 0: the request is answered when the waiter is done. */
typedef int request_starter(struct session *session, const struct wire_msg *msg,
			    struct lease_waiter *waiter);
/* -EINVAL.  Called before the limits are looked at, so that the reply does not depend on how busy
 * the session is. */
typedef int request_checker(const struct wire_msg *msg);

#define DECLARE_ANSWERED(name, needs, flags) request_handler handle_##name;
#define DECLARE_STARTED(name, needs, flags) request_starter start_##name;
#define DECLARE_CHECKED(name, needs, flags) \
	request_checker check_##name;       \
	DECLARE_STARTED(name, needs, flags)
REQUEST_TYPES(DECLARE_ANSWERED, DECLARE_STARTED, DECLARE_CHECKED)
#undef DECLARE_ANSWERED
#undef DECLARE_STARTED
#undef DECLARE_CHECKED

/* An entry of the replies to stat and list. */
void fill_entry(const struct lease_status *status, struct wire_entry *entry);
/* The session's connection is lost: forget its requests `list`, which the client repeats. */
void listings_cancel(struct session *session);
/* The client has read its answers: go on with those that have waited for it. */
void listings_go_on(struct session *session);

/* Open or resume a session for a connection that has none; sends the reply. */
void handle_hello(struct connection *connection, const struct wire_msg *msg);

/* Handle one frame of a connection that is not closed and has no pending hello.  Every request gets
 * exactly one reply, now or later.  After a violation of the protocol the connection is closed, if
 * possible with an error. */
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

/* Before a request is handled.  REQUEST_NEW: it is to be done; HANDLER_*: it is a repeated one.
 *   -ENODATA  a repeated request, whose reply was dropped
 *   -ENOMEM, -ENOSPC  the ledger has no room for the reply */
int request_begin(struct session *session, const struct wire_msg *msg, unsigned flags);
/* Remember the reply to a request that was done, and its error's text or NULL; connection_send()
 * commits it. */
void request_remember(struct session *session, const struct reply *reply,
		      const char *text);

/* Create a waiting request, which sends its reply when its waiter is done.  -EDQUOT, -ENOMEM */
int request_create(struct session *session, const struct wire_msg *msg, unsigned flags,
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

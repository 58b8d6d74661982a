/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls: what a program asks of a session's server, from its begin to its answer.  A call of
 * rmem_calls_begin() answers to a struct rmem_calls; the synchronous calls begin one and wait for
 * it.  A call is steps of its kind: a request that is sent, the reply, perhaps another request.
 * Whoever drives the session takes the steps.
 *
 * The calls on one lease stand in a line: each begins when the one before has ended.
 *
 * Threads: everything under the session's lock, unless another is named. */
#ifndef LIBRMEM_SESSION_CALL_H
#define LIBRMEM_SESSION_CALL_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rmem/rmem.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"
#include "base/tree.h"
#include "librmem/session/call_sink.h"
#include "librmem/session/connection.h"
#include "wire/msg.h"

struct call;

/* What step() and answered() return when the call has not ended. */
#define CALL_GOES_ON (-EINPROGRESS)
/* The answer is a part; when it was taken, call_begin() is for the next one. */
#define CALL_HAS_MORE 1

struct call_kind {
	const char *name; /* of the function; may be NULL */
	/* Begin, or go on after call_pause(). */
	int (*step)(struct call *call);
	/* The reply to the request of call_send(), or err < 0 with err_text() and none.  -EPROTO:
	 * the reply breaks the protocol. */
	int (*answered)(struct call *call, int err, const struct wire_msg *reply);
	/* The other hooks may be NULL. */
	/* The call ends while its request, call->sent, is not answered: connection_abandon().
	 * NULL: what the answer grants needs no care. */
	void (*leave)(struct call *call);
	/* The call ends in `result`; returns what the program is told.  A lease that ends with the
	 * call is freed, and call->lease set to NULL. */
	int (*end)(struct call *call, int result);
	/* Put what was called before the text of an error, and set answer.reason; returns `err`. */
	int (*describe)(struct call *call, int err);
	/* Nobody takes the answer: give back answer.object. */
	void (*undo)(struct call *call);
	/* The call is freed. */
	void (*release)(struct call *call);
};

/* The calls on one lease; the first one is under way. */
struct call_line {
	struct list calls;
	bool going;
};

struct call {
	const struct call_kind *kind;
	struct rmem *session;     /* NULL: none, or the answer has no object of one */
	struct rmem_lease *lease; /* NULL: the call is on none */
	struct call_line *line;   /* NULL: the call waits for no other */
	struct call_sink *sink;   /* NULL: see `waited` */
	struct list node;       /* in `begun` or `ended` of the sink, under its lock */
	struct list owner_node; /* for the owner of the sink alone, as is `seen` */
	unsigned seen;
	/* where the thread that drives the session finds it, under the sink's lock; NULL: the
	 * sink's owner does not drive it */
	struct rmem **driver;
	struct list session_node; /* in session->calls */
	struct list line_node;
	struct tree_node due_node; /* in session->calls_due */
	bool due;                  /* it is there */
	bool waited;               /* a thread waits for it, and frees it */
	bool stepped;              /* it has begun, see `line` */
	bool done;
	uint64_t begin_ns, end_ns;
	uint64_t left_ns; /* time for the parts that are to come; 0: there are none */
	enum wire_type asked;         /* of the last request */
	struct connection_call *sent; /* request without an answer; NULL: none */
	struct err_kept pause;        /* why it waits before the next attempt */
	struct err_kept refused;      /* an argument was wrong: the answer */
	struct err_kept failed;       /* the answer's text, and status */
	struct rmem_stat *stats;      /* those of the answer; NULL: none */
	struct rmem_answer answer;
};

/* Make a call of the arguments; the texts are copied.  [any], without the lock.  -ENOMEM */
typedef int call_create(const struct rmem_request *request, struct call **ret_call);

/* Set the members of a call whose others are zero.  `err`, with err_text(): an argument is wrong,
 * which becomes the answer.  [any], without the lock. */
void call_init(struct call *call, const struct call_kind *kind, struct rmem *session,
	       const struct rmem_request *request, int err);
/* Free one that no list has, or what it has on the heap. */
void call_free(struct call *call);
void call_clear(struct call *call);
void call_line_init(struct call_line *line);
/* The lease is about to be freed: its calls end in -ESTALE. */
void call_line_end(struct call_line *line);
/* The first call of the line may go on, which waited for something else than a reply. */
void call_line_go(struct call_line *line);

/* When the call that begins now, or its next part, times out. */
static inline uint64_t call_end_ns(const struct call *call)
{
	return call->left_ns ? clock_now_ns() + call->left_ns : call->end_ns;
}

/* Send a request; returns CALL_GOES_ON, or -errno with text. */
int call_send(struct call *call, const struct wire_msg *request);
/* Wait before the next step, for ms, or until call_line_go(); at the call's time-out it ends in
 * `err`, with err_text().  Returns CALL_GOES_ON. */
int call_await(struct call *call, int err);
int call_pause(struct call *call, unsigned ms, int err);

/* Begin a call, which was not refused, or its next part; it may end at once. */
void call_begin(struct call *call);
/* Answer a call with call->refused.  [any], without the lock. */
void call_refuse(struct call *call);
/* End a call, with err_text() if that is an error; not one whose request is answered. */
void call_end(struct call *call, int result);
/* Nobody takes the answer of a call, which has ended: give back what it has granted, and free it.
 * Under the lock of its session, if it has one. */
void call_drop(struct call *call);
/* Begin a call, and wait for its end.  Returns the result, with the text of an error.  The call is
 * freed by the caller.  [any], without the lock.
 *   cancelled  NULL, or the wait lasts only while the session is not lost and this is false; a
 *              thread that sets it also signals `changed`: -ECONNRESET */
int call_run(struct call *call, const atomic_bool *cancelled);
/* Create a call, call_run(), and free the call.  ret_answer may be NULL.  [any], without the
 * lock. */
int call_make(call_create *create, const struct rmem_request *request,
	      struct rmem_answer *ret_answer);

/* Ends the calls whose time is over, and goes on with those that have paused. */
extern const struct session_observer call_observer;
/* When the first one is due. */
uint64_t calls_due(const struct rmem *session);
/* The session is about to be closed: its calls end in -ECANCELED, and no answer has an object of it
 * any more. */
void calls_end(struct rmem *session);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* A queue: the owner's thread cuts operations into fragments, posts them to channels and
 * takes completions, without a lock.  The session's driver replaces channels and tells of
 * it, and of leases, through `news`. */
#ifndef LIBRMEM_QUEUE_QUEUE_H
#define LIBRMEM_QUEUE_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>

#include <rmem/rmem.h>

#include "base/clock.h"
#include "base/list.h"
#include "librmem/queue/bounce.h"
#include "librmem/queue/channel_set.h"
#include "librmem/queue/op.h"
#include "librmem/session/session.h"
#include "librmem/lease/inflight.h"

#define QUEUE_TEXT_BYTES 320
/* Completions that are taken from a cq at a time. */
#define QUEUE_WCS 32

struct rmem_queue {
	/* constant */
	struct rmem *session;
	const struct fabric_client_ops *ops;
	unsigned n_cqs;
	/* by domain; NULL while that is away.  Changed by the owner under the session's
	 * lock */
	struct fabric_cq *cqs[WIRE_ENDPOINTS_MAX];
	/* local fragments of memory in one request, on every domain */
	unsigned read_slices, write_slices;
	uint64_t share_max;  /* bytes of an operation that goes uncut, at most */
	uint64_t timeout_ns; /* of operations that name none */
	unsigned endpoints;  /* that its channels lead to, a bit each */
	/* what pings are of; NULL: there was none yet.  The owner's */
	struct rmem_lease *nowhere;
	int epfd;    /* what rmem_queue_fd() gives: the cqs and the next two */
	int wake_fd; /* there is news */
	int timer_fd; /* an operation's time is over; set by rmem_queue_arm(), -1 before */

	/* the owner's */
	struct optable table;
	struct channel_set channels;
	struct bounce bounce;
	unsigned active;           /* started, not complete */
	bool carry_fence;          /* the next one submitted waits for all before it */
	uint64_t next_deadline_ns; /* not later than the first */
	uint64_t now_ns;           /* of the call under way; 0: not read yet */
	char error[QUEUE_TEXT_BYTES];
	struct fabric_wc wcs[QUEUE_WCS]; /* those taken last */

	_Atomic bool
		woken; /* look at the channels and leases, under the lock.  [any] */

	/* under the session's lock */
	struct list node;

	/* the owner's, but for what inflight.h tells */
	struct inflights inflights;
};

/* A queue without channels, not known to the session yet.  -ENOMEM, -EMFILE or what the
 * fabric gave. */
int queue_new(struct rmem *session, const struct rmem_queue_params *params,
	      struct rmem_queue **ret_queue);
/* Connect all its channels and make it known; blocks. */
int queue_connect(struct rmem_queue *queue);
/* See that it has a timer.  -EMFILE ... with text.  [owner] */
int queue_timer(struct rmem_queue *queue);
/* How many of its channels are in a domain.  [owner] */
unsigned queue_share(const struct rmem_queue *queue, unsigned domain);
/* A completion queue of it in a domain that is held for it.  [owner] */
int queue_cq_create(struct rmem_queue *queue, unsigned domain,
		    struct fabric_cq **ret_cq);
/* End it, without the lock.  NULL: nothing. */
void queue_drop(struct rmem_queue *queue);

/* The time of the call under way.  [owner] */
static inline uint64_t queue_now_ns(struct rmem_queue *queue)
{
	if (queue->now_ns == 0)
		queue->now_ns = clock_now_ns();
	return queue->now_ns;
}

/* The time of an operation that asks for so much, 0: for none.  [any] */
static inline uint64_t queue_timeout_ns(const struct rmem_queue *queue,
					unsigned timeout_ms)
{
	return timeout_ms ? timeout_ms * UINT64_C(1000000) : queue->timeout_ns;
}

/* The end of the time of an operation that starts now, in the call under way.  [owner] */
static inline uint64_t queue_deadline_ns(struct rmem_queue *queue, unsigned timeout_ms)
{
	uint64_t deadline_ns = queue->now_ns + queue_timeout_ns(queue, timeout_ms);

	if (deadline_ns < queue->next_deadline_ns)
		queue->next_deadline_ns = deadline_ns;
	return deadline_ns;
}

/* All of an operation passes through the bounce buffer; what of a vectored one does is seen
 * as it is cut.  [owner] */
static inline bool queue_bounces(const struct rmem_queue *queue, const struct op *op)
{
	return queue->ops->needs_local_mr && !op->todo.buffer &&
	       !opcode_is_vectored(op->todo.opcode) &&
	       !opcode_is_remote(op->todo.opcode);
}

/* A fragment leaves the chunk that it has, if any, to others.  [owner] */
static inline void queue_unbounce(struct rmem_queue *queue, struct fragment *fragment)
{
	if (fragment->chunk)
		bounce_give(&queue->bounce, fragment->chunk);
	fragment->chunk = NULL;
}

/* How many operations were submitted and are not taken.  [owner] */
static inline unsigned queue_outstanding(const struct rmem_queue *queue)
{
	return queue->table.n_ops - queue->table.n_free;
}

/* Tell the owner that there is news.  Under the lock. */
void queue_wake(struct rmem_queue *queue);
void queues_wake(struct rmem *session);

/* For session->observers: channels, leases, queues. */
extern const struct session_observer *const session_layers[];

#endif

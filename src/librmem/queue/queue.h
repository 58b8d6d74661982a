/* SPDX-License-Identifier: BSD-3-Clause */
/* A queue: the owner's thread cuts operations into fragments, posts fragments to channels and
 * processes completions, without a lock.  The thread that drives the session connects the channels
 * again, and sets `woken` when a channel or a lease has changed. */
#ifndef LIBRMEM_QUEUE_QUEUE_H
#define LIBRMEM_QUEUE_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>

#include <rmem/rmem.h>

#include "base/clock.h"
#include "base/error_texts.h"
#include "base/list.h"
#include "base/spin.h"
#include "librmem/queue/bounce.h"
#include "librmem/queue/channel_set.h"
#include "librmem/queue/op.h"
#include "librmem/session/session.h"
#include "librmem/lease/inflight.h"

/* Limit of completions polled from a cq at a time. */
#define QUEUE_WCS 32

struct rmem_queue {
	/* constant */
	struct rmem *session;
	const struct fabric_client_ops *ops;
	unsigned n_cqs;
	/* by domain; NULL while the domain is away.  Changed by the owner under the session's
	 * lock */
	struct fabric_cq *cqs[WIRE_ENDPOINTS_MAX];
	/* limits of local slices in one request, on every domain */
	unsigned read_slices, write_slices;
	uint64_t share_max; /* limit of bytes of an uncut operation */
	/* the server's limits, or lower ones of the library: bytes of a read or write, of an
	 * in-band request's range, and in-band requests of a channel */
	uint64_t bytes_max, inband_bytes_max, inband_requests_max;
	uint64_t timeout_ns; /* default of operations */
	/* placeholder lease that pings refer to; NULL: none yet.  The owner's */
	struct rmem_lease *nowhere;
	/* its set, with those of the cqs and the timer, is returned by rmem_queue_fd(); set when
	 * `woken` is */
	struct wakeup wake;
	int timer_fd; /* the next deadline; set by rmem_queue_arm(), -1 before */

	/* used by the owner */
	struct optable table;
	struct channel_set channels;
	struct bounce bounce;
	unsigned active;           /* number of operations started, not complete */
	uint64_t sentinels;        /* state of random_next() */
	bool carry_fence;          /* the next operation waits for all before it */
	uint64_t next_deadline_ns; /* when deadlines_handle() is due */
	uint64_t now_ns;           /* the time in this call; 0: not read yet */
	struct error_texts errors;
	struct spin spin;
	struct fabric_wc wcs[QUEUE_WCS]; /* the completions polled last */

	_Atomic bool woken; /* schedule_events() is due.  [any] */

	/* under the session's lock */
	struct list node;

	/* the owner's, except as inflight.h states */
	struct inflights inflights;
};

/* Create a queue whose channels are not connected, and lead to the domains in the bit mask
 * `avoided` last.  -ENOMEM, -EMFILE or the fabric's error. */
int queue_new(struct rmem *session, const struct rmem_queue_params *params,
	      unsigned avoided, struct rmem_queue **ret_queue);
/* Add the queue to the session's queues and connect all its channels; blocks until end_ns at most.
 * With `may_wait` a channel whose device is away is connected later. */
int queue_connect(struct rmem_queue *queue, uint64_t end_ns, bool may_wait);
/* Create timer_fd if there is none.  -EMFILE ... with text.  [owner] */
int queue_timer(struct rmem_queue *queue);
/* Release completion queue and memory regions in domains that are to be closed, and create them in
 * domains that are open again.  [owner], without the lock */
void queue_domains_follow(struct rmem_queue *queue);
/* Free the queue, without the lock.  NULL: nothing. */
void queue_drop(struct rmem_queue *queue);

/* The time, read once in each call.  [owner] */
static inline uint64_t queue_now_ns(struct rmem_queue *queue)
{
	if (queue->now_ns == 0)
		queue->now_ns = clock_now_ns();
	return queue->now_ns;
}

/* The time-out of an operation; timeout_ms 0: the default.  [any] */
static inline uint64_t queue_timeout_ns(const struct rmem_queue *queue,
					unsigned timeout_ms)
{
	return timeout_ms ? timeout_ms * UINT64_C(1000000) : queue->timeout_ns;
}

/* A time-out counts from the last progress, which costs too much to note at each completion: the
 * queue looks for it four times in each time-out. */
static inline uint64_t queue_look_ns(uint64_t now_ns, uint64_t timeout_ns)
{
	return now_ns + timeout_ns / 4;
}

/* The deadline of an operation submitted in this call, if nothing moves.  [owner] */
static inline uint64_t queue_deadline_ns(struct rmem_queue *queue, unsigned timeout_ms)
{
	uint64_t timeout_ns = queue_timeout_ns(queue, timeout_ms);
	uint64_t look_ns = queue_look_ns(queue->now_ns, timeout_ns);

	if (look_ns < queue->next_deadline_ns)
		queue->next_deadline_ns = look_ns;
	return queue->now_ns + timeout_ns;
}

/* The operation, or what it waits for, has moved: its time-out starts again.  [owner] */
static inline void op_moved(const struct rmem_queue *queue, struct op *op,
			    uint64_t moved_ns)
{
	uint64_t deadline_ns = moved_ns + queue_timeout_ns(queue, op->todo.timeout_ms);

	if (!(op->todo.flags & RMEM_OP_DEADLINE) && deadline_ns > op->deadline_ns)
		op->deadline_ns = deadline_ns;
}

/* All of the operation passes through the bounce buffer.  For a vectored operation, vec_span()
 * decides for each fragment.  [owner] */
static inline bool queue_bounces(const struct rmem_queue *queue, const struct op *op)
{
	return !op->todo.buffer && !opcode_is_vectored(op->todo.opcode) &&
	       !opcode_is_remote(op->todo.opcode) &&
	       op->todo.bytes >
		       queue->channels.direct_max[op_kinds[op->todo.opcode].carried];
}

/* Return the fragment's chunk, if any.  [owner] */
static inline void queue_unbounce(struct rmem_queue *queue, struct fragment *fragment)
{
	if (fragment->chunk)
		bounce_release(&queue->bounce, fragment->chunk);
	fragment->chunk = NULL;
}

/* Number of operations submitted whose completions were not taken.  [owner] */
static inline unsigned queue_outstanding(const struct rmem_queue *queue)
{
	return queue->table.n_ops - queue->table.n_free;
}

/* Make the owner look at channels and leases.  Under the lock. */
void queue_wake(struct rmem_queue *queue);
void queues_wake(struct rmem *session);

extern const struct session_observer queue_observer;

#endif

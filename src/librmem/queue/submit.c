/* SPDX-License-Identifier: BSD-3-Clause */
/* Submitting.  Operations that have to wait for nothing are posted at once: one alone as alone.h
 * has it, several in a burst.  Everything else, and whatever goes wrong, is for schedule.h.
 * [owner of the queue] */
#include <rmem/rmem.h>

#include <errno.h>
#include <inttypes.h>

#include "base/err.h"
#include "base/rare.h"
#include "librmem/lease/buffer.h"
#include "librmem/queue/alone.h"
#include "librmem/queue/schedule.h"
#include "librmem/lease/lease.h"
#include "librmem/queue/queue.h"
#include "librmem/session/session.h"
#include "librmem/queue/validate.h"

/* ---- several ---- */

/* Operations that have to wait for nothing: each is one fragment of registered memory, and what a
 * run of them has in common is looked at once. */
struct burst {
	struct rmem_queue *queue;
	bool open; /* nothing has to wait */
	/* of the run under way */
	const struct rmem_op *first;
	struct inflight *inflight;
	const struct attachment *att;
	uint64_t deadline_ns;
	uintptr_t local_base;
	uint64_t local_bytes;
	uint64_t max_bytes; /* of one operation; not more than lease or buffer have */
	/* the channel that the operations go to; NULL: none is chosen */
	struct send_side *side;
	unsigned room;        /* operations that it takes still, */
	uint64_t share_bytes; /* each of so many bytes at most */
	struct fabric_batch run;
};

/* Begin, in a call of rmem_submit(). */
static void burst_start(struct burst *burst, struct rmem_queue *queue)
{
	/* the rest is set for each run */
	burst->queue = queue;
	burst->side = NULL;
	burst->open = !queue->carry_fence && list_empty(&queue->table.pending) &&
		      list_empty(&queue->table.plain->node) &&
		      session_usable(queue->session, queue->now_ns) == 0;
}

/* Post what was taken in. */
static void burst_end(struct burst *burst)
{
	if (!burst->side)
		return;
	schedule_post(burst->queue, burst->side);
	burst->side = NULL;
}

/* The keys of the run's lease and buffer there.  False: the lease has none. */
static bool channel_keys(struct burst *burst)
{
	const struct send_side *side = burst->side;
	const struct attachment_key *key = &burst->att->keys[0][side->endpoint];
	const struct rmem_buffer *buffer = burst->first->buffer;

	burst->run.remote_addr = key->at.addr;
	burst->run.rkey = key->at.rkey;
	burst->run.region = buffer ? buffer->mrs[side->domain] : NULL;
	return key->present;
}

/* How many operations go to the channel before it is another one's turn, when none is larger
 * than this one, or than a small one. */
static void channel_share(struct burst *burst, uint64_t bytes)
{
	const uint64_t small = CHANNEL_SHARE_BYTES / CHANNEL_SHARE;

	if (burst->queue->channels.n == 1) {
		burst->share_bytes = UINT64_MAX;
		burst->room = burst->queue->channels.depth;
		return;
	}
	burst->share_bytes = bytes > small ? bytes : small;
	burst->room = (unsigned)(CHANNEL_SHARE_BYTES / burst->share_bytes);
}

/* Take the next channel, for an operation of so many bytes, and others.  False: all are
 * full, or the lease has no keys for them. */
static bool channel_enter(struct burst *burst, uint64_t bytes)
{
	struct rmem_queue *queue = burst->queue;

	if (bytes > burst->max_bytes ||
	    channel_set_pick(&queue->channels, ENDPOINTS_ALL, burst->att, 0,
			     &burst->side) != PICK_OK)
		return false;
	channel_share(burst, bytes);
	return channel_keys(burst);
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* What no operation of the run may exceed. */
static void run_limits(struct burst *burst)
{
	const struct rmem_buffer *buffer = burst->first->buffer;

	/* unregistered memory is anywhere but at NULL */
	burst->local_base = buffer ? (uintptr_t)buffer->addr : 1;
	burst->local_bytes = buffer ? buffer->bytes : UINTPTR_MAX;
	burst->max_bytes = lesser(burst->queue->share_max,
				  lesser(burst->att->bytes, burst->local_bytes));
}

/* False: these operations are not for a burst. */
static bool run_start(struct burst *burst, const struct rmem_op *first)
{
	const struct rmem_lease *lease = first->lease;

	burst->first = first;
	burst->run.opcode = first->opcode == RMEM_OP_READ ? FABRIC_READ : FABRIC_WRITE;
	burst->att = atomic_load_explicit(&lease->attachment, memory_order_acquire);
	run_limits(burst);
	burst->deadline_ns = queue_deadline_ns(burst->queue, first->timeout_ms);
	if (burst->side && !channel_keys(burst))
		burst_end(burst);
	return first->opcode <= RMEM_OP_WRITE && first->flags == 0 &&
	       validate_lease(lease, burst->att, first->opcode) &&
	       (first->buffer || !burst->queue->ops->needs_local_mr);
}

static bool ops_agree(const struct rmem_op *a, const struct rmem_op *b)
{
	return a->lease == b->lease && a->buffer == b->buffer &&
	       a->opcode == b->opcode && a->flags == b->flags &&
	       a->timeout_ms == b->timeout_ms;
}

/* How many of n operations go with the first of the run: they agree with it, lie in its
 * lease and its buffer, and need no cutting.  Not inlined: it wants all registers for
 * itself. */
static __attribute__((noinline)) unsigned
ops_check(const struct burst *burst, const struct rmem_op *ops, unsigned n)
{
	const struct rmem_op first = *burst->first;
	uint64_t lease_bytes = burst->att->bytes;
	uint64_t max = lesser(burst->max_bytes, burst->share_bytes);
	/* where the buffer is the smaller one this wraps, and so does the sum below */
	uint64_t more = burst->local_bytes - lease_bytes;
	uintptr_t local_base = burst->local_base;
	const struct rmem_op *op = ops, *end = ops + n;

	for (; op < end; op++) {
		/* max is not more than either length */
		uint64_t last = lease_bytes - op->bytes;

		if (!ops_agree(op, &first) || op->bytes - 1 >= max ||
		    op->offset > last || (uintptr_t)op->addr - local_base > last + more)
			break;
	}
	return (unsigned)(op - ops);
}

/* Take so many free operations, which become these, and list their own fragments. */
static void ops_launch(const struct burst *burst, const struct rmem_op *ops, unsigned n,
		       struct fragment **fragments)
{
	struct rmem_queue *queue = burst->queue;
	struct op **free = &queue->table.free[queue->table.n_free];
	const struct attachment *att = burst->att;
	uint64_t deadline_ns = burst->deadline_ns;
	struct inflight *inflight = burst->inflight;

	for (unsigned i = 0; i < n; i++) {
		struct op *op = *--free;

		op_launch(op, &ops[i], inflight, att, deadline_ns);
		fragments[i] = &op->own;
	}
	queue->table.n_free -= n;
	queue->active += n;
}

/* Put operations of the run into the channel, n at most; returns how many. */
static unsigned channel_fill(struct burst *burst, const struct rmem_op *ops, unsigned n)
{
	struct rmem_queue *queue = burst->queue;
	struct send_side *side = burst->side;
	struct fragment **fragments;

	if (n > burst->room)
		n = burst->room;
	fragments = channel_set_end(&queue->channels, side, &n);
	n = ops_check(burst, ops, n);
	n = queue->ops->prepare(side->fabric, &burst->run, op_part(ops), sizeof(*ops),
				n);
	ops_launch(burst, ops, n, fragments);
	side->in_flight += n;
	side->n_put += n;
	burst->room -= n;
	if (burst->room == 0 || side->in_flight == queue->channels.depth)
		burst_end(burst);
	return n;
}

/* Take in operations that agree with the first, as long as they can go at once; returns how
 * many did.  Once one has to wait, all that come later do, too. */
static unsigned burst_add(struct burst *burst, const struct rmem_op *ops, unsigned n)
{
	unsigned total = 0, got;

	if (!burst->open)
		return 0;
	/* before the lease is looked at: who frees it must see that it is in use */
	burst->inflight =
		inflight_begin(&burst->queue->inflights, ops->lease, ops->buffer, n);
	burst->open = run_start(burst, ops);
	while (burst->open && total < n) {
		if (!burst->side && !channel_enter(burst, ops[total].bytes))
			break;
		got = channel_fill(burst, ops + total, n - total);
		total += got;
		/* one that is too large for this share begins another */
		if (got == 0 && ops[total].bytes > burst->share_bytes)
			burst_end(burst);
		else if (got == 0)
			break;
	}
	if (total < n)
		inflight_end(burst->inflight, ops->lease, ops->buffer, n - total);
	burst->open = total > 0;
	return total;
}

/* As rmem_submit(), whose call it is. */
static __attribute__((noinline)) int submit(struct rmem_queue *queue,
					    const struct rmem_op *ops, unsigned n)
{
	unsigned room = queue->table.n_free, accepted = 0, taken;
	struct burst burst;
	int err = 0;

	burst_start(&burst, queue);
	if (room > n)
		room = n;
	while (accepted < room) {
		err = validate_form(queue, &ops[accepted]);
		if (err) {
			if (err < 0)
				break;
			burst.open = false;
		}
		taken = burst_add(&burst, &ops[accepted], room - accepted);
		if (taken == 0) {
			schedule_add(queue, &ops[accepted], queue->now_ns);
			taken = 1;
		}
		accepted += taken;
	}
	burst_end(&burst);
	if (schedule_waits(queue))
		schedule_pump(queue, queue->now_ns);
	if (accepted > 0 || n == 0)
		return (int)accepted;
	return err < 0 ? err
		       : err_set(-EOVERFLOW,
				 "rmem_submit: %u operations are outstanding, as many "
				 "as "
				 "the queue holds",
				 queue->table.n_ops);
}

bool alone_seek(struct rmem_queue *queue, const struct rmem_op *todo,
		struct inflight *inflight, const struct rmem_buffer *buffer,
		const struct attachment *att)
{
	struct send_side *side;

	return channel_set_pick(&queue->channels, ENDPOINTS_ALL, att, 0, &side) ==
		       PICK_OK &&
	       alone_put(queue, todo, inflight, buffer, att, side,
			 &att->keys[0][side->endpoint].at);
}

int rmem_submit(rmem_queue *queue, const struct rmem_op *ops, unsigned n)
{
	alone_begin(queue);
	return n == 1 && alone_submit(queue, ops) ? 1 : submit(queue, ops, n);
}

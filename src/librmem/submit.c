/* SPDX-License-Identifier: BSD-3-Clause */
/* Submitting.  Operations that have to wait for nothing are posted at once, in a burst: each
 * is one piece of registered memory, and what a run of them has in common is looked at once.
 * Everything else, and whatever goes wrong, is for flow.h.  [owner of the queue] */
#include <rmem/rmem.h>

#include <errno.h>
#include <inttypes.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/rare.h"
#include "librmem/buffer.h"
#include "librmem/flow.h"
#include "librmem/inband.h"
#include "librmem/lease.h"
#include "librmem/pending.h"
#include "librmem/queue.h"
#include "librmem/session.h"
#include "librmem/settle.h"

#define NS_PER_MS UINT64_C(1000000)

struct burst {
	struct rmem_queue *queue;
	bool open; /* nothing has to wait */
	/* of the run under way */
	const struct rmem_op *first;
	const struct attachment *att;
	uint64_t deadline_ns;
	uintptr_t local_base;
	uint64_t local_bytes;
	uint64_t max_bytes; /* of one operation; not more than lease or buffer have */
	/* the channel that the operations go to; NULL: none is chosen */
	struct channel_slot *slot;
	unsigned room;        /* operations that it takes still, */
	uint64_t share_bytes; /* each of so many bytes at most */
	struct fabric_run run;
};

static void burst_start(struct burst *burst, struct rmem_queue *queue)
{
	/* the rest is set for each run */
	burst->queue = queue;
	burst->slot = NULL;
	burst->open = !queue->carry_fence && list_empty(&queue->table.pending) &&
		      list_empty(&queue->table.lanes[LANE_PLAIN].node) &&
		      session_usable(queue->session, queue->now_ns) == 0;
}

/* ---- channels ---- */

static void slot_leave(struct burst *burst)
{
	if (!burst->slot)
		return;
	flow_post(burst->queue, burst->slot);
	burst->slot = NULL;
}

/* The keys of the run's lease and buffer there.  False: the lease has none. */
static bool slot_keys(struct burst *burst)
{
	const struct channel_slot *slot = burst->slot;
	const struct attachment_key *key = &burst->att->keys[0][slot->endpoint];
	const struct rmem_buffer *buffer = burst->first->buffer;

	burst->run.remote_addr = key->addr;
	burst->run.rkey = key->rkey;
	burst->run.region = buffer ? buffer->regions[slot->domain] : NULL;
	return key->present;
}

/* How many operations go to the channel before it is another one's turn, when none is larger
 * than this one, or than a small one. */
static void slot_share(struct burst *burst, uint64_t bytes)
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
static bool slot_enter(struct burst *burst, uint64_t bytes)
{
	struct rmem_queue *queue = burst->queue;

	if (bytes > burst->max_bytes ||
	    channelset_pick(&queue->channels, ENDPOINTS_ALL, burst->att, 0,
			    &burst->slot) != PICK_OK)
		return false;
	slot_share(burst, bytes);
	return slot_keys(burst);
}

/* ---- operations ---- */

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
	burst->max_bytes =
		lesser(lesser(CHANNEL_SHARE_BYTES, burst->queue->ops->max_bytes),
		       lesser(burst->att->bytes, burst->local_bytes));
}

static void run_deadline(struct burst *burst, unsigned timeout_ms)
{
	struct rmem_queue *queue = burst->queue;

	if (timeout_ms == 0)
		timeout_ms = queue->session->timeout_ms;
	burst->deadline_ns = queue->now_ns + timeout_ms * NS_PER_MS;
	if (burst->deadline_ns < queue->next_deadline_ns)
		queue->next_deadline_ns = burst->deadline_ns;
}

/* False: these operations are not for a burst. */
static bool run_start(struct burst *burst, const struct rmem_op *first)
{
	const struct rmem_lease *lease = first->lease;
	unsigned right = first->opcode == RMEM_OP_READ ? RMEM_READ : RMEM_WRITE;

	burst->first = first;
	burst->run.opcode = first->opcode == RMEM_OP_READ ? FABRIC_READ : FABRIC_WRITE;
	burst->att = atomic_load_explicit(&lease->attachment, memory_order_acquire);
	run_limits(burst);
	run_deadline(burst, first->timeout_ms);
	if (burst->slot && !slot_keys(burst))
		slot_leave(burst);
	return first->opcode <= RMEM_OP_WRITE && first->flags == 0 &&
	       burst->att->n_segments == 1 && (lease->rights & right) &&
	       (first->buffer || !burst->queue->ops->needs_region) &&
	       !lease_ended(lease);
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

static void op_launch(struct op *op, const struct rmem_op *todo, uint64_t deadline_ns)
{
	op->todo = *todo;
	op->deadline_ns = deadline_ns;
	op->state = OP_FLYING;
	op->started = true;
	op->fence = false;
	op->whole = true;
	op->pieces = 1;
	op->in_flight = 1;
	op->end = (struct op_end){ 0 };
}

/* Take so many free operations, which become these, and list their own pieces. */
static void ops_launch(const struct burst *burst, const struct rmem_op *ops, unsigned n,
		       struct piece **pieces)
{
	struct rmem_queue *queue = burst->queue;
	struct op **free = &queue->table.free[queue->table.n_free];
	const struct attachment *att = burst->att;
	uint64_t deadline_ns = burst->deadline_ns;

	for (unsigned i = 0; i < n; i++) {
		struct op *op = *--free;

		op_launch(op, &ops[i], deadline_ns);
		op->own.att = att;
		pieces[i] = &op->own;
	}
	queue->table.n_free -= n;
	queue->active += n;
}

/* Put operations of the run into the slot, n at most; returns how many. */
static unsigned slot_fill(struct burst *burst, const struct rmem_op *ops, unsigned n)
{
	struct rmem_queue *queue = burst->queue;
	struct channel_slot *slot = burst->slot;
	struct piece **pieces;

	if (n > burst->room)
		n = burst->room;
	pieces = channelset_end(&queue->channels, slot, &n);
	n = ops_check(burst, ops, n);
	n = queue->ops->put(slot->channel, &burst->run, op_part(ops), sizeof(*ops), n);
	ops_launch(burst, ops, n, pieces);
	slot->in_flight += n;
	slot->n_put += n;
	burst->room -= n;
	if (burst->room == 0 || slot->in_flight == queue->channels.depth)
		slot_leave(burst);
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
	op_count(ops->lease, ops->buffer, n);
	burst->open = run_start(burst, ops);
	while (burst->open && total < n) {
		if (!burst->slot && !slot_enter(burst, ops[total].bytes))
			break;
		got = slot_fill(burst, ops + total, n - total);
		total += got;
		/* one that is too large for this share begins another */
		if (got == 0 && ops[total].bytes > burst->share_bytes)
			slot_leave(burst);
		else if (got == 0)
			break;
	}
	if (total < n)
		op_uncount(ops->lease, ops->buffer, n - total);
	burst->open = total > 0;
	return total;
}

/* ---- all together ---- */

static RARE int atomic_check(const struct rmem_queue *queue, const struct rmem_op *op)
{
	int err;

	if (!op->atomic)
		return err_set(-EINVAL, "rmem_submit: an atomic without its operands");
	err = home_able(queue);
	return err ? err_prefix(err, "rmem_submit: an atomic") : 0;
}

static RARE int list_check(const struct rmem_queue *queue, const struct rmem_op *op)
{
	if (op->n_vec > RMEM_VEC_MAX)
		return err_set(-EINVAL,
			       "rmem_submit: n_vec is %" PRIu64 ", more than %d",
			       op->n_vec, RMEM_VEC_MAX);
	if (op->n_vec > 0 && !op->vec)
		return err_set(-EINVAL, "rmem_submit: vec is NULL");
	if (op->buffer)
		return err_set(-EINVAL, "rmem_submit: the buffers of a vectored "
					"operation are in its list");
	for (unsigned i = 0; i < op->n_vec; i++)
		if (op->vec[i].buffer && op->vec[i].buffer->session != queue->session)
			return err_set(-EINVAL, "rmem_submit: a buffer in the list is "
						"not of this session");
	return 0;
}

static int opcode_check(const struct rmem_queue *queue, const struct rmem_op *op)
{
	if (opcode_is_atomic(op->opcode))
		return atomic_check(queue, op);
	if (opcode_is_vectored(op->opcode))
		return list_check(queue, op);
	if (op->opcode == RMEM_OP_READ || op->opcode == RMEM_OP_WRITE)
		return 0;
	if (opcode_is_inband(op->opcode))
		return inband_able(queue, op);
	return err_set(-EINVAL, "rmem_submit: opcode %d is unknown", (int)op->opcode);
}

/* It has no lease, so it is not for a burst. */
#define OP_ALONE 1

static int lease_wrong(const struct rmem_op *op)
{
	if (!op->lease && op->opcode == RMEM_OP_PING)
		return OP_ALONE;
	return err_set(-EINVAL, "rmem_submit: the lease is not of this session");
}

static int op_check(const struct rmem_queue *queue, const struct rmem_op *op)
{
	int err = opcode_check(queue, op);

	if (err)
		return err;
	if (op->flags & ~RMEM_OP_FENCE)
		return err_set(-EINVAL, "rmem_submit: flags 0x%x are unknown",
			       op->flags);
	if (!op->lease || op->lease->session != queue->session)
		return lease_wrong(op);
	if (op->buffer && op->buffer->session != queue->session)
		return err_set(-EINVAL,
			       "rmem_submit: the buffer is not of this session");
	return 0;
}

int rmem_submit(rmem_queue *queue, const struct rmem_op *ops, unsigned n)
{
	unsigned room = queue->table.n_free, accepted = 0, taken;
	uint64_t now = clock_now_ns();
	struct burst burst;
	int err = 0;

	queue->now_ns = now;
	if (atomic_load_explicit(&queue->news, memory_order_acquire))
		settle_news(queue);
	if (now >= queue->next_deadline_ns)
		settle_deadlines(queue, now);
	burst_start(&burst, queue);
	if (room > n)
		room = n;
	while (accepted < room) {
		err = op_check(queue, &ops[accepted]);
		if (err) {
			if (err < 0)
				break;
			burst.open = false;
		}
		taken = burst_add(&burst, &ops[accepted], room - accepted);
		if (taken == 0) {
			pending_add(queue, &ops[accepted], now);
			taken = 1;
		}
		accepted += taken;
	}
	slot_leave(&burst);
	if (flow_waits(queue))
		flow_pump(queue, now);
	if (accepted > 0 || n == 0)
		return (int)accepted;
	return err < 0 ? err
		       : err_set(-EOVERFLOW,
				 "rmem_submit: %u operations are outstanding, as many "
				 "as "
				 "the queue holds",
				 queue->table.n_ops);
}

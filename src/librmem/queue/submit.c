/* SPDX-License-Identifier: BSD-3-Clause */
/* Submitting.  Operations that have to wait for nothing are posted at once: one alone by a short
 * way of its own, several in a burst.  Everything else, and whatever goes wrong, is for flow.h.
 * [owner of the queue] */
#include <rmem/rmem.h>

#include <errno.h>
#include <inttypes.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/rare.h"
#include "librmem/lease/buffer.h"
#include "librmem/queue/burst.h"
#include "librmem/queue/schedule.h"
#include "librmem/queue/inband.h"
#include "librmem/lease/lease.h"
#include "librmem/queue/pending.h"
#include "librmem/queue/queue.h"
#include "librmem/session/session.h"
#include "librmem/queue/complete.h"

/* ---- what is wrong ---- */

static RARE int atomic_check(const struct rmem_queue *queue, const struct rmem_op *op)
{
	int err;

	if (!op->atomic)
		return err_set(-EINVAL, "rmem_submit: an atomic without its operands");
	err = atomic_device_able(queue);
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

static int opcode_check(struct rmem_queue *queue, const struct rmem_op *op)
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

static int op_check(struct rmem_queue *queue, const struct rmem_op *op)
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

/* ---- several ---- */

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
		err = op_check(queue, &ops[accepted]);
		if (err) {
			if (err < 0)
				break;
			burst.open = false;
		}
		taken = burst_add(&burst, &ops[accepted], room - accepted);
		if (taken == 0) {
			pending_add(queue, &ops[accepted], queue->now_ns);
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

/* ---- one alone ---- */

/* There is room for one more, and nothing waits: whatever did would be outstanding. */
static inline bool single_next(const struct rmem_queue *queue)
{
	return queue->table.n_free == queue->table.n_ops ||
	       (queue->table.n_free > 0 && !schedule_waits(queue));
}

/* It is a plain one, of this session, and nothing else waits. */
static inline bool single_plain(const struct rmem_queue *queue,
				const struct rmem_op *op,
				const struct rmem_lease *lease,
				const struct rmem_buffer *buffer)
{
	const struct rmem *session = queue->session;

	return (op->opcode == RMEM_OP_READ || op->opcode == RMEM_OP_WRITE) &&
	       op->flags == 0 && lease && lease->session == session && buffer &&
	       buffer->session == session && single_next(queue) &&
	       !queue->carry_fence && session_usable(session, queue->now_ns) == 0;
}

/* It is allowed, lies in the lease and in the buffer, and is of one fragment. */
static inline bool single_fits(const struct rmem_queue *queue, const struct rmem_op *op,
			       const struct rmem_lease *lease,
			       const struct rmem_buffer *buffer,
			       const struct attachment *att)
{
	_Static_assert((unsigned)RMEM_OP_READ == RMEM_READ &&
			       (unsigned)RMEM_OP_WRITE == RMEM_WRITE,
		       "each is named as the right that it needs");
	uint64_t bytes = op->bytes;

	return att->n_segments == 1 && (lease->rights & op->opcode) &&
	       !lease_ended(lease) && bytes - 1 < queue->share_max &&
	       bytes <= att->bytes && op->offset <= att->bytes - bytes &&
	       buffer_holds(buffer, op->addr, bytes);
}

static RARE void single_failed(struct rmem_queue *queue, struct send_side *side,
			       int result)
{
	if (result < 0)
		complete_kill(queue, side);
}

/* Post it on a channel that takes it.  False: that one is dead. */
static inline bool single_put(struct rmem_queue *queue, const struct rmem_op *todo,
			      struct inflight *inflight,
			      const struct rmem_buffer *buffer,
			      const struct attachment *att, struct send_side *side,
			      const struct fabric_key *key)
{
	_Static_assert((int)RMEM_OP_READ == FABRIC_READ &&
			       (int)RMEM_OP_WRITE == FABRIC_WRITE,
		       "each is named as what the fabric does");
	struct op *op;
	int result;

	result = queue->ops->post_one(side->fabric, (enum fabric_opcode)todo->opcode,
				      buffer->mrs[side->domain], key, op_part(todo));
	if (result != 1) {
		single_failed(queue, side, result);
		return false;
	}
	op = optable_take(&queue->table);
	op_launch(op, todo, inflight, att, queue_deadline_ns(queue, todo->timeout_ms));
	queue->active++;
	channel_set_put(&queue->channels, side, &op->own);
	return true;
}

/* The one whose turn it is takes nothing now, or leads to where the lease is not lent through:
 * post it on the next that takes it. */
static RARE bool single_seek(struct rmem_queue *queue, const struct rmem_op *todo,
			     struct inflight *inflight,
			     const struct rmem_buffer *buffer,
			     const struct attachment *att)
{
	struct send_side *side;

	return channel_set_pick(&queue->channels, ENDPOINTS_ALL, att, 0, &side) ==
		       PICK_OK &&
	       single_put(queue, todo, inflight, buffer, att, side,
			  &att->keys[0][side->endpoint].at);
}

/* Post it on the channel whose turn it is, or another one.  False: none takes it now, or it is
 * dead. */
static inline bool single_post(struct rmem_queue *queue, const struct rmem_op *todo,
			       struct inflight *inflight,
			       const struct rmem_buffer *buffer,
			       const struct attachment *att)
{
	struct channel_set *set = &queue->channels;
	struct send_side *side = set->next;
	const struct attachment_key *key = &att->keys[0][side->endpoint];

	if (!channel_set_open(set, side) || !key->present)
		return single_seek(queue, todo, inflight, buffer, att);
	(void)channel_set_next(set);
	return single_put(queue, todo, inflight, buffer, att, side, &key->at);
}

/* The short way of an operation that is submitted alone, as a program does that waits for each:
 * check it and post it.  False: nothing is done, and it goes the way of all others, where it
 * may turn out to be wrong. */
static inline bool single_go(struct rmem_queue *queue, const struct rmem_op *op)
{
	struct rmem_lease *lease = op->lease;
	struct rmem_buffer *buffer = op->buffer;
	const struct attachment *att;
	struct inflight *inflight;

	if (!single_plain(queue, op, lease, buffer))
		return false;
	/* before the lease is looked at: who frees it must see that it is in use */
	inflight = inflight_begin(&queue->inflights, lease, buffer, 1);
	att = atomic_load_explicit(&lease->attachment, memory_order_acquire);
	if (single_fits(queue, op, lease, buffer, att) &&
	    single_post(queue, op, inflight, buffer, att))
		return true;
	inflight_end(inflight, lease, buffer, 1);
	return false;
}

int rmem_submit(rmem_queue *queue, const struct rmem_op *ops, unsigned n)
{
	uint64_t now = clock_now_ns();

	queue->now_ns = now;
	if (atomic_load_explicit(&queue->woken, memory_order_acquire))
		complete_news(queue);
	if (now >= queue->next_deadline_ns)
		complete_deadlines(queue, now);
	if (n == 1 && single_go(queue, ops))
		return 1;
	return submit(queue, ops, n);
}

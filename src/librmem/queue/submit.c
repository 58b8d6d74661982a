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

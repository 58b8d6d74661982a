/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/queue/pending.h"

#include <errno.h>

#include "librmem/lease/buffer.h"
#include "librmem/lease/atomic_device.h"
#include "librmem/queue/inband.h"
#include "librmem/lease/lease.h"
#include "librmem/session/session.h"
#include "librmem/queue/complete.h"
#include "librmem/queue/vec.h"

/* Shares of a large operation are cut at multiples of a page. */
#define STRIPE_ALIGN UINT64_C(4096)

void pending_add(struct rmem_queue *queue, const struct rmem_op *todo, uint64_t now_ns)
{
	struct op *op = optable_take(&queue->table);

	*op = (struct op){
		.own = { .op = op },
		.todo = *todo,
		.state = OP_PENDING,
		.fence = (todo->flags & RMEM_OP_FENCE) != 0 || queue->carry_fence,
		.deadline_ns = now_ns + queue_timeout_ns(queue, todo->timeout_ms),
		.end = { .left = todo->bytes },
	};
	if (opcode_is_atomic(todo->opcode))
		op->atomic = (struct fabric_atomic){
			.compare = todo->atomic->compare,
			.operand = todo->atomic->operand,
		};
	if (opcode_is_vectored(todo->opcode))
		vec_take(op, todo);
	if (opcode_is_inband(todo->opcode))
		inband_take(queue, op, todo);
	/* operands need not last longer than the call */
	op->todo.atomic = NULL;
	list_init(&op->own.node);
	op->inflight =
		inflight_begin(&queue->inflights, op->todo.lease, op->todo.buffer, 1);
	queue->carry_fence = false;
	list_append(&queue->table.pending, &op->node);
	if (op->deadline_ns < queue->next_deadline_ns)
		queue->next_deadline_ns = op->deadline_ns;
}

/* ---- starting ---- */

/* It lies in the lease. */
static int atomic_check(const struct rmem_op *todo, const struct attachment *att,
			const char **ret_why)
{
	if (todo->bytes != FABRIC_ATOMIC_BYTES) {
		*ret_why = "an atomic is of 8 bytes";
		return -EINVAL;
	}
	if (todo->offset % FABRIC_ATOMIC_BYTES) {
		*ret_why = "its offset is not a multiple of 8";
		return -EINVAL;
	}
	if (att->ends[attachment_segment(att, todo->offset)] - todo->offset <
	    FABRIC_ATOMIC_BYTES) {
		*ret_why = "it lies in two segments of the lease";
		return -EINVAL;
	}
	return 0;
}

/* 0, or why the operation cannot be started, for its own fault. */
static int op_check(const struct op *op, const char **ret_why)
{
	const struct rmem_op *todo = &op->todo;
	const struct attachment *att =
		atomic_load_explicit(&todo->lease->attachment, memory_order_acquire);
	int err;

	if (lease_ended(todo->lease)) {
		*ret_why = "the lease has ended";
		return -ESTALE;
	}
	if (todo->offset > att->bytes || todo->bytes > att->bytes - todo->offset) {
		*ret_why = "it goes beyond the lease";
		return -EINVAL;
	}
	if (op_kinds[todo->opcode].rights & ~todo->lease->rights) {
		*ret_why = "the lease is not attached with that right";
		return -EACCES;
	}
	if (opcode_is_vectored(todo->opcode))
		return vec_check(op, ret_why);
	if (opcode_is_inband(todo->opcode)) {
		err = inband_check(op, ret_why);
		if (err || opcode_is_remote(todo->opcode))
			return err;
	}
	if (todo->bytes > 0 && !todo->addr) {
		*ret_why = "its local memory is NULL";
		return -EINVAL;
	}
	if (todo->buffer && !buffer_holds(todo->buffer, todo->addr, todo->bytes)) {
		*ret_why = "its local memory lies outside of its buffer";
		return -EINVAL;
	}
	return opcode_is_atomic(todo->opcode) ? atomic_check(todo, att, ret_why) : 0;
}

/* Cut so that all channels carry a large operation. */
static uint64_t stripe_bytes(const struct rmem_queue *queue, uint64_t bytes)
{
	uint64_t stripe;

	if (queue->channels.n == 1)
		return UINT64_MAX;
	stripe = bytes / queue->channels.n;
	stripe += STRIPE_ALIGN - stripe % STRIPE_ALIGN;
	return stripe < CHANNEL_SHARE_BYTES ? CHANNEL_SHARE_BYTES : stripe;
}

/* Memory for what is about to bounce, at the first time. */
static int bounce_ready(struct rmem_queue *queue, const struct op *op,
			const char **ret_why)
{
	int err;

	if (queue->bounce.memory || !queue->ops->needs_local_mr ||
	    !(queue_bounces(queue, op) || vec_unregistered(op)))
		return 0;
	err = bounce_create(&queue->bounce);
	if (err == -ENOMEM)
		*ret_why = "no memory for a bounce buffer, or RLIMIT_MEMLOCK is too "
			   "low (ulimit -l)";
	else if (err)
		*ret_why = "a bounce buffer could not be registered";
	return err;
}

/* False: it ended here. */
static bool op_start(struct rmem_queue *queue, struct op *op)
{
	const char *why = NULL;
	int err = op_check(op, &why);

	if (!err && op->todo.bytes > 0)
		err = bounce_ready(queue, op, &why);
	if (err || (op->todo.bytes == 0 && !opcode_is_inband(op->todo.opcode))) {
		op->end.why = why;
		complete_done(queue, op, err);
		return false;
	}
	op->started = true;
	queue->active++;
	op->fragment_max = stripe_bytes(queue, op->todo.bytes);
	if (op->fragment_max > queue->ops->max_bytes &&
	    !opcode_is_remote(op->todo.opcode))
		op->fragment_max = queue->ops->max_bytes;
	if (opcode_is_inband(op->todo.opcode))
		inband_start(queue, op);
	if (op->todo.bytes == 0) {
		complete_nothing(queue, op);
		return false;
	}
	if (queue_bounces(queue, op) && op->fragment_max > queue->bounce.chunk_bytes)
		op->fragment_max = queue->bounce.chunk_bytes;
	return true;
}

/* ---- wait_lists ---- */

/* The list of an atomic.  Not 0: it ended here. */
static int atomic_wait_list(struct rmem_queue *queue, struct op *op,
			    struct wait_list **ret_wait_list)
{
	const char *why;
	int err = atomic_device_find(queue, op->todo.lease, op_reach(op, 0),
				     &op->endpoints, &why);

	if (err && err != -EAGAIN) {
		complete_error(queue, op, err, why, 0);
		complete_check(queue, op);
		return err;
	}
	*ret_wait_list =
		optable_wait_list(&queue->table, WAIT_ATOMIC, err ? 0 : op->endpoints);
	return 0;
}

/* It was started. */
static void op_enter(struct rmem_queue *queue, struct op *op)
{
	struct wait_list *list;

	if (!opcode_is_atomic(op->todo.opcode))
		list = op_wait_list(&queue->table, op, op->todo.bytes - op->end.left,
				    opcode_is_remote(op->todo.opcode) ? WAIT_REQUEST
								      : WAIT_PLAIN);
	else if (atomic_wait_list(queue, op, &list))
		return;
	op_wait(&queue->table, op, list);
}

void pending_start(struct rmem_queue *queue)
{
	struct op *op;

	while ((op = list_first(&queue->table.pending, struct op, node))) {
		if (op->fence && !op->started && queue->active > 0)
			return;
		if (op->started || op_start(queue, op))
			op_enter(queue, op);
	}
}

void pending_homes(struct rmem_queue *queue)
{
	struct list *waiting = &optable_wait_list(&queue->table, WAIT_ATOMIC, 0)->ops;

	/* ahead of all others */
	list_splice(waiting, &queue->table.pending);
	list_splice(&queue->table.pending, waiting);
}

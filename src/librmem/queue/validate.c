/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/queue/validate.h"

#include <errno.h>
#include <inttypes.h>

#include "base/checked.h"
#include "base/err.h"
#include "base/rare.h"
#include "librmem/lease/buffer.h"
#include "librmem/queue/endpoints.h"
#include "librmem/queue/inband.h"
#include "librmem/queue/vec.h"

/* ---- at submission ---- */

static RARE int atomic_form(const struct rmem_queue *queue, const struct rmem_op *op)
{
	int err;

	if (!op->atomic)
		return err_set(-EINVAL, "an atomic without its operands");
	err = endpoints_check(queue, FABRIC_CAN_ATOMICS);
	return err ? err_prefix(err, "an atomic") : 0;
}

static RARE int list_form(const struct rmem_queue *queue, const struct rmem_op *op)
{
	if (op->n_vec > RMEM_VEC_MAX)
		return err_set(-EINVAL, "n_vec is %" PRIu64 ", more than %d", op->n_vec,
			       RMEM_VEC_MAX);
	if (op->n_vec > 0 && !op->vec)
		return err_set(-EINVAL, "vec is NULL");
	if (op->buffer)
		return err_set(-EINVAL, "the buffers of a vectored "
					"operation are in its list");
	for (unsigned i = 0; i < op->n_vec; i++)
		if (op->vec[i].buffer && op->vec[i].buffer->session != queue->session)
			return err_set(-EINVAL, "a buffer in the list is "
						"not of this session");
	return 0;
}

static int opcode_form(struct rmem_queue *queue, const struct rmem_op *op)
{
	if (opcode_is_atomic(op->opcode))
		return atomic_form(queue, op);
	if (opcode_is_vectored(op->opcode))
		return list_form(queue, op);
	if (op->opcode == RMEM_OP_READ || op->opcode == RMEM_OP_WRITE)
		return 0;
	if (opcode_is_inband(op->opcode))
		return inband_able(queue, op);
	return err_set(-EINVAL, "opcode %d is unknown", (int)op->opcode);
}

int validate_form(struct rmem_queue *queue, const struct rmem_op *op)
{
	int err = opcode_form(queue, op);

	if (err)
		return err;
	if (op->flags & ~(RMEM_OP_FENCE | RMEM_OP_DEADLINE))
		return err_set(-EINVAL, "flags 0x%x are unknown", op->flags);
	if (op->reserved[0] | op->reserved[1])
		return err_set(-EINVAL, "reserved members are not 0");
	if (!op->lease && op->opcode == RMEM_OP_PING)
		return 0;
	if (!op->lease || op->lease->session != queue->session)
		return err_set(-EINVAL, "the lease is not of this session");
	if (op->buffer && op->buffer->session != queue->session)
		return err_set(-EINVAL, "the buffer is not of this session");
	return 0;
}

/* ---- at the start ---- */

/* The range is within the lease. */
static int atomic_check(const struct rmem_op *todo, const struct attachment *att,
			const char **ret_why)
{
	/* the CPU puts a number in the place of the answer and looks for it */
	if (todo->buffer && todo->buffer->device_only)
		return op_refuse(ret_why, -EINVAL,
				 "its result is for a dma-buf, which takes only reads "
				 "and writes");
	if (todo->bytes != FABRIC_ATOMIC_BYTES)
		return op_refuse(ret_why, -EINVAL, "an atomic is of 8 bytes");
	if (todo->offset % FABRIC_ATOMIC_BYTES)
		return op_refuse(ret_why, -EINVAL, "its offset is not a multiple of 8");
	if (att->ends[attachment_segment(att, todo->offset)] - todo->offset <
	    FABRIC_ATOMIC_BYTES)
		return op_refuse(ret_why, -EINVAL,
				 "it lies in two segments of the lease");
	return 0;
}

int validate_start(const struct op *op, const char **ret_why)
{
	const struct rmem_op *todo = &op->todo;
	const struct attachment *att = lease_attachment(todo->lease);
	int err;

	if (lease_ended(todo->lease))
		return op_refuse(ret_why, -ESTALE, lease_ended_text(todo->lease));
	if (!range_inside(att->bytes, todo->offset, todo->bytes))
		return op_refuse(ret_why, -EINVAL, "it goes beyond the lease");
	if (op_kinds[todo->opcode].rights & ~todo->lease->rights)
		return op_refuse(ret_why, -EACCES,
				 "the lease is not attached with that right");
	if (opcode_is_vectored(todo->opcode))
		return vec_check(op, ret_why);
	if (opcode_is_inband(todo->opcode)) {
		err = inband_check(op, ret_why);
		if (err || opcode_is_remote(todo->opcode))
			return err;
	}
	if (todo->bytes > 0 && !todo->addr)
		return op_refuse(ret_why, -EINVAL, "its local memory is NULL");
	if (todo->buffer && !buffer_holds(todo->buffer, todo->addr, todo->bytes))
		return op_refuse(ret_why, -EINVAL,
				 "its local memory lies outside of its buffer");
	return opcode_is_atomic(todo->opcode) ? atomic_check(todo, att, ret_why) : 0;
}

// SPDX-License-Identifier: BSD-3-Clause
#include "python/lane.h"

#include <errno.h>

#include "python/failure.h"
#include "python/registry.h"
#include "python/staging.h"

static void end(struct ending *ending)
{
	lane_end((struct lane *)ending);
}

int lane_begin(struct lane *lane, struct session *session, uint32_t slots)
{
	if (session_check(session))
		return -1;
	lane->slots = PyMem_Calloc(slots, sizeof(*lane->slots));
	if (!lane->slots) {
		(void)PyErr_NoMemory();
		return -1;
	}
	lane->session = session;
	lane->n_slots = slots;
	lane->used = 0;
	lane->free = LANE_NONE;
	lane->ending.end = end;
	session_add(session, &lane->ending);
	return 0;
}

int lane_open(struct lane *lane, struct session *session, unsigned depth)
{
	struct rmem_queue_params params = rmem_queue_params_init();
	rmem_queue *queue = NULL;
	int err;

	if (session_enter(session))
		return -1;
	params.depth = depth;
	Py_BEGIN_ALLOW_THREADS
	err = rmem_queue_create(session->handle, &params, &queue);
	Py_END_ALLOW_THREADS
	session_leave(session);
	if (err) {
		(void)failure_of_call(session->module, err);
		return -1;
	}
	if (lane_begin(lane, session, depth)) {
		if (session->handle) /* else the queue has ended with it */
			rmem_queue_free(queue);
		return -1;
	}
	lane->queue = queue;
	return 0;
}

void lane_end(struct lane *lane)
{
	rmem_queue *queue = lane->queue;
	struct slot *slots = lane->slots;

	if (!slots)
		return;
	lane->queue = NULL;
	lane->slots = NULL;
	session_drop(&lane->ending);
	session_hold(lane->session); /* another thread that closes it waits */
	Py_BEGIN_ALLOW_THREADS
	rmem_queue_free(queue);
	Py_END_ALLOW_THREADS
	session_leave(lane->session);
	for (uint32_t i = 0; i < lane->used; i++)
		if (slots[i].lease) {
			PyObject *tag = lane_empty(&slots[i]);

			if (lane->abandoned)
				lane->abandoned(lane, tag);
			Py_DECREF(tag);
		}
	PyMem_Free(slots);
}

int lane_traverse(const struct lane *lane, visitproc visit, void *arg)
{
	for (uint32_t i = 0; lane->slots && i < lane->used; i++) {
		const struct slot *slot = &lane->slots[i];
		int stop = memory_traverse(&slot->memory, visit, arg);

		if (stop)
			return stop;
		Py_VISIT((PyObject *)slot->lease);
		Py_VISIT((PyObject *)slot->operands.source_lease);
		Py_VISIT(slot->tag);
	}
	return 0;
}

int lane_check(const struct lane *lane)
{
	if (session_check(lane->session))
		return -1;
	if (lane->slots)
		return 0;
	(void)failure_raise(lane->session->module, -ESTALE, "the queue is closed");
	return -1;
}

/* Returns NULL with an exception set if there is none. */
static struct slot *slot_new(struct lane *lane)
{
	struct slot *slot;

	if (lane->free == LANE_NONE && lane->used == lane->n_slots)
		return failure_raise(lane->session->module, -EOVERFLOW,
				     "the queue is full");
	if (lane->free == LANE_NONE)
		return &lane->slots[lane->used++];
	slot = &lane->slots[lane->free];
	lane->free = slot->next;
	return slot;
}

static int check_lease(const struct lane *lane, PyObject *lease)
{
	if (Py_TYPE(lease) == lane->session->module->lease &&
	    ((struct lease *)lease)->session == lane->session)
		return 0;
	PyErr_SetString(PyExc_TypeError, "the lease is not one of the queue's session");
	return -1;
}

/* The operation writes to its memory. */
static bool is_stored(enum rmem_opcode opcode)
{
	return opcode != RMEM_OP_WRITE && opcode != RMEM_OP_WRITE_NOTIFY;
}

struct slot *lane_take(struct lane *lane, enum rmem_opcode opcode, PyObject *lease,
		       PyObject *memory, uint64_t offset, PyObject *tag)
{
	struct memory held = { 0 };
	struct slot *slot;

	if (check_lease(lane, lease))
		return NULL;
	if (opcode != RMEM_OP_FILL && opcode != RMEM_OP_COPY &&
	    registry_take(lane->session, memory, is_stored(opcode), &held))
		return NULL;
	/* only now: Python has run, and may have used or ended the lane */
	if (lane_check(lane) || lease_use((struct lease *)lease)) {
		memory_release(&held);
		return NULL;
	}
	slot = slot_new(lane);
	if (!slot) {
		lease_unuse((struct lease *)lease);
		memory_release(&held);
		return NULL;
	}
	Py_INCREF(lease);
	Py_INCREF(tag);
	slot->memory = held;
	slot->lease = (struct lease *)lease;
	slot->tag = tag;
	slot->offset = offset;
	slot->opcode = (uint16_t)opcode;
	return slot;
}

int lane_add_operands(const struct lane *lane, struct slot *slot,
		      const struct operands *operands)
{
	PyObject *source = (PyObject *)operands->source_lease;

	if (source && (check_lease(lane, source) || lease_use((struct lease *)source)))
		return -1;
	Py_XINCREF(source);
	slot->operands = *operands;
	if (source)
		slot->operands.source.lease = operands->source_lease->handle;
	return 0;
}

static void set_operands(struct rmem_op *op, const struct slot *slot)
{
	switch ((enum rmem_opcode)slot->opcode) {
	case RMEM_OP_CAS:
	case RMEM_OP_FETCH_ADD:
		op->atomic = &slot->operands.atomic;
		break;
	case RMEM_OP_COPY:
		op->bytes = slot->operands.bytes;
		op->source = &slot->operands.source;
		break;
	case RMEM_OP_FILL:
		op->pattern = slot->operands.number;
		op->bytes = slot->operands.bytes;
		break;
	case RMEM_OP_CRC:
		op->bytes = slot->operands.bytes;
		break;
	case RMEM_OP_WRITE_NOTIFY:
		op->value = (uint32_t)slot->operands.number;
		break;
	default:
		break;
	}
}

struct rmem_op lane_op(const struct lane *lane, const struct slot *slot)
{
	struct rmem_op op =
		rmem_op_init((enum rmem_opcode)slot->opcode, slot->lease->handle,
			     slot->offset, slot->memory.bytes);

	op.addr = slot->memory.addr;
	op.cookie = (uint64_t)(slot - lane->slots) | (uint64_t)slot->turn << 32;
	if (slot->opcode > RMEM_OP_WRITE)
		set_operands(&op, slot);
	return op;
}

struct slot *lane_slot(const struct lane *lane, uint64_t cookie)
{
	uint32_t i = (uint32_t)cookie;

	if (!lane->slots || i >= lane->used || !lane->slots[i].lease ||
	    lane->slots[i].turn != cookie >> 32)
		return NULL;
	return &lane->slots[i];
}

PyObject *lane_arrived(const struct slot *slot)
{
	return slot->memory.staging && is_stored((enum rmem_opcode)slot->opcode)
		       ? staging_copy_out(slot->memory.staging)
		       : NULL;
}

PyObject *lane_empty(struct slot *slot)
{
	struct lease *source = slot->operands.source_lease;
	struct lease *lease = slot->lease;
	PyObject *tag = slot->tag;

	slot->lease = NULL;
	slot->operands.source_lease = NULL;
	slot->tag = NULL;
	slot->turn++;
	memory_release(&slot->memory);
	lease_unuse(lease);
	Py_DECREF((PyObject *)lease);
	if (source)
		lease_unuse(source);
	Py_XDECREF((PyObject *)source);
	return tag;
}

void lane_free(struct lane *lane, struct slot *slot)
{
	if (!lane->slots) /* it has ended while the slot was emptied */
		return;
	slot->next = lane->free;
	lane->free = (uint32_t)(slot - lane->slots);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* An rmem_queue, and the operations outstanding there with what they hold: memory, lease, and the
 * object that the one who submitted them knows them by. */
#ifndef PYTHON_LANE_H
#define PYTHON_LANE_H

#include "python/lease.h"
#include "python/memory.h"

#define LANE_NONE UINT32_MAX

/* What operations other than reads and writes have besides their memory. */
struct operands {
	uint64_t bytes; /* of the range; FILL, COPY, CRC */
	union {
		struct rmem_atomic atomic; /* CAS, FETCH_ADD */
		struct rmem_source source; /* COPY */
		uint64_t number; /* FILL: the pattern; WRITE_NOTIFY: the value */
	};
	struct lease *source_lease; /* COPY; held */
};

struct slot {
	struct memory memory;
	struct lease *lease; /* NULL: the slot is free */
	PyObject *tag;
	uint64_t offset;
	struct operands operands; /* of operations other than reads and writes */
	/* of its use: an answer to another use is not taken for this one */
	uint32_t turn;
	uint32_t next; /* of a list */
	uint16_t opcode;
	bool waiting; /* for its turn; of a driver */
};

struct lane {
	struct ending ending; /* first */
	struct session *session;
	rmem_queue *queue;  /* NULL: none yet, or ended */
	struct slot *slots; /* NULL: ended */
	uint32_t n_slots;
	uint32_t used; /* have been used, the others are not touched yet */
	uint32_t free; /* first one of those; LANE_NONE: none */
	/* is told of operations that are outstanding at the end; NULL: nobody is */
	void (*abandoned)(struct lane *lane, PyObject *tag);
};

/* Begin a lane, which has no queue yet.  It does not hold the session: the object that has the lane
 * does.  Returns 0, or -1 with an exception set. */
int lane_begin(struct lane *lane, struct session *session, uint32_t slots);
/* Begin a lane with a queue, and as many slots as that is deep.  Returns as above. */
int lane_open(struct lane *lane, struct session *session, unsigned depth);
/* End the lane, its queue and its operations.  Of a lane that has ended or not begun: nothing. */
void lane_end(struct lane *lane);
/* A tp_traverse of what its operations hold. */
int lane_traverse(const struct lane *lane, visitproc visit, void *arg);
/* The lane can be used.  Returns 0, or -1 with an exception set. */
int lane_check(const struct lane *lane);

/* Take a slot, and hold what the operation needs; a FILL or COPY has no memory.  Returns
 * NULL with an exception set; the lane is full: QueueFull. */
struct slot *lane_take(struct lane *lane, enum rmem_opcode opcode, PyObject *lease,
		       PyObject *memory, uint64_t offset, PyObject *tag);
/* Add the operands, and hold the source of a copy.  Returns 0, or -1 with an exception set. */
int lane_add_operands(const struct lane *lane, struct slot *slot,
		      const struct operands *operands);
/* Its operation. */
struct rmem_op lane_op(const struct lane *lane, const struct slot *slot);
/* The slot of a completion, NULL: it was given back already. */
struct slot *lane_slot(const struct lane *lane, uint64_t cookie);
/* The operation is done: what was read for memory of a GPU goes there.  Returns NULL, or the
 * exception: a new reference. */
PyObject *lane_arrived(const struct slot *slot);
/* Release what the slot holds.  Returns its tag: a new reference. */
PyObject *lane_empty(struct slot *slot);
/* Give an empty slot back. */
void lane_free(struct lane *lane, struct slot *slot);

#endif

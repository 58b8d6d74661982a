/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks operations: rmem_submit() refuses an invalid form at once; rights and bounds are checked
 * when the operation starts, which completes with an error if they fail.  Threads: [owner of the
 * queue]. */
#ifndef LIBRMEM_QUEUE_VALIDATE_H
#define LIBRMEM_QUEUE_VALIDATE_H

#include "base/modular.h"
#include "librmem/lease/lease.h"
#include "librmem/queue/queue.h"

/* 0, or the error of rmem_submit(), with text. */
int validate_form(struct rmem_queue *queue, const struct rmem_op *op);
/* 0, or the error with which the operation completes instead of a start; *ret_why: static text. */
int validate_start(const struct op *op, const char **ret_why);

/* ---- runs ---- */

/* Operations that a few comparisons validate, each of one fragment: reads or writes of one lease
 * with one segment, whose local memory needs no copy.  Operations that fail these comparisons go
 * through the functions above. */
struct run {
	struct inflight *inflight;
	const struct attachment *att;
	uint64_t lease_bytes;
	/* limit of one operation; not more than lease or buffer have */
	uint64_t max_bytes;
	uintptr_t local_base;
	/* 0 for a device_only buffer: the run takes no operation, as post_one() sends small writes
	 * inline, which the CPU reads */
	uint64_t local_bytes;
};

/* The operation may be in a run: a read or write without a fence, of this session. */
static inline bool run_allowed(const struct rmem_queue *queue, const struct rmem_op *op)
{
	return (op->opcode == RMEM_OP_READ || op->opcode == RMEM_OP_WRITE) &&
	       ((op->flags & ~RMEM_OP_DEADLINE) | op->reserved[0] | op->reserved[1]) ==
		       0 &&
	       op->lease && op->lease->session == queue->session &&
	       (!op->buffer || op->buffer->session == queue->session);
}

static inline uint64_t lesser(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Begin a run of n operations like `first`, and count them as in flight. */
static inline void run_begin(struct run *run, struct rmem_queue *queue,
			     const struct rmem_op *first, unsigned n)
{
	const struct rmem_buffer *buffer = first->buffer;

	run->inflight =
		inflight_begin(&queue->inflights, first->lease, first->buffer, n);
	run->att = lease_attachment(first->lease);
	/* 0 with several segments: the run takes no operation */
	run->lease_bytes = run->att->plain_bytes;
	run->max_bytes = lesser(queue->share_max, run->lease_bytes);
	if (buffer) {
		run->local_base = (uintptr_t)buffer->addr;
		run->local_bytes = buffer->run_bytes;
		run->max_bytes = lesser(run->max_bytes, buffer->run_bytes);
	} else {
		/* any address but NULL */
		run->local_base = 1;
		run->local_bytes = UINTPTR_MAX;
		run->max_bytes = lesser(run->max_bytes,
					queue->channels.direct_max[first->opcode]);
	}
}

/* The lease permits the opcode, and has not ended. */
static inline bool run_valid(const struct rmem_op *first)
{
	_Static_assert((unsigned)RMEM_OP_READ == RMEM_READ &&
			       (unsigned)RMEM_OP_WRITE == RMEM_WRITE,
		       "the opcodes are the rights that they need");

	return (first->lease->rights & first->opcode) && !lease_ended(first->lease);
}

/* Where operations of a length may begin. */
struct run_limits {
	uint64_t bytes;
	uint64_t offset_max;
	uint64_t local_max; /* from local_base */
};

/* False: an operation of that length is not in the run, or is cut. */
MODULAR static inline bool run_limits_set(const struct run *run, uint64_t bytes,
					  struct run_limits *ret_limits)
{
	/* max_bytes is not more than either length: a difference that wraps is not used */
	ret_limits->bytes = bytes;
	ret_limits->offset_max = run->lease_bytes - bytes;
	ret_limits->local_max = run->local_bytes - bytes;
	return bytes - 1 < run->max_bytes;
}

/* The operation, of that length, is within the lease and the buffer of the run; what begins before
 * the buffer is too far from it. */
MODULAR static inline bool run_limits_hold(const struct run *run,
					   const struct run_limits *limits,
					   const struct rmem_op *op)
{
	return op->offset <= limits->offset_max &&
	       (uintptr_t)op->addr - run->local_base <= limits->local_max;
}

/* The operation is within the lease and the buffer of the run, and is not cut. */
static inline bool run_holds(const struct run *run, const struct rmem_op *op)
{
	struct run_limits limits;

	return run_limits_set(run, op->bytes, &limits) &&
	       run_limits_hold(run, &limits, op);
}

#endif

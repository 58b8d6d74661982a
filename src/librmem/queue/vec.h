/* SPDX-License-Identifier: BSD-3-Clause */
/* The local memory of a vectored operation: the caller's list of pieces, addressed as one range.
 *
 * Threads: [owner of the queue]. */
#ifndef LIBRMEM_QUEUE_VEC_H
#define LIBRMEM_QUEUE_VEC_H

#include "librmem/queue/queue.h"

/* Limit of slices in one request of a device. */
#define VEC_SLICES_MAX 8

/* Copy the pointer to the caller's list, and count the uses of its buffers.  On a fabric that needs
 * memory registered, find one for entries that name none: it is kept without memory for a list. */
void vec_acquire(const struct rmem_queue *queue, struct op *op,
		 const struct rmem_op *todo);
/* End the uses of the list's buffers.  No effect on an operation that is not vectored. */
void vec_leave(const struct op *op);
/* 0, or why the operation cannot start; *ret_why: static text. */
int vec_check(const struct op *op, const char **ret_why);

/* Whether a piece is in no buffer.  False if the operation is not vectored. */
bool vec_unregistered(const struct op *op);

/* Number of bytes from offset on for one fragment, `max` at most: they either pass through the
 * bounce buffer, or are in at most sge_max slices.
 *   needs_local_mr  unregistered pieces have to bounce */
uint64_t vec_span(struct op *op, uint64_t offset, uint64_t max, unsigned sge_max,
		  bool needs_local_mr, bool *ret_bounces);
/* Fill the slices of a fragment that does not bounce; returns their number. */
unsigned vec_slices(struct op *op, const struct fragment *fragment, unsigned domain,
		    struct fabric_sge slices[VEC_SLICES_MAX]);
/* Copy a fragment between the list and its chunk of the bounce buffer: to the chunk if the
 * operation writes. */
void vec_copy(struct op *op, const struct fragment *fragment);

#endif

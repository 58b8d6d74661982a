/* SPDX-License-Identifier: BSD-3-Clause */
/* The local memory of a vectored operation: the caller's list of fragments, which are numbered
 * through as one range.  Threads: [owner of the queue]. */
#ifndef LIBRMEM_QUEUE_VEC_H
#define LIBRMEM_QUEUE_VEC_H

#include "librmem/queue/op.h"

/* So many slices go into one request of a device at most. */
#define VEC_SLICES_MAX 8

/* Take the list over from what was submitted; it stays the caller's.  Buffers in it are
 * counted as in use. */
void vec_take(struct op *op, const struct rmem_op *todo);
/* The operation is taken, or forgotten: count the buffers back.  Of one that is not vectored:
 * nothing. */
void vec_leave(const struct op *op);
/* 0, or why it cannot be started. */
int vec_check(const struct op *op, const char **ret_why);

/* Whether memory of it is in no buffer.  Of one that is not vectored: no. */
bool vec_unregistered(const struct op *op);

/* How many bytes from offset on go into one fragment, `max` at most: either they pass through
 * the bounce buffer, or they are of so many slices at most.
 *   needs_local_mr  what is not registered has to bounce */
uint64_t vec_span(struct op *op, uint64_t offset, uint64_t max, unsigned sge_max,
		  bool needs_local_mr, bool *ret_bounces);
/* The slices of a fragment that does not bounce; returns how many. */
unsigned vec_slices(struct op *op, const struct fragment *fragment, unsigned domain,
		    struct fabric_sge slices[VEC_SLICES_MAX]);
/* Copy a fragment between the list and its chunk of the bounce buffer. */
void vec_gather(struct op *op, const struct fragment *fragment);
void vec_scatter(struct op *op, const struct fragment *fragment);

#endif

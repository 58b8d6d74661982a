/* SPDX-License-Identifier: BSD-3-Clause */
/* What an operation must be to be done: of a form that makes sense, which rmem_submit() refuses at
 * once otherwise, and within the rights and bounds of its lease when it starts, or it completes
 * with an error.  Threads: [owner of the queue]. */
#ifndef LIBRMEM_QUEUE_VALIDATE_H
#define LIBRMEM_QUEUE_VALIDATE_H

#include "librmem/lease/lease.h"
#include "librmem/queue/queue.h"

/* It is of a right form, but has no lease. */
#define VALIDATE_LEASELESS 1
/* 0, VALIDATE_LEASELESS, or why it must not be submitted, with text. */
int validate_form(struct rmem_queue *queue, const struct rmem_op *op);
/* 0, or why the operation cannot be started, for its own fault; *ret_why: static text. */
int validate_start(const struct op *op, const char **ret_why);

/* A read or a write may go to the lease, which is of one segment. */
static inline bool validate_lease(const struct rmem_lease *lease,
				  const struct attachment *att, unsigned opcode)
{
	_Static_assert((unsigned)RMEM_OP_READ == RMEM_READ &&
			       (unsigned)RMEM_OP_WRITE == RMEM_WRITE,
		       "each is named as the right that it needs");

	return att->n_segments == 1 && (lease->rights & opcode) && !lease_ended(lease);
}

#endif

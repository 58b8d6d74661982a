/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses endpoints by capability and atomic device for a queue's operations.
 *
 * Threads: [owner of the queue]. */
#ifndef LIBRMEM_QUEUE_ENDPOINTS_H
#define LIBRMEM_QUEUE_ENDPOINTS_H

#include "librmem/queue/queue.h"

/* 0 if some channel of the queue has the capability.
 *   -ENOTSUP  the text names a device and the missing capability */
int endpoints_check(const struct rmem_queue *queue, enum fabric_capability capability);
/* The endpoints in the bit mask `among` to which the queue has channels with the capability. */
unsigned endpoints_able(const struct rmem_queue *queue, unsigned among,
			enum fabric_capability capability);

/* Bit mask of the endpoints for a queue's atomics on a part of the lease; `among` are the endpoints
 * that lend the part.
 *   -EAGAIN   the server is being asked: the queue is woken after the answer
 *   -ENOTSUP  this queue has no channel to the atomic device, or the part is not lent there
 *   or the server's error; *ret_why then has the text, which lives as long as the lease */
int endpoints_atomic(struct rmem_queue *queue, struct rmem_lease *lease, unsigned among,
		     unsigned *ret_endpoints, const char **ret_why);

#endif

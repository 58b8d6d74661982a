/* SPDX-License-Identifier: BSD-3-Clause */
/* The endpoints of the server that operations of a queue may go through, where not all will do.
 * Threads: [owner of the queue]. */
#ifndef LIBRMEM_QUEUE_ENDPOINTS_H
#define LIBRMEM_QUEUE_ENDPOINTS_H

#include "librmem/queue/queue.h"

/* 0 if some channel of the queue has the capability.
 *   -ENOTSUP  the text names a device and what it lacks */
int endpoints_check(const struct rmem_queue *queue, enum fabric_capability capability);
/* Those of `among` to which the queue has channels with the capability, a bit each. */
unsigned endpoints_able(const struct rmem_queue *queue, unsigned among,
			enum fabric_capability capability);

/* The endpoints that a queue's atomics on a part of the lease go through, a bit each;
 * `among` are those that the part is lent through.
 *   -EAGAIN   the server is being asked: there will be news
 *   -ENOTSUP  this queue has no channel there, or the part is not lent there
 *   or what the server said; *ret_why then has the words, which live as long as the lease */
int endpoints_atomic(struct rmem_queue *queue, struct rmem_lease *lease, unsigned among,
		     unsigned *ret_endpoints, const char **ret_why);

#endif

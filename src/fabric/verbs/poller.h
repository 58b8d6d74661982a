/* SPDX-License-Identifier: BSD-3-Clause */
/* The thread that drains a device's completion queue: what arrives there are the
 * receives of queue pairs that went to ERROR.  It sleeps on the completion channel when
 * idle and touches no state of the loop's but the slots' marks. */
#ifndef FABRIC_VERBS_POLLER_H
#define FABRIC_VERBS_POLLER_H

#include <infiniband/verbs.h>
#include <pthread.h>

#include "fabric/verbs/slots.h"

struct verbs_poller {
	struct verbs_slots *slots;
	int node;
	struct ibv_comp_channel *comp;
	struct ibv_cq *cq;
	int stop_fd; /* eventfd: readable once the thread is to end */
	pthread_t thread;
};

/* Make a queue for `depth` completions and start the thread on a NUMA node (-1: any).
 * Borrows the slots.  -errno with text.  [loop] */
int verbs_poller_start(struct verbs_poller *poller, struct ibv_context *verbs,
		       unsigned depth, int node, struct verbs_slots *slots);
/* Join the thread and destroy the queue, after the queue pairs that use it.  [loop] */
void verbs_poller_stop(struct verbs_poller *poller);

#endif

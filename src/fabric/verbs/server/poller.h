/* SPDX-License-Identifier: BSD-3-Clause */
/* The thread that drains a device's completion queues: in-band requests, which it serves, and
 * flushed receives of queue pairs in ERROR, which it reports to the loop.  After a request it
 * spins for a moment, because the next one usually follows soon; otherwise it sleeps on the
 * completion channel.  Of the loop's state it uses only the channel ids and, with the
 * session's lock held, the in-band structures. */
#ifndef FABRIC_VERBS_SERVER_POLLER_H
#define FABRIC_VERBS_SERVER_POLLER_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>

#include "fabric/verbs/server/channel_ids.h"

#define VERBS_POLLER_CQS 64

/* A queue serves so many channels at most: far more than most servers have, and few enough
 * for what devices allow. */
#define VERBS_POLLER_CHANNELS 512u

struct verbs_poller {
	struct verbs_channel_ids *ids;
	int node;
	struct ibv_context *verbs;
	struct ibv_comp_channel *comp;
	unsigned per_cq; /* channels, by consecutive slots of the channel ids */
	/* made by the loop when the first of its channels comes */
	struct ibv_cq *cqs[VERBS_POLLER_CQS];
	atomic_uint n_cqs;
	int stop_fd; /* eventfd: readable once the thread is to end */
	pthread_t thread;
};

/* How many channels one completion queue serves on a device that allows so many entries. */
unsigned verbs_poller_per_cq(unsigned max_cqe);
/* Start the thread on a NUMA node (-1: any).  Borrows the channel ids.  -errno with text.
 * [loop] */
int verbs_poller_start(struct verbs_poller *poller, struct ibv_context *verbs,
		       unsigned max_cqe, int node, struct verbs_channel_ids *ids);
/* The completion queue of the channel with this index.  -errno with text.
 * [loop] */
int verbs_poller_cq(struct verbs_poller *poller, unsigned index,
		    struct ibv_cq **ret_cq);
/* Join the thread and destroy the queues, after the queue pairs that use them.  [loop] */
void verbs_poller_stop(struct verbs_poller *poller);

#endif

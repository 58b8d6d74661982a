/* SPDX-License-Identifier: BSD-3-Clause */
/* The client's side of a channel: a reliable queue pair and the ring of what is posted
 * on it.  Its work requests complete in the order in which they were posted, so only
 * some ask for an entry of their own in the completion queue: each entry stands for all
 * before it. Threads: [owner] unless said otherwise. */
#ifndef FABRIC_VERBS_LINK_H
#define FABRIC_VERBS_LINK_H

#include <infiniband/verbs.h>

#include "fabric/fabric.h"
#include "fabric/verbs/cq.h"

/* fabric_client_ops.connect ... channel_free. */
int verbs_link_connect(struct fabric_cq *cq, const struct fabric_channel_params *params,
		       struct fabric_channel **ret_channel);
int verbs_link_post(struct fabric_channel *channel, const struct fabric_wr *wrs,
		    unsigned n);
void verbs_link_abort(struct fabric_channel *channel); /* [any] */
int verbs_link_alive_fd(const struct fabric_channel *channel);
bool verbs_link_alive(struct fabric_channel *channel); /* [service thread] */
void verbs_link_free(struct fabric_channel *channel);

/* An entry came out of the completion queue; makes what it completes ready there. */
void verbs_link_complete(const struct ibv_wc *wc);
/* The channel with this node in cq->channels. */
struct fabric_channel *verbs_link_of(struct list *node);
/* abort() is through: the queue pair is in ERROR. */
bool verbs_link_aborted(const struct fabric_channel *channel);
/* What is still posted will never complete: make it ready as flushed. */
void verbs_link_lose(struct fabric_channel *channel);
/* The owner took a completion: there is room for one more operation. */
void verbs_link_taken(struct fabric_channel *channel);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The client's end of a stream: a ring of operations, which are sent and answered in the order
 * they were posted.
 * Threads: [owner] of the queue, unless said otherwise. */
#ifndef FABRIC_TCP_CHANNEL_H
#define FABRIC_TCP_CHANNEL_H

#include "base/list.h"
#include "fabric/fabric.h"

/* The ops table's functions of the same names. */
int tcp_channel_connect(struct fabric_cq *cq,
			const struct fabric_channel_params *params,
			struct fabric_channel **ret_channel); /* [any] */
unsigned tcp_channel_put(struct fabric_channel *channel, const struct fabric_batch *run,
			 const struct fabric_op *parts, size_t stride, unsigned n);
int tcp_channel_put_atomic(struct fabric_channel *channel,
			   const struct fabric_batch *run, const struct fabric_op *part,
			   const struct fabric_atomic *atomic);
int tcp_channel_put_request(struct fabric_channel *channel,
			    const struct fabric_batch *run,
			    const struct fabric_op *part,
			    const struct fabric_inband_request *request);
int tcp_channel_post(struct fabric_channel *channel);
int tcp_channel_post_one(struct fabric_channel *channel, enum fabric_opcode opcode,
			 struct fabric_local_mr *region, const struct fabric_key *key,
			 const struct fabric_op *part);
void tcp_channel_abort(struct fabric_channel *channel); /* [any] */
bool tcp_channel_alive(struct fabric_channel *channel); /* [any] */
void tcp_channel_free(struct fabric_channel *channel);

/* Send and receive without waiting; returns the completions written to wcs. */
unsigned tcp_channel_progress(struct fabric_channel *channel, struct fabric_wc *wcs,
			      unsigned n);
/* Report completions that need no socket; the channel leaves cq->ready after the last one. */
unsigned tcp_channel_report(struct fabric_channel *channel, struct fabric_wc *wcs,
			    unsigned n);
struct fabric_channel *tcp_channel_of_ready(struct list *node);

#endif

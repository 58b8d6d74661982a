/* SPDX-License-Identifier: BSD-3-Clause */
/* The client's side of a channel: a reliable queue pair and the ring of what is posted
 * on it.  Threads: [owner] unless said otherwise. */
#ifndef FABRIC_VERBS_CLIENT_CONNECTION_H
#define FABRIC_VERBS_CLIENT_CONNECTION_H

#include <infiniband/verbs.h>

#include "fabric/fabric.h"
#include "fabric/verbs/client/cq.h"

/* fabric_client_ops.connect ... channel_free. */
int verbs_connection_open(struct fabric_cq *cq,
			  const struct fabric_channel_params *params,
			  struct fabric_channel **ret_channel);
unsigned verbs_connection_prepare(struct fabric_channel *channel,
				  const struct fabric_batch *batch,
				  const struct fabric_op *ops, size_t stride,
				  unsigned n);
int verbs_connection_prepare_sges(struct fabric_channel *channel,
				  const struct fabric_batch *batch,
				  const struct fabric_op *op,
				  const struct fabric_sge *sges, unsigned n);
int verbs_connection_prepare_atomic(struct fabric_channel *channel,
				    const struct fabric_batch *batch,
				    const struct fabric_op *op,
				    const struct fabric_atomic *atomic);
int verbs_connection_prepare_inband(struct fabric_channel *channel,
				    const struct fabric_batch *batch,
				    const struct fabric_op *op,
				    const struct fabric_inband_request *request);
int verbs_connection_post(struct fabric_channel *channel);
/* Which operations go to the device as one request: of a channel that is being made. */
void verbs_connection_plan(struct fabric_channel *channel);
int verbs_connection_post_one(struct fabric_channel *channel, enum fabric_opcode opcode,
			      struct fabric_local_mr *region,
			      const struct fabric_key *key, const struct fabric_op *op);
void verbs_connection_abort(struct fabric_channel *channel); /* [any] */
int verbs_connection_alive_fd(const struct fabric_channel *channel);
bool verbs_connection_alive(
	struct fabric_channel *channel); /* [one thread at a time] */
void verbs_connection_free(struct fabric_channel *channel);

/* An entry came out of the completion queue: leave what it completes with its channel, which
 * is in cq->ready then. */
void verbs_completion_keep(const struct ibv_wc *wc);
/* The same where it may not be well, something may have come before that is not reported, or
 * some of the requests complete nothing: as verbs_completion_take(). */
unsigned verbs_completion_internal(const struct ibv_wc *wc, struct fabric_wc *ret_wc);
/* An answer to an in-band request, or a receive that was flushed. */
void verbs_completion_inband(const struct ibv_wc *wc);
/* Report operations that have ended, n at most, and leave cq->ready once that is all;
 * returns how many. */
unsigned verbs_completion_report(struct fabric_channel *channel, struct fabric_wc *wcs,
				 unsigned n);
/* The channel with this node in cq->ready. */
struct fabric_channel *verbs_connection_of_ready(struct list *node);
/* The channel with this node in cq->channels. */
struct fabric_channel *verbs_connection_of(struct list *node);
/* abort() is through: the queue pair is in ERROR. */
bool verbs_connection_aborted(const struct fabric_channel *channel);
/* What is still posted will never complete: it is flushed. */
void verbs_connection_flush(struct fabric_channel *channel);

#endif

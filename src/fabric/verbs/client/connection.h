/* SPDX-License-Identifier: BSD-3-Clause */
/* The client's side of a channel: a reliable connected queue pair and its send queue.
 * connection.c connects and frees it, post.c posts operations, completion.c ends them.
 * Threads: [owner] unless said otherwise. */
#ifndef FABRIC_VERBS_CLIENT_CONNECTION_H
#define FABRIC_VERBS_CLIENT_CONNECTION_H

#include <infiniband/verbs.h>
#include <stdatomic.h>

#include "fabric/fabric.h"
#include "fabric/verbs/client/cq.h"
#include "fabric/verbs/client/inband.h"
#include "fabric/verbs/client/iwarp_wakeup.h"
#include "fabric/verbs/client/send_queue.h"

/* siw answers a read of up to this size from a single page, even if it crosses a page. */
#define VERBS_SIW_SHORT_READ 32

struct fabric_channel {
	struct fabric_cq *cq;
	struct list link; /* of the cq */
	void *owner;      /* what its completions come with */
	struct ibv_qp *qp;
	struct verbs_cm_id cm_id;   /* of a direct one, its `peer` alone */
	bool cm_id_borrowed;        /* by the domain */
	struct verbs_wakeup wakeup; /* iWARP */
	bool confirm;
	bool guard; /* a post may raise SIGPIPE */
	/* by opcode: an operation of at most so many bytes may be more than its request */
	uint64_t confirm_bytes[FABRIC_WRITE + 1];
	atomic_bool dead; /* takes nothing any more */
	atomic_bool aborted;
	unsigned depth;
	unsigned outstanding; /* taken, and not yet polled by the owner */
	unsigned n_put;       /* of them, not posted yet */
	struct fabric_batch
		written; /* where the last write went that is not confirmed */
	struct verbs_sq sq;
	struct verbs_inband *inband; /* NULL: nothing was asked yet */
	struct list ready;           /* of the cq, while there is something to report */
};

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
/* What is still posted will never complete: it is flushed. */
void verbs_connection_flush(struct fabric_channel *channel);

/* An entry came out of the completion queue.  Returns 1 when what it completes is in *ret_wc;
 * 0 when it completes nothing, or that is left with the channel: it is not well, or something
 * came before that is not reported. */
static inline unsigned verbs_completion_take(const struct ibv_wc *wc,
					     struct fabric_wc *ret_wc)
{
	_Static_assert(IBV_WC_SUCCESS == 0, "any other status counts");
	struct fabric_channel *channel = verbs_sq_wr(wc)->channel;
	struct verbs_sq *sq = &channel->sq;
	unsigned n;

	if ((unsigned)wc->status | sq->n_slow | sq->n_internal)
		return verbs_completion_internal(wc, ret_wc);
	n = verbs_sq_covered_plain(sq, wc);
	if (n == 0)
		return 0;
	verbs_sq_retire_plain(sq, n);
	channel->outstanding -= n;
	ret_wc->owner = channel->owner;
	ret_wc->n = n;
	ret_wc->status = 0;
	ret_wc->text = NULL;
	return 1;
}

#endif

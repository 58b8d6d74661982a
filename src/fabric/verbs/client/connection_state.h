/* SPDX-License-Identifier: BSD-3-Clause */
/* What link.c, post.c and entry.c know of the client's side of a channel, and nobody else but
 * who reads their entries. */
#ifndef FABRIC_VERBS_CLIENT_CONNECTION_STATE_H
#define FABRIC_VERBS_CLIENT_CONNECTION_STATE_H

#include <stdatomic.h>

#include "fabric/verbs/client/inband.h"
#include "fabric/verbs/client/connection.h"
#include "fabric/verbs/client/iwarp_wakeup.h"
#include "fabric/verbs/client/send_queue.h"

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

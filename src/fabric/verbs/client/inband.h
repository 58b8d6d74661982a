/* SPDX-License-Identifier: BSD-3-Clause */
/* The client's side of a channel's in-band requests: unreported requests, in the order of their
 * answers, and memory for both.  Created with the first request.
 * Threads: [owner]. */
#ifndef FABRIC_VERBS_CLIENT_INBAND_H
#define FABRIC_VERBS_CLIENT_INBAND_H

#include <infiniband/verbs.h>

#include "fabric/inband.h"
#include "fabric/verbs/client/send_queue.h"

struct verbs_inband;

/* The wr_id of a receive is the address of a verbs_inband_id, with VERBS_WR_ID_OTHER. */
struct verbs_inband_id {
	struct verbs_inband *inband;
};

struct verbs_inband_op {
	unsigned slot; /* of the request in the send queue */
	uint32_t *crc; /* destination of the result; NULL: no result */
	int status;    /* once answered: 0 or -EACCES */
};

struct verbs_inband {
	struct fabric_channel *channel;
	struct ibv_mr *mr;
	unsigned credits;
	/* a ring of sq.n_inband requests from `first` on, the first n_answered with an answer */
	struct verbs_inband_op requested[INBAND_CREDITS];
	unsigned first, n_answered;
	uint64_t cookie; /* of the next request */
	int lost;        /* 0, or -errno: no more answers will come */
	struct verbs_inband_id ids[INBAND_CREDITS];
	/* also written by the device */
	struct inband_request requests[INBAND_CREDITS];
	struct inband_answer answers[INBAND_CREDITS];
};

/* Create channel->inband, and post its receives.  -errno with text. */
int verbs_inband_open(struct fabric_channel *channel);
/* Ignore answers that are still in the completion queue: the queue pair is about to be destroyed.
 * NULL: no effect. */
void verbs_inband_stop(struct verbs_inband *inband);
/* Free it after the queue pair, once the completion queue has no entry of it.  NULL: no effect. */
void verbs_inband_free(struct verbs_inband *inband);

/* Add a request to the send queue; there is room. */
void verbs_inband_add(struct verbs_inband *inband, const struct fabric_batch *batch,
		      const struct fabric_op *op,
		      const struct fabric_inband_request *request);
/* Drop requests of the channel that the send queue dropped, because they were not posted. */
void verbs_inband_trim(struct fabric_channel *channel);
/* The verbs_inband_id of the receive that this entry completes. */
static inline const struct verbs_inband_id *verbs_inband_id_of(const struct ibv_wc *wc)
{
	return (const struct verbs_inband_id *)(uintptr_t)(wc->wr_id &
							   ~(uint64_t)
								   VERBS_WR_ID_OTHER);
}
/* A receive was completed.
 *   dead  the channel is dead: an answer that matches no request is no violation */
void verbs_inband_receive(struct verbs_inband *inband, const struct ibv_wc *wc,
			  bool dead);

/* Number of work requests before the first in-band request that is not reported; UINT_MAX: there
 * is none. */
unsigned verbs_inband_before_first(const struct verbs_inband *inband);
/* The result of the first request, which is the first in the send queue: 0, -errno, or 1: no answer
 * yet. */
int verbs_inband_first_status(const struct verbs_inband *inband);
/* The first request was reported: remove it. */
void verbs_inband_pop(struct verbs_inband *inband);

#endif

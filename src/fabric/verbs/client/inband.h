/* SPDX-License-Identifier: BSD-3-Clause */
/* The client's side of in-band requests: those of a channel that have no answer yet, in
 * their order, which is that of the answers, and memory for both.  Made when the first one
 * comes.  Threads: [owner]. */
#ifndef FABRIC_VERBS_CLIENT_INBAND_H
#define FABRIC_VERBS_CLIENT_INBAND_H

#include <infiniband/verbs.h>

#include "fabric/inband.h"
#include "fabric/verbs/common/credits.h"
#include "fabric/verbs/client/send_queue.h"

struct verbs_inband;

/* What a receive carries. */
struct verbs_inband_id {
	struct verbs_inband *inband;
};

struct verbs_inband_op {
	unsigned place; /* slot of its request in the send queue */
	uint32_t *crc;  /* where its result goes; NULL: nowhere */
	int status;     /* once it is answered: 0 or -EACCES */
};

struct verbs_inband {
	struct fabric_channel *channel;
	struct verbs_sq *sq; /* whose n_asked counts them */
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	unsigned credits;
	bool fence; /* requests wait for the reads before them */
	/* sq.n_inband of them from `first` on, of which the first n_answered are */
	struct verbs_inband_op asked[VERBS_CREDITS];
	unsigned first, n_answered;
	uint64_t cookie; /* of the next one that is asked */
	int lost;        /* why no more answers will come; 0: they will */
	struct verbs_inband_id ids[VERBS_CREDITS];
	/* the device's, too */
	struct inband_request requests[VERBS_CREDITS];
	struct inband_answer answers[VERBS_CREDITS];
};

/* For a channel with so many operations, which complete in their order or (fence) not; posts
 * the receives.  -errno with text. */
int verbs_inband_open(struct fabric_channel *channel, struct verbs_sq *sq,
		      struct ibv_pd *pd, struct ibv_qp *qp, unsigned depth, bool fence,
		      struct verbs_inband **ret_asks);
/* No more answers are taken: its queue pair is about to go, but answers may still be in the
 * completion queue.  NULL: nothing. */
void verbs_inband_stop(struct verbs_inband *inband);
/* Its queue pair is gone, and nothing of it is in the completion queue.  NULL: nothing. */
void verbs_inband_free(struct verbs_inband *inband);

static inline bool verbs_inband_full(const struct verbs_inband *inband)
{
	return inband->sq->n_inband == inband->credits;
}

/* Add a request to the send queue; there is room. */
void verbs_inband_add(struct verbs_inband *inband, const struct fabric_batch *batch,
		      const struct fabric_op *op,
		      const struct fabric_inband_request *request);
/* Drop those that are not in the send queue any more because they were not posted. */
void verbs_inband_trim(struct verbs_inband *inband);
/* The receive that came back with this entry. */
static inline const struct verbs_inband_id *verbs_inband_id_of(const struct ibv_wc *wc)
{
	return (const struct verbs_inband_id *)(uintptr_t)(wc->wr_id &
							   ~(uint64_t)
								   VERBS_WR_ID_OTHER);
}
/* A receive came back.
 *   dead  so is the channel: nobody is to blame for what does not fit */
void verbs_inband_receive(struct verbs_inband *inband, const struct ibv_wc *wc,
			  bool dead);

/* How many requests of the ring come before the first one without an answer, or whose answer
 * is not reported; UINT_MAX: there is none. */
unsigned verbs_inband_before_first(const struct verbs_inband *inband);
/* How the first one ended, which is the send queue's first: 0, -errno, or 1: it has not. */
int verbs_inband_first_status(const struct verbs_inband *inband);
/* It is reported. */
void verbs_inband_pop(struct verbs_inband *inband);

#endif

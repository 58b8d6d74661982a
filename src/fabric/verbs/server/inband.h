/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's side of in-band requests of one channel: a few receives and as many answers, in
 * memory registered in the session's protection domain.  The client has no more than
 * VERBS_CREDITS requests without an answer; if it sends more, no receive is posted for them
 * and its queue pair goes to ERROR.
 *
 * The poller finds this structure by the number in a completion, acquires the session's lock,
 * serves the request and releases the lock.  The loop removes the structure from the device's
 * channel ids and then acquires and releases the lock once; after that the poller does not use
 * it any more.  Threads: see each function. */
#ifndef FABRIC_VERBS_SERVER_INBAND_H
#define FABRIC_VERBS_SERVER_INBAND_H

#include <infiniband/verbs.h>

#include "base/list.h"
#include "fabric/inband.h"
#include "fabric/verbs/common/credits.h"
#include "base/fair_lock.h"

/* siw sends a message this short wrongly if it crosses a page, so its alignment prevents that. */
struct verbs_inband_answer {
	_Alignas(32) struct inband_answer inband;
};

struct verbs_inband_server {
	/* constant */
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint64_t number; /* the channel's, from the device's channel ids */
	struct fair_lock *lock;
	struct inband_memory memory; /* what requests may reach */
	struct list leaked;          /* [loop] */
	/* with the lock held */
	const char *
		violation; /* static: how the client broke the rules; NULL: it did not */
	unsigned n_sends;  /* answers under way, */
	unsigned next_send;        /* and the place of the next */
	unsigned first, n_waiting; /* requests that have come, a ring */
	struct {
		unsigned receive;
		uint32_t bytes;
	} waiting[VERBS_CREDITS];
	/* the device's, too */
	struct inband_request requests[VERBS_CREDITS];
	struct verbs_inband_answer answers[VERBS_CREDITS];
};

/* Entries of a channel in the device's completion queue, at most. */
#define VERBS_INBAND_CQES (2 * VERBS_CREDITS)

/* What the completions of a channel carry: its number, and which one it is.  Numbers leave
 * room for that. */
#define VERBS_INBAND_SEND VERBS_CREDITS
static inline uint64_t verbs_inband_wr_id(uint64_t number, unsigned which)
{
	return number | (uint64_t)which << 24;
}

static inline uint64_t verbs_inband_wr_channel(uint64_t id)
{
	return id & ~(UINT64_C(0xff) << 24);
}

static inline unsigned verbs_inband_wr_slot(uint64_t id)
{
	return (unsigned)(id >> 24) & 0xff;
}

/* Make one for a queue pair that is not connected yet, and post its receives.  Borrows the
 * lock and the memory's context.  -errno with text.  [loop] */
int verbs_inband_server_open(struct ibv_qp *qp, uint64_t number, struct fair_lock *lock,
			     const struct inband_memory *memory,
			     struct verbs_inband_server **ret_desk);
/* The poller cannot find it any more.  Its queue pair may still be there: what is
 * deregistered is not written to; where that fails the memory stays.  NULL: nothing.
 * [loop] */
void verbs_inband_server_free(struct verbs_inband_server *inband);

/* A completion of its queue pair that is no error.  [poller], with the lock held */
void verbs_inband_server_serve(struct verbs_inband_server *inband,
			       const struct ibv_wc *wc);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's side of in-band requests of one channel: a few receives and as many answers, in
 * memory registered in the session's protection domain.  The client has no more than
 * INBAND_CREDITS requests without an answer; if it sends more, no receive is posted for them
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
#include "base/fair_lock.h"

/* siw transmits a message this short wrongly if it crosses a page, which the alignment prevents. */
struct verbs_inband_answer {
	_Alignas(32) struct inband_answer inband;
};

struct verbs_inband_server {
	/* constant */
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint64_t number; /* the channel's, from the device's channel ids */
	struct fair_lock *lock;
	struct inband_memory memory; /* what requests may access */
	struct list leaked;
	/* with the lock held */
	const char *violation; /* static: the rule that the client broke; NULL: none */
	unsigned n_sends;      /* answers not completed */
	unsigned next_send;    /* index of the next answer */
	unsigned first, n_waiting; /* a ring of received requests */
	struct {
		unsigned receive;
		uint32_t bytes;
	} waiting[INBAND_CREDITS];
	/* also written by the device */
	struct inband_request requests[INBAND_CREDITS];
	struct verbs_inband_answer answers[INBAND_CREDITS];
};

/* Limit of a channel's entries in the device's completion queue. */
#define VERBS_INBAND_CQES (2 * INBAND_CREDITS)

/* The wr_id of a channel's completions: its number, and the index of the receive, or
 * VERBS_INBAND_SEND.  Numbers leave bits 24 to 31 free. */
#define VERBS_INBAND_SEND INBAND_CREDITS
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

/* Create it for an unconnected queue pair, and post its receives.  Borrows the lock
 * and the memory's context.  -errno with text.  [worker] */
int verbs_inband_server_open(struct ibv_qp *qp, uint64_t number, struct fair_lock *lock,
			     const struct inband_memory *memory,
			     struct verbs_inband_server **ret_inband);
/* Free it once the poller cannot find it any more.  Its queue pair may still exist, but the device
 * does not write to deregistered memory; if deregistering fails, the memory is leaked.  NULL: no
 * effect.  [worker] */
void verbs_inband_server_free(struct verbs_inband_server *inband);

/* Handle a successful completion of the queue pair.  [poller], with the lock held */
void verbs_inband_server_serve(struct verbs_inband_server *inband,
			       const struct ibv_wc *wc);

#endif

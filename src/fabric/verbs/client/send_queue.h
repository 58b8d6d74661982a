/* SPDX-License-Identifier: BSD-3-Clause */
/* The send queue: the work requests of a queue pair, which complete in the order in which they are
 * posted.  So only some are signaled: the entry of a request also completes all requests before it.
 * Threads: [owner]. */
#ifndef FABRIC_VERBS_CLIENT_SEND_QUEUE_H
#define FABRIC_VERBS_CLIENT_SEND_QUEUE_H

#include <infiniband/verbs.h>
#include <stdlib.h>

#include "base/modular.h"
#include "fabric/client.h"
#include "fabric/verbs/client/domain.h"

/* Bit 0 of a wr_id that is not the address of a verbs_wr, which is even. */
#define VERBS_WR_ID_OTHER 1u

enum verbs_wr_kind {
	VERBS_WR_OPERATION, /* completes an operation */
	VERBS_WR_HEAD,      /* the first part of an operation cut in two */
	VERBS_WR_CONFIRM,   /* a read that confirms the writes before it */
};

/* A work request, for its completion. */
struct verbs_wr {
	struct fabric_channel *channel; /* constant */
	enum verbs_wr_kind kind;        /* VERBS_WR_OPERATION in unused slots */
};

/* The completion status of n consecutive requests. */
struct verbs_outcome {
	unsigned n;
	enum ibv_wc_status status;
	uint32_t vendor;
};

/* Requests before an error, requests that the error puts in doubt, the failed request, and the
 * flushed requests after it. */
#define VERBS_OUTCOMES_MAX 4

struct verbs_sq {
	/* rings of mask + 1 slots: n_posted requests from `first` on are not reported, and the
	 * first n_completed of them are complete, with `outcomes`.  The constant members of
	 * `send` are set at the start. */
	struct verbs_wr *requests;
	struct ibv_send_wr *send;
	struct ibv_sge *sge;
	/* sge_max elements for each slot, for requests with several; NULL: no such request yet */
	struct ibv_sge *sge_lists;
	unsigned sge_max;
	bool has_sges;       /* an unposted request has several */
	unsigned size, mask; /* limit of requests; slots - 1 */
	unsigned first, n_posted, n_completed;
	unsigned n_unposted;   /* the last of n_posted: prepared, not posted */
	unsigned n_internal;   /* requests that complete no operation */
	uint32_t inline_bytes; /* writes up to this size are inline */
	struct verbs_outcome outcomes[VERBS_OUTCOMES_MAX];
	unsigned n_outcomes;
	/* for verbs_sq_post_one(), instead of a slot of `send` */
	struct ibv_send_wr single, *bad;
	struct ibv_sge single_sge;
	unsigned n_inband; /* unreported in-band requests */
	/* n_inband + n_outcomes; 0: an entry can be reported directly */
	unsigned n_slow;
};

/* -ENOMEM. */
int verbs_sq_create(struct verbs_sq *sq, unsigned size, unsigned sge_max,
		    struct fabric_channel *channel);
void verbs_sq_destroy(struct verbs_sq *sq);

/* Append a request; there is room. */
void verbs_sq_add(struct verbs_sq *sq, const struct fabric_batch *batch,
		  const struct fabric_op *op, enum verbs_wr_kind kind);
/* Append n operations, each with one request.  Returns n. */
unsigned verbs_sq_add_all(struct verbs_sq *sq, const struct fabric_batch *batch,
			  const struct fabric_op *ops, size_t stride, unsigned n);
/* Allocate the elements of operations with several.  -ENOMEM. */
int verbs_sq_alloc_sges(struct verbs_sq *sq);
/* Append an operation with up to sge_max elements. */
void verbs_sq_add_sges(struct verbs_sq *sq, const struct fabric_batch *batch,
		       const struct fabric_op *op, const struct fabric_sge *sges,
		       unsigned n);
/* Append an atomic. */
void verbs_sq_add_atomic(struct verbs_sq *sq, const struct fabric_batch *batch,
			 const struct fabric_op *op,
			 const struct fabric_atomic *atomic);
/* Append a message; returns its slot.
 *   fence  the device sends it after earlier reads are done */
unsigned verbs_sq_add_send(struct verbs_sq *sq, const void *message, uint32_t bytes,
			   uint32_t lkey, bool fence);
/* Post all unposted requests, of which there is at least one.  Drops requests that the device
 * refuses with *ret_errno.  Returns how many operations the posted requests complete. */
unsigned verbs_sq_post(struct verbs_sq *sq, struct ibv_qp *qp, int *ret_errno);
/* Drop all unposted requests. */
void verbs_sq_drop(struct verbs_sq *sq);

/* The request of an entry of the completion queue, except VERBS_WAKEUP_WR_ID.  In a failed entry
 * only wr_id, status and vendor_err are valid. */
static inline const struct verbs_wr *verbs_sq_wr(const struct ibv_wc *wc)
{
	return (const struct verbs_wr *)(uintptr_t)wc->wr_id;
}

/* The slot n after `at`; both are at most `size`. */
static inline unsigned verbs_sq_slot(const struct verbs_sq *sq, unsigned at, unsigned n)
{
	return (at + n) & sq->mask;
}

/* The key of the local memory; inline data has no region and needs none. */
static inline uint32_t verbs_sq_lkey(const struct fabric_local_mr *region)
{
	return region ? region->mr->lkey : 0;
}

/* Append one operation to a queue without unposted requests, and post it.  Returns 1; 0: the device
 * failed, but may have accepted it; or -errno: the device refused it. */
static inline int verbs_sq_post_one(struct verbs_sq *sq, struct ibv_qp *qp,
				    enum fabric_opcode opcode, uint32_t lkey,
				    const struct fabric_key *key,
				    const struct fabric_op *op)
{
	unsigned at = verbs_sq_slot(sq, sq->first, sq->n_posted);
	struct ibv_send_wr *send = &sq->single;
	uint64_t bytes = op->bytes;
	int err;

	send->wr_id = (uintptr_t)&sq->requests[at];
	send->opcode = IBV_WR_RDMA_READ;
	send->send_flags = IBV_SEND_SIGNALED;
	if (opcode == FABRIC_WRITE) {
		send->opcode = IBV_WR_RDMA_WRITE;
		if (bytes <= sq->inline_bytes)
			send->send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
	}
	send->wr.rdma.remote_addr = key->addr + op->offset;
	send->wr.rdma.rkey = (uint32_t)key->rkey;
	sq->single_sge.addr = (uintptr_t)op->addr;
	sq->single_sge.length = (uint32_t)bytes;
	sq->single_sge.lkey = lkey;
	sq->bad = send;
	err = ibv_post_send(qp, send, &sq->bad);
	if (err && sq->bad)
		return -abs(err);
	sq->n_posted++;
	return !err;
}

MODULAR static inline unsigned verbs_sq_distance(const struct verbs_sq *sq,
						 unsigned from, unsigned to)
{
	return (to - from) & sq->mask;
}

/* Before n requests after the first `skip` are removed: returns how many of them complete no
 * operation. */
unsigned verbs_sq_internal_end(struct verbs_sq *sq, unsigned skip, unsigned n);
/* Remove the first n requests, which complete an operation each. */
static inline void verbs_sq_retire_plain(struct verbs_sq *sq, unsigned n)
{
	sq->first = verbs_sq_slot(sq, sq->first, n);
	sq->n_posted -= n;
}

/* Remove the first n requests; returns how many operations they complete. */
static inline unsigned verbs_sq_retire(struct verbs_sq *sq, unsigned n)
{
	unsigned internal = sq->n_internal == 0 ? 0 : verbs_sq_internal_end(sq, 0, n);

	verbs_sq_retire_plain(sq, n);
	return n - internal;
}

/* How many requests the entry completes: its own request and incomplete requests before it; 0: its
 * own request was flushed before. */
static inline unsigned verbs_sq_covered(const struct verbs_sq *sq,
					const struct ibv_wc *wc)
{
	unsigned at = (unsigned)(verbs_sq_wr(wc) - sq->requests);
	unsigned next = verbs_sq_slot(sq, sq->first, sq->n_completed);
	unsigned n = verbs_sq_distance(sq, next, at) + 1;

	return n <= sq->n_posted - sq->n_completed ? n : 0;
}

/* As above, if all complete requests are reported. */
static inline unsigned verbs_sq_covered_plain(const struct verbs_sq *sq,
					      const struct ibv_wc *wc)
{
	unsigned at = (unsigned)(verbs_sq_wr(wc) - sq->requests);
	unsigned before = verbs_sq_distance(sq, sq->first, at);

	return before < sq->n_posted ? before + 1 : 0;
}

static inline void verbs_sq_outcome_new(struct verbs_sq *sq, unsigned n,
					enum ibv_wc_status status, uint32_t vendor)
{
	sq->outcomes[sq->n_outcomes++] = (struct verbs_outcome){ n, status, vendor };
	sq->n_slow++;
}

/* n more requests are complete. */
static inline void verbs_sq_outcome(struct verbs_sq *sq, unsigned n,
				    enum ibv_wc_status status, uint32_t vendor)
{
	struct verbs_outcome *next = &sq->outcomes[sq->n_outcomes];

	sq->n_completed += n;
	if (sq->n_outcomes > 0 &&
	    (next[-1].status == status || sq->n_outcomes == VERBS_OUTCOMES_MAX))
		next[-1].n += n;
	else
		verbs_sq_outcome_new(sq, n, status, vendor);
}

/* The entry completes n requests: its own, and n - 1 before it with status `before`. */
static inline void verbs_sq_complete(struct verbs_sq *sq, unsigned n,
				     const struct ibv_wc *wc, enum ibv_wc_status before)
{
	/* one outcome if the statuses are equal */
	if (n > 1 && before != wc->status) {
		verbs_sq_outcome(sq, n - 1, before, wc->vendor_err);
		n = 1;
	}
	verbs_sq_outcome(sq, n, wc->status, wc->vendor_err);
}

/* No more entries will come: incomplete requests are flushed. */
static inline void verbs_sq_flush(struct verbs_sq *sq)
{
	if (sq->n_posted > sq->n_completed)
		verbs_sq_outcome(sq, sq->n_posted - sq->n_completed,
				 IBV_WC_WR_FLUSH_ERR, 0);
}

/* Remove the requests of the first outcome, up to `max`; there is one.  Returns how many operations
 * they complete. */
static inline unsigned verbs_sq_pop_completed(struct verbs_sq *sq, unsigned max,
					      struct verbs_outcome *ret_outcome)
{
	*ret_outcome = sq->outcomes[0];
	if (ret_outcome->n > max) {
		ret_outcome->n = max;
		sq->outcomes[0].n -= max;
		sq->n_completed -= max;
		return verbs_sq_retire(sq, max);
	}
	sq->n_completed -= ret_outcome->n;
	sq->n_outcomes--;
	sq->n_slow--;
	for (unsigned i = 0; i < sq->n_outcomes; i++)
		sq->outcomes[i] = sq->outcomes[i + 1];
	return verbs_sq_retire(sq, ret_outcome->n);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The send queue: the work requests of a queue pair in the order they are posted, which is the
 * order they complete.  So only some are signaled, and each completion stands for all
 * requests before it, too.  Threads: [owner]. */
#ifndef FABRIC_VERBS_CLIENT_SEND_QUEUE_H
#define FABRIC_VERBS_CLIENT_SEND_QUEUE_H

#include <infiniband/verbs.h>
#include <stdlib.h>

#include "fabric/fabric.h"
#include "fabric/verbs/client/domain.h"

/* Bit 0 of the wr_id of all others: the wr_id of a request is its address, which is even. */
#define VERBS_WR_ID_OTHER 1u

enum verbs_wr_kind {
	VERBS_WR_OPERATION, /* completes an operation */
	VERBS_WR_HEAD,      /* first part of an operation that is cut in two */
	VERBS_WR_CONFIRM,   /* a read that confirms the writes before it */
};

/* What is to be known of a request once it has ended. */
struct verbs_wr {
	struct fabric_channel *channel; /* constant */
	enum verbs_wr_kind kind;        /* the caller's where nothing is posted */
};

/* How so many requests, one behind the other, have ended. */
struct verbs_outcome {
	unsigned n;
	enum ibv_wc_status status;
	uint32_t vendor;
};

/* Those before an error, those it puts in doubt, the one it is of, those behind it: more
 * there cannot be, as a queue pair in ERROR only flushes. */
#define VERBS_OUTCOMES_MAX 4

struct verbs_sq {
	/* Of `size` or more, a power of two: n_posted from `first` on are not reported, and
	 * the first n_ended of them have ended, as `runs` tell.  What never changes of a
	 * request is in `send` from the start. */
	struct verbs_wr *requests;
	struct ibv_send_wr *send;
	struct ibv_sge *sge;
	/* sge_max for each, of those that have several; NULL: none had yet */
	struct ibv_sge *sge_lists;
	unsigned sge_max;
	bool has_sges;       /* some of the fresh ones have */
	unsigned size, mask; /* of those that are used, and of places */
	unsigned first, n_posted, n_completed;
	unsigned n_unposted;   /* the last ones, that are put but not posted */
	unsigned n_internal;   /* of all, that complete no operation */
	uint32_t inline_bytes; /* writes up to that carry their bytes in the request */
	struct verbs_outcome outcomes[VERBS_OUTCOMES_MAX];
	unsigned n_outcomes;
	/* for verbs_sq_post_one(): posted instead of one of `send` */
	struct ibv_send_wr single, *bad;
	struct ibv_sge single_sge;
	unsigned n_inband; /* of all, that wait for an answer, or for its report */
	unsigned n_slow;   /* both together: what ends next must go the long way */
};

/* -ENOMEM. */
int verbs_sq_create(struct verbs_sq *sq, unsigned size, unsigned sge_max,
		    struct fabric_channel *channel);
void verbs_sq_destroy(struct verbs_sq *sq);

/* Put a request behind the others; there is room. */
void verbs_sq_add(struct verbs_sq *sq, const struct fabric_batch *batch,
		  const struct fabric_op *op, enum verbs_wr_kind kind);
/* Put n operations there, a request each.  Returns n. */
unsigned verbs_sq_add_all(struct verbs_sq *sq, const struct fabric_batch *batch,
			  const struct fabric_op *ops, size_t stride, unsigned n);
/* See that there is room for the slices of operations that have several.  -ENOMEM. */
int verbs_sq_alloc_sges(struct verbs_sq *sq);
/* Put an operation there that has several slices, sge_max at most. */
void verbs_sq_add_sges(struct verbs_sq *sq, const struct fabric_batch *batch,
		       const struct fabric_op *op, const struct fabric_sge *sges,
		       unsigned n);
/* Put an atomic there. */
void verbs_sq_add_atomic(struct verbs_sq *sq, const struct fabric_batch *batch,
			 const struct fabric_op *op,
			 const struct fabric_atomic *atomic);
/* Put an operation there that is a message; returns its place.
 *   fence  it waits for the reads before it */
unsigned verbs_sq_add_send(struct verbs_sq *sq, const void *message, uint32_t bytes,
			   uint32_t lkey, bool fence);
/* Post all that was put there, at least one.  When the device refuses some, with its
 * errno, they are forgotten.  Returns how many operations those it took complete. */
unsigned verbs_sq_post(struct verbs_sq *sq, struct ibv_qp *qp, int *ret_errno);
/* Forget all that was put there. */
void verbs_sq_drop(struct verbs_sq *sq);

/* The request of an entry in the completion queue, but for VERBS_WAKEUP_WR_ID.  Of a failed entry
 * nothing is valid but wr_id, status and vendor_err. */
static inline const struct verbs_wr *verbs_sq_wr(const struct ibv_wc *wc)
{
	return (const struct verbs_wr *)(uintptr_t)wc->wr_id;
}

/* The place n behind `at`; both are at most `size`. */
static inline unsigned verbs_sq_slot(const struct verbs_sq *sq, unsigned at, unsigned n)
{
	return (at + n) & sq->mask;
}

/* What a request is made of that the whole run has in common. */
struct verbs_wr_template {
	enum ibv_wr_opcode opcode;
	uint32_t lkey, rkey;
	uint64_t remote_addr;
	uint64_t inline_bytes;
};

static inline struct verbs_wr_template
verbs_sq_template(const struct verbs_sq *sq, const struct fabric_batch *batch)
{
	bool write = batch->opcode == FABRIC_WRITE;

	return (struct verbs_wr_template){
		.opcode = write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
		.lkey = batch->region->mr->lkey,
		.rkey = (uint32_t)batch->rkey,
		.remote_addr = batch->remote_addr,
		.inline_bytes = write ? sq->inline_bytes : 0,
	};
}

static inline void verbs_sq_fill(struct ibv_send_wr *send, struct ibv_sge *sge,
				 const struct verbs_wr_template *common,
				 const struct fabric_op *op, unsigned flags)
{
	sge->addr = (uintptr_t)op->addr;
	sge->length = (uint32_t)op->bytes;
	sge->lkey = common->lkey;
	send->opcode = common->opcode;
	if (op->bytes <= common->inline_bytes)
		flags |= IBV_SEND_INLINE;
	send->send_flags = flags;
	send->wr.rdma.remote_addr = common->remote_addr + op->offset;
	send->wr.rdma.rkey = common->rkey;
}

/* Put one operation there, where nothing else is put, and post it.  Returns 1; 0 when the
 * device failed, but may have taken it; or -errno, as it refused. */
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

static inline unsigned verbs_sq_distance(const struct verbs_sq *sq, unsigned from,
					 unsigned to)
{
	return (to - from) & sq->mask;
}

unsigned verbs_sq_internal_count(const struct verbs_sq *sq, unsigned skip, unsigned n);
/* They are about to be taken out; returns how many of them completed no operation. */
unsigned verbs_sq_internal_end(struct verbs_sq *sq, unsigned skip, unsigned n);
/* How many of n requests, behind the first `skip`, complete no operation. */
static inline unsigned verbs_sq_internal(const struct verbs_sq *sq, unsigned skip,
					 unsigned n)
{
	return sq->n_internal == 0 ? 0 : verbs_sq_internal_count(sq, skip, n);
}

/* Take out the first n requests, of which each completes an operation. */
static inline void verbs_sq_retire_plain(struct verbs_sq *sq, unsigned n)
{
	sq->first = verbs_sq_slot(sq, sq->first, n);
	sq->n_posted -= n;
}

/* Take out the first n requests; returns how many operations they complete. */
static inline unsigned verbs_sq_retire(struct verbs_sq *sq, unsigned n)
{
	unsigned internal = sq->n_internal == 0 ? 0 : verbs_sq_internal_end(sq, 0, n);

	verbs_sq_retire_plain(sq, n);
	return n - internal;
}

/* How many requests the entry speaks for, its own and those before that have not ended; 0
 * for one that was given up already. */
static inline unsigned verbs_sq_covered(const struct verbs_sq *sq,
					const struct ibv_wc *wc)
{
	unsigned at = (unsigned)(verbs_sq_wr(wc) - sq->requests);
	unsigned next = verbs_sq_slot(sq, sq->first, sq->n_completed);
	unsigned n = verbs_sq_distance(sq, next, at) + 1;

	return n <= sq->n_posted - sq->n_completed ? n : 0;
}

/* The same where none has ended that is not reported. */
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

/* So many more have ended. */
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

/* n requests have ended by the entry: its own, and those before with `before`. */
static inline void verbs_sq_complete(struct verbs_sq *sq, unsigned n,
				     const struct ibv_wc *wc, enum ibv_wc_status before)
{
	/* one run, where they ended alike */
	if (n > 1 && before != wc->status) {
		verbs_sq_outcome(sq, n - 1, before, wc->vendor_err);
		n = 1;
	}
	verbs_sq_outcome(sq, n, wc->status, wc->vendor_err);
}

/* No more entries will come: what has not ended is flushed. */
static inline void verbs_sq_flush(struct verbs_sq *sq)
{
	if (sq->n_posted > sq->n_completed)
		verbs_sq_outcome(sq, sq->n_posted - sq->n_completed,
				 IBV_WC_WR_FLUSH_ERR, 0);
}

/* Take out the requests that have ended first, and alike, `max` at most; there is a run.
 * Returns how many operations they complete. */
static inline unsigned verbs_sq_take(struct verbs_sq *sq, unsigned max,
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

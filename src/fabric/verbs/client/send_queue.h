/* SPDX-License-Identifier: BSD-3-Clause */
/* The work requests of a queue pair, in the order in which they are posted, which is the
 * order in which they complete: so only some ask for an entry in the completion queue,
 * and each entry stands for all before it.  Threads: [owner]. */
#ifndef FABRIC_VERBS_CLIENT_SEND_QUEUE_H
#define FABRIC_VERBS_CLIENT_SEND_QUEUE_H

#include <infiniband/verbs.h>
#include <stdlib.h>

#include "fabric/fabric.h"
#include "fabric/verbs/client/domain.h"

/* In the wr_id of what is not a request of a ring: those are addresses, and even. */
#define VERBS_ASIDE 1u

enum verbs_role {
	VERBS_ROLE_CALLERS, /* completes an operation */
	VERBS_ROLE_HEAD,    /* first part of an operation that is cut in two */
	VERBS_ROLE_CONFIRM, /* a read that confirms the writes before it */
};

/* What is to be known of a request once it has ended. */
struct verbs_request {
	struct fabric_channel *channel; /* constant */
	enum verbs_role role;           /* the caller's where nothing is posted */
};

/* How so many requests, one behind the other, have ended. */
struct verbs_run {
	unsigned n;
	enum ibv_wc_status status;
	uint32_t vendor;
};

/* Those before an error, those it puts in doubt, the one it is of, those behind it: more
 * there cannot be, as a queue pair in ERROR only flushes. */
#define VERBS_RUNS_MAX 4

struct verbs_ring {
	/* Of `size` or more, a power of two: n_posted from `first` on are not reported, and
	 * the first n_ended of them have ended, as `runs` tell.  What never changes of a
	 * request is in `send` from the start. */
	struct verbs_request *requests;
	struct ibv_send_wr *send;
	struct ibv_sge *sge;
	/* sge_max for each, of those that have several; NULL: none had yet */
	struct ibv_sge *slices;
	unsigned sge_max;
	bool sliced;         /* some of the fresh ones have */
	unsigned size, mask; /* of those that are used, and of places */
	unsigned first, n_posted, n_ended;
	unsigned n_fresh;      /* the last ones, that are put but not posted */
	unsigned n_parts;      /* of all, that complete no operation */
	uint32_t inline_bytes; /* writes up to that carry their bytes in the request */
	struct verbs_run runs[VERBS_RUNS_MAX];
	unsigned n_runs;
	/* for verbs_ring_post_one(): it is posted in the place of one of `send` */
	struct ibv_send_wr alone, *bad;
	struct ibv_sge alone_sge;
	unsigned n_asked; /* of all, that wait for an answer, or for its report */
	unsigned n_slow;  /* both together: what ends next must go the long way */
};

/* -ENOMEM. */
int verbs_ring_create(struct verbs_ring *ring, unsigned size, unsigned sge_max,
		      struct fabric_channel *channel);
void verbs_ring_destroy(struct verbs_ring *ring);

/* Put a request behind the others; there is room. */
void verbs_ring_put(struct verbs_ring *ring, const struct fabric_batch *run,
		    const struct fabric_op *part, enum verbs_role role);
/* Put n operations there, a request each.  Returns n. */
unsigned verbs_ring_put_all(struct verbs_ring *ring, const struct fabric_batch *run,
			    const struct fabric_op *parts, size_t stride, unsigned n);
/* See that there is room for the slices of operations that have several.  -ENOMEM. */
int verbs_ring_slices(struct verbs_ring *ring);
/* Put an operation there that has several slices, sge_max at most. */
void verbs_ring_put_slices(struct verbs_ring *ring, const struct fabric_batch *run,
			   const struct fabric_op *part,
			   const struct fabric_sge *slices, unsigned n);
/* Put an atomic there. */
void verbs_ring_put_atomic(struct verbs_ring *ring, const struct fabric_batch *run,
			   const struct fabric_op *part,
			   const struct fabric_atomic *atomic);
/* Put an operation there that is a message; returns its place.
 *   fence  it waits for the reads before it */
unsigned verbs_ring_put_send(struct verbs_ring *ring, const void *message,
			     uint32_t bytes, uint32_t lkey, bool fence);
/* Post all that was put there, at least one.  When the device refuses some, with its
 * errno, they are forgotten.  Returns how many operations those it took complete. */
unsigned verbs_ring_post(struct verbs_ring *ring, struct ibv_qp *qp, int *ret_errno);
/* Forget all that was put there. */
void verbs_ring_drop(struct verbs_ring *ring);

/* The request of an entry in the completion queue, but for VERBS_POKE_ID.  Of a failed entry
 * nothing is valid but wr_id, status and vendor_err. */
static inline const struct verbs_request *verbs_ring_request(const struct ibv_wc *wc)
{
	return (const struct verbs_request *)(uintptr_t)wc->wr_id;
}

/* The place n behind `at`; both are at most `size`. */
static inline unsigned verbs_ring_place(const struct verbs_ring *ring, unsigned at,
					unsigned n)
{
	return (at + n) & ring->mask;
}

/* What a request is made of that the whole run has in common. */
struct verbs_common {
	enum ibv_wr_opcode opcode;
	uint32_t lkey, rkey;
	uint64_t remote_addr;
	uint64_t inline_bytes;
};

static inline struct verbs_common verbs_ring_common(const struct verbs_ring *ring,
						    const struct fabric_batch *run)
{
	bool write = run->opcode == FABRIC_WRITE;

	return (struct verbs_common){
		.opcode = write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
		.lkey = run->region->mr->lkey,
		.rkey = (uint32_t)run->rkey,
		.remote_addr = run->remote_addr,
		.inline_bytes = write ? ring->inline_bytes : 0,
	};
}

static inline void verbs_ring_fill(struct ibv_send_wr *send, struct ibv_sge *sge,
				   const struct verbs_common *run,
				   const struct fabric_op *part, unsigned flags)
{
	sge->addr = (uintptr_t)part->addr;
	sge->length = (uint32_t)part->bytes;
	sge->lkey = run->lkey;
	send->opcode = run->opcode;
	if (part->bytes <= run->inline_bytes)
		flags |= IBV_SEND_INLINE;
	send->send_flags = flags;
	send->wr.rdma.remote_addr = run->remote_addr + part->offset;
	send->wr.rdma.rkey = run->rkey;
}

/* Put one operation there, where nothing else is put, and post it.  Returns 1; 0 when the
 * device failed, but may have taken it; or -errno, as it refused. */
static inline int verbs_ring_post_one(struct verbs_ring *ring, struct ibv_qp *qp,
				      enum fabric_opcode opcode, uint32_t lkey,
				      const struct fabric_key *key,
				      const struct fabric_op *part)
{
	unsigned at = verbs_ring_place(ring, ring->first, ring->n_posted);
	struct ibv_send_wr *send = &ring->alone;
	uint64_t bytes = part->bytes;
	int err;

	send->wr_id = (uintptr_t)&ring->requests[at];
	send->opcode = IBV_WR_RDMA_READ;
	send->send_flags = IBV_SEND_SIGNALED;
	if (opcode == FABRIC_WRITE) {
		send->opcode = IBV_WR_RDMA_WRITE;
		if (bytes <= ring->inline_bytes)
			send->send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
	}
	send->wr.rdma.remote_addr = key->addr + part->offset;
	send->wr.rdma.rkey = (uint32_t)key->rkey;
	ring->alone_sge.addr = (uintptr_t)part->addr;
	ring->alone_sge.length = (uint32_t)bytes;
	ring->alone_sge.lkey = lkey;
	ring->bad = send;
	err = ibv_post_send(qp, send, &ring->bad);
	if (err && ring->bad)
		return -abs(err);
	ring->n_posted++;
	return !err;
}

static inline unsigned verbs_ring_distance(const struct verbs_ring *ring, unsigned from,
					   unsigned to)
{
	return (to - from) & ring->mask;
}

unsigned verbs_ring_parts_count(const struct verbs_ring *ring, unsigned skip,
				unsigned n);
/* They are about to be taken out; returns how many of them completed no operation. */
unsigned verbs_ring_parts_end(struct verbs_ring *ring, unsigned skip, unsigned n);
/* How many of n requests, behind the first `skip`, complete no operation. */
static inline unsigned verbs_ring_parts(const struct verbs_ring *ring, unsigned skip,
					unsigned n)
{
	return ring->n_parts == 0 ? 0 : verbs_ring_parts_count(ring, skip, n);
}

/* Take out the first n requests, of which each completes an operation. */
static inline void verbs_ring_pass_plain(struct verbs_ring *ring, unsigned n)
{
	ring->first = verbs_ring_place(ring, ring->first, n);
	ring->n_posted -= n;
}

/* Take out the first n requests; returns how many operations they complete. */
static inline unsigned verbs_ring_pass(struct verbs_ring *ring, unsigned n)
{
	unsigned parts = ring->n_parts == 0 ? 0 : verbs_ring_parts_end(ring, 0, n);

	verbs_ring_pass_plain(ring, n);
	return n - parts;
}

/* How many requests the entry speaks for, its own and those before that have not ended; 0
 * for one that was given up already. */
static inline unsigned verbs_ring_reach(const struct verbs_ring *ring,
					const struct ibv_wc *wc)
{
	unsigned at = (unsigned)(verbs_ring_request(wc) - ring->requests);
	unsigned next = verbs_ring_place(ring, ring->first, ring->n_ended);
	unsigned n = verbs_ring_distance(ring, next, at) + 1;

	return n <= ring->n_posted - ring->n_ended ? n : 0;
}

/* The same where none has ended that is not reported. */
static inline unsigned verbs_ring_reach_plain(const struct verbs_ring *ring,
					      const struct ibv_wc *wc)
{
	unsigned at = (unsigned)(verbs_ring_request(wc) - ring->requests);
	unsigned before = verbs_ring_distance(ring, ring->first, at);

	return before < ring->n_posted ? before + 1 : 0;
}

static inline void verbs_ring_run_new(struct verbs_ring *ring, unsigned n,
				      enum ibv_wc_status status, uint32_t vendor)
{
	ring->runs[ring->n_runs++] = (struct verbs_run){ n, status, vendor };
	ring->n_slow++;
}

/* So many more have ended. */
static inline void verbs_ring_run(struct verbs_ring *ring, unsigned n,
				  enum ibv_wc_status status, uint32_t vendor)
{
	struct verbs_run *next = &ring->runs[ring->n_runs];

	ring->n_ended += n;
	if (ring->n_runs > 0 &&
	    (next[-1].status == status || ring->n_runs == VERBS_RUNS_MAX))
		next[-1].n += n;
	else
		verbs_ring_run_new(ring, n, status, vendor);
}

/* n requests have ended by the entry: its own, and those before with `before`. */
static inline void verbs_ring_end(struct verbs_ring *ring, unsigned n,
				  const struct ibv_wc *wc, enum ibv_wc_status before)
{
	/* one run, where they ended alike */
	if (n > 1 && before != wc->status) {
		verbs_ring_run(ring, n - 1, before, wc->vendor_err);
		n = 1;
	}
	verbs_ring_run(ring, n, wc->status, wc->vendor_err);
}

/* No more entries will come: what has not ended is flushed. */
static inline void verbs_ring_flush(struct verbs_ring *ring)
{
	if (ring->n_posted > ring->n_ended)
		verbs_ring_run(ring, ring->n_posted - ring->n_ended,
			       IBV_WC_WR_FLUSH_ERR, 0);
}

/* Take out the requests that have ended first, and alike, `max` at most; there is a run.
 * Returns how many operations they complete. */
static inline unsigned verbs_ring_take(struct verbs_ring *ring, unsigned max,
				       struct verbs_run *ret_run)
{
	*ret_run = ring->runs[0];
	if (ret_run->n > max) {
		ret_run->n = max;
		ring->runs[0].n -= max;
		ring->n_ended -= max;
		return verbs_ring_pass(ring, max);
	}
	ring->n_ended -= ret_run->n;
	ring->n_runs--;
	ring->n_slow--;
	for (unsigned i = 0; i < ring->n_runs; i++)
		ring->runs[i] = ring->runs[i + 1];
	return verbs_ring_pass(ring, ret_run->n);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/client/send_queue.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/rare.h"
#include "fabric/verbs/client/domain.h"

/* Each SIGNAL_EVERYth request of a batch, and the last one, is signaled. */
#define SIGNAL_EVERY 32

int verbs_sq_create(struct verbs_sq *sq, unsigned size, unsigned sge_max,
		    struct fabric_channel *channel)
{
	unsigned places = 1;

	while (places < size)
		places *= 2;
	*sq = (struct verbs_sq){
		.requests = calloc(places, sizeof(*sq->requests)),
		.send = malloc(places * sizeof(*sq->send)),
		.sge = malloc(places * sizeof(*sq->sge)),
		.sge_max = sge_max,
		.size = size,
		.mask = places - 1,
	};
	if (!sq->requests || !sq->send || !sq->sge) {
		verbs_sq_destroy(sq);
		return err_errno(-ENOMEM, "%u work requests", size);
	}
	sq->single = (struct ibv_send_wr){ .sg_list = &sq->single_sge, .num_sge = 1 };
	for (unsigned i = 0; i < places; i++) {
		sq->requests[i].channel = channel;
		sq->send[i] = (struct ibv_send_wr){
			.wr_id = (uintptr_t)&sq->requests[i],
			.sg_list = &sq->sge[i],
			.num_sge = 1,
			.next = &sq->send[(i + 1) & sq->mask],
		};
	}
	return 0;
}

void verbs_sq_destroy(struct verbs_sq *sq)
{
	free(sq->requests);
	free(sq->send);
	free(sq->sge);
	free(sq->sge_lists);
}

/* The next n requests, which lie side by side from place `at` on. */
static void fill(struct verbs_sq *sq, unsigned at, const struct fabric_batch *batch,
		 const struct fabric_op *ops, size_t stride, unsigned n)
{
	const char *op_at = (const char *)ops;
	struct ibv_send_wr *send = &sq->send[at];
	struct ibv_sge *sge = &sq->sge[at];
	const struct verbs_wr_template common = verbs_sq_template(sq, batch);

	for (unsigned i = 0; i < n; i++, op_at += stride)
		verbs_sq_fill(&send[i], &sge[i], &common,
			      (const struct fabric_op *)op_at, 0);
	sq->n_posted += n;
	sq->n_unposted += n;
}

/* The same where they do not lie side by side. */
static RARE unsigned fill_wrapped(struct verbs_sq *sq, unsigned at,
				  const struct fabric_batch *batch,
				  const struct fabric_op *ops, size_t stride,
				  unsigned n)
{
	unsigned to_end = sq->mask + 1 - at;
	const char *rest = (const char *)ops + to_end * stride;

	fill(sq, at, batch, ops, stride, to_end);
	fill(sq, 0, batch, (const struct fabric_op *)rest, stride, n - to_end);
	return n;
}

unsigned verbs_sq_add_all(struct verbs_sq *sq, const struct fabric_batch *batch,
			  const struct fabric_op *ops, size_t stride, unsigned n)
{
	unsigned at = verbs_sq_slot(sq, sq->first, sq->n_posted);

	if (n > sq->mask + 1 - at)
		return fill_wrapped(sq, at, batch, ops, stride, n);
	fill(sq, at, batch, ops, stride, n);
	return n;
}

void verbs_sq_add(struct verbs_sq *sq, const struct fabric_batch *batch,
		  const struct fabric_op *op, enum verbs_wr_kind kind)
{
	if (kind != VERBS_WR_OPERATION) {
		sq->requests[verbs_sq_slot(sq, sq->first, sq->n_posted)].kind = kind;
		sq->n_internal++;
	}
	(void)verbs_sq_add_all(sq, batch, op, 0, 1);
}

int verbs_sq_alloc_sges(struct verbs_sq *sq)
{
	if (sq->sge_lists)
		return 0;
	sq->sge_lists =
		calloc((sq->mask + (size_t)1) * sq->sge_max, sizeof(*sq->sge_lists));
	return sq->sge_lists
		       ? 0
		       : err_errno(-ENOMEM, "the slices of %u work requests", sq->size);
}

void verbs_sq_add_sges(struct verbs_sq *sq, const struct fabric_batch *batch,
		       const struct fabric_op *op, const struct fabric_sge *sges,
		       unsigned n)
{
	unsigned at = verbs_sq_slot(sq, sq->first, sq->n_posted);
	struct ibv_sge *sge = &sq->sge_lists[(size_t)at * sq->sge_max];
	struct ibv_send_wr *send = &sq->send[at];

	for (unsigned i = 0; i < n; i++)
		sge[i] = (struct ibv_sge){
			.addr = (uintptr_t)sges[i].addr,
			.length = (uint32_t)sges[i].bytes,
			.lkey = sges[i].region->mr->lkey,
		};
	send->sg_list = sge;
	send->num_sge = (int)n;
	send->opcode =
		batch->opcode == FABRIC_WRITE ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
	send->send_flags = 0;
	send->wr.rdma.remote_addr = batch->remote_addr + op->offset;
	send->wr.rdma.rkey = (uint32_t)batch->rkey;
	sq->has_sges = true;
	sq->n_posted++;
	sq->n_unposted++;
}

/* The device has its own copy of what was posted: the fresh ones are as all others again,
 * from `start` on. */
static RARE void sges_reset(struct verbs_sq *sq, unsigned start, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		unsigned at = verbs_sq_slot(sq, start, i);

		sq->send[at].sg_list = &sq->sge[at];
		sq->send[at].num_sge = 1;
	}
	sq->has_sges = false;
}

void verbs_sq_add_atomic(struct verbs_sq *sq, const struct fabric_batch *batch,
			 const struct fabric_op *op, const struct fabric_atomic *atomic)
{
	unsigned at = verbs_sq_slot(sq, sq->first, sq->n_posted);
	bool swap = batch->opcode == FABRIC_CAS;
	struct ibv_send_wr *send = &sq->send[at];

	sq->sge[at] = (struct ibv_sge){
		.addr = (uintptr_t)op->addr,
		.length = FABRIC_ATOMIC_BYTES,
		.lkey = batch->region->mr->lkey,
	};
	send->opcode = swap ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD;
	send->send_flags = 0;
	send->wr.atomic.remote_addr = batch->remote_addr + op->offset;
	send->wr.atomic.compare_add = swap ? atomic->compare : atomic->operand;
	send->wr.atomic.swap = atomic->operand;
	send->wr.atomic.rkey = (uint32_t)batch->rkey;
	sq->n_posted++;
	sq->n_unposted++;
}

unsigned verbs_sq_add_send(struct verbs_sq *sq, const void *message, uint32_t bytes,
			   uint32_t lkey, bool fence)
{
	unsigned at = verbs_sq_slot(sq, sq->first, sq->n_posted);
	struct ibv_send_wr *send = &sq->send[at];

	sq->sge[at] = (struct ibv_sge){
		.addr = (uintptr_t)message,
		.length = bytes,
		.lkey = lkey,
	};
	send->opcode = IBV_WR_SEND;
	/* over iWARP it would complete before reads that are under way, and its entry
	 * stands for them */
	send->send_flags = fence ? IBV_SEND_FENCE : 0;
	if (bytes <= sq->inline_bytes)
		send->send_flags |= IBV_SEND_INLINE;
	sq->n_posted++;
	sq->n_unposted++;
	return at;
}

/* Keep so many of the fresh ones. */
static RARE void unposted_drop(struct verbs_sq *sq, unsigned n)
{
	unsigned drop = sq->n_unposted - n;

	(void)verbs_sq_internal_end(sq, sq->n_posted - drop, drop);
	sq->n_posted -= drop;
	sq->n_unposted = n;
}

void verbs_sq_drop(struct verbs_sq *sq)
{
	if (sq->has_sges)
		sges_reset(sq,
			   verbs_sq_slot(sq, sq->first, sq->n_posted - sq->n_unposted),
			   sq->n_unposted);
	unposted_drop(sq, 0);
}

/* Some of the fresh ones ask for an entry, the last always.  Where that is a confirming
 * read, no other may speak for the writes before it. */
static struct ibv_send_wr *signals_set(struct verbs_sq *sq, unsigned start)
{
	unsigned at = verbs_sq_slot(sq, start, sq->n_unposted - 1);
	bool confirms = sq->requests[at].kind == VERBS_WR_CONFIRM;
	unsigned n = confirms ? 0 : sq->n_unposted - 1;
	struct ibv_send_wr *last = &sq->send[at];

	for (unsigned i = SIGNAL_EVERY - 1; i < n; i += SIGNAL_EVERY)
		sq->send[verbs_sq_slot(sq, start, i)].send_flags |= IBV_SEND_SIGNALED;
	last->send_flags |= IBV_SEND_SIGNALED;
	return last;
}

/* The device failed.  What it took before `bad` may not ask for an entry, and has none if it
 * is done before the queue pair goes to ERROR.  siw names none when it has taken all, and
 * its kernel's half failed: that may still do them. */
static RARE void post_undo(struct verbs_sq *sq, unsigned start,
			   const struct ibv_send_wr *bad)
{
	if (bad)
		unposted_drop(sq,
			      verbs_sq_distance(sq, start, (unsigned)(bad - sq->send)));
}

unsigned verbs_sq_post(struct verbs_sq *sq, struct ibv_qp *qp, int *ret_errno)
{
	unsigned before = sq->n_posted - sq->n_unposted, n;
	unsigned start = verbs_sq_slot(sq, sq->first, before);
	struct ibv_send_wr *last = signals_set(sq, start), *behind = last->next;
	struct ibv_send_wr *bad = &sq->send[start];

	last->next = NULL;
	*ret_errno = ibv_post_send(qp, &sq->send[start], &bad);
	last->next = behind;
	if (sq->has_sges)
		sges_reset(sq, start, sq->n_unposted);
	if (*ret_errno)
		post_undo(sq, start, bad);
	n = sq->n_unposted;
	sq->n_unposted = 0;
	return n - verbs_sq_internal(sq, before, n);
}

unsigned verbs_sq_internal_count(const struct verbs_sq *sq, unsigned skip, unsigned n)
{
	unsigned internal = 0;

	for (unsigned i = skip; i < skip + n; i++)
		internal += sq->requests[verbs_sq_slot(sq, sq->first, i)].kind !=
			    VERBS_WR_OPERATION;
	return internal;
}

unsigned verbs_sq_internal_end(struct verbs_sq *sq, unsigned skip, unsigned n)
{
	unsigned internal = 0;

	for (unsigned i = skip; i < skip + n; i++) {
		struct verbs_wr *request =
			&sq->requests[verbs_sq_slot(sq, sq->first, i)];

		internal += request->kind != VERBS_WR_OPERATION;
		request->kind = VERBS_WR_OPERATION;
	}
	sq->n_internal -= internal;
	return internal;
}

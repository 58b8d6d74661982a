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
	unsigned slots = 1;

	while (slots < size)
		slots *= 2;
	*sq = (struct verbs_sq){
		.requests = calloc(slots, sizeof(*sq->requests)),
		.send = malloc(slots * sizeof(*sq->send)),
		.sge = malloc(slots * sizeof(*sq->sge)),
		.sge_max = sge_max,
		.size = size,
		.mask = slots - 1,
	};
	if (!sq->requests || !sq->send || !sq->sge) {
		verbs_sq_destroy(sq);
		return err_errno(-ENOMEM, "%u work requests", size);
	}
	sq->single = (struct ibv_send_wr){ .sg_list = &sq->single_sge, .num_sge = 1 };
	for (unsigned i = 0; i < slots; i++) {
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

/* The members that the requests of a batch have in common. */
struct wr_template {
	enum ibv_wr_opcode opcode;
	uint32_t lkey, rkey;
	uint64_t remote_addr;
	uint64_t inline_bytes;
};

static struct wr_template wr_template_of(const struct verbs_sq *sq,
					 const struct fabric_batch *batch)
{
	bool write = batch->opcode == FABRIC_WRITE;
	/* the CPU reads inline data */
	bool device_only = batch->region && batch->region->device_only;

	return (struct wr_template){
		.opcode = write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
		.lkey = verbs_sq_lkey(batch->region),
		.rkey = (uint32_t)batch->rkey,
		.remote_addr = batch->remote_addr,
		.inline_bytes = write && !device_only ? sq->inline_bytes : 0,
	};
}

static inline void wr_fill(struct ibv_send_wr *send, struct ibv_sge *sge,
			   const struct wr_template *common, const struct fabric_op *op,
			   unsigned flags)
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

/* Set n requests in the adjacent slots from `at` on. */
static void requests_set(struct verbs_sq *sq, unsigned at,
			 const struct fabric_batch *batch, const struct fabric_op *ops,
			 size_t stride, unsigned n)
{
	const char *op_at = (const char *)ops;
	struct ibv_send_wr *send = &sq->send[at];
	struct ibv_sge *sge = &sq->sge[at];
	const struct wr_template common = wr_template_of(sq, batch);

	for (unsigned i = 0; i < n; i++, op_at += stride)
		wr_fill(&send[i], &sge[i], &common, (const struct fabric_op *)op_at, 0);
	sq->n_posted += n;
	sq->n_unposted += n;
}

/* requests_set() where the slots wrap around the end of the ring. */
static RARE unsigned requests_set_wrapped(struct verbs_sq *sq, unsigned at,
					  const struct fabric_batch *batch,
					  const struct fabric_op *ops, size_t stride,
					  unsigned n)
{
	unsigned to_end = sq->mask + 1 - at;
	const char *rest = (const char *)ops + to_end * stride;

	requests_set(sq, at, batch, ops, stride, to_end);
	requests_set(sq, 0, batch, (const struct fabric_op *)rest, stride, n - to_end);
	return n;
}

unsigned verbs_sq_add_all(struct verbs_sq *sq, const struct fabric_batch *batch,
			  const struct fabric_op *ops, size_t stride, unsigned n)
{
	unsigned at = verbs_sq_slot(sq, sq->first, sq->n_posted);

	if (n > sq->mask + 1 - at)
		return requests_set_wrapped(sq, at, batch, ops, stride, n);
	requests_set(sq, at, batch, ops, stride, n);
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

/* The slot of a new request. */
static unsigned slot_append(struct verbs_sq *sq)
{
	sq->n_unposted++;
	return verbs_sq_slot(sq, sq->first, sq->n_posted++);
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
	unsigned at = slot_append(sq);
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
}

/* The device has its own copy of what was posted: reset the unposted requests, from `start` on, to
 * one element each. */
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
	unsigned at = slot_append(sq);
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
}

unsigned verbs_sq_add_send(struct verbs_sq *sq, const void *message, uint32_t bytes,
			   uint32_t lkey, bool fence)
{
	unsigned at = slot_append(sq);
	struct ibv_send_wr *send = &sq->send[at];

	sq->sge[at] = (struct ibv_sge){
		.addr = (uintptr_t)message,
		.length = bytes,
		.lkey = lkey,
	};
	send->opcode = IBV_WR_SEND;
	/* over iWARP a message can complete before outstanding reads, which its entry would
	 * complete too */
	send->send_flags = fence ? IBV_SEND_FENCE : 0;
	if (bytes <= sq->inline_bytes)
		send->send_flags |= IBV_SEND_INLINE;
	return at;
}

/* Drop the unposted requests after the first n. */
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

/* Choose the unposted requests to be signaled, always the last one.  If that is a confirming read,
 * it is the only one: the entry of another request would complete unconfirmed writes. */
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

/* The device failed.  Requests before `bad` were posted; they may not be signaled, and have no
 * entry if they complete before the queue pair goes to ERROR.  siw sets no `bad` if its library has
 * queued all requests and its kernel driver failed: the driver may still execute them. */
static RARE void post_undo(struct verbs_sq *sq, unsigned start,
			   const struct ibv_send_wr *bad)
{
	if (bad)
		unposted_drop(sq,
			      verbs_sq_distance(sq, start, (unsigned)(bad - sq->send)));
}

/* How many of n requests, after the first `skip`, complete no operation. */
static unsigned internal_count(const struct verbs_sq *sq, unsigned skip, unsigned n)
{
	unsigned internal = 0;

	for (unsigned i = skip; i < skip + n; i++)
		internal += sq->requests[verbs_sq_slot(sq, sq->first, i)].kind !=
			    VERBS_WR_OPERATION;
	return internal;
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
	return sq->n_internal == 0 ? n : n - internal_count(sq, before, n);
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

/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/client/send_queue.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/rare.h"
#include "fabric/verbs/client/domain.h"

/* Every so manieth request of a batch, and its last, asks for an entry. */
#define SIGNAL_EVERY 32

int verbs_ring_create(struct verbs_ring *ring, unsigned size, unsigned sge_max,
		      struct fabric_channel *channel)
{
	unsigned places = 1;

	while (places < size)
		places *= 2;
	*ring = (struct verbs_ring){
		.requests = calloc(places, sizeof(*ring->requests)),
		.send = malloc(places * sizeof(*ring->send)),
		.sge = malloc(places * sizeof(*ring->sge)),
		.sge_max = sge_max,
		.size = size,
		.mask = places - 1,
	};
	if (!ring->requests || !ring->send || !ring->sge) {
		verbs_ring_destroy(ring);
		return err_errno(-ENOMEM, "%u work requests", size);
	}
	ring->alone = (struct ibv_send_wr){ .sg_list = &ring->alone_sge, .num_sge = 1 };
	for (unsigned i = 0; i < places; i++) {
		ring->requests[i].channel = channel;
		ring->send[i] = (struct ibv_send_wr){
			.wr_id = (uintptr_t)&ring->requests[i],
			.sg_list = &ring->sge[i],
			.num_sge = 1,
			.next = &ring->send[(i + 1) & ring->mask],
		};
	}
	return 0;
}

void verbs_ring_destroy(struct verbs_ring *ring)
{
	free(ring->requests);
	free(ring->send);
	free(ring->sge);
	free(ring->slices);
}

/* The next n requests, which lie side by side from place `at` on. */
static void fill(struct verbs_ring *ring, unsigned at, const struct fabric_batch *run,
		 const struct fabric_op *parts, size_t stride, unsigned n)
{
	const char *part_at = (const char *)parts;
	struct ibv_send_wr *send = &ring->send[at];
	struct ibv_sge *sge = &ring->sge[at];
	const struct verbs_common common = verbs_ring_common(ring, run);

	for (unsigned i = 0; i < n; i++, part_at += stride)
		verbs_ring_fill(&send[i], &sge[i], &common,
				(const struct fabric_op *)part_at, 0);
	ring->n_posted += n;
	ring->n_fresh += n;
}

/* The same where they do not lie side by side. */
static RARE unsigned fill_wrapped(struct verbs_ring *ring, unsigned at,
				  const struct fabric_batch *run,
				  const struct fabric_op *parts, size_t stride,
				  unsigned n)
{
	unsigned to_end = ring->mask + 1 - at;
	const char *rest = (const char *)parts + to_end * stride;

	fill(ring, at, run, parts, stride, to_end);
	fill(ring, 0, run, (const struct fabric_op *)rest, stride, n - to_end);
	return n;
}

unsigned verbs_ring_put_all(struct verbs_ring *ring, const struct fabric_batch *run,
			    const struct fabric_op *parts, size_t stride, unsigned n)
{
	unsigned at = verbs_ring_place(ring, ring->first, ring->n_posted);

	if (n > ring->mask + 1 - at)
		return fill_wrapped(ring, at, run, parts, stride, n);
	fill(ring, at, run, parts, stride, n);
	return n;
}

void verbs_ring_put(struct verbs_ring *ring, const struct fabric_batch *run,
		    const struct fabric_op *part, enum verbs_role role)
{
	if (role != VERBS_ROLE_CALLERS) {
		ring->requests[verbs_ring_place(ring, ring->first, ring->n_posted)]
			.role = role;
		ring->n_parts++;
	}
	(void)verbs_ring_put_all(ring, run, part, 0, 1);
}

int verbs_ring_slices(struct verbs_ring *ring)
{
	if (ring->slices)
		return 0;
	ring->slices =
		calloc((ring->mask + (size_t)1) * ring->sge_max, sizeof(*ring->slices));
	return ring->slices ? 0
			    : err_errno(-ENOMEM, "the slices of %u work requests",
					ring->size);
}

void verbs_ring_put_slices(struct verbs_ring *ring, const struct fabric_batch *run,
			   const struct fabric_op *part,
			   const struct fabric_sge *slices, unsigned n)
{
	unsigned at = verbs_ring_place(ring, ring->first, ring->n_posted);
	struct ibv_sge *sge = &ring->slices[(size_t)at * ring->sge_max];
	struct ibv_send_wr *send = &ring->send[at];

	for (unsigned i = 0; i < n; i++)
		sge[i] = (struct ibv_sge){
			.addr = (uintptr_t)slices[i].addr,
			.length = (uint32_t)slices[i].bytes,
			.lkey = slices[i].region->mr->lkey,
		};
	send->sg_list = sge;
	send->num_sge = (int)n;
	send->opcode =
		run->opcode == FABRIC_WRITE ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
	send->send_flags = 0;
	send->wr.rdma.remote_addr = run->remote_addr + part->offset;
	send->wr.rdma.rkey = (uint32_t)run->rkey;
	ring->sliced = true;
	ring->n_posted++;
	ring->n_fresh++;
}

/* The device has its own copy of what was posted: the fresh ones are as all others again,
 * from `start` on. */
static RARE void slices_end(struct verbs_ring *ring, unsigned start, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		unsigned at = verbs_ring_place(ring, start, i);

		ring->send[at].sg_list = &ring->sge[at];
		ring->send[at].num_sge = 1;
	}
	ring->sliced = false;
}

void verbs_ring_put_atomic(struct verbs_ring *ring, const struct fabric_batch *run,
			   const struct fabric_op *part,
			   const struct fabric_atomic *atomic)
{
	unsigned at = verbs_ring_place(ring, ring->first, ring->n_posted);
	bool swap = run->opcode == FABRIC_CAS;
	struct ibv_send_wr *send = &ring->send[at];

	ring->sge[at] = (struct ibv_sge){
		.addr = (uintptr_t)part->addr,
		.length = FABRIC_ATOMIC_BYTES,
		.lkey = run->region->mr->lkey,
	};
	send->opcode = swap ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD;
	send->send_flags = 0;
	send->wr.atomic.remote_addr = run->remote_addr + part->offset;
	send->wr.atomic.compare_add = swap ? atomic->compare : atomic->operand;
	send->wr.atomic.swap = atomic->operand;
	send->wr.atomic.rkey = (uint32_t)run->rkey;
	ring->n_posted++;
	ring->n_fresh++;
}

unsigned verbs_ring_put_send(struct verbs_ring *ring, const void *message,
			     uint32_t bytes, uint32_t lkey, bool fence)
{
	unsigned at = verbs_ring_place(ring, ring->first, ring->n_posted);
	struct ibv_send_wr *send = &ring->send[at];

	ring->sge[at] = (struct ibv_sge){
		.addr = (uintptr_t)message,
		.length = bytes,
		.lkey = lkey,
	};
	send->opcode = IBV_WR_SEND;
	/* over iWARP it would complete before reads that are under way, and its entry
	 * stands for them */
	send->send_flags = fence ? IBV_SEND_FENCE : 0;
	if (bytes <= ring->inline_bytes)
		send->send_flags |= IBV_SEND_INLINE;
	ring->n_posted++;
	ring->n_fresh++;
	return at;
}

/* Keep so many of the fresh ones. */
static RARE void fresh_cut(struct verbs_ring *ring, unsigned n)
{
	unsigned drop = ring->n_fresh - n;

	(void)verbs_ring_parts_end(ring, ring->n_posted - drop, drop);
	ring->n_posted -= drop;
	ring->n_fresh = n;
}

void verbs_ring_drop(struct verbs_ring *ring)
{
	if (ring->sliced)
		slices_end(ring,
			   verbs_ring_place(ring, ring->first,
					    ring->n_posted - ring->n_fresh),
			   ring->n_fresh);
	fresh_cut(ring, 0);
}

/* Some of the fresh ones ask for an entry, the last always.  Where that is a confirming
 * read, no other may speak for the writes before it. */
static struct ibv_send_wr *signals_set(struct verbs_ring *ring, unsigned start)
{
	unsigned at = verbs_ring_place(ring, start, ring->n_fresh - 1);
	bool confirms = ring->requests[at].role == VERBS_ROLE_CONFIRM;
	unsigned n = confirms ? 0 : ring->n_fresh - 1;
	struct ibv_send_wr *last = &ring->send[at];

	for (unsigned i = SIGNAL_EVERY - 1; i < n; i += SIGNAL_EVERY)
		ring->send[verbs_ring_place(ring, start, i)].send_flags |=
			IBV_SEND_SIGNALED;
	last->send_flags |= IBV_SEND_SIGNALED;
	return last;
}

/* The device failed.  What it took before `bad` may not ask for an entry, and has none if it
 * is done before the queue pair goes to ERROR.  siw names none when it has taken all, and
 * its kernel's half failed: that may still do them. */
static RARE void post_cut(struct verbs_ring *ring, unsigned start,
			  const struct ibv_send_wr *bad)
{
	if (bad)
		fresh_cut(ring, verbs_ring_distance(ring, start,
						    (unsigned)(bad - ring->send)));
}

unsigned verbs_ring_post(struct verbs_ring *ring, struct ibv_qp *qp, int *ret_errno)
{
	unsigned before = ring->n_posted - ring->n_fresh, n;
	unsigned start = verbs_ring_place(ring, ring->first, before);
	struct ibv_send_wr *last = signals_set(ring, start), *behind = last->next;
	struct ibv_send_wr *bad = &ring->send[start];

	last->next = NULL;
	*ret_errno = ibv_post_send(qp, &ring->send[start], &bad);
	last->next = behind;
	if (ring->sliced)
		slices_end(ring, start, ring->n_fresh);
	if (*ret_errno)
		post_cut(ring, start, bad);
	n = ring->n_fresh;
	ring->n_fresh = 0;
	return n - verbs_ring_parts(ring, before, n);
}

unsigned verbs_ring_parts_count(const struct verbs_ring *ring, unsigned skip,
				unsigned n)
{
	unsigned parts = 0;

	for (unsigned i = skip; i < skip + n; i++)
		parts += ring->requests[verbs_ring_place(ring, ring->first, i)].role !=
			 VERBS_ROLE_CALLERS;
	return parts;
}

unsigned verbs_ring_parts_end(struct verbs_ring *ring, unsigned skip, unsigned n)
{
	unsigned parts = 0;

	for (unsigned i = skip; i < skip + n; i++) {
		struct verbs_request *request =
			&ring->requests[verbs_ring_place(ring, ring->first, i)];

		parts += request->role != VERBS_ROLE_CALLERS;
		request->role = VERBS_ROLE_CALLERS;
	}
	ring->n_parts -= parts;
	return parts;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/lease/inflight.h"

#include "base/map.h"
#include "librmem/session/session.h"

/* How many places are looked at for one. */
#define PROBES 4u

void inflights_init(struct inflights *inflights)
{
	*inflights = (struct inflights){ .last = inflights->table };
	list_init(&inflights->node);
}

/* Whoever sees that it is of others now sees that all is done with those it was of. */
static void inflight_become(struct inflight *inflight, struct rmem_lease *lease,
			    struct rmem_buffer *buffer)
{
	atomic_store_explicit(&inflight->lease, lease, memory_order_release);
	atomic_store_explicit(&inflight->buffer, buffer, memory_order_release);
}

/* The same two may have several. */
struct inflight *inflight_search(struct inflights *inflights, struct rmem_lease *lease,
				 struct rmem_buffer *buffer)
{
	uint64_t at = map_hash_u64(map_hash_u64((uintptr_t)lease) + (uintptr_t)buffer);
	struct inflight *idle = NULL;

	for (unsigned i = 0; i < PROBES; i++) {
		struct inflight *inflight = &inflights->table[(at + i) % INFLIGHT_MAX];

		if (atomic_load_explicit(&inflight->lease, memory_order_relaxed) ==
			    lease &&
		    atomic_load_explicit(&inflight->buffer, memory_order_relaxed) ==
			    buffer) {
			inflights->last = inflight;
			return inflight;
		}
		if (!idle &&
		    atomic_load_explicit(&inflight->n, memory_order_relaxed) == 0)
			idle = inflight;
	}
	if (!idle)
		return NULL;
	inflight_become(idle, lease, buffer);
	inflights->last = idle;
	return idle;
}

void inflight_begin_shared(struct rmem_lease *lease, struct rmem_buffer *buffer,
			   unsigned n)
{
	(void)atomic_fetch_add_explicit(&lease->outstanding, n, memory_order_acq_rel);
	if (buffer)
		(void)atomic_fetch_add_explicit(&buffer->outstanding, n,
						memory_order_relaxed);
}

void inflight_end_shared(struct rmem_lease *lease, struct rmem_buffer *buffer,
			 unsigned n)
{
	(void)atomic_fetch_sub_explicit(&lease->outstanding, n, memory_order_release);
	if (buffer)
		(void)atomic_fetch_sub_explicit(&buffer->outstanding, n,
						memory_order_release);
}

/* How many operations of a queue use the lease, or the buffer; the other is NULL. */
static unsigned inflights_of(const struct inflights *inflights,
			     const struct rmem_lease *lease,
			     const struct rmem_buffer *buffer)
{
	unsigned sum = 0;

	for (unsigned i = 0; i < INFLIGHT_MAX; i++) {
		const struct inflight *inflight = &inflights->table[i];
		unsigned n = atomic_load_explicit(&inflight->n, memory_order_acquire);

		if (n == 0)
			continue;
		if (lease && atomic_load_explicit(&inflight->lease,
						  memory_order_acquire) == lease)
			sum += n;
		if (buffer && atomic_load_explicit(&inflight->buffer,
						   memory_order_acquire) == buffer)
			sum += n;
	}
	return sum;
}

unsigned lease_inflight(const struct rmem_lease *lease)
{
	unsigned sum = atomic_load_explicit(&lease->outstanding, memory_order_acquire);

	list_for_each(node, &lease->session->inflights)
		sum += inflights_of(container_of(node, struct inflights, node), lease,
				    NULL);
	return sum;
}

unsigned buffer_inflight(const struct rmem_buffer *buffer)
{
	unsigned sum = atomic_load_explicit(&buffer->outstanding, memory_order_acquire);

	list_for_each(node, &buffer->session->inflights)
		sum += inflights_of(container_of(node, struct inflights, node), NULL,
				    buffer);
	return sum;
}

bool lease_read(struct rmem_lease *lease)
{
	/* A queue that begins an operation after this sees the latest table, as both change one word;
	 * an operation that began before is counted until it needs older tables no more. */
	list_for_each(node, &lease->session->inflights)
		(void)atomic_fetch_add_explicit(
			&container_of(node, struct inflights, node)->turns, 1,
			memory_order_acq_rel);
	(void)atomic_fetch_add_explicit(&lease->outstanding, 0, memory_order_acq_rel);
	return lease_inflight(lease) > 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/use.h"

#include "base/map.h"
#include "librmem/session.h"

/* How many places are looked at for one. */
#define PROBES 4u

void uses_init(struct uses *uses)
{
	*uses = (struct uses){ .last = uses->table };
	list_init(&uses->node);
}

/* Whoever sees that it is of others now sees that all is done with those it was of. */
static void use_become(struct use *use, struct rmem_lease *lease,
		       struct rmem_buffer *buffer)
{
	atomic_store_explicit(&use->lease, lease, memory_order_release);
	atomic_store_explicit(&use->buffer, buffer, memory_order_release);
}

/* The same two may have several. */
struct use *use_search(struct uses *uses, struct rmem_lease *lease,
		       struct rmem_buffer *buffer)
{
	uint64_t at = map_hash_u64(map_hash_u64((uintptr_t)lease) + (uintptr_t)buffer);
	struct use *idle = NULL;

	for (unsigned i = 0; i < PROBES; i++) {
		struct use *use = &uses->table[(at + i) % USES_MAX];

		if (atomic_load_explicit(&use->lease, memory_order_relaxed) == lease &&
		    atomic_load_explicit(&use->buffer, memory_order_relaxed) ==
			    buffer) {
			uses->last = use;
			return use;
		}
		if (!idle && atomic_load_explicit(&use->n, memory_order_relaxed) == 0)
			idle = use;
	}
	if (!idle)
		return NULL;
	use_become(idle, lease, buffer);
	uses->last = idle;
	return idle;
}

void use_begin_shared(struct rmem_lease *lease, struct rmem_buffer *buffer, unsigned n)
{
	(void)atomic_fetch_add_explicit(&lease->outstanding, n, memory_order_acq_rel);
	if (buffer)
		(void)atomic_fetch_add_explicit(&buffer->outstanding, n,
						memory_order_relaxed);
}

void use_end_shared(struct rmem_lease *lease, struct rmem_buffer *buffer, unsigned n)
{
	(void)atomic_fetch_sub_explicit(&lease->outstanding, n, memory_order_release);
	if (buffer)
		(void)atomic_fetch_sub_explicit(&buffer->outstanding, n,
						memory_order_release);
}

/* How many operations of a queue use the lease, or the buffer; the other is NULL. */
static unsigned uses_of(const struct uses *uses, const struct rmem_lease *lease,
			const struct rmem_buffer *buffer)
{
	unsigned sum = 0;

	for (unsigned i = 0; i < USES_MAX; i++) {
		const struct use *use = &uses->table[i];
		unsigned n = atomic_load_explicit(&use->n, memory_order_acquire);

		if (n == 0)
			continue;
		if (lease &&
		    atomic_load_explicit(&use->lease, memory_order_acquire) == lease)
			sum += n;
		if (buffer &&
		    atomic_load_explicit(&use->buffer, memory_order_acquire) == buffer)
			sum += n;
	}
	return sum;
}

unsigned lease_uses(const struct rmem_lease *lease)
{
	unsigned sum = atomic_load_explicit(&lease->outstanding, memory_order_acquire);

	list_for_each(node, &lease->session->uses)
		sum += uses_of(container_of(node, struct uses, node), lease, NULL);
	return sum;
}

unsigned buffer_uses(const struct rmem_buffer *buffer)
{
	unsigned sum = atomic_load_explicit(&buffer->outstanding, memory_order_acquire);

	list_for_each(node, &buffer->session->uses)
		sum += uses_of(container_of(node, struct uses, node), NULL, buffer);
	return sum;
}

bool lease_read(struct rmem_lease *lease)
{
	/* Who begins a use behind this sees the latest table, as both change the same word; one
	 * who began it ahead is counted, until he has done with older tables. */
	list_for_each(node, &lease->session->uses)
		(void)atomic_fetch_add_explicit(
			&container_of(node, struct uses, node)->turns, 1,
			memory_order_acq_rel);
	(void)atomic_fetch_add_explicit(&lease->outstanding, 0, memory_order_acq_rel);
	return lease_uses(lease) > 0;
}

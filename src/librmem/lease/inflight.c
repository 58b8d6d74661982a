/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/lease/inflight.h"

#include "base/map.h"
#include "librmem/session/session.h"

/* Number of entries searched for a pair. */
#define PROBES 4u

void inflights_init(struct inflights *inflights)
{
	*inflights = (struct inflights){ .last = inflights->table };
	list_init(&inflights->node);
}

void inflights_add(struct rmem *session, struct inflights *inflights)
{
	atomic_store(&inflights->generation, session->leases->generation);
	list_append(&session->leases->inflights, &inflights->node);
}

void attachments_published(struct rmem *session, uint64_t generation)
{
	session->leases->generation = generation;
	list_for_each_entry(struct inflights, inflights, &session->leases->inflights,
			    node)
		atomic_store_explicit(&inflights->generation, generation,
				      memory_order_release);
}

bool attachments_read(const struct rmem *session, uint64_t generation)
{
	/* A call that begins after this sees the newest attachments, as both threads change one
	 * word. */
	list_for_each_entry(struct inflights, inflights, &session->leases->inflights,
			    node) {
		uint64_t reading = atomic_fetch_add_explicit(&inflights->reading, 0,
							     memory_order_acq_rel);

		if (reading != 0 && reading < generation)
			return true;
	}
	return false;
}

/* A pair may have several entries. */
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
	/* release order: a thread that sees the new pair also sees that the old pair's operations
	 * have ended */
	atomic_store_explicit(&idle->lease, lease, memory_order_release);
	atomic_store_explicit(&idle->buffer, buffer, memory_order_release);
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

/* Number of operations counted by queues that use the lease, or the buffer; the other is NULL. */
static unsigned inflights_of(const struct rmem *session, const struct rmem_lease *lease,
			     const struct rmem_buffer *buffer)
{
	unsigned sum = 0;

	list_for_each_entry(struct inflights, inflights, &session->leases->inflights,
			    node) {
		for (unsigned i = 0; i < INFLIGHT_MAX; i++) {
			const struct inflight *inflight = &inflights->table[i];
			unsigned n = atomic_load_explicit(&inflight->n,
							  memory_order_acquire);

			if (n > 0 && (lease ? atomic_load(&inflight->lease) == lease
					    : atomic_load(&inflight->buffer) == buffer))
				sum += n;
		}
	}
	return sum;
}

unsigned lease_inflight(const struct rmem_lease *lease)
{
	return atomic_load_explicit(&lease->outstanding, memory_order_acquire) +
	       inflights_of(lease->session, lease, NULL);
}

unsigned buffer_inflight(const struct rmem_buffer *buffer)
{
	return atomic_load_explicit(&buffer->outstanding, memory_order_acquire) +
	       inflights_of(buffer->session, NULL, buffer);
}

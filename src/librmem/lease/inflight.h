/* SPDX-License-Identifier: BSD-3-Clause */
/* Which leases and buffers operations use, from their submission until they are taken: neither
 * is freed meanwhile, and of a lease the table stays that queues read without a lock.  A queue
 * counts in a table of its own, or threads that share a lease would wait for each other's
 * writes to one counter with each operation.  What that has no room for, sources of copies and
 * the buffers in a list are counted in the lease and the buffer.
 * Threads: [owner of the queue], and others as told. */
#ifndef LIBRMEM_LEASE_INFLIGHT_H
#define LIBRMEM_LEASE_INFLIGHT_H

#include <stdatomic.h>

#include "base/list.h"
#include "base/rare.h"
#include "librmem/lease/buffer.h"
#include "librmem/lease/lease.h"

/* Pairs of them that a queue has room for, at most.  Who frees a lease or a buffer looks at so
 * many of every queue. */
#define INFLIGHT_MAX 64u

/* Only the owner writes. */
struct inflight {
	/* which two; others look at `n` first */
	_Atomic(struct rmem_lease *) lease;
	_Atomic(struct rmem_buffer *) buffer; /* NULL: none */
	_Atomic unsigned n;                   /* operations submitted, not yet taken */
};

struct inflights {
	struct list node;      /* of the session; under its lock */
	struct inflight *last; /* that was wanted */
	/* changed by who begins to read tables of leases, and by who is to free some */
	_Atomic unsigned turns;
	struct inflight table[INFLIGHT_MAX];
};

void inflights_init(struct inflights *inflights);

/* The one of the two, when it is not the last; NULL: there is no room. */
struct inflight *inflight_search(struct inflights *inflights, struct rmem_lease *lease,
				 struct rmem_buffer *buffer);
RARE void inflight_begin_shared(struct rmem_lease *lease, struct rmem_buffer *buffer,
				unsigned n);
RARE void inflight_end_shared(struct rmem_lease *lease, struct rmem_buffer *buffer,
			      unsigned n);

/* n more operations use the lease, whose table stays from now on, and the buffer (NULL: none).
 * Returns what inflight_end() wants. */
static inline struct inflight *inflight_begin(struct inflights *inflights,
					      struct rmem_lease *lease,
					      struct rmem_buffer *buffer, unsigned n)
{
	struct inflight *inflight = inflights->last;

	if (atomic_load_explicit(&inflight->lease, memory_order_relaxed) != lease ||
	    atomic_load_explicit(&inflight->buffer, memory_order_relaxed) != buffer)
		inflight = inflight_search(inflights, lease, buffer);
	if (!inflight) {
		inflight_begin_shared(lease, buffer, n);
		return NULL;
	}
	n += atomic_load_explicit(&inflight->n, memory_order_relaxed);
	atomic_store_explicit(&inflight->n, n, memory_order_release);
	(void)atomic_fetch_add_explicit(&inflights->turns, 1, memory_order_acq_rel);
	return inflight;
}

/* n operations do so no more. */
static inline void inflight_end(struct inflight *inflight, struct rmem_lease *lease,
				struct rmem_buffer *buffer, unsigned n)
{
	if (!inflight) {
		inflight_end_shared(lease, buffer, n);
		return;
	}
	n = atomic_load_explicit(&inflight->n, memory_order_relaxed) - n;
	atomic_store_explicit(&inflight->n, n, memory_order_release);
}

/* How many operations use it.  Under the session's lock. */
unsigned lease_inflight(const struct rmem_lease *lease);
unsigned buffer_inflight(const struct rmem_buffer *buffer);
/* Whether a table of the lease may be read that is not the latest.  If not, all that was done
 * with it is done.  Under the session's lock. */
bool lease_read(struct rmem_lease *lease);

#endif

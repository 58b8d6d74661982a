/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts the operations that use a lease and a buffer, from their submission until their
 * completions are taken.  Meanwhile neither is freed, nor is an attachment of the lease, which
 * queues read without a lock.  Each queue counts in a table of its own: a counter shared by threads
 * would cost cache misses with each operation.  Uses for which that table has no room, sources of
 * copies, and buffers in a vectored operation's list are counted in the lease and the buffer.
 *
 * Threads: [owner of the queue], and others as stated. */
#ifndef LIBRMEM_LEASE_INFLIGHT_H
#define LIBRMEM_LEASE_INFLIGHT_H

#include <stdatomic.h>

#include "base/list.h"
#include "base/rare.h"
#include "librmem/lease/buffer.h"
#include "librmem/lease/lease.h"

/* Pairs of lease and buffer in a queue's table.  The thread that frees a lease or a buffer looks at
 * all of them. */
#define INFLIGHT_MAX 64u

/* The uses of one pair.  Only the owner writes. */
struct inflight {
	/* the pair; other threads read `n` first */
	_Atomic(struct rmem_lease *) lease;
	_Atomic(struct rmem_buffer *) buffer; /* NULL: none */
	/* operations submitted whose completions were not taken */
	_Atomic unsigned n;
};

struct inflights {
	/* in session->leases->inflights; under the session's lock */
	struct list node;
	struct inflight *last; /* the last pair used */
	/* changed by the queue before it reads a lease's attachment, and by a thread that is about
	 * to free an attachment */
	_Atomic unsigned turns;
	struct inflight table[INFLIGHT_MAX];
};

void inflights_init(struct inflights *inflights);

/* The entry of the pair, when the pair is not the last one used; NULL: there is no room. */
struct inflight *inflight_search(struct inflights *inflights, struct rmem_lease *lease,
				 struct rmem_buffer *buffer);
RARE void inflight_begin_shared(struct rmem_lease *lease, struct rmem_buffer *buffer,
				unsigned n);
RARE void inflight_end_shared(struct rmem_lease *lease, struct rmem_buffer *buffer,
			      unsigned n);

/* n more operations use the lease, whose attachment is not freed from now on, and the buffer (NULL:
 * none).  Returns the argument for inflight_end(). */
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

/* End n uses of the lease and the buffer. */
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

/* Number of operations that use the lease, or the buffer.  Under the session's lock. */
unsigned lease_inflight(const struct rmem_lease *lease);
unsigned buffer_inflight(const struct rmem_buffer *buffer);
/* Whether an older attachment of the lease may still be read.  False: all operations begun before
 * this call have ended.  Under the session's lock. */
bool lease_read(struct rmem_lease *lease);

#endif

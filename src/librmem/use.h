/* SPDX-License-Identifier: BSD-3-Clause */
/* Which leases and buffers operations use, from their submission until they are taken: neither
 * is freed meanwhile, and of a lease the table stays that queues read without a lock.  A queue
 * counts in a table of its own, or threads that share a lease would wait for each other's
 * writes to one counter with each operation.  What that has no room for, sources of copies and
 * the buffers in a list are counted in the lease and the buffer.
 * Threads: [owner of the queue], and others as told. */
#ifndef LIBRMEM_USE_H
#define LIBRMEM_USE_H

#include <stdatomic.h>

#include "base/list.h"
#include "base/rare.h"
#include "librmem/buffer.h"
#include "librmem/lease.h"

/* Pairs of them that a queue has room for, at most.  Who frees a lease or a buffer looks at so
 * many of every queue. */
#define USES_MAX 64u

/* Only the owner writes. */
struct use {
	/* which two; others look at `n` first */
	_Atomic(struct rmem_lease *) lease;
	_Atomic(struct rmem_buffer *) buffer; /* NULL: none */
	_Atomic unsigned n;                   /* operations submitted, not yet taken */
};

struct uses {
	struct list node; /* of the session; under its lock */
	struct use *last; /* that was wanted */
	/* changed by who begins to read tables of leases, and by who is to free some */
	_Atomic unsigned turns;
	struct use table[USES_MAX];
};

void uses_init(struct uses *uses);

/* The one of the two, when it is not the last; NULL: there is no room. */
struct use *use_search(struct uses *uses, struct rmem_lease *lease,
		       struct rmem_buffer *buffer);
RARE void use_begin_shared(struct rmem_lease *lease, struct rmem_buffer *buffer,
			   unsigned n);
RARE void use_end_shared(struct rmem_lease *lease, struct rmem_buffer *buffer,
			 unsigned n);

/* n more operations use the lease, whose table stays from now on, and the buffer (NULL: none).
 * Returns what use_end() wants. */
static inline struct use *use_begin(struct uses *uses, struct rmem_lease *lease,
				    struct rmem_buffer *buffer, unsigned n)
{
	struct use *use = uses->last;

	if (atomic_load_explicit(&use->lease, memory_order_relaxed) != lease ||
	    atomic_load_explicit(&use->buffer, memory_order_relaxed) != buffer)
		use = use_search(uses, lease, buffer);
	if (!use) {
		use_begin_shared(lease, buffer, n);
		return NULL;
	}
	n += atomic_load_explicit(&use->n, memory_order_relaxed);
	atomic_store_explicit(&use->n, n, memory_order_release);
	(void)atomic_fetch_add_explicit(&uses->turns, 1, memory_order_acq_rel);
	return use;
}

/* n operations do so no more. */
static inline void use_end(struct use *use, struct rmem_lease *lease,
			   struct rmem_buffer *buffer, unsigned n)
{
	if (!use) {
		use_end_shared(lease, buffer, n);
		return;
	}
	n = atomic_load_explicit(&use->n, memory_order_relaxed) - n;
	atomic_store_explicit(&use->n, n, memory_order_release);
}

/* How many operations use it.  Under the session's lock. */
unsigned lease_uses(const struct rmem_lease *lease);
unsigned buffer_uses(const struct rmem_buffer *buffer);
/* Whether a table of the lease may be read that is not the latest.  If not, all that was done
 * with it is done.  Under the session's lock. */
bool lease_read(struct rmem_lease *lease);

#endif

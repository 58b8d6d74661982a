/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts the operations that use a lease and a buffer, from their submission until their
 * completions are taken.  Meanwhile neither is freed.  Each queue counts in a table of its own: a
 * counter shared by threads would cost cache misses with each operation.  Uses for which that table
 * has no room, sources of copies, and buffers in a vectored operation's list are counted in the
 * lease and the buffer.
 *
 * Also tells which calls of queues may read a lease's older attachment: the calls read attachments
 * without a lock, and keep no pointer to one when they end.
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
	/* of the session's newest attachment; never 0.  Changed under the session's lock */
	_Atomic uint64_t generation;
	/* the same, when the owner's call began; 0: no call reads an attachment */
	_Atomic uint64_t reading;
	struct inflight table[INFLIGHT_MAX];
};

void inflights_init(struct inflights *inflights);
/* The queue may have operations from now on.  Under the session's lock. */
void inflights_add(struct rmem *session, struct inflights *inflights);

/* From here until attachments_leave(), the owner may read the attachments of leases; not nested. */
static inline void attachments_enter(struct inflights *inflights)
{
	uint64_t generation =
		atomic_load_explicit(&inflights->generation, memory_order_acquire);

	/* an exchange: see attachments_read() */
	(void)atomic_exchange_explicit(&inflights->reading, generation,
				       memory_order_acq_rel);
}

static inline void attachments_leave(struct inflights *inflights)
{
	atomic_store_explicit(&inflights->reading, 0, memory_order_release);
}

/* Calls that begin from now on read no attachment that one of this generation has replaced.  Under
 * the session's lock. */
void attachments_published(struct rmem *session, uint64_t generation);
/* Whether a call of a queue may still read an attachment that one of this generation has replaced.
 * Under the session's lock. */
bool attachments_read(const struct rmem *session, uint64_t generation);

/* The entry of the pair, when the pair is not the last one used; NULL: there is no room. */
struct inflight *inflight_search(struct inflights *inflights, struct rmem_lease *lease,
				 struct rmem_buffer *buffer);
RARE void inflight_begin_shared(struct rmem_lease *lease, struct rmem_buffer *buffer,
				unsigned n);
RARE void inflight_end_shared(struct rmem_lease *lease, struct rmem_buffer *buffer,
			      unsigned n);

/* n more operations use the lease and the buffer (NULL: none).  Returns the argument for
 * inflight_end(). */
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

#endif

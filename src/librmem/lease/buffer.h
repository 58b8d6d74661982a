/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers: local memory registered in every domain of its session; and the table of buffers. */
#ifndef LIBRMEM_LEASE_BUFFER_H
#define LIBRMEM_LEASE_BUFFER_H

#include <stdatomic.h>
#include <stdbool.h>

#include <rmem/rmem.h>

#include "fabric/fabric.h"
#include "librmem/channel/domain.h"
#include "librmem/session/quick_lock.h"
#include "librmem/session/session.h"
#include "wire/msg.h"

struct rmem_buffer {
	/* constant */
	struct rmem *session;
	unsigned char *addr;
	uint64_t bytes;
	bool owned; /* addr was mapped by the library */
	struct fabric_local_mr
		*mrs[WIRE_ENDPOINTS_MAX]; /* by domain; NULL: not needed */

	_Atomic unsigned outstanding; /* uses not counted by a queue (inflight.h) */
	/* the highest end of this buffer and those before it in the table; changed as the table */
	uintptr_t reach;
};

/* The buffers of a session.  Changed under the session's lock and the table's, which is never held
 * for long: read under either. */
struct buffer_table {
	struct quick_lock lock;
	unsigned n, room;
	struct rmem_buffer **all; /* sorted by address */
	/* the last buffer found, NULL: none; buffer_find() reads and writes it under the table's
	 * lock */
	struct rmem_buffer *last;
};

/* Begin or end a use that no queue counts.  [any] */
static inline void buffer_use(struct rmem_buffer *buffer)
{
	(void)atomic_fetch_add_explicit(&buffer->outstanding, 1, memory_order_relaxed);
}

static inline void buffer_unuse(struct rmem_buffer *buffer)
{
	(void)atomic_fetch_sub_explicit(&buffer->outstanding, 1, memory_order_release);
}

/* Memory of up to this size is copied: that costs less than the search for its buffer. */
#define BUFFER_COPY_BYTES 256u

/* Whether [addr, addr + bytes) lies in the buffer.  [any] */
static inline bool buffer_holds(const struct rmem_buffer *buffer, const void *addr,
				uint64_t bytes)
{
	/* the difference wraps for an address before the buffer, and is too large then */
	return bytes <= buffer->bytes &&
	       (uintptr_t)addr - (uintptr_t)buffer->addr <= buffer->bytes - bytes;
}

/* Search the table for buffer_find().  Under the table's lock. */
struct rmem_buffer *buffer_search(struct buffer_table *table, const void *addr,
				  uint64_t bytes);
/* A buffer that contains the range, or NULL; its use is counted until buffer_unuse().  [any] */
static inline struct rmem_buffer *buffer_find(struct buffer_table *table,
					      const void *addr, uint64_t bytes)
{
	struct rmem_buffer *found;

	quick_lock_acquire(&table->lock);
	found = table->last;
	if (!found || !buffer_holds(found, addr, bytes))
		found = buffer_search(table, addr, bytes);
	if (found)
		buffer_use(found);
	quick_lock_release(&table->lock);
	return found;
}
/* Free all buffers, also those in use, and the table.  Without the lock. */
void buffers_destroy(struct rmem *session);

extern const struct session_observer buffer_observer;

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers: local memory registered in every domain of its session; and the table of buffers. */
#ifndef LIBRMEM_LEASE_BUFFER_H
#define LIBRMEM_LEASE_BUFFER_H

#include <stdatomic.h>
#include <stdbool.h>

#include <rmem/rmem.h>

#include "base/modular.h"
#include "fabric/client.h"
#include "librmem/channel/domain.h"
#include "librmem/session/quick_lock.h"
#include "librmem/session/session.h"
#include "wire/msg.h"

struct rmem_buffer {
	/* constant */
	struct rmem *session;
	unsigned char *addr;
	uint64_t bytes;
	uint64_t run_bytes; /* for struct run: `bytes`; 0 if device_only */
	bool owned;         /* addr was mapped by the library */
	/* a dma-buf that devices access by its addresses, and the library's CPU code never does;
	 * memory may or may not be mapped there */
	bool device_only;
	int dmabuf_fd; /* device_only: the dma-buf; else -1 */
	uint64_t dmabuf_offset;
	/* registrations by domain; NULL: not needed */
	struct fabric_local_mr *mrs[WIRE_ENDPOINTS_MAX];

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
	_Atomic unsigned n_device_only; /* number of buffers that are device_only */
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

/* Whether to search the buffer of memory that needs one.  Memory in a device_only buffer cannot be
 * copied.  [any] */
static inline bool buffer_worth_search(const struct buffer_table *table, uint64_t bytes)
{
	return bytes > BUFFER_COPY_BYTES ||
	       atomic_load_explicit(&table->n_device_only, memory_order_relaxed) > 0;
}

/* Whether [addr, addr + bytes) lies in the buffer.  [any] */
MODULAR static inline bool buffer_holds(const struct rmem_buffer *buffer,
					const void *addr, uint64_t bytes)
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
/* Whether the range lies in a device_only buffer.  [any] */
bool buffer_is_device_only(struct buffer_table *table, const void *addr,
			   uint64_t bytes);
/* Free all buffers, also those in use, and the table.  Without the lock. */
void buffers_destroy(struct rmem *session);

extern const struct session_observer buffer_observer;

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Local memory registered in every domain of its session. */
#ifndef LIBRMEM_LEASE_BUFFER_H
#define LIBRMEM_LEASE_BUFFER_H

#include <stdatomic.h>
#include <stdbool.h>

#include <rmem/rmem.h>

#include "base/list.h"
#include "fabric/fabric.h"
#include "wire/msg.h"

struct rmem_buffer {
	/* constant */
	struct rmem *session;
	unsigned char *addr;
	uint64_t bytes;
	bool owned; /* addr is mapped by the library */
	struct fabric_local_mr
		*mrs[WIRE_ENDPOINTS_MAX]; /* by domain; NULL: not needed */

	_Atomic unsigned outstanding; /* what no queue counts (inflight.h) */
	struct list node;             /* under the session's lock */
};

/* Whether [addr, addr + bytes) lies in the buffer.  [any] */
static inline bool buffer_holds(const struct rmem_buffer *buffer, const void *addr,
				uint64_t bytes)
{
	/* what lies ahead of it wraps, and is too far behind it */
	return bytes <= buffer->bytes &&
	       (uintptr_t)addr - (uintptr_t)buffer->addr <= buffer->bytes - bytes;
}
/* The buffer of the session that holds the range, or NULL; its use is counted, end it by
 * lowering `outstanding`.  [any] */
struct rmem_buffer *buffer_find(struct rmem *session, const void *addr, uint64_t bytes);
/* Free it whatever is outstanding.  Without the lock. */
void buffer_drop(struct rmem_buffer *buffer);

#endif

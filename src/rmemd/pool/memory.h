/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of one pool: a file, mapped once, bound to its node, populated and pinned, and never
 * in a core dump.  Address space behind it is reserved, so that it can grow in place.  Threads:
 * [any]; blocks. */
#ifndef RMEMD_POOL_MEMORY_H
#define RMEMD_POOL_MEMORY_H

#include <stdatomic.h>

#include "rmemd/pool/pools.h"
#include "rmemd/pool/capacity.h"

struct memory {
	int fd;
	char *addr;
	uint64_t bytes;
	uint64_t reserved; /* address space from addr on; at least `bytes` */
	enum pool_pages pages;
	uint64_t page_bytes;
	bool kept; /* the file held the pool already */
	int node;  /* memory_node() when it was opened or last resized */
};

/* The opening or growing of a pool's memory; several may run at the same time. */
struct memory_work {
	_Atomic uint64_t done;   /* bytes populated so far; the caller begins with 0 */
	const atomic_bool *stop; /* true: give up; borrowed */
	_Atomic(uint64_t) bytes; /* to populate; 0: not known yet */
	_Atomic(uint64_t) *room; /* of capacity_available(); borrowed */
	uint64_t reserve;        /* address space to reserve, if available */
	/* of POOL_BYTES_AUTO: its share, and the memory that was free before all shares */
	struct share share[CAPACITY_KINDS];
	uint64_t free[CAPACITY_KINDS];
	/* Why `auto` did not take the largest pages, or how much is in huge pages; or "". */
	char note[512];
};

/*   -EINVAL  no such node, or no pages of that size
 *   -ENOMEM  not enough memory, huge pages or RLIMIT_MEMLOCK; the text has the remedy
 *   -EBADMSG  the file that was kept is damaged
 *   -ECANCELED  told to stop
 *   others from the kernel, with text */
int memory_open(const struct pool_params *params, struct memory_work *work,
		struct memory *ret_memory);
/* The node of a sample of the pages, from the kernel; -1: several nodes, or unknown. */
int memory_node(const struct memory *memory);
/* None, with which memory_close() does nothing. */
#define MEMORY_NONE (struct memory){ .fd = -1, .node = -1 }
/* The file keeps it. */
void memory_close(struct memory *memory);
/* Close it, and empty the file first. */
void memory_give_back(struct memory *memory);

/* Grow to `bytes`, in whole pages of the pool; other threads may use the present bytes meanwhile.
 * A failure changes nothing.  Errors and note are those of memory_open(), and
 *   -ENOMEM  too little address space is reserved */
int memory_grow(struct memory *memory, uint64_t bytes, int node,
		struct memory_work *work);
/* Give the unused memory behind `bytes` (whole pages of the pool) back to the kernel.
 * -errno with text: the file still has it */
int memory_cut(struct memory *memory, uint64_t bytes);

#endif

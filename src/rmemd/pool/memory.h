/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of one pool: a memfd, mapped once, bound to its node, populated and pinned.
 * Never in a core dump.  Threads: [loop]; blocks. */
#ifndef RMEMD_POOL_MEMORY_H
#define RMEMD_POOL_MEMORY_H

#include "rmemd/pool/pools.h"

struct memory {
	int fd;
	char *addr;
	uint64_t bytes;
	enum pool_pages pages;
	uint64_t page_bytes;
	int node; /* where the kernel put the pages; -1: on several, or it does not tell */
};

/* The note says why `auto` took less than the best, or how far huge pages reach; "" if
 * there is nothing to say.
 *   -EINVAL  no such node
 *   -ENOMEM  not enough memory, huge pages or RLIMIT_MEMLOCK; the text says what to do
 *   others from the kernel, with text */
int memory_open(const struct pool_params *params, struct memory *ret_memory, char *note,
		size_t note_bytes);
void memory_close(struct memory *memory);

#endif

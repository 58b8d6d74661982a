/* SPDX-License-Identifier: BSD-3-Clause */
/* Make the kernel put pages behind a mapping now, by several threads on the memory's own
 * node: a terabyte takes minutes by one.  Threads: [any]; blocks. */
#ifndef RMEMD_POOL_PREFAULT_H
#define RMEMD_POOL_PREFAULT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What other threads look at, and may decide, meanwhile. */
struct prefault_watch {
	_Atomic uint64_t done;   /* bytes populated so far; the caller begins with 0 */
	const atomic_bool *stop; /* set: give up; borrowed */
};

/* node -1: run anywhere.  Errors are without text:
 *   -EFAULT      a node has no huge page left
 *   -ENOMEM      no memory
 *   -EOPNOTSUPP  huge pages on a kernel without MADV_POPULATE_WRITE (before 5.14)
 *   -ECANCELED   told to stop */
int prefault(void *addr, uint64_t bytes, uint64_t page_bytes, bool hugetlb, int node,
	     struct prefault_watch *watch);

#endif

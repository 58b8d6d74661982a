/* SPDX-License-Identifier: BSD-3-Clause */
/* Make the kernel put pages behind a mapping now, by several threads on the memory's own
 * node: a terabyte takes minutes by one.  Threads: [any]; blocks. */
#ifndef RMEMD_POOL_PREFAULT_H
#define RMEMD_POOL_PREFAULT_H

#include <stdbool.h>
#include <stdint.h>

/* node -1: run anywhere.  Errors are without text:
 *   -EFAULT      a node has no huge page left
 *   -ENOMEM      no memory
 *   -EOPNOTSUPP  huge pages on a kernel without MADV_POPULATE_WRITE (before 5.14) */
int prefault(void *addr, uint64_t bytes, uint64_t page_bytes, bool hugetlb, int node);

#endif

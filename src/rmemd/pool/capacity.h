/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether there is enough of what a pool's memory is made of, and how much a pool gets; for
 * pool/ alone.  Threads: [any].  Errors: 0, or as said with a text that names cause and
 * remedy. */
#ifndef RMEMD_POOL_CAPACITY_H
#define RMEMD_POOL_CAPACITY_H

#include "rmemd/pool/memory.h"

/* The bytes that it is to have in such pages, not POOL_PAGES_AUTO: as configured, or its share.
 *   -ENOMEM  the share is less than can be lent */
int capacity_pool_bytes(const struct pool_params *params,
			const struct memory_work *work, enum pool_pages pages,
			uint64_t *ret_bytes);

/* -ENOMEM: there is less than memory->bytes.  What is claimed of the room is the memory's until
 * it is given up. */
int capacity_claim(const struct memory *memory, int node, _Atomic(uint64_t) *room);
/* -ENOMEM, always: of huge pages there are too few. */
int capacity_huge_short(const struct memory *memory, int node);
/* A file system may have a limit of its own: -ENOMEM, or why it does not tell. */
int capacity_check_file(const struct memory *memory);

#endif

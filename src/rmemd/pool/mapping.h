/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the memory of a pool lies: the address space that there is for it, and its file in
 * that, on its node and with its pages; for pool/ alone.  Threads: [any]; blocks.
 * Errors: 0 or -errno, with text. */
#ifndef RMEMD_POOL_MAPPING_H
#define RMEMD_POOL_MAPPING_H

#include "rmemd/pool/memory.h"

/* Address space, or MAP_FAILED.  Nothing is behind it, so it costs none of the memory. */
void *space_map(void *addr, uint64_t bytes, int flags);
/* At a multiple of the pages' size, which mmap() sees to for hugetlb files alone; as much of
 * what is wanted as there is. */
int space_reserve(struct memory *memory, uint64_t wanted);
/* Behind what there is. */
int space_extend(struct memory *memory, uint64_t bytes);

/* That part of the file into the space that there is for it. */
int memory_map(struct memory *memory, uint64_t from, uint64_t to);
/* What is mapped becomes as it has to be, but for its pages. */
int memory_prepare(const struct memory *memory, int node);
/* And these, too.
 *   -ECANCELED  told to stop */
int memory_populate(const struct memory *memory, int node,
		    struct prefault_watch *watch);

/* How much of the mapping is in transparent huge pages, from smaps; 0 when unknown. */
uint64_t thp_bytes(const struct memory *memory);
/* Explicit pages are as asked; transparent ones are the kernel's choice: the note says how far
 * they reach, where that is not all.
 *   -ENOMEM  there are none */
int thp_settle(uint64_t huge, uint64_t bytes, char *note, size_t note_bytes);

#endif

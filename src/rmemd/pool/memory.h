/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of one pool: a memfd, mapped once, bound to its node, populated and pinned.
 * Never in a core dump.  Behind it there is address space that nobody else gets, so that it
 * can become longer where it is.  Threads: [any]; blocks. */
#ifndef RMEMD_POOL_MEMORY_H
#define RMEMD_POOL_MEMORY_H

#include "rmemd/pool/pools.h"
#include "rmemd/pool/prefault.h"
#include "rmemd/pool/auto_size.h"

struct memory {
	int fd;
	char *addr;
	uint64_t bytes;
	uint64_t reserved; /* address space from addr on; `bytes` at least */
	enum pool_pages pages;
	uint64_t page_bytes;
	bool kept; /* its file had something in it before */
	int node;  /* memory_node() when it was opened or last resized */
};

/* What several that are opened at the same time have to do with each other. */
struct memory_work {
	struct prefault_watch watch;
	_Atomic(uint64_t) bytes; /* that will be populated; 0: not known yet */
	_Atomic(uint64_t) *room; /* the host has left beside huge pages; borrowed */
	uint64_t reserve;        /* address space to have for it, if there is as much */
	/* of POOL_BYTES_AUTO: what it has of what was free before any took its share */
	struct share share[AUTO_SIZE_KINDS];
	uint64_t free[AUTO_SIZE_KINDS];
};

/* The note says why `auto` took less than the best, or how far huge pages reach; "" if
 * there is nothing to say.
 *   -EINVAL  no such node
 *   -ENOMEM  not enough memory, huge pages or RLIMIT_MEMLOCK; the text says what to do
 *   -ECANCELED  told to stop
 *   others from the kernel, with text */
int memory_open(const struct pool_params *params, struct memory_work *work,
		struct memory *ret_memory, char *note, size_t note_bytes);
/* Where the kernel says the pages are, asked of a sample all over the pool; -1: on several
 * nodes, or it does not tell. */
int memory_node(const struct memory *memory);
void memory_close(struct memory *memory);

/* Make it longer, up to `bytes`, in whole pages of its own; what it has stays where it is, and
 * others may use it meanwhile.  A failure leaves it as it was.  Errors and note as those of
 * memory_open(), and
 *   -ENOMEM  too little address space behind it */
int memory_grow(struct memory *memory, uint64_t bytes, int node,
		struct memory_work *work, char *note, size_t note_bytes);
/* Give what lies behind `bytes`, in whole pages of its own, back to the kernel; nobody uses it
 * any more.  -errno with text: the kernel still has it in the file */
int memory_cut(struct memory *memory, uint64_t bytes);

#endif

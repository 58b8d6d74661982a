/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory that this host has for pools, and the part that each pool gets.
 *
 * Pools of `size = auto` divide the free memory of their node, or of the host for node `any`, after
 * pools of a fixed size and kept pools have their memory.  A share in per cent is a part of all
 * free memory.  Pools without a share divide the rest equally: all of the huge pages, which were
 * reserved for use, but half of other memory, so that the system has room.
 *
 * Where control groups of this process leave less than is free, that is what pools divide, on each
 * node in the proportion in which memory is free there.
 *
 * Threads: [any].  Errors: 0, or as listed with a text that names cause and remedy. */
#ifndef RMEMD_POOL_CAPACITY_H
#define RMEMD_POOL_CAPACITY_H

#include <stddef.h>
#include <stdint.h>

#include "rmemd/pool/pool_params.h"

struct memory;
struct memory_work;

/* Kinds of memory, counted separately: huge pages of each size, by their enum pool_pages, and other
 * memory. */
#define CAPACITY_MEMORY 0
#define CAPACITY_KINDS POOL_PAGES_END

/* `parts` of `whole`, which is > 0. */
struct share {
	uint64_t parts, whole;
};

/* The kind of these pages; not for POOL_PAGES_AUTO, which tries several kinds. */
unsigned capacity_kind(enum pool_pages pages);
/* The length of such a page; not for POOL_PAGES_AUTO. */
uint64_t pages_bytes(enum pool_pages pages);
/* The huge pages that the kernel has, the largest first; returns their number. */
unsigned pages_huge(enum pool_pages ret_pages[POOL_PAGES_END]);
/* Free memory for pools on a node or, for POOL_NODE_ANY, on this host; 0: unknown. */
void capacity_free(int node, uint64_t ret_bytes[CAPACITY_KINDS]);

/* The share of pools[i] in a kind; 0 parts if the other pools take all of it. */
struct share capacity_share(const struct pool_params *pools, size_t n, size_t i,
			    unsigned kind);
/* The share of `free` bytes, in whole pages. */
uint64_t capacity_share_bytes(struct share share, uint64_t free, uint64_t page_bytes);
/* -EINVAL with text: the shares exceed 100%; pools[*ret_i] is the first one too many. */
int capacity_check_shares(const struct pool_params *pools, size_t n, size_t *ret_i);

/* The size of a pool in these pages (not POOL_PAGES_AUTO): as configured, or by its share.
 *   -ENOMEM  the share is below the minimum */
int capacity_pool_bytes(const struct pool_params *params,
			const struct memory_work *work, enum pool_pages pages,
			uint64_t *ret_bytes);
/* For the log of a pool that has its share: the group whose limit it is a share of, with what that
 * left to pools of its node, or "". */
void capacity_note(const struct memory *memory, const struct memory_work *work,
		   char *buf, size_t buf_bytes);

/* The memory that is available to this process, without huge pages. */
uint64_t capacity_available(void);
/* Claim memory->bytes of the room; a caller that fails later returns them.  -ENOMEM: there is
 * less. */
int capacity_claim(const struct memory *memory, int node, _Atomic(uint64_t) *room);
/* -EINVAL, always: there are no huge pages of this size; the text has those that there are. */
int capacity_huge_unknown(enum pool_pages pages);
/* -ENOMEM: there are too few huge pages; -EINVAL: there are none of this size. */
int capacity_huge_short(const struct memory *memory, int node);
/* Check the limit of the file's file system.  -ENOMEM: exceeded; or the error of asking for it. */
int capacity_check_file(const struct memory *memory);

#endif

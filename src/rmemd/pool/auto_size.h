/* SPDX-License-Identifier: BSD-3-Clause */
/* How much pools of `size = auto` get.  Those of one node, as those of any node, divide what
 * is free there when the pools of a fixed size, and those that were kept, have theirs.  What they have in per cent is
 * theirs; the others get equal parts of what is left: of huge pages, which were put aside to
 * be used, all; of other memory half, which leaves the system what it needs.
 * Threads: [any]. */
#ifndef RMEMD_POOL_SHARE_H
#define RMEMD_POOL_SHARE_H

#include "rmemd/pool/pools.h"

/* What is free is counted by these. */
enum share_kind { SHARE_PAGES_1G, SHARE_PAGES_2M, SHARE_MEMORY, SHARE_KINDS };

/* So many parts of `whole`, which is > 0. */
struct share {
	uint64_t parts, whole;
};

/* Not of POOL_PAGES_AUTO, which is one after the other. */
enum share_kind share_kind(enum pool_pages pages);

/* What pools[i] is to have of a kind; no parts when the others have all of it. */
struct share share_of(const struct pool_params *pools, size_t n, size_t i,
		      enum share_kind kind);
/* `free` bytes' share in whole pages. */
uint64_t share_bytes(struct share share, uint64_t free, uint64_t page_bytes);

/* What is free on a node or, when it is POOL_NODE_ANY, on this host; 0 where the kernel does
 * not tell. */
void share_free(int node, uint64_t ret_bytes[SHARE_KINDS]);

/* Whether the shares go together; -EINVAL with text, and whose is one too much. */
int share_check(const struct pool_params *pools, size_t n, size_t *ret_i);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* How much pools of `size = auto` get.  Those of one node, as those of any node, divide what
 * is free there when the pools of a fixed size, and those that were kept, have theirs.  What they have in per cent is
 * theirs; the others get equal parts of what is left: of huge pages, which were put aside to
 * be used, all; of other memory half, which leaves the system what it needs.
 * Threads: [any]. */
#ifndef RMEMD_POOL_AUTO_SIZE_H
#define RMEMD_POOL_AUTO_SIZE_H

#include "rmemd/pool/pools.h"

/* What is free is counted by these. */
enum auto_size_kind { AUTO_SIZE_1G, AUTO_SIZE_2M, AUTO_SIZE_MEMORY, AUTO_SIZE_KINDS };

/* So many parts of `whole`, which is > 0. */
struct share {
	uint64_t parts, whole;
};

/* Not of POOL_PAGES_AUTO, which is one after the other. */
enum auto_size_kind auto_size_kind(enum pool_pages pages);

/* What pools[i] is to have of a kind; no parts when the others have all of it. */
struct share auto_size_share(const struct pool_params *pools, size_t n, size_t i,
			     enum auto_size_kind kind);
/* `free` bytes' share in whole pages. */
uint64_t auto_size_bytes(struct share share, uint64_t free, uint64_t page_bytes);

/* What is free on a node or, when it is POOL_NODE_ANY, on this host; 0 where the kernel does
 * not tell. */
void auto_size_free(int node, uint64_t ret_bytes[AUTO_SIZE_KINDS]);

/* Whether the shares go together; -EINVAL with text, and whose is one too much. */
int auto_size_check(const struct pool_params *pools, size_t n, size_t *ret_i);

#endif

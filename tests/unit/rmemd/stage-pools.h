/* SPDX-License-Identifier: BSD-3-Clause */
/* Fake pools of a few pages: freed memory stays dirty until the test scrubs it.  To free memory
 * that a key still reaches fails the test. */
#ifndef TESTS_UNIT_STAGE_POOLS_H
#define TESTS_UNIT_STAGE_POOLS_H

#include <stdbool.h>
#include <stdint.h>

struct leases;

#define FAKE_PAGE 4096
#define FAKE_PAGES 128
#define FAKE_NODE_PAGES 96 /* on node 0; the others are on node 1 */

/* What pools_alloc() was asked for. */
struct fake_wish {
	uint64_t align;
	int nodes[8];
	unsigned n_nodes;
	bool interleave;
	unsigned endpoints;
	const struct pool_names *only;
};

/* Free all pages; every `gap`th page (0: none) cannot be lent. */
void fake_pools_reset(unsigned gap);
void fake_pools_scrub(void);
/* Whether pools_free_tail() can shorten extents. */
void fake_pools_cut(bool possible);
/* No extent crosses the beginning of this page. */
void fake_pools_break(unsigned page);
/* The endpoints through which the memory of each node is lent, a bit each. */
void fake_pools_lend_through(unsigned near, unsigned far);
/* The last request. */
const struct fake_wish *fake_pools_wish(void);
/* The numbers of lent and of dirty pages. */
unsigned fake_pools_lent(void);
unsigned fake_pools_dirty(void);
/* After a crash: nothing is lent until it is claimed; all other memory is dirty. */
void fake_pools_crash(void);
/* The number of extents freed since the crash. */
unsigned fake_pools_given(void);
/* Whether the pool is missing. */
void fake_pools_take_away(bool away);
/* Check that the lent pages are those of the leases. */
void fake_pools_check(const struct leases *leases);
/* The pool wants back the last n pages; 0: none. */
void fake_pools_reclaim(unsigned n, uint64_t until_ms, bool revoke);
/* Whether a request waits for clean pages. */
bool fake_pools_hurried(void);

#endif

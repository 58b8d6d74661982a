/* SPDX-License-Identifier: BSD-3-Clause */
/* Pools of a few pages: what is given back stays dirty until the test scrubs.  Giving back
 * memory that a key still reaches fails the test. */
#ifndef TESTS_UNIT_STAGE_POOLS_H
#define TESTS_UNIT_STAGE_POOLS_H

#include <stdbool.h>
#include <stdint.h>

struct ledger;
struct leases;

#define FAKE_PAGE 4096
#define FAKE_PAGES 128
#define FAKE_NODE_PAGES 96 /* are on node 0, those behind them on node 1 */

/* How memory was asked for. */
struct fake_wish {
	uint64_t align;
	int nodes[8];
	unsigned n_nodes;
	bool interleave;
	unsigned endpoints;
};

/* All free again, but for every `gap`th page (0: none), which nobody can have. */
void fake_pools_reset(unsigned gap);
void fake_pools_scrub(void);
/* Whether ends of extents can be given back. */
void fake_pools_cut(bool possible);
/* No piece is to reach across the beginning of this page. */
void fake_pools_break(unsigned page);
/* Through which endpoints the memory of each node is lent, a bit each. */
void fake_pools_lend_through(unsigned near, unsigned far);
/* Of the last request. */
const struct fake_wish *fake_pools_wish(void);
/* Pages lent or being scrubbed. */
unsigned fake_pools_lent(void);
unsigned fake_pools_dirty(void);
/* After a crash: nothing is lent any more but what is claimed, and the rest holds anything. */
void fake_pools_crash(void);
/* How often memory was given back since the crash. */
unsigned fake_pools_given(void);
/* Whether the pool is not there any more. */
void fake_pools_take_away(bool away);
/* A new ledger in a file of its own; and one that has found what is in that file. */
struct ledger *fake_ledger(void);
struct ledger *fake_ledger_again(struct ledger *ledger);
/* As many pages are lent as the leases have. */
void fake_pools_check(const struct leases *leases);
/* Want back what is lent of the last n pages; 0: nothing. */
void fake_pools_reclaim(unsigned n, uint64_t until_ms, bool revoke);
/* Somebody waits for clean ones. */
bool fake_pools_hurried(void);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of pools share: the pools, short ways to open them and to take of them, and a
 * file that they are kept in. */
#ifndef TESTS_UNIT_POOLS_CASE_H
#define TESTS_UNIT_POOLS_CASE_H

#include <stdint.h>

#include "rmemd/pool/pools.h"
#include "unit/unit.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * KIB)
#define PIB (MIB * MIB * KIB)
#define EXTENTS_MAX 8
#define POOL(of_name, of_node, of_bytes, of_pages)                       \
	{                                                                \
		.name = of_name, .node = (of_node), .bytes = (of_bytes), \
		.pages = (of_pages),                                     \
	}

extern struct pools *pools;
extern struct extent taken[EXTENTS_MAX];
extern unsigned n_taken;

int open_params(uint64_t bytes, int node, enum pool_pages pages);
/* Preferably on a node. */
int take_into(uint64_t bytes, uint64_t align, int node, struct extent *extents,
	      unsigned max, unsigned *ret_n);
int take(uint64_t bytes, unsigned max);

/* Keeps what is told of the last that was ready. */
extern const struct pools_events keeping;
extern struct pool_status opened;
extern char opened_note[512];

extern int kept_fd;

void kept_make(unsigned flags);
/* Pools in the file, in which there is something on such pages, or AUTO: nothing yet. */
int open_kept(uint64_t bytes, enum pool_pages asked, enum pool_pages kept);

#endif

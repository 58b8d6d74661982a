/* SPDX-License-Identifier: BSD-3-Clause */
/* Resizing, adding and removing pools, with pools, leases and a ledger that are fakes. */
#ifndef TESTS_UNIT_RMEMD_PROVISION_RESIZE_CASE_H
#define TESTS_UNIT_RMEMD_PROVISION_RESIZE_CASE_H

#include <stdbool.h>
#include <stdint.h>

#include "rmemd/config/config.h"
#include "rmemd/pool/pools.h"
#include "rmemd/provision/resize.h"

#define MIB (UINT64_C(1024) * 1024)
#define WAIT_MS 1000
#define LINES 8

extern struct config config;
extern struct resizes *resizes;
extern uint64_t now_ms;
extern char logged[LINES][256]; /* the last line first */

/* The first pool. */
extern struct fake {
	struct pool_params params;
	struct pool_status status;
	int grow_err, reclaim_err;
	bool stopped;     /* pools_grow_stop() was called */
	unsigned n_grown; /* calls of pools_grow() */
	bool done;        /* pools_resized() returns `resized` */
	struct pools_resized resized;
	bool leased;                  /* leases are in the closed end */
	unsigned n_steps, n_searches; /* turns that they take before the last one */
	uint64_t searched;
} fake;

/* The record of the ledger. */
extern struct record {
	int err;
	uint64_t bytes, grown;
} record;

/* A pool that is added, and what became of the pools. */
extern struct coming {
	const struct pool_params *params; /* NULL: none */
	int add_err, file_err;
	bool stopped, done;
	struct pools_added added;
	unsigned n_files; /* made and not dropped */
	unsigned n_adds, n_recorded, n_forgotten, n_entered, n_removed;
	uint32_t recorded_id, next_id;
	struct pools_dropped dropped;
	bool has_dropped;
} coming;

#define COMING ((struct pool *)&coming)

/* The second pool, if there are two. */
extern unsigned n_pools;
extern struct pool_status other;
extern const struct pool_params other_params;

/* Of the test case. */
void setup(void);
void teardown(void);

void open_resizes(void);
/* Time passes, and what is due is done. */
void advance(uint64_t ms);
/* Reload a configuration in which the first pool has this size. */
void reload(uint64_t bytes);
/* The last lease in the closed end is gone. */
void free_closed_end(void);
/* Nothing is under way any more. */
void fake_rest(void);
/* Growing or shrinking ends with this result. */
void finish(int err, uint64_t bytes);

void assert_rests(uint64_t bytes);
/* The ledger has this size, and no growth. */
void assert_recorded(uint64_t bytes);
/* The last line of the log. */
void assert_logged(const char *text);

#endif

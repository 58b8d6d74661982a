/* SPDX-License-Identifier: BSD-3-Clause */
/* Real pools, short functions to open them and to allocate, and a file that holds a pool: shared by
 * the tests of pools. */
#ifndef TESTS_UNIT_POOLS_CASE_H
#define TESTS_UNIT_POOLS_CASE_H

#include <stdbool.h>
#include <stdint.h>

#include "rmemd/pool/pools.h"
#include "unit/unit.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * KIB)
#define PIB (MIB * MIB * KIB)
#define EXTENTS_MAX 64
#define POOL(of_name, of_node, of_bytes, of_pages) \
	{                                          \
		.name = of_name,                   \
		.node = (of_node),                 \
		.bytes = (of_bytes),               \
		.pages = (of_pages),               \
	}

extern struct pools *pools;
/* The result of alloc() and alloc_as(). */
extern struct extent allocated[EXTENTS_MAX];
extern unsigned n_allocated;

/* Checked fixture: closes pools and kept_fd. */
void pools_teardown(void);
void close_pools(void);

void open_pools(const struct pool_params *params, size_t n);
/* One pool on base pages, of any node. */
void open_one(uint64_t bytes);
int open_params(uint64_t bytes, int node, enum pool_pages pages);

int alloc_as(const struct pool_request *request, unsigned max);
int alloc(uint64_t bytes, unsigned max);
struct extent alloc_one(uint64_t bytes);

/* Wait for an event of the pools and process it; returns the bytes that became free. */
uint64_t await_event(void);
/* Whether all bytes have this value. */
bool extent_is(const struct extent *extent, char value);
void extent_fill(const struct extent *extent, char value);

/* Stores the status and the note of the last pool that was ready. */
extern const struct pools_events recorder;
extern struct pool_status opened;
extern char opened_note[512];

/* A file in memory that outlasts its pool. */
extern int kept_fd;
void kept_make(void);
/* Open a pool in this file, which holds one on such pages; AUTO: none yet. */
int open_kept(uint64_t bytes, enum pool_pages asked, enum pool_pages kept);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The map of a pool: its range in a limited number of cells, each with what its bytes are, however
 * many extents there are.  It is made in steps, and shows each cell as it is then.
 * Threads: [loop]. */
#ifndef RMEMD_POOL_MAP_H
#define RMEMD_POOL_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "rmemd/pool/extents.h"

struct pools;

#define POOL_MAP_CELLS 256
/* Owners of a cell that are told by name; the bytes of others are only in `lent`. */
#define POOL_MAP_OWNERS 8
#define POOL_MAP_OWNER_BYTES 64

struct pool_map_owner {
	char name[POOL_MAP_OWNER_BYTES];
	uint64_t bytes;
};

struct pool_map_cell {
	uint64_t offset, bytes;
	uint64_t free, lent, scrubbing, closed; /* of `bytes` */
	struct pool_map_owner owners[POOL_MAP_OWNERS];
	unsigned n_owners;
};

struct pool_map {
	struct extents_walk walk;
	uint64_t cell_bytes; /* a multiple of the base page */
	struct pool_map_cell cell;
	bool complete; /* pool_map_next() has returned the cell */
};

/* Begin the map of pool i, which may be removed before it is complete. */
void pool_map_begin(const struct pools *pools, unsigned i, struct pool_map *map);
/* Look at *left extents at most, whose number *left loses, for the next cell.  NULL: more has to be
 * looked at, if *left is 0; else there are no more cells.  The cell is valid until the next
 * call. */
const struct pool_map_cell *pool_map_next(struct pool_map *map, unsigned *left);
/* The map is not used any more.  One that is zero is left alone. */
void pool_map_end(struct pool_map *map);

#endif

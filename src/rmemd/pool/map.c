/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/pool/map.h"

#include <stdio.h>
#include <string.h>

#include "rmemd/pool/pool.h"

static uint64_t cell_size(const struct extents *extents)
{
	uint64_t grains = extents->bytes / extents->grain;

	return (grains + POOL_MAP_CELLS - 1) / POOL_MAP_CELLS * extents->grain;
}

void pool_map_begin(const struct pools *pools, unsigned i, struct pool_map *map)
{
	struct extents *extents = &pools->pool[i]->extents;

	*map = (struct pool_map){ .cell_bytes = cell_size(extents) };
	extents_walk_begin(extents, &map->walk);
}

/* The names are copied, as an owner may be gone when the cell is complete. */
static void owner_add(struct pool_map_cell *cell, const char *name, uint64_t bytes)
{
	struct pool_map_owner *owner = cell->owners;
	struct pool_map_owner *end = owner + cell->n_owners;

	while (owner < end && strcmp(owner->name, name) != 0)
		owner++;
	if (owner == end) {
		if (cell->n_owners == POOL_MAP_OWNERS)
			return;
		cell->n_owners++;
		(void)snprintf(owner->name, sizeof(owner->name), "%s", name);
		owner->bytes = 0;
	}
	owner->bytes += bytes;
}

static void run_add(struct pool_map_cell *cell, const struct extents_run *run)
{
	cell->bytes += run->bytes;
	switch (run->state) {
	case BLOCK_FREE:
		cell->free += run->bytes;
		break;
	case BLOCK_DIRTY:
		cell->scrubbing += run->bytes;
		break;
	case BLOCK_LENT:
		cell->lent += run->bytes;
		if (run->owner && run->bytes)
			owner_add(cell, run->owner, run->bytes);
		break;
	default:
		cell->closed += run->bytes;
	}
}

const struct pool_map_cell *pool_map_next(struct pool_map *map, unsigned *left)
{
	struct pool_map_cell *cell = &map->cell;
	struct extents_run run;

	if (map->complete) {
		cell->offset = map->walk.offset;
		cell->bytes = cell->free = cell->lent = 0;
		cell->scrubbing = cell->closed = 0;
		cell->n_owners = 0;
		map->complete = false;
	}
	for (; *left > 0; --*left) {
		if (!extents_walk_next(&map->walk, cell->offset + map->cell_bytes,
				       &run)) {
			/* the last one is shorter */
			map->complete = cell->bytes > 0;
			return map->complete ? cell : NULL;
		}
		run_add(cell, &run);
		if (cell->bytes == map->cell_bytes) {
			--*left;
			map->complete = true;
			return cell;
		}
	}
	return NULL;
}

void pool_map_end(struct pool_map *map)
{
	extents_walk_end(&map->walk);
}

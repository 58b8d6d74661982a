/* SPDX-License-Identifier: BSD-3-Clause */
/* The extents of rmemd's pools. */
#include "alloc.h"

#include <stdio.h>
#include <stdlib.h>

#include "rmemd/pool/extents.h"

static struct extents extents;

static void ours_open(uint64_t bytes)
{
	if (extents_init(&extents, bytes, ALLOC_GRAIN)) {
		(void)fprintf(stderr, "alloc: no memory for the extents\n");
		exit(1);
	}
}

static void ours_close(void)
{
	extents_destroy(&extents);
}

static void *ours_alloc(uint64_t bytes)
{
	struct block *block;

	return extents_alloc(&extents, bytes, ALLOC_GRAIN, &block) ? NULL : block;
}

static void ours_free(void *block)
{
	extents_free(&extents, block);
}

const struct allocator allocator_ours = {
	.name = "rmemd",
	.open = ours_open,
	.close = ours_close,
	.alloc = ours_alloc,
	.free = ours_free,
};

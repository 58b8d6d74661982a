/* SPDX-License-Identifier: BSD-3-Clause */
/* Which bytes of one range are free, lent or being cleaned.  Best fit with coalescing,
 * O(log n): every byte belongs to one block; blocks are linked in the order of their
 * offsets, free ones stand in a treap ordered by size, lent ones in a hash map.
 * Giving back takes no memory, so it cannot fail.
 *
 * The range can become longer, and it can lose its end: that is closed first, so that
 * nothing of it is lent any more, and cut off when all that was lent of it is back.
 * Not thread-safe. */
#ifndef RMEMD_POOL_EXTENTS_H
#define RMEMD_POOL_EXTENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/map.h"
#include "rmemd/pool/scrubber.h"

/* CLOSED: it lies in the end that is closed, and nobody has it. */
enum block_state { BLOCK_FREE, BLOCK_LENT, BLOCK_DIRTY, BLOCK_CLOSED };

struct extents;

/* Owned by its extents.  What cleans a dirty block keeps its state in `job`, so that this
 * takes no memory. */
struct block {
	uint64_t offset, bytes;
	enum block_state state;
	bool unclean;      /* closed without having been cleaned */
	struct list order; /* neighbours by offset */
	struct scrub_job job;
	struct extents *extents;
	struct map_node lent;
	uint64_t priority; /* of the treap's heap order */
	struct block *left, *right;
};

struct extents {
	uint64_t bytes; /* of the range */
	uint64_t end;   /* from here on it is closed; `bytes`: nothing is */
	uint64_t grain; /* offsets and sizes are multiples of it */
	uint64_t free, lent, dirty, closed;
	struct list order;
	struct map lent_by_offset;
	struct block *free_by_size;
	struct block *spare; /* for what must not fail; may be NULL */
	uint64_t priorities; /* the next one is made of it */
};

/* One free range.  grain: power of two that divides bytes.  -ENOMEM. */
int extents_init(struct extents *extents, uint64_t bytes, uint64_t grain);
void extents_destroy(struct extents *extents);

/* Take `bytes` (a multiple of the grain, > 0) at a multiple of `align` (a power of two, at
 * least the grain) from the smallest free block that holds them.
 *   -ENOSPC, -ENOMEM  without text */
int extents_alloc(struct extents *extents, uint64_t bytes, uint64_t align,
		  struct block **ret_block);
/* Take as much as one free block has, `bytes` at most: from the largest. */
int extents_alloc_most(struct extents *extents, uint64_t bytes, uint64_t align,
		       struct block **ret_block);

/* Take a certain range, both multiples of the grain.  To be called before anything else, and
 * with rising offsets.
 *   -EINVAL  it is not behind all others, or not inside
 *   -ENOMEM */
int extents_claim(struct extents *extents, uint64_t offset, uint64_t bytes,
		  struct block **ret_block);

/* Cut a lent block: it keeps `bytes` (a multiple of the grain, > 0, fewer than it has), the
 * rest is a lent block of its own.  -ENOMEM. */
int extents_split(struct extents *extents, struct block *block, uint64_t bytes,
		  struct block **ret_rest);

/* The lent block that begins at `offset`, or NULL. */
struct block *extents_find(const struct extents *extents, uint64_t offset);

/* A lent block is given back and must be cleaned; then it is free again.  A lent block
 * that nobody has written to may be freed at once. */
void extents_soil(struct extents *extents, struct block *block);
void extents_free(struct extents *extents, struct block *block);

/* What extents_alloc_most() could take. */
uint64_t extents_largest(const struct extents *extents, uint64_t align);

/* Call back for every run of neighbouring blocks that are free or dirty, in order, as far as
 * they are not closed.  O(n). */
void extents_each_run(const struct extents *extents,
		      void (*run)(void *ctx, uint64_t offset, uint64_t bytes),
		      void *ctx);

/* Close what lies behind `end` (a multiple of the grain, > 0, less than bytes): what is free
 * there, and what comes back later, is not lent.  Nothing is closed yet.  -ENOMEM */
int extents_close(struct extents *extents, uint64_t end);
/* A lent block that lies in what is closed is given back: as it goes with it, nobody needs it
 * clean. */
void extents_drop(struct extents *extents, struct block *block);
/* All that is closed is back. */
bool extents_cleared(const struct extents *extents);
/* Without what is closed, which is back. */
void extents_cut(struct extents *extents);
/* Nothing is closed any more.  What was not cleaned is dirty now: soiled() is told of each such
 * block, and cleans it. */
void extents_reopen(struct extents *extents,
		    void (*soiled)(void *ctx, struct block *block), void *ctx);

/* Have what extents_grow() needs.  -ENOMEM */
int extents_grow_reserve(struct extents *extents);
/* Add clean bytes behind the end, up to `bytes` in all; nothing is closed, and what it needs is
 * reserved. */
void extents_grow(struct extents *extents, uint64_t bytes);

#endif

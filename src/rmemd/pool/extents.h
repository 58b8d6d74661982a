/* SPDX-License-Identifier: BSD-3-Clause */
/* Allocator of one range of bytes, which are free, lent or dirty.  Best fit with coalescing,
 * O(log n): every byte belongs to one block; blocks are linked in the order of their offsets, and
 * free blocks are in a tree ordered by size.  Freeing needs no memory, so it cannot fail.
 *
 * The range can be extended.  To shorten it, close its end, where nothing is lent from then on, and
 * cut it off when all blocks there are free.  Closing, reopening and cutting take time for each
 * block of the end, so they are done in steps, between which all other functions may be called.
 * Not thread-safe. */
#ifndef RMEMD_POOL_EXTENTS_H
#define RMEMD_POOL_EXTENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/tree.h"
#include "rmemd/pool/scrubber.h"

/* CLOSED: not lent, in the closed end. */
enum block_state { BLOCK_FREE, BLOCK_LENT, BLOCK_DIRTY, BLOCK_CLOSED, BLOCK_STATES };

struct extents;

/* Owned by its extents.  `job` lets a dirty block be cleaned without allocating memory. */
struct block {
	uint64_t offset, bytes;
	enum block_state state;
	bool unclean;      /* CLOSED: not cleaned */
	uint64_t clean;    /* DIRTY: its first bytes, which are clean already */
	const char *owner; /* LENT: extents_walk_next() tells it; NULL: not known */
	struct list order; /* neighbours by offset */
	struct scrub_job job;
	struct extents *extents;
	struct tree_node in_tree; /* FREE: by size and offset */
};

struct extents {
	uint64_t bytes; /* of the range */
	uint64_t end;   /* the closed end begins here; `bytes`: nothing is closed */
	uint64_t grain; /* offsets and sizes are multiples of it */
	uint64_t sum[BLOCK_STATES]; /* bytes of the blocks in each state */
	struct list order;
	struct list *closed; /* the first block behind `end`, or the head of `order` */
	struct tree free_by_size;
	struct block *spare; /* for functions that must not fail; may be NULL */
	struct list walks;   /* struct extents_walk */
};

/* One free range.  grain: power of two that divides bytes.  -ENOMEM. */
int extents_init(struct extents *extents, uint64_t bytes, uint64_t grain);
void extents_destroy(struct extents *extents);

/* Lend `bytes` (a multiple of the grain, > 0) at a multiple of `align` (a power of two, at
 * least the grain) from the smallest free block that holds them.
 *   -ENOSPC, -ENOMEM  without text */
int extents_alloc(struct extents *extents, uint64_t bytes, uint64_t align,
		  struct block **ret_block);
/* Lend `bytes`, or all of the largest free block if it has less. */
int extents_alloc_most(struct extents *extents, uint64_t bytes, uint64_t align,
		       struct block **ret_block);

/* Lend a given range.  Call it before any other function, with rising offsets.
 *   -EINVAL  the range is not inside, or not of whole grains
 *   -EEXIST  it is not behind all claimed ranges
 *   -ENOMEM */
int extents_claim(struct extents *extents, uint64_t offset, uint64_t bytes,
		  struct block **ret_block);

/* Split a lent block: it keeps `bytes` (a multiple of the grain, > 0, less than its size); the rest
 * becomes another lent block.  -ENOMEM. */
int extents_split(struct extents *extents, struct block *block, uint64_t bytes,
		  struct block **ret_rest);

/* Mark a lent block as dirty; the caller cleans it, from its begin on, and tells of each piece:
 * what is not in the closed end is free then.  True: all was clean, and the block is gone. */
void extents_mark_dirty(struct extents *extents, struct block *block);
bool extents_cleaned(struct extents *extents, struct block *block, uint64_t bytes);
/* A lent block that was not written to may be freed at once. */
void extents_free(struct extents *extents, struct block *block);

/* The most that extents_alloc_most() can lend. */
uint64_t extents_largest(const struct extents *extents, uint64_t align);

/* Call run() for every run of neighbouring blocks that are free or dirty, up to the closed end, in
 * order, until it returns false or *left blocks were looked at, whose number *left loses.  True:
 * all were. */
bool extents_each_run(const struct extents *extents, unsigned *left,
		      bool (*run)(void *ctx, uint64_t offset, uint64_t bytes),
		      void *ctx);

/* A walk over all blocks in the order of their offsets, in steps, between which all other functions
 * may be called: each byte is seen once, in the state that it has then.  It must not move, as the
 * extents know it. */
struct extents_walk {
	struct extents *extents; /* NULL: they are gone */
	struct list link;        /* in extents->walks */
	struct list *next; /* the block that has the next byte, or one before it */
	uint64_t offset;   /* the bytes before it were seen */
};

struct extents_run {
	uint64_t offset, bytes; /* bytes may be 0 */
	enum block_state state;
	const char *owner; /* of BLOCK_LENT */
};

void extents_walk_begin(struct extents *extents, struct extents_walk *walk);
/* Look at one block, as far as it is before `limit`, which is behind walk->offset.  False: there
 * are no more. */
bool extents_walk_next(struct extents_walk *walk, uint64_t limit,
		       struct extents_run *ret_run);
/* Afterwards the walk may be freed. */
void extents_walk_end(struct extents_walk *walk);

/* Close the end from `end` on (a multiple of the grain, less than bytes), after extents_reserve():
 * free blocks there are not lent.  It handles max_blocks at most, from the last one on; false:
 * there are more, so call it again. */
bool extents_close(struct extents *extents, uint64_t end, unsigned max_blocks);
/* Give back a lent block in the closed end; it is not cleaned, as it will be cut off. */
void extents_drop(struct extents *extents, struct block *block);
/* Whether no block in the closed end is lent or dirty. */
bool extents_end_is_free(const struct extents *extents);
/* Cut off the closed end, after extents_end_is_free(); in steps, as extents_close(). */
bool extents_cut(struct extents *extents, unsigned max_blocks);
/* Open the closed end; in steps, as extents_close().  Its uncleaned blocks become dirty; dirtied()
 * is called for each of them. */
bool extents_reopen(struct extents *extents, unsigned max_blocks,
		    void (*dirtied)(void *ctx, struct block *block), void *ctx);

/* Reserve the memory for extents_grow() or extents_close().  -ENOMEM */
int extents_reserve(struct extents *extents);
/* Extend the range to `bytes` with clean bytes, after extents_reserve(); no end is closed. */
void extents_grow(struct extents *extents, uint64_t bytes);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/pool/extents.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/checked.h"

/* The number of blocks that are too small once aligned and are skipped, before a size is looked up
 * that is large enough for any alignment. */
#define ALIGN_TRIES 16
/* The number of blocks examined when there is no block of that size: in a fragmented pool one
 * request must not delay all others. */
#define ALIGN_TRIES_MAX 1024

/* ---- blocks ---- */

static struct block *block_of(struct tree_node *node)
{
	return node ? container_of(node, struct block, in_tree) : NULL;
}

static void free_insert(struct extents *extents, struct block *block)
{
	tree_insert(&extents->free_by_size, &block->in_tree, block->bytes,
		    block->offset);
}

static void free_remove(struct extents *extents, const struct block *block)
{
	tree_remove(&extents->free_by_size, &block->in_tree);
}

static struct block *block_new(struct extents *extents)
{
	struct block *block = calloc(1, sizeof(*block));

	if (!block)
		return NULL;
	block->extents = extents;
	list_init(&block->order);
	list_init(&block->job.link);
	return block;
}

/* Every byte is in one state. */
static bool sums_agree(const struct extents *extents)
{
	const uint64_t *sum = extents->sum;

	return sum[BLOCK_FREE] + sum[BLOCK_LENT] + sum[BLOCK_DIRTY] +
		       sum[BLOCK_CLOSED] ==
	       extents->bytes;
}

static void block_set_state(struct extents *extents, struct block *block,
			    enum block_state to)
{
	assert(block->bytes <= extents->sum[block->state] && sums_agree(extents));
	extents->sum[block->state] -= block->bytes;
	block->state = to;
	block->clean = 0;
	extents->sum[to] += block->bytes;
}

/* Shorten a block to `bytes`; the new block behind it gets the rest. */
static void block_split(struct block *block, struct block *behind, uint64_t bytes)
{
	behind->offset = block->offset + bytes;
	behind->bytes = block->bytes - bytes;
	behind->state = block->state;
	behind->owner = block->owner;
	block->bytes = bytes;
	list_append(block->order.next, &behind->order);
}

/* Remove a block; walks that stand at it go on at `instead`. */
static void block_remove(struct extents *extents, struct block *block,
			 struct list *instead)
{
	list_for_each_entry(struct extents_walk, walk, &extents->walks, link)
		if (walk->next == &block->order)
			walk->next = instead;
	list_remove(&block->order);
	free(block);
}

/* Bytes left of the block from its first aligned offset on, in whole grains. */
static uint64_t block_usable(const struct block *block, uint64_t align)
{
	uint64_t skip = align_gap(block->offset, align);

	return skip < block->bytes ? block->bytes - skip : 0;
}

/* Lend `bytes` of a free block behind its first `skip`; the rest on both sides stays free. */
static int block_cut(struct extents *extents, struct block *block, uint64_t skip,
		     uint64_t bytes, struct block **ret_block)
{
	bool has_rest = bytes < block->bytes - skip;
	struct block *lent = skip ? block_new(extents) : block;
	struct block *rest = has_rest ? block_new(extents) : NULL;

	assert(range_inside(block->bytes, skip, bytes));
	if (!lent || (has_rest && !rest)) {
		if (skip)
			free(lent);
		free(rest);
		return -ENOMEM;
	}
	free_remove(extents, block);
	if (skip) {
		block_split(block, lent, skip);
		free_insert(extents, block);
	}
	if (rest) {
		block_split(lent, rest, bytes);
		free_insert(extents, rest);
	}
	block_set_state(extents, lent, BLOCK_LENT);
	lent->owner = NULL;
	*ret_block = lent;
	return 0;
}

/* The neighbour at `node` if it is free too, else NULL. */
static struct block *free_neighbour(const struct extents *extents, struct list *node)
{
	struct block *block;

	if (node == &extents->order)
		return NULL;
	block = container_of(node, struct block, order);
	return block->state == BLOCK_FREE ? block : NULL;
}

int extents_init(struct extents *extents, uint64_t bytes, uint64_t grain)
{
	struct block *block;

	*extents = (struct extents){ .bytes = bytes, .end = bytes, .grain = grain };
	extents->sum[BLOCK_FREE] = bytes;
	list_init(&extents->order);
	list_init(&extents->walks);
	block = block_new(extents);
	if (!block)
		return -ENOMEM;
	extents->closed = &extents->order;
	block->bytes = bytes;
	list_append(&extents->order, &block->order);
	free_insert(extents, block);
	return 0;
}

static void spare_drop(struct extents *extents)
{
	free(extents->spare);
	extents->spare = NULL;
}

void extents_destroy(struct extents *extents)
{
	list_for_each_entry_safe(struct extents_walk, walk, &extents->walks, link)
		extents_walk_end(walk);
	list_for_each_entry_safe(struct block, block, &extents->order, order)
		free(block);
	list_init(&extents->order);
	spare_drop(extents);
}

/* The smallest free block that holds `bytes` once aligned, after `tries` larger ones than the
 * smallest that is long enough; NULL: there is none among these. */
static struct block *block_fitting(const struct extents *extents, uint64_t bytes,
				   uint64_t align, unsigned tries)
{
	const struct tree *tree = &extents->free_by_size;
	struct block *block = block_of(tree_above(tree, bytes - 1, UINT64_MAX));

	while (block && block_usable(block, align) < bytes) {
		if (tries == 0)
			return NULL;
		tries--;
		block = block_of(tree_above(tree, block->bytes, block->offset));
	}
	return block;
}

int extents_alloc(struct extents *extents, uint64_t bytes, uint64_t align,
		  struct block **ret_block)
{
	struct block *block = block_fitting(extents, bytes, align, ALIGN_TRIES);
	uint64_t enough;

	/* a block of this size holds them at whatever offset it begins */
	if (!block && checked_add(bytes, align - extents->grain, &enough))
		block = block_fitting(extents, enough, extents->grain, 0);
	if (!block)
		block = block_fitting(extents, bytes, align, ALIGN_TRIES_MAX);
	if (!block)
		return -ENOSPC;
	return block_cut(extents, block, align_gap(block->offset, align), bytes,
			 ret_block);
}

/* The free block that has most from its first aligned offset on, or NULL. */
static struct block *block_most(const struct extents *extents, uint64_t align,
				uint64_t *ret_usable)
{
	const struct tree *tree = &extents->free_by_size;
	struct block *block = block_of(tree_below(tree, UINT64_MAX, UINT64_MAX));
	struct block *best = NULL;
	uint64_t best_usable = 0;
	unsigned tries = 0;

	/* downwards by size, until no smaller block can have more */
	while (block && block->bytes > best_usable && tries++ < ALIGN_TRIES_MAX) {
		uint64_t usable = block_usable(block, align);

		if (usable > best_usable) {
			best = block;
			best_usable = usable;
		}
		block = block_of(tree_below(tree, block->bytes, block->offset));
	}
	*ret_usable = best_usable;
	return best;
}

int extents_alloc_most(struct extents *extents, uint64_t bytes, uint64_t align,
		       struct block **ret_block)
{
	uint64_t usable;
	struct block *block = block_most(extents, align, &usable);

	if (!block)
		return -ENOSPC;
	return block_cut(extents, block, align_gap(block->offset, align),
			 usable < bytes ? usable : bytes, ret_block);
}

int extents_claim(struct extents *extents, uint64_t offset, uint64_t bytes,
		  struct block **ret_block)
{
	struct block *last = free_neighbour(extents, extents->order.prev);

	if (!bytes || (offset | bytes) % extents->grain ||
	    !range_inside(extents->bytes, offset, bytes))
		return -EINVAL;
	if (!last || offset < last->offset)
		return -EEXIST;
	return block_cut(extents, last, offset - last->offset, bytes, ret_block);
}

int extents_split(struct extents *extents, struct block *block, uint64_t bytes,
		  struct block **ret_rest)
{
	struct block *rest = block_new(extents);

	assert(block->state == BLOCK_LENT && bytes > 0 && bytes < block->bytes);
	if (!rest)
		return -ENOMEM;
	block_split(block, rest, bytes);
	if (block->offset < extents->end && rest->offset >= extents->end)
		extents->closed = &rest->order;
	*ret_rest = rest;
	return 0;
}

void extents_mark_dirty(struct extents *extents, struct block *block)
{
	assert(block->state == BLOCK_LENT);
	block_set_state(extents, block, BLOCK_DIRTY);
}

/* Split off the part behind the end: only one block crosses it, until it is split. */
static void block_cut_end(struct extents *extents, struct block *block)
{
	struct block *tail = extents->spare;

	assert(tail);
	extents->spare = NULL;
	block_split(block, tail, extents->end - block->offset);
	block_set_state(extents, tail, BLOCK_CLOSED);
	extents->closed = &tail->order;
}

/* Merge a block that has just become free with free neighbours, and add it to the tree. */
static void block_join(struct extents *extents, struct block *block)
{
	struct block *before = free_neighbour(extents, block->order.prev);
	struct block *behind = free_neighbour(extents, block->order.next);

	if (before) {
		free_remove(extents, before);
		block->offset = before->offset;
		block->bytes += before->bytes;
		block_remove(extents, before, &block->order);
	}
	if (behind) {
		free_remove(extents, behind);
		block->bytes += behind->bytes;
		block_remove(extents, behind, &block->order);
	}
	free_insert(extents, block);
}

/* The free block before a dirty one, which is gone from the tree; a new, empty one if there is
 * none.  NULL: no memory. */
static struct block *free_before(struct extents *extents, struct block *block)
{
	struct block *before = free_neighbour(extents, block->order.prev);

	if (before) {
		free_remove(extents, before);
		return before;
	}
	before = block_new(extents);
	if (before) {
		before->offset = block->offset;
		list_append(&block->order, &before->order);
	}
	return before;
}

bool extents_cleaned(struct extents *extents, struct block *block, uint64_t bytes)
{
	uint64_t open = block->offset < extents->end ? extents->end - block->offset : 0;
	struct block *before;

	assert(block->state == BLOCK_DIRTY && bytes <= block->bytes - block->clean);
	block->clean += bytes;
	if (block->clean == block->bytes) {
		extents_free(extents, block);
		return true;
	}
	/* without memory, or at the end, it is freed with a later piece */
	before = block->clean < open ? free_before(extents, block) : NULL;
	if (!before)
		return false;
	list_for_each_entry(struct extents_walk, walk, &extents->walks, link)
		if (walk->next == &block->order)
			walk->next = &before->order;
	before->bytes += block->clean;
	block->offset += block->clean;
	block->bytes -= block->clean;
	extents->sum[BLOCK_DIRTY] -= block->clean;
	extents->sum[BLOCK_FREE] += block->clean;
	block->clean = 0;
	assert(sums_agree(extents));
	free_insert(extents, before);
	return false;
}

void extents_free(struct extents *extents, struct block *block)
{
	assert(block->state == BLOCK_LENT || block->state == BLOCK_DIRTY);
	if (block->offset >= extents->end) {
		block_set_state(extents, block, BLOCK_CLOSED);
		return;
	}
	if (block->offset + block->bytes > extents->end)
		block_cut_end(extents, block);
	block_set_state(extents, block, BLOCK_FREE);
	block_join(extents, block);
}

/* ---- the end ---- */

int extents_reserve(struct extents *extents)
{
	if (!extents->spare)
		extents->spare = block_new(extents);
	return extents->spare ? 0 : -ENOMEM;
}

/* Move the end down to the begin of the block before it, or to `end` if that is inside. */
static void close_block(struct extents *extents, struct block *block, uint64_t end)
{
	bool is_free = block->state == BLOCK_FREE;

	if (is_free)
		free_remove(extents, block);
	if (block->offset < end) {
		extents->end = end;
		if (!is_free)
			return;
		block_cut_end(extents, block);
		free_insert(extents, block);
		return;
	}
	extents->end = block->offset;
	extents->closed = &block->order;
	if (is_free)
		block_set_state(extents, block, BLOCK_CLOSED);
}

bool extents_close(struct extents *extents, uint64_t end, unsigned max_blocks)
{
	assert(extents->spare && end < extents->bytes);
	for (; extents->end > end && max_blocks > 0; max_blocks--)
		close_block(extents,
			    container_of(extents->closed->prev, struct block, order),
			    end);
	return extents->end <= end;
}

void extents_drop(struct extents *extents, struct block *block)
{
	assert(block->state == BLOCK_LENT && block->offset >= extents->end);
	block_set_state(extents, block, BLOCK_CLOSED);
	block->unclean = true;
}

bool extents_end_is_free(const struct extents *extents)
{
	return extents->sum[BLOCK_CLOSED] == extents->bytes - extents->end;
}

bool extents_cut(struct extents *extents, unsigned max_blocks)
{
	assert(extents_end_is_free(extents));
	for (; extents->closed != &extents->order && max_blocks > 0; max_blocks--) {
		struct block *last =
			container_of(extents->order.prev, struct block, order);

		extents->bytes -= last->bytes;
		extents->sum[BLOCK_CLOSED] -= last->bytes;
		if (extents->closed == &last->order)
			extents->closed = &extents->order;
		block_remove(extents, last, &extents->order);
	}
	assert(sums_agree(extents));
	if (extents->closed != &extents->order)
		return false;
	spare_drop(extents);
	return true;
}

/* Move the end up behind the first block of the closed end. */
static void reopen_block(struct extents *extents, struct block *block,
			 void (*dirtied)(void *ctx, struct block *block), void *ctx)
{
	extents->closed = block->order.next;
	extents->end = block->offset + block->bytes;
	if (block->state != BLOCK_CLOSED)
		return;
	block_set_state(extents, block, block->unclean ? BLOCK_DIRTY : BLOCK_FREE);
	if (block->unclean)
		dirtied(ctx, block);
	else
		block_join(extents, block);
	block->unclean = false;
}

bool extents_reopen(struct extents *extents, unsigned max_blocks,
		    void (*dirtied)(void *ctx, struct block *block), void *ctx)
{
	for (; extents->closed != &extents->order && max_blocks > 0; max_blocks--)
		reopen_block(extents,
			     container_of(extents->closed, struct block, order),
			     dirtied, ctx);
	if (extents->closed != &extents->order)
		return false;
	/* the last block may cross the end */
	extents->end = extents->bytes;
	spare_drop(extents);
	return true;
}

void extents_grow(struct extents *extents, uint64_t bytes)
{
	struct block *block = extents->spare;

	assert(block && extents->end == extents->bytes && bytes > extents->bytes);
	extents->spare = NULL;
	block->offset = extents->bytes;
	block->bytes = bytes - extents->bytes;
	list_append(&extents->order, &block->order);
	extents->sum[BLOCK_FREE] += block->bytes;
	extents->bytes = extents->end = bytes;
	block_join(extents, block);
}

uint64_t extents_largest(const struct extents *extents, uint64_t align)
{
	uint64_t usable;

	(void)block_most(extents, align, &usable);
	return usable;
}

bool extents_each_run(const struct extents *extents, unsigned *left,
		      bool (*run)(void *ctx, uint64_t offset, uint64_t bytes),
		      void *ctx)
{
	uint64_t offset = 0, bytes = 0;

	list_for_each_entry(const struct block, block, &extents->order, order) {
		uint64_t open;

		if (block->offset >= extents->end)
			break;
		if (*left == 0)
			return false;
		--*left;
		open = extents->end - block->offset;
		if (block->state != BLOCK_LENT) {
			if (bytes == 0)
				offset = block->offset;
			bytes += block->bytes < open ? block->bytes : open;
		} else if (bytes) {
			if (!run(ctx, offset, bytes))
				return false;
			bytes = 0;
		}
	}
	return !bytes || run(ctx, offset, bytes);
}

/* ---- walks ---- */

void extents_walk_begin(struct extents *extents, struct extents_walk *walk)
{
	*walk = (struct extents_walk){ .extents = extents,
				       .next = extents->order.next };
	list_append(&extents->walks, &walk->link);
}

bool extents_walk_next(struct extents_walk *walk, uint64_t limit,
		       struct extents_run *ret_run)
{
	const struct block *block;
	uint64_t end;

	if (!walk->extents || walk->next == &walk->extents->order)
		return false;
	block = container_of(walk->next, const struct block, order);
	end = block->offset + block->bytes;
	*ret_run = (struct extents_run){ .offset = walk->offset,
					 .state = block->state,
					 .owner = block->owner };
	/* a block that was split, or joined with others, since */
	if (end > walk->offset) {
		uint64_t stop = end < limit ? end : limit;

		ret_run->bytes = stop - walk->offset;
		walk->offset = stop;
	}
	if (end <= walk->offset)
		walk->next = block->order.next;
	return true;
}

void extents_walk_end(struct extents_walk *walk)
{
	if (!walk->extents)
		return;
	list_remove(&walk->link);
	walk->extents = NULL;
}

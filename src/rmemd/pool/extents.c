/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/pool/extents.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/random.h"

/* The number of blocks that are too small once aligned and are skipped, before a size is looked up
 * that is large enough for any alignment. */
#define ALIGN_TRIES 16
/* The number of blocks examined when there is no block of that size: in a fragmented pool one
 * request must not delay all others. */
#define ALIGN_TRIES_MAX 1024

/* ---- the treap of free blocks, ordered by (bytes, offset) ---- */

static bool size_less(const struct block *a, uint64_t bytes, uint64_t offset)
{
	return a->bytes != bytes ? a->bytes < bytes : a->offset < offset;
}

/* Everything less than the key goes to the left. */
static void treap_split(struct block *root, uint64_t bytes, uint64_t offset,
			struct block **ret_left, struct block **ret_right)
{
	while (root) {
		if (size_less(root, bytes, offset)) {
			*ret_left = root;
			ret_left = &root->right;
			root = root->right;
		} else {
			*ret_right = root;
			ret_right = &root->left;
			root = root->left;
		}
	}
	*ret_left = *ret_right = NULL;
}

/* Every block of `left` is less than every one of `right`. */
static struct block *treap_merge(struct block *left, struct block *right)
{
	struct block *root, **link = &root;

	while (left && right) {
		if (left->priority > right->priority) {
			*link = left;
			link = &left->right;
			left = left->right;
		} else {
			*link = right;
			link = &right->left;
			right = right->left;
		}
	}
	*link = left ? left : right;
	return root;
}

static void treap_insert(struct block **root, struct block *block)
{
	struct block **link = root;

	while (*link && (*link)->priority >= block->priority)
		link = size_less(*link, block->bytes, block->offset) ? &(*link)->right
								     : &(*link)->left;
	treap_split(*link, block->bytes, block->offset, &block->left, &block->right);
	*link = block;
}

static void treap_remove(struct block **root, struct block *block)
{
	struct block **link = root;

	while (*link != block)
		link = size_less(*link, block->bytes, block->offset) ? &(*link)->right
								     : &(*link)->left;
	*link = treap_merge(block->left, block->right);
	block->left = block->right = NULL;
}

/* The least block that is not less than the key, or NULL. */
static struct block *treap_at_least(struct block *root, uint64_t bytes, uint64_t offset)
{
	struct block *best = NULL;

	while (root) {
		if (size_less(root, bytes, offset)) {
			root = root->right;
		} else {
			best = root;
			root = root->left;
		}
	}
	return best;
}

/* The greatest block that is less than the key, or NULL. */
static struct block *treap_below(struct block *root, uint64_t bytes, uint64_t offset)
{
	struct block *best = NULL;

	while (root) {
		if (size_less(root, bytes, offset)) {
			best = root;
			root = root->right;
		} else {
			root = root->left;
		}
	}
	return best;
}

/* ---- blocks ---- */

static struct block *block_new(struct extents *extents, uint64_t offset, uint64_t bytes)
{
	struct block *block = calloc(1, sizeof(*block));

	if (!block)
		return NULL;
	block->extents = extents;
	block->offset = offset;
	block->bytes = bytes;
	/* from a random start, so that no client can make the treap degenerate */
	block->priority = map_hash_u64(extents->priorities++);
	list_init(&block->order);
	list_init(&block->job.link);
	return block;
}

static uint64_t *state_bytes(struct extents *extents, enum block_state state)
{
	switch (state) {
	case BLOCK_FREE:
		return &extents->free;
	case BLOCK_LENT:
		return &extents->lent;
	case BLOCK_CLOSED:
		return &extents->closed;
	case BLOCK_DIRTY:
		break;
	}
	return &extents->dirty;
}

static void block_set_state(struct extents *extents, struct block *block,
			    enum block_state to)
{
	*state_bytes(extents, block->state) -= block->bytes;
	block->state = to;
	*state_bytes(extents, to) += block->bytes;
}

/* Bytes left of the block from its first aligned offset on, in whole grains. */
static uint64_t block_usable(const struct block *block, uint64_t align)
{
	uint64_t skip = -block->offset & (align - 1);

	return skip < block->bytes ? block->bytes - skip : 0;
}

/* Lend `bytes` of a free block behind its first `skip`; the rest on both sides stays free. */
static int block_cut(struct extents *extents, struct block *block, uint64_t skip,
		     uint64_t bytes, struct block **ret_block)
{
	uint64_t rest = block->bytes - skip - bytes;
	struct block *before = NULL, *behind = NULL;
	int err = -ENOMEM;

	if (skip) {
		before = block_new(extents, block->offset, skip);
		if (!before)
			return err;
	}
	if (rest) {
		behind = block_new(extents, block->offset + skip + bytes, rest);
		if (!behind)
			goto err_before;
	}
	err = map_insert(&extents->lent_by_offset, &block->lent,
			 map_hash_u64(block->offset + skip));
	if (err)
		goto err_behind;

	treap_remove(&extents->free_by_size, block);
	block->offset += skip;
	block->bytes = bytes;
	extents->free -= bytes;
	extents->lent += bytes;
	block->state = BLOCK_LENT;
	if (before) {
		list_append(&block->order, &before->order);
		treap_insert(&extents->free_by_size, before);
	}
	if (behind) {
		list_append(block->order.next, &behind->order);
		treap_insert(&extents->free_by_size, behind);
	}
	*ret_block = block;
	return 0;

err_behind:
	free(behind);
err_before:
	free(before);
	return err;
}

/* Lend `bytes` of a free block from its first aligned offset on. */
static int block_carve(struct extents *extents, struct block *block, uint64_t bytes,
		       uint64_t align, struct block **ret_block)
{
	return block_cut(extents, block, -block->offset & (align - 1), bytes,
			 ret_block);
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

	*extents = (struct extents){ .bytes = bytes,
				     .end = bytes,
				     .grain = grain,
				     .free = bytes,
				     .priorities = random_u64() };
	block = block_new(extents, 0, bytes);
	if (!block)
		return -ENOMEM;
	list_init(&extents->order);
	map_init(&extents->lent_by_offset);
	list_append(&extents->order, &block->order);
	treap_insert(&extents->free_by_size, block);
	return 0;
}

void extents_destroy(struct extents *extents)
{
	list_for_each_entry_safe(struct block, block, &extents->order, order)
		free(block);
	list_init(&extents->order);
	map_destroy(&extents->lent_by_offset);
	free(extents->spare);
	extents->spare = NULL;
}

/* The smallest free block that holds `bytes` once aligned, after `tries` larger ones than the
 * smallest that is long enough; NULL: there is none among these. */
static struct block *block_fitting(const struct extents *extents, uint64_t bytes,
				   uint64_t align, unsigned tries)
{
	struct block *block = treap_at_least(extents->free_by_size, bytes, 0);

	while (block && block_usable(block, align) < bytes)
		block = tries-- ? treap_at_least(extents->free_by_size, block->bytes,
						 block->offset + 1)
				: NULL;
	return block;
}

int extents_alloc(struct extents *extents, uint64_t bytes, uint64_t align,
		  struct block **ret_block)
{
	struct block *block = block_fitting(extents, bytes, align, ALIGN_TRIES);

	/* a block of this size holds them at whatever offset it begins */
	if (!block)
		block = treap_at_least(extents->free_by_size,
				       bytes + (align - extents->grain), 0);
	if (!block)
		block = block_fitting(extents, bytes, align, ALIGN_TRIES_MAX);
	if (!block)
		return -ENOSPC;
	return block_carve(extents, block, bytes, align, ret_block);
}

/* The free block that has most from its first aligned offset on, or NULL. */
static struct block *block_most(const struct extents *extents, uint64_t align,
				uint64_t *ret_usable)
{
	struct block *block =
		treap_below(extents->free_by_size, UINT64_MAX, UINT64_MAX);
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
		block = treap_below(extents->free_by_size, block->bytes, block->offset);
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
	return block_carve(extents, block, usable < bytes ? usable : bytes, align,
			   ret_block);
}

int extents_claim(struct extents *extents, uint64_t offset, uint64_t bytes,
		  struct block **ret_block)
{
	struct block *last = free_neighbour(extents, extents->order.prev);

	if (!last || !bytes || (offset | bytes) % extents->grain ||
	    offset < last->offset || bytes > extents->bytes ||
	    offset > extents->bytes - bytes)
		return -EINVAL;
	return block_cut(extents, last, offset - last->offset, bytes, ret_block);
}

int extents_split(struct extents *extents, struct block *block, uint64_t bytes,
		  struct block **ret_rest)
{
	struct block *rest =
		block_new(extents, block->offset + bytes, block->bytes - bytes);
	int err;

	assert(block->state == BLOCK_LENT && bytes > 0 && bytes < block->bytes);
	if (!rest)
		return -ENOMEM;
	err = map_insert(&extents->lent_by_offset, &rest->lent,
			 map_hash_u64(rest->offset));
	if (err) {
		free(rest);
		return err;
	}
	rest->state = BLOCK_LENT;
	block->bytes = bytes;
	list_append(block->order.next, &rest->order);
	*ret_rest = rest;
	return 0;
}

struct block *extents_find(const struct extents *extents, uint64_t offset)
{
	struct map_node *node =
		map_find(&extents->lent_by_offset, map_hash_u64(offset));

	while (node && container_of(node, struct block, lent)->offset != offset)
		node = map_find_next(node);
	return node ? container_of(node, struct block, lent) : NULL;
}

void extents_mark_dirty(struct extents *extents, struct block *block)
{
	assert(block->state == BLOCK_LENT);
	map_remove(&extents->lent_by_offset, &block->lent);
	block_set_state(extents, block, BLOCK_DIRTY);
}

/* Split off the part behind the end: only one block crosses it, until it is split. */
static void block_cut_end(struct extents *extents, struct block *block)
{
	struct block *tail = extents->spare;

	assert(tail);
	extents->spare = NULL;
	tail->offset = extents->end;
	tail->bytes = block->offset + block->bytes - extents->end;
	tail->state = block->state;
	block->bytes -= tail->bytes;
	list_append(block->order.next, &tail->order);
	block_set_state(extents, tail, BLOCK_CLOSED);
}

/* Merge a block that has just become free with free neighbours, and add it to the treap. */
static void block_join(struct extents *extents, struct block *block)
{
	struct block *before = free_neighbour(extents, block->order.prev);
	struct block *behind = free_neighbour(extents, block->order.next);

	if (before) {
		treap_remove(&extents->free_by_size, before);
		block->offset = before->offset;
		block->bytes += before->bytes;
		list_remove(&before->order);
		free(before);
	}
	if (behind) {
		treap_remove(&extents->free_by_size, behind);
		block->bytes += behind->bytes;
		list_remove(&behind->order);
		free(behind);
	}
	treap_insert(&extents->free_by_size, block);
}

void extents_free(struct extents *extents, struct block *block)
{
	assert(block->state == BLOCK_LENT || block->state == BLOCK_DIRTY);
	if (block->state == BLOCK_LENT)
		map_remove(&extents->lent_by_offset, &block->lent);
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

static struct block *block_last(const struct extents *extents)
{
	struct list *last = extents->order.prev;

	return last == &extents->order ? NULL : container_of(last, struct block, order);
}

int extents_grow_reserve(struct extents *extents)
{
	if (!extents->spare)
		extents->spare = block_new(extents, 0, 0);
	return extents->spare ? 0 : -ENOMEM;
}

static void spare_drop(struct extents *extents)
{
	free(extents->spare);
	extents->spare = NULL;
}

int extents_close(struct extents *extents, uint64_t end)
{
	int err = extents_grow_reserve(extents);

	assert(extents->end == extents->bytes && end > 0 && end < extents->bytes);
	if (err)
		return err;
	extents->end = end;
	list_for_each_entry_safe(struct block, block, &extents->order, order) {
		if (block->state != BLOCK_FREE || block->offset + block->bytes <= end)
			continue;
		treap_remove(&extents->free_by_size, block);
		if (block->offset >= end) {
			block_set_state(extents, block, BLOCK_CLOSED);
		} else {
			block_cut_end(extents, block);
			treap_insert(&extents->free_by_size, block);
		}
	}
	return 0;
}

void extents_drop(struct extents *extents, struct block *block)
{
	assert(block->state == BLOCK_LENT && block->offset >= extents->end);
	map_remove(&extents->lent_by_offset, &block->lent);
	block_set_state(extents, block, BLOCK_CLOSED);
	block->unclean = true;
}

bool extents_end_is_free(const struct extents *extents)
{
	return extents->closed == extents->bytes - extents->end;
}

void extents_cut(struct extents *extents)
{
	struct block *last;

	assert(extents_end_is_free(extents));
	while ((last = block_last(extents)) && last->offset >= extents->end) {
		list_remove(&last->order);
		free(last);
	}
	extents->bytes = extents->end;
	extents->closed = 0;
	spare_drop(extents);
}

void extents_reopen(struct extents *extents,
		    void (*dirtied)(void *ctx, struct block *block), void *ctx)
{
	extents->end = extents->bytes;
	spare_drop(extents);
	/* in the order of offsets: a block joins one that was visited before it */
	list_for_each_entry_safe(struct block, block, &extents->order, order) {
		if (block->state != BLOCK_CLOSED)
			continue;
		block_set_state(extents, block,
				block->unclean ? BLOCK_DIRTY : BLOCK_FREE);
		if (block->unclean)
			dirtied(ctx, block);
		else
			block_join(extents, block);
		block->unclean = false;
	}
}

void extents_grow(struct extents *extents, uint64_t bytes)
{
	struct block *block = extents->spare;

	assert(block && extents->end == extents->bytes && bytes > extents->bytes);
	extents->spare = NULL;
	block->offset = extents->bytes;
	block->bytes = bytes - extents->bytes;
	list_append(&extents->order, &block->order);
	extents->free += block->bytes;
	extents->bytes = extents->end = bytes;
	block_join(extents, block);
}

uint64_t extents_largest(const struct extents *extents, uint64_t align)
{
	uint64_t usable;

	(void)block_most(extents, align, &usable);
	return usable;
}

void extents_each_run(const struct extents *extents,
		      void (*run)(void *ctx, uint64_t offset, uint64_t bytes),
		      void *ctx)
{
	uint64_t offset = 0, bytes = 0;

	list_for_each_entry(const struct block, block, &extents->order, order) {
		uint64_t left;

		if (block->offset >= extents->end)
			break;
		left = extents->end - block->offset;
		if (block->state != BLOCK_LENT) {
			if (bytes == 0)
				offset = block->offset;
			bytes += block->bytes < left ? block->bytes : left;
		} else if (bytes) {
			run(ctx, offset, bytes);
			bytes = 0;
		}
	}
	if (bytes)
		run(ctx, offset, bytes);
}

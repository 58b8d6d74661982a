/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/lease/deadlines.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"

void deadlines_destroy(struct deadlines *heap)
{
	free(heap->nodes);
	*heap = (struct deadlines){ 0 };
}

int deadlines_reserve(struct deadlines *heap, size_t more)
{
	size_t room = heap->room ? heap->room : 16;
	struct deadline **nodes;

	while (room < heap->n + more)
		room *= 2;
	if (room == heap->room)
		return 0;
	nodes = realloc(heap->nodes, room * sizeof(*nodes));
	if (!nodes)
		return err_set(-ENOMEM, "no memory for %zu deadlines", room);
	heap->nodes = nodes;
	heap->room = room;
	return 0;
}

static void put_node(struct deadlines *heap, size_t at, struct deadline *node)
{
	heap->nodes[at] = node;
	node->place = at + 1;
}

static void sift_up(struct deadlines *heap, size_t at, struct deadline *node)
{
	while (at > 0 && heap->nodes[(at - 1) / 2]->due_ms > node->due_ms) {
		put_node(heap, at, heap->nodes[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	put_node(heap, at, node);
}

static void sift_down(struct deadlines *heap, size_t at, struct deadline *node)
{
	size_t child;

	while ((child = 2 * at + 1) < heap->n) {
		if (child + 1 < heap->n &&
		    heap->nodes[child + 1]->due_ms < heap->nodes[child]->due_ms)
			child++;
		if (heap->nodes[child]->due_ms >= node->due_ms)
			break;
		put_node(heap, at, heap->nodes[child]);
		at = child;
	}
	put_node(heap, at, node);
}

static void restore_order(struct deadlines *heap, size_t at, struct deadline *node)
{
	if (at > 0 && heap->nodes[(at - 1) / 2]->due_ms > node->due_ms)
		sift_up(heap, at, node);
	else
		sift_down(heap, at, node);
}

void deadlines_set(struct deadlines *heap, struct deadline *node, uint64_t due_ms)
{
	node->due_ms = due_ms;
	if (!node->place)
		put_node(heap, heap->n++, node);
	restore_order(heap, node->place - 1, node);
}

void deadlines_clear(struct deadlines *heap, struct deadline *node)
{
	size_t at = node->place;
	struct deadline *last;

	if (!at)
		return;
	node->place = 0;
	last = heap->nodes[--heap->n];
	if (last != node)
		restore_order(heap, at - 1, last);
}

struct deadline *deadlines_first(const struct deadlines *heap)
{
	return heap->n ? heap->nodes[0] : NULL;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/lease/deadlines.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"

void expiries_init(struct expiries *heap)
{
	*heap = (struct expiries){ 0 };
}

void expiries_destroy(struct expiries *heap)
{
	free(heap->nodes);
	*heap = (struct expiries){ 0 };
}

int expiries_reserve(struct expiries *heap, size_t more)
{
	size_t room = heap->room ? heap->room : 16;
	struct expiry **nodes;

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

static void place(struct expiries *heap, size_t at, struct expiry *node)
{
	heap->nodes[at] = node;
	node->place = at + 1;
}

static void sift_up(struct expiries *heap, size_t at, struct expiry *node)
{
	while (at > 0 && heap->nodes[(at - 1) / 2]->due_ms > node->due_ms) {
		place(heap, at, heap->nodes[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	place(heap, at, node);
}

static void sift_down(struct expiries *heap, size_t at, struct expiry *node)
{
	size_t child;

	while ((child = 2 * at + 1) < heap->n) {
		if (child + 1 < heap->n &&
		    heap->nodes[child + 1]->due_ms < heap->nodes[child]->due_ms)
			child++;
		if (heap->nodes[child]->due_ms >= node->due_ms)
			break;
		place(heap, at, heap->nodes[child]);
		at = child;
	}
	place(heap, at, node);
}

static void settle(struct expiries *heap, size_t at, struct expiry *node)
{
	if (at > 0 && heap->nodes[(at - 1) / 2]->due_ms > node->due_ms)
		sift_up(heap, at, node);
	else
		sift_down(heap, at, node);
}

void expiries_set(struct expiries *heap, struct expiry *node, uint64_t due_ms)
{
	node->due_ms = due_ms;
	if (!node->place)
		place(heap, heap->n++, node);
	settle(heap, node->place - 1, node);
}

void expiries_clear(struct expiries *heap, struct expiry *node)
{
	size_t at = node->place;
	struct expiry *last;

	if (!at)
		return;
	node->place = 0;
	last = heap->nodes[--heap->n];
	if (last != node)
		settle(heap, at - 1, last);
}

struct expiry *expiries_first(const struct expiries *heap)
{
	return heap->n ? heap->nodes[0] : NULL;
}

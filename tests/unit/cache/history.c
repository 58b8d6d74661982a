/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/cache/history.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* A put and the gets that found its value; or a delete, which nothing finds. */
struct cluster {
	unsigned key;
	uint64_t value;
	uint64_t put_start;
	uint64_t first_end, last_start;
	bool is_put, found, unknown;
};

void history_free(struct history *history)
{
	free(history->events);
	*history = (struct history){ 0 };
}

size_t history_add(struct history *history, struct event event)
{
	if (history->n == history->room) {
		history->room = history->room ? 2 * history->room : 256;
		history->events =
			realloc(history->events, history->room * sizeof(event));
		assert(history->events);
	}
	history->events[history->n] = event;
	return history->n++;
}

static int by_key_and_value(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	if (x->value != y->value)
		return x->value < y->value ? -1 : 1;
	return (int)x->kind - (int)y->kind;
}

static int by_key_and_time(const void *a, const void *b)
{
	const struct cluster *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	if (x->first_end != y->first_end)
		return x->first_end < y->first_end ? -1 : 1;
	return x->last_start < y->last_start ? -1 : x->last_start > y->last_start;
}

static _Thread_local char text[200];

static const char *wrong(const struct cluster *a, const struct cluster *b,
			 const char *what)
{
	(void)snprintf(text, sizeof(text),
		       "key %u: value %llu (%llu..%llu) and %llu (%llu..%llu): %s",
		       a->key, (unsigned long long)a->value,
		       (unsigned long long)a->first_end,
		       (unsigned long long)a->last_start, (unsigned long long)b->value,
		       (unsigned long long)b->first_end,
		       (unsigned long long)b->last_start, what);
	return text;
}

/* The clusters of the events, which are sorted.  NULL with text: a get found what nobody put, or
 * before it was put. */
static struct cluster *clusters_make(const struct event *events, size_t n,
				     size_t *ret_n)
{
	struct cluster *clusters = calloc(n + 1, sizeof(*clusters)), *last = NULL;
	size_t n_clusters = 0;

	assert(clusters);
	for (size_t i = 0; i < n; i++) {
		const struct event *e = &events[i];

		if (e->kind == EVENT_GET) {
			if (e->value == 0)
				continue;
			if (!last || !last->is_put || last->key != e->key ||
			    last->value != e->value || e->end < last->put_start) {
				(void)snprintf(text, sizeof(text),
					       "key %u: value %llu was read before it "
					       "was written",
					       e->key, (unsigned long long)e->value);
				free(clusters);
				return NULL;
			}
			last->found = true;
		} else {
			if (e->kind == EVENT_DELETE && e->end == HISTORY_NEVER)
				continue;
			last = &clusters[n_clusters++];
			*last = (struct cluster){
				.key = e->key,
				.value = e->value,
				.put_start = e->start,
				.first_end = e->end,
				.last_start = e->start,
				.is_put = e->kind == EVENT_PUT,
				.unknown = e->end == HISTORY_NEVER,
			};
			continue;
		}
		last->first_end = e->end < last->first_end ? e->end : last->first_end;
		last->last_start =
			e->start > last->last_start ? e->start : last->last_start;
	}
	*ret_n = n_clusters;
	return clusters;
}

/* Whether it counts: an unknown put that nobody read may not have been. */
static bool counts(const struct cluster *cluster)
{
	return !cluster->unknown || cluster->found;
}

static bool is_forward(const struct cluster *cluster)
{
	return cluster->first_end < cluster->last_start;
}

static const char *clusters_check(const struct cluster *clusters, size_t n)
{
	const struct cluster *before = NULL; /* the last forward one */
	size_t first = 0;                    /* of the key */

	for (size_t i = 0; i < n; i++) {
		const struct cluster *c = &clusters[i];

		if (c->key != clusters[first].key)
			first = i;
		if (!counts(c) || !is_forward(c))
			continue;
		if (before && before->key == c->key &&
		    c->first_end < before->last_start)
			return wrong(before, c, "old and new in turn");
		before = c;
		/* those that lie inside */
		for (size_t j = first; j < n && clusters[j].key == c->key; j++) {
			const struct cluster *b = &clusters[j];

			if (counts(b) && !is_forward(b) &&
			    c->first_end < b->last_start &&
			    b->first_end < c->last_start)
				return wrong(c, b, "read after it was replaced");
		}
	}
	return NULL;
}

const char *history_check(const struct history *history)
{
	struct cluster *clusters;
	const char *failure;
	size_t n;

	qsort(history->events, history->n, sizeof(struct event), by_key_and_value);
	clusters = clusters_make(history->events, history->n, &n);
	if (!clusters)
		return text;
	qsort(clusters, n, sizeof(*clusters), by_key_and_time);
	failure = clusters_check(clusters, n);
	free(clusters);
	return failure;
}

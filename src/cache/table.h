/* SPDX-License-Identifier: BSD-3-Clause */
/* A client's copy of the segment words.  Generations only grow, so a slot of an older generation
 * than the copy's is stale for good; nothing else of the copy is relied on.
 * Threads: [owner] of the cache. */
#ifndef CACHE_TABLE_H
#define CACHE_TABLE_H

#include "cache/format.h"

struct table {
	struct segment *segments;
	unsigned n, room;
	uint64_t asked_ms; /* when the copy was asked for; 0: there is none */
	unsigned writers;  /* open segments, at least 1 */
	unsigned free;
	unsigned of_class[SEGMENT_CLASSES];
};

/* -ENOMEM */
int table_init(struct table *table, unsigned room);
void table_free(struct table *table);
/* Take over words that were read. */
void table_set(struct table *table, const void *words, unsigned n, uint64_t asked_ms);
/* Whether the segment of the slot is known to be of a later generation; then *ret_behind, which may
 * be NULL, is how many. */
bool table_is_stale(const struct table *table, const struct geometry *geometry,
		    uint64_t slot, unsigned *ret_behind);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#include "cache/table.h"

#include <errno.h>
#include <stdlib.h>

int table_init(struct table *table, unsigned room)
{
	*table = (struct table){ .room = room, .writers = 1 };
	table->segments = calloc(room, sizeof(*table->segments));
	return table->segments ? 0 : -ENOMEM;
}

void table_free(struct table *table)
{
	free(table->segments);
	table->segments = NULL;
}

void table_set(struct table *table, const void *words, unsigned n, uint64_t asked_ms)
{
	const unsigned char *at = words;
	unsigned writers = 0;

	if (n > table->room)
		n = table->room;
	table->free = 0;
	memset(table->of_class, 0, sizeof(table->of_class));
	for (unsigned i = 0; i < n; i++) {
		struct segment s = segment_decode(word_read(at + 8 * (size_t)i));

		table->segments[i] = s;
		writers += s.state == SEGMENT_OPEN;
		if (s.state == SEGMENT_FREE)
			table->free++;
		else
			table->of_class[s.class]++;
	}
	table->n = n;
	table->writers = writers ? writers : 1;
	table->asked_ms = asked_ms;
}

bool table_is_stale(const struct table *table, const struct geometry *geometry,
		    uint64_t slot, unsigned *ret_behind)
{
	unsigned segment = geometry_place_segment(geometry, slot_place(slot)), behind;

	if (segment >= table->n)
		return false;
	behind = slot_behind(slot, table->segments[segment].generation);
	if (behind == 0 || behind >= SLOT_GENERATIONS / 2)
		return false;
	if (ret_behind)
		*ret_behind = behind;
	return true;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/reply_cache.h"

#include <stdlib.h>
#include <string.h>

/* Most sessions ask for little that lasts. */
#define ROOM_FIRST 8

void reply_cache_init(struct reply_cache *answers)
{
	*answers = (struct reply_cache){ .ring = NULL };
}

/* It stays as it is without memory, and while the oldest is not the first. */
static void ring_grow(struct reply_cache *answers)
{
	unsigned room = answers->room ? 2 * answers->room : ROOM_FIRST;
	struct reply *ring;

	if (answers->n < answers->room || answers->oldest > 0 || room > REPLY_CACHE_MAX)
		return;
	ring = realloc(answers->ring, room * sizeof(*ring));
	if (!ring)
		return;
	answers->ring = ring;
	answers->room = room;
}

static void id_drop(struct reply_cache *answers, uint64_t id)
{
	if (id > answers->dropped_id)
		answers->dropped_id = id;
}

/* Room for one more, in place of the oldest if need be; NULL: there is none at all. */
static struct reply *place_make(struct reply_cache *answers, uint64_t *ret_dropped)
{
	struct reply *place;

	ring_grow(answers);
	if (answers->n < answers->room)
		return &answers->ring[answers->n++];
	if (answers->room == 0)
		return NULL;
	place = &answers->ring[answers->oldest];
	id_drop(answers, place->id);
	*ret_dropped = place->id;
	free(place->text);
	answers->oldest = (answers->oldest + 1) % answers->room;
	return place;
}

uint64_t reply_cache_add(struct reply_cache *answers, const struct reply *answer,
			 const char *text)
{
	uint64_t dropped = 0;
	struct reply *place = place_make(answers, &dropped);

	if (!place) {
		id_drop(answers, answer->id);
		return answer->id;
	}
	*place = *answer;
	place->text = text ? strdup(text) : NULL;
	return dropped;
}

const struct reply *reply_cache_find(const struct reply_cache *answers, uint64_t id)
{
	for (unsigned i = 0; i < answers->n; i++)
		if (answers->ring[i].id == id)
			return &answers->ring[i];
	return NULL;
}

void reply_cache_clear(struct reply_cache *answers)
{
	for (unsigned i = 0; i < answers->n; i++)
		free(answers->ring[i].text);
	free(answers->ring);
	reply_cache_init(answers);
}

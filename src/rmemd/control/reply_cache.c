/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/reply_cache.h"

#include <stdlib.h>
#include <string.h>

/* Most sessions ask for little that lasts. */
#define FIRST_SIZE 8

void reply_cache_init(struct reply_cache *cache)
{
	*cache = (struct reply_cache){ .ring = NULL };
}

/* Enlarge the ring; no effect without memory, or while the oldest reply is not the first. */
static void ring_grow(struct reply_cache *cache)
{
	unsigned room = cache->room ? 2 * cache->room : FIRST_SIZE;
	struct reply *ring;

	if (cache->n < cache->room || cache->oldest > 0 || room > REPLY_CACHE_MAX)
		return;
	ring = realloc(cache->ring, room * sizeof(*ring));
	if (!ring)
		return;
	cache->ring = ring;
	cache->room = room;
}

static void id_drop(struct reply_cache *cache, uint64_t id)
{
	if (id > cache->dropped_id)
		cache->dropped_id = id;
}

/* Room for one more, in place of the oldest if need be; NULL: there is none at all. */
static struct reply *slot_make(struct reply_cache *cache, uint64_t *ret_dropped)
{
	struct reply *place;

	ring_grow(cache);
	if (cache->n < cache->room)
		return &cache->ring[cache->n++];
	if (cache->room == 0)
		return NULL;
	place = &cache->ring[cache->oldest];
	id_drop(cache, place->id);
	*ret_dropped = place->id;
	free(place->text);
	cache->oldest = (cache->oldest + 1) % cache->room;
	return place;
}

uint64_t reply_cache_add(struct reply_cache *cache, const struct reply *reply,
			 const char *text)
{
	uint64_t dropped = 0;
	struct reply *place = slot_make(cache, &dropped);

	if (!place) {
		id_drop(cache, reply->id);
		return reply->id;
	}
	*place = *reply;
	place->text = text ? strdup(text) : NULL;
	return dropped;
}

const struct reply *reply_cache_find(const struct reply_cache *cache, uint64_t id)
{
	for (unsigned i = 0; i < cache->n; i++)
		if (cache->ring[i].id == id)
			return &cache->ring[i];
	return NULL;
}

void reply_cache_clear(struct reply_cache *cache)
{
	for (unsigned i = 0; i < cache->n; i++)
		free(cache->ring[i].text);
	free(cache->ring);
	reply_cache_init(cache);
}

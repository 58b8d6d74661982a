/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/reply_cache.h"

#include <stdlib.h>
#include <string.h>

void reply_cache_init(struct reply_cache *cache)
{
	*cache = (struct reply_cache){ .n = 0 };
	list_init(&cache->replies);
}

/* Remove the oldest reply, to use its memory again.  NULL: there is none. */
static struct reply *oldest_remove(struct reply_cache *cache)
{
	struct reply *oldest = list_first(&cache->replies, struct reply, link);

	if (!oldest)
		return NULL;
	list_remove(&oldest->link);
	free(oldest->text);
	cache->n--;
	return oldest;
}

uint64_t reply_cache_add(struct reply_cache *cache, const struct reply *reply,
			 const char *text)
{
	struct reply *place =
		cache->n < REPLY_CACHE_MAX ? malloc(sizeof(*place)) : NULL;
	uint64_t dropped = 0;

	if (!place) {
		place = oldest_remove(cache);
		dropped = place ? place->id : reply->id;
	}
	if (dropped > cache->dropped_id)
		cache->dropped_id = dropped;
	if (!place)
		return dropped;
	*place = *reply;
	place->text = text ? strdup(text) : NULL;
	list_append(&cache->replies, &place->link);
	cache->n++;
	return dropped;
}

const struct reply *reply_cache_find(const struct reply_cache *cache, uint64_t id)
{
	list_for_each_entry(const struct reply, reply, &cache->replies, link) {
		if (reply->id == id)
			return reply;
	}
	return NULL;
}

void reply_cache_clear(struct reply_cache *cache)
{
	struct reply *reply;

	while ((reply = oldest_remove(cache)))
		free(reply);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/reply_cache.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

void reply_cache_init(struct reply_cache *cache, uint32_t *n_together)
{
	*cache = (struct reply_cache){ .n_together = n_together };
	list_init(&cache->replies);
	list_init(&cache->spare);
}

int reply_cache_reserve(struct reply_cache *cache, unsigned n)
{
	while (cache->n_spare < n) {
		struct reply *reply = malloc(sizeof(*reply));

		if (!reply)
			return err_set(-ENOMEM, "no memory for the reply");
		list_append(&cache->spare, &reply->link);
		cache->n_spare++;
	}
	return 0;
}

/* NULL: there is none. */
static struct reply *spare_remove(struct reply_cache *cache)
{
	struct reply *spare = list_first(&cache->spare, struct reply, link);

	if (!spare)
		return NULL;
	list_remove(&spare->link);
	cache->n_spare--;
	return spare;
}

static void text_drop(struct reply_cache *cache, struct reply *reply)
{
	cache->n_texts -= reply->text != NULL;
	free(reply->text);
	reply->text = NULL;
}

static void oldest_text_drop(struct reply_cache *cache)
{
	list_for_each_entry(struct reply, reply, &cache->replies, link) {
		if (reply->text) {
			text_drop(cache, reply);
			return;
		}
	}
}

/* Remove the oldest reply, to use its memory again.  NULL: there is none. */
static struct reply *oldest_remove(struct reply_cache *cache)
{
	struct reply *oldest = list_first(&cache->replies, struct reply, link);

	if (!oldest)
		return NULL;
	list_remove(&oldest->link);
	text_drop(cache, oldest);
	cache->n--;
	(*cache->n_together)--;
	return oldest;
}

static bool has_room(const struct reply_cache *cache)
{
	return cache->n < REPLY_CACHE_MIN ||
	       (cache->n < REPLY_CACHE_MAX &&
		*cache->n_together < REPLIES_TOGETHER_MAX);
}

uint64_t reply_cache_add(struct reply_cache *cache, const struct reply *reply,
			 const char *text)
{
	struct reply *slot = NULL;
	uint64_t dropped = 0;

	if (has_room(cache)) {
		slot = spare_remove(cache);
		if (!slot)
			slot = malloc(sizeof(*slot));
	}
	if (!slot) {
		slot = oldest_remove(cache);
		dropped = slot ? slot->id : reply->id;
	}
	if (dropped > cache->dropped_id)
		cache->dropped_id = dropped;
	if (!slot)
		return dropped;
	if (text && cache->n_texts == REPLY_TEXTS_MAX)
		oldest_text_drop(cache);
	*slot = *reply;
	slot->text = text ? strdup(text) : NULL;
	cache->n_texts += slot->text != NULL;
	list_append(&cache->replies, &slot->link);
	cache->n++;
	(*cache->n_together)++;
	assert(cache->n <= REPLY_CACHE_MAX && cache->n_texts <= REPLY_TEXTS_MAX);
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
	while ((reply = spare_remove(cache)))
		free(reply);
}

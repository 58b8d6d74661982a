/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/resting_keys.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"

struct verbs_resting_key {
	struct map_node by_rkey; /* if it is used */
	uint64_t until_ms;       /* 0: it is not used */
	uint32_t rkey;
};

int verbs_resting_keys_init(struct verbs_resting_keys *keys, uint64_t rest_ms)
{
	*keys = (struct verbs_resting_keys){ .rest_ms = rest_ms };
	map_init(&keys->by_rkey);
	if (!rest_ms)
		return 0;
	/* the kernel gives the pages when they are used */
	keys->ring = calloc(VERBS_RESTING_MAX, sizeof(*keys->ring));
	if (!keys->ring)
		return err_set(-ENOMEM, "no memory for the keys that rest");
	/* default attributes cannot fail */
	(void)pthread_mutex_init(&keys->lock, NULL);
	return 0;
}

void verbs_resting_keys_destroy(struct verbs_resting_keys *keys)
{
	if (!keys->ring)
		return;
	map_destroy(&keys->by_rkey);
	(void)pthread_mutex_destroy(&keys->lock);
	free(keys->ring);
	keys->ring = NULL;
}

void verbs_resting_keys_add(struct verbs_resting_keys *keys, uint32_t rkey)
{
	struct verbs_resting_key *key;

	if (!keys->ring)
		return;
	(void)pthread_mutex_lock(&keys->lock);
	key = &keys->ring[keys->next];
	keys->next = (keys->next + 1) % VERBS_RESTING_MAX;
	if (key->until_ms)
		map_remove(&keys->by_rkey, &key->by_rkey);
	key->rkey = rkey;
	key->until_ms = clock_now_ms() + keys->rest_ms;
	/* without memory the key does not rest */
	if (map_insert(&keys->by_rkey, &key->by_rkey, map_hash_u64(rkey)))
		key->until_ms = 0;
	(void)pthread_mutex_unlock(&keys->lock);
}

bool verbs_resting_keys_have(struct verbs_resting_keys *keys, uint32_t rkey)
{
	struct map_node *node;
	uint64_t now_ms;
	bool found = false;

	if (!keys->ring)
		return false;
	now_ms = clock_now_ms();
	(void)pthread_mutex_lock(&keys->lock);
	node = map_find(&keys->by_rkey, map_hash_u64(rkey));
	for (; node && !found; node = map_find_next(node)) {
		const struct verbs_resting_key *key =
			container_of(node, struct verbs_resting_key, by_rkey);

		found = key->rkey == rkey && key->until_ms > now_ms;
	}
	(void)pthread_mutex_unlock(&keys->lock);
	return found;
}

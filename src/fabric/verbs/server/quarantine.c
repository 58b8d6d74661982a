/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/quarantine.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"

struct quarantined_key {
	struct map_node by_rkey; /* if it is used */
	uint64_t until_ms;       /* 0: it is not used */
	uint32_t rkey;
};

int verbs_quarantine_init(struct verbs_quarantine *quarantine, uint64_t key_ms)
{
	*quarantine = (struct verbs_quarantine){ .key_ms = key_ms };
	map_init(&quarantine->by_rkey);
	if (!key_ms)
		return 0;
	/* the kernel gives the pages when they are used */
	quarantine->ring = calloc(VERBS_QUARANTINE_MAX, sizeof(*quarantine->ring));
	if (!quarantine->ring)
		return err_set(-ENOMEM, "no memory for the quarantine of rkeys");
	/* default attributes cannot fail */
	(void)pthread_mutex_init(&quarantine->lock, NULL);
	return 0;
}

void verbs_quarantine_destroy(struct verbs_quarantine *quarantine)
{
	if (!quarantine->ring)
		return;
	map_destroy(&quarantine->by_rkey);
	(void)pthread_mutex_destroy(&quarantine->lock);
	free(quarantine->ring);
	quarantine->ring = NULL;
}

void verbs_quarantine_add(struct verbs_quarantine *quarantine, uint32_t rkey)
{
	struct quarantined_key *key;

	if (!quarantine->ring)
		return;
	(void)pthread_mutex_lock(&quarantine->lock);
	key = &quarantine->ring[quarantine->next];
	quarantine->next = (quarantine->next + 1) % VERBS_QUARANTINE_MAX;
	if (key->until_ms)
		map_remove(&quarantine->by_rkey, &key->by_rkey);
	key->rkey = rkey;
	key->until_ms = clock_now_ms() + quarantine->key_ms;
	/* without memory the key is not in quarantine */
	if (map_insert(&quarantine->by_rkey, &key->by_rkey, map_hash_u64(rkey)))
		key->until_ms = 0;
	(void)pthread_mutex_unlock(&quarantine->lock);
}

bool verbs_quarantine_has(struct verbs_quarantine *quarantine, uint32_t rkey)
{
	struct map_node *node;
	uint64_t now_ms;
	bool found = false;

	if (!quarantine->ring)
		return false;
	now_ms = clock_now_ms();
	(void)pthread_mutex_lock(&quarantine->lock);
	node = map_find(&quarantine->by_rkey, map_hash_u64(rkey));
	for (; node && !found; node = map_find_next(node)) {
		const struct quarantined_key *key =
			container_of(node, struct quarantined_key, by_rkey);

		found = key->rkey == rkey && key->until_ms > now_ms;
	}
	(void)pthread_mutex_unlock(&quarantine->lock);
	return found;
}

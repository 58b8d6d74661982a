/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys of a device that died a short time ago.  Some devices hand out the same key again soon;
 * while a key rests, a region that gets it is not used.  The last VERBS_RESTING_MAX keys are
 * remembered.  Threads: init and destroy [loop], others [any]. */
#ifndef FABRIC_VERBS_SERVER_RESTING_KEYS_H
#define FABRIC_VERBS_SERVER_RESTING_KEYS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/map.h"

#define VERBS_RESTING_MAX 65536

struct verbs_resting_key;

struct verbs_resting_keys {
	uint64_t rest_ms; /* 0: keys do not rest */
	pthread_mutex_t lock;
	struct verbs_resting_key *ring; /* NULL: keys do not rest */
	unsigned next;
	struct map by_rkey;
};

/* -ENOMEM.  Zeros are a set that was not opened, in which no key rests. */
int verbs_resting_keys_init(struct verbs_resting_keys *keys, uint64_t rest_ms);
void verbs_resting_keys_destroy(struct verbs_resting_keys *keys);

/* The key is about to die, and rests from now on. */
void verbs_resting_keys_add(struct verbs_resting_keys *keys, uint32_t rkey);
bool verbs_resting_keys_have(struct verbs_resting_keys *keys, uint32_t rkey);

#endif

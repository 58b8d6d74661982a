/* SPDX-License-Identifier: BSD-3-Clause */
/* The quarantine of a device's rkeys that died a short time ago.  Some devices hand out the same
 * key again soon; while it is in quarantine, a region that gets it is not used.  The last
 * VERBS_QUARANTINE_MAX keys are remembered.  Threads: init and destroy [loop], others [any]. */
#ifndef FABRIC_VERBS_SERVER_QUARANTINE_H
#define FABRIC_VERBS_SERVER_QUARANTINE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/map.h"

#define VERBS_QUARANTINE_MAX 65536

struct quarantined_key;

struct verbs_quarantine {
	uint64_t key_ms; /* time for each key; 0: there is no quarantine */
	pthread_mutex_t lock;
	struct quarantined_key *ring; /* NULL: there is no quarantine */
	unsigned next;
	struct map by_rkey;
};

/* -ENOMEM.  Zeros are one that was not opened, and has no key. */
int verbs_quarantine_init(struct verbs_quarantine *quarantine, uint64_t key_ms);
void verbs_quarantine_destroy(struct verbs_quarantine *quarantine);

/* The key is about to die, and is in quarantine from now on. */
void verbs_quarantine_add(struct verbs_quarantine *quarantine, uint32_t rkey);
bool verbs_quarantine_has(struct verbs_quarantine *quarantine, uint32_t rkey);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Four miniature caches in local memory, fed with a sample of a client's gets, by the hashes of
 * their keys: each gives new keys another share, and the one that has the most hits is the best
 * for what is asked for now.  Threads: [owner] of the cache. */
#ifndef CACHE_TRIAL_H
#define CACHE_TRIAL_H

#include <stdint.h>

struct trial;

/* NULL: no memory. */
struct trial *trial_create(void);
void trial_free(struct trial *trial);
/* A get of a key, whose value has so many bytes, of a cache of `capacity` bytes.  Returns the share
 * of new keys that is the best by now, per cent; 100: one class. */
unsigned trial_get(struct trial *trial, uint64_t hash, uint64_t bytes,
		   uint64_t capacity);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Which blocks stay: new keys go to one class of segments, and those that were asked for again to
 * the other one.  Each client chooses for itself, and the format does not depend on it.
 * Threads: [owner] of the cache. */
#ifndef CACHE_POLICY_H
#define CACHE_POLICY_H

#include "cache/table.h"
#include "cache/trial.h"

struct policy {
	/* of the segments that new keys may have, per cent; 100: one class */
	unsigned share;
	struct trial *trial; /* chooses it; NULL: no memory, it stays */
};

void policy_init(struct policy *policy);
void policy_free(struct policy *policy);
/* A get of a key, whose value has so many bytes, in a cache of `capacity` bytes. */
void policy_get(struct policy *policy, uint64_t hash, uint64_t bytes,
		uint64_t capacity);
/* Whether there are two classes: a cache of few segments a writer has one. */
bool policy_has_classes(const struct policy *policy, const struct table *table);
/* The class of a block that is stored.
 *   ghost  its key was evicted not long ago */
enum segment_class policy_class(const struct policy *policy, const struct table *table,
				bool ghost);
/* The class that an eviction takes a segment of. */
enum segment_class policy_evicts(const struct policy *policy,
				 const struct table *table);
/* The hint of a block that is moved from this class. */
unsigned policy_moved_count(const struct policy *policy, const struct table *table,
			    enum segment_class class, unsigned count);
/* The free segments that writers keep, so that eviction has where to move blocks to. */
unsigned policy_reserve(const struct table *table);

#endif

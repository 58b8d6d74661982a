/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a client has found keys: a table of fixed size, by their hash, in which newer ones replace
 * older ones.  What it says may be wrong at any time.  Threads: [owner] of the cache. */
#ifndef CACHE_KNOWN_H
#define CACHE_KNOWN_H

#include <stdbool.h>
#include <stdint.h>

struct place {
	uint64_t hash;
	uint64_t slot;  /* 0: the entry is empty */
	uint32_t bytes; /* of the part of the value */
	bool ghost; /* the slot was stale: the key was here, and is asked for again */
};

struct known {
	struct place *places;
	uint64_t n; /* a power of two */
	unsigned turn;
};

/* -ENOMEM */
int known_init(struct known *known, uint64_t n);
void known_free(struct known *known);
void known_clear(struct known *known);

/* NULL: not known. */
const struct place *known_find(const struct known *known, uint64_t hash);
void known_set(struct known *known, uint64_t hash, uint64_t slot, uint64_t bytes,
	       bool ghost);
void known_forget(struct known *known, uint64_t hash);

#endif

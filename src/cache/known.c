/* SPDX-License-Identifier: BSD-3-Clause */
#include "cache/known.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WAYS 4u

int known_init(struct known *known, uint64_t n)
{
	known->n = WAYS;
	while (known->n < n && known->n <= UINT64_MAX / 2)
		known->n *= 2;
	known->turn = 0;
	known->places = calloc(known->n, sizeof(*known->places));
	return known->places ? 0 : -ENOMEM;
}

void known_free(struct known *known)
{
	free(known->places);
	known->places = NULL;
}

void known_clear(struct known *known)
{
	memset(known->places, 0, known->n * sizeof(*known->places));
}

/* The first of the places that the key may have.  Buckets have the low bits of the hash, and
 * fingerprints the high ones. */
static struct place *ways(const struct known *known, uint64_t hash)
{
	return &known->places[(hash >> 8) & (known->n - 1) & ~(uint64_t)(WAYS - 1)];
}

static struct place *find(const struct known *known, uint64_t hash)
{
	struct place *way = ways(known, hash);

	for (unsigned i = 0; i < WAYS; i++)
		if (way[i].slot && way[i].hash == hash)
			return &way[i];
	return NULL;
}

const struct place *known_find(const struct known *known, uint64_t hash)
{
	return find(known, hash);
}

static struct place *victim(struct known *known, uint64_t hash)
{
	struct place *way = ways(known, hash);

	for (unsigned i = 0; i < WAYS; i++)
		if (!way[i].slot)
			return &way[i];
	known->turn = (known->turn + 1) % WAYS;
	return &way[known->turn];
}

void known_set(struct known *known, uint64_t hash, uint64_t slot, uint64_t bytes,
	       bool ghost)
{
	struct place *place = find(known, hash);

	if (!place)
		place = victim(known, hash);
	*place = (struct place){
		.hash = hash, .slot = slot, .bytes = (uint32_t)bytes, .ghost = ghost
	};
}

void known_forget(struct known *known, uint64_t hash)
{
	struct place *place = find(known, hash);

	if (place)
		place->slot = 0;
}

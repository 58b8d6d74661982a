/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/map.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/random.h"

#define BUCKETS_MIN 16

void map_init(struct map *map)
{
	*map = (struct map){ 0 };
}

void map_destroy(struct map *map)
{
	free(map->buckets);
	map_init(map);
}

static int map_resize(struct map *map, size_t n_buckets)
{
	struct map_node **buckets = calloc(n_buckets, sizeof(struct map_node *));

	if (!buckets)
		return -ENOMEM;
	for (size_t i = 0; i < map->n_buckets; i++) {
		struct map_node *next;

		for (struct map_node *node = map->buckets[i]; node; node = next) {
			size_t slot = node->hash & (n_buckets - 1);

			next = node->next;
			node->next = buckets[slot];
			buckets[slot] = node;
		}
	}
	free(map->buckets);
	map->buckets = buckets;
	map->n_buckets = n_buckets;
	return 0;
}

int map_insert(struct map *map, struct map_node *node, uint64_t hash)
{
	size_t slot;

	if (map->n_nodes >= map->n_buckets) {
		size_t wanted = map->n_buckets ? map->n_buckets * 2 : BUCKETS_MIN;

		/* a full map still works, more slowly; one without buckets does not */
		if (map_resize(map, wanted) && map->n_buckets == 0)
			return -ENOMEM;
	}
	slot = hash & (map->n_buckets - 1);
	node->hash = hash;
	node->next = map->buckets[slot];
	map->buckets[slot] = node;
	map->n_nodes++;
	return 0;
}

void map_remove(struct map *map, struct map_node *node)
{
	struct map_node **link = &map->buckets[node->hash & (map->n_buckets - 1)];

	while (*link != node)
		link = &(*link)->next;
	*link = node->next;
	node->next = NULL;
	map->n_nodes--;
}

/* The first node with this hash from `node` on. */
static struct map_node *node_find(struct map_node *node, uint64_t hash)
{
	while (node && node->hash != hash)
		node = node->next;
	return node;
}

struct map_node *map_find(const struct map *map, uint64_t hash)
{
	if (map->n_buckets == 0)
		return NULL;
	return node_find(map->buckets[hash & (map->n_buckets - 1)], hash);
}

struct map_node *map_find_next(const struct map_node *node)
{
	return node_find(node->next, node->hash);
}

struct map_node *map_next(const struct map *map, const struct map_node *node)
{
	size_t slot = 0;

	if (node) {
		if (node->next)
			return node->next;
		slot = (node->hash & (map->n_buckets - 1)) + 1;
	}
	for (; slot < map->n_buckets; slot++)
		if (map->buckets[slot])
			return map->buckets[slot];
	return NULL;
}

/* The finalizer of splitmix64 (Steele, Lea, Flood 2014): a bijection, so distinct keys
 * have distinct hashes. */
uint64_t map_hash_u64(uint64_t key)
{
	key ^= key >> 30;
	key *= UINT64_C(0xbf58476d1ce4e5b9);
	key ^= key >> 27;
	key *= UINT64_C(0x94d049bb133111eb);
	return key ^ (key >> 31);
}

uint64_t map_hash_string(const char *key)
{
	static _Atomic uint64_t seed;
	uint64_t hash = atomic_load_explicit(&seed, memory_order_relaxed);

	if (hash == 0) {
		uint64_t fresh = random_u64() | 1, none = 0;

		/* the first thread decides for all */
		hash = atomic_compare_exchange_strong(&seed, &none, fresh) ? fresh
									   : none;
	}
	for (; *key; key++)
		hash = map_hash_u64(hash ^ (unsigned char)*key);
	return hash;
}

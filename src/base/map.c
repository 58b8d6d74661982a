/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/map.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/modular.h"
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

/* Linear hashing (Litwin 1980): buckets are added one at a time, each with the half of the nodes of
 * one other, so that no insert takes long, however many nodes there are. */

/* The bucket of the hash among n_slots, a power of two, or among half as many if it is not there
 * yet. */
static size_t slot_of(const struct map *map, uint64_t hash)
{
	size_t slot = hash & (map->n_slots - 1);

	return slot < map->n_buckets ? slot : hash & (map->n_slots / 2 - 1);
}

static int map_reserve(struct map *map, size_t n_slots)
{
	struct map_node **buckets =
		realloc(map->buckets, n_slots * sizeof(struct map_node *));

	if (!buckets)
		return -ENOMEM;
	map->buckets = buckets;
	map->n_slots = n_slots;
	return 0;
}

/* Add a bucket, which takes its nodes from the one where they have been so far. */
static void map_split(struct map *map)
{
	size_t to = map->n_buckets, from = to - map->n_slots / 2;
	struct map_node **link = &map->buckets[from], *node;

	map->buckets[to] = NULL;
	map->n_buckets++;
	while ((node = *link)) {
		if (slot_of(map, node->hash) == from) {
			link = &node->next;
			continue;
		}
		*link = node->next;
		node->next = map->buckets[to];
		map->buckets[to] = node;
	}
}

static int map_begin(struct map *map)
{
	int err = map_reserve(map, BUCKETS_MIN);

	if (err)
		return err;
	for (size_t i = 0; i < BUCKETS_MIN; i++)
		map->buckets[i] = NULL;
	map->n_buckets = BUCKETS_MIN;
	return 0;
}

/* A full map still works, more slowly; one without buckets does not. */
static int map_grow(struct map *map)
{
	if (map->n_buckets == 0)
		return map_begin(map);
	if (map->n_buckets < map->n_slots || !map_reserve(map, 2 * map->n_slots))
		map_split(map);
	return 0;
}

int map_insert(struct map *map, struct map_node *node, uint64_t hash)
{
	size_t slot;

	if (map->n_nodes >= map->n_buckets && map_grow(map))
		return -ENOMEM;
	slot = slot_of(map, hash);
	node->hash = hash;
	node->next = map->buckets[slot];
	map->buckets[slot] = node;
	map->n_nodes++;
	return 0;
}

void map_remove(struct map *map, struct map_node *node)
{
	struct map_node **link = &map->buckets[slot_of(map, node->hash)];

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
	return node_find(map->buckets[slot_of(map, hash)], hash);
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
		slot = slot_of(map, node->hash) + 1;
	}
	for (; slot < map->n_buckets; slot++)
		if (map->buckets[slot])
			return map->buckets[slot];
	return NULL;
}

/* The finalizer of splitmix64 (Steele, Lea, Flood 2014): a bijection, so distinct keys
 * have distinct hashes. */
MODULAR uint64_t map_hash_u64(uint64_t key)
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

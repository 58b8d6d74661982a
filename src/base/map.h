/* SPDX-License-Identifier: BSD-3-Clause */
/* Intrusive hash map: the caller's structures embed the nodes and have the keys.  A lookup iterates
 * over the nodes with one hash, and the caller compares the keys.  Not thread-safe. */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stddef.h>
#include <stdint.h>

struct map_node {
	struct map_node *next;
	uint64_t hash;
};

struct map {
	struct map_node **buckets;
	size_t n_buckets; /* 0 before the first insert */
	size_t n_slots;   /* for buckets: a power of two, 0 before the first insert */
	size_t n_nodes;
};

/* An empty map; takes no memory until the first insert. */
void map_init(struct map *map);
/* Free the buckets.  The caller owns the nodes. */
void map_destroy(struct map *map);

/* Insert a node under a hash; several nodes may share one.  -ENOMEM. */
int map_insert(struct map *map, struct map_node *node, uint64_t hash);
/* Remove a node that is in the map. */
void map_remove(struct map *map, struct map_node *node);

/* The first node with this hash, or NULL; then the next node with the node's hash, or NULL. */
struct map_node *map_find(const struct map *map, uint64_t hash);
struct map_node *map_find_next(const struct map_node *node);

/* Iterate in no order: NULL gives the first node, and is returned after the last one.  The map must
 * not change during the iteration. */
struct map_node *map_next(const struct map *map, const struct map_node *node);

/* Hashes for keys.  The string hash is seeded at random per process, so that a peer that
 * chooses names cannot choose collisions. */
uint64_t map_hash_u64(uint64_t key);
uint64_t map_hash_string(const char *key);

#endif

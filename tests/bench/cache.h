/* SPDX-License-Identifier: BSD-3-Clause */
/* The caches that the benchmark `cache` compares, each with one connection and one thread. */
#ifndef BENCH_CACHE_H
#define BENCH_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#define BATCH 64u
#define KEY_BYTES 16u

/* A value, and where it is in memory. */
struct block {
	char key[KEY_BYTES + 1];
	unsigned char *value;
	uint32_t bytes;
	bool hit; /* of a get */
};

struct store {
	const char *name;
	/* Connect to a server on loopback.  Stores end with the program. */
	void *(*open)(unsigned port, uint64_t capacity);
	/* Up to BATCH blocks at once. */
	void (*get)(void *store, struct block *blocks, unsigned n);
	void (*put)(void *store, struct block *blocks, unsigned n);
};

extern const struct store store_rmem, store_redis, store_memcached;

/* A client of the cache `name` of librmem-cache. */
void *rmem_store_open(unsigned port, const char *name, uint64_t bytes,
		      uint64_t segment_bytes);
void rmem_store_close(void *store);
/* Empty, and from now on with so many bytes, beside what it uses itself. */
void redis_store_reset(void *store, uint64_t capacity);

#endif

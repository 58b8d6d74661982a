/* SPDX-License-Identifier: BSD-3-Clause */
#include <err.h>
#include <rmem/cache.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench/cache.h"

#define TRIES 5

void *rmem_store_open(unsigned port, const char *name, uint64_t bytes,
		      uint64_t segment_bytes)
{
	struct rmem_cache_options options = rmem_cache_options_init();
	const char *server;
	rmem_cache *cache;
	char uri[64];

	(void)snprintf(uri, sizeof(uri), "rmem://127.0.0.1:%u?fabric=tcp", port);
	server = uri;
	options.bytes = bytes;
	options.segment_bytes = segment_bytes;
	if (rmem_cache_open(&server, 1, name, &options, &cache))
		errx(1, "rmem: %s", rmem_cache_error());
	return cache;
}

void rmem_store_close(void *store)
{
	rmem_cache_close(store);
}

static void *store_open(unsigned port, uint64_t capacity)
{
	return rmem_store_open(port, "rates", capacity, 0);
}

/* Returns why one of them failed, or NULL. */
static const char *try_all(rmem_cache *cache, unsigned opcode, struct block *blocks,
			   unsigned n)
{
	struct rmem_cache_result results[BATCH];
	struct rmem_cache_op ops[BATCH];

	for (unsigned i = 0; i < n; i++)
		ops[i] = (struct rmem_cache_op){
			.key = blocks[i].key,
			.key_bytes = KEY_BYTES,
			.value = blocks[i].value,
			.bytes = blocks[i].bytes,
			.opcode = (uint16_t)opcode,
			.cookie = i,
		};
	if (rmem_cache_submit(cache, ops, n) != (int)n)
		errx(1, "rmem: %s", rmem_cache_error());
	if (rmem_cache_wait(cache, results, n, n, -1) != (int)n)
		errx(1, "rmem: %s", rmem_cache_error());
	for (unsigned i = 0; i < n; i++) {
		if (results[i].status)
			return rmem_cache_result_error(cache, &results[i]);
		blocks[results[i].cookie].hit = results[i].outcome == RMEM_CACHE_HIT;
	}
	return NULL;
}

/* On a host so busy that a session is not heard in time it is worth another try. */
static void all(rmem_cache *cache, unsigned opcode, struct block *blocks, unsigned n)
{
	const char *failure;

	for (unsigned i = 0; (failure = try_all(cache, opcode, blocks, n)); i++) {
		warnx("rmem: %s", failure);
		if (i == TRIES)
			exit(1);
		(void)sleep(1);
	}
}

static void store_get(void *store, struct block *blocks, unsigned n)
{
	all(store, RMEM_CACHE_GET, blocks, n);
}

static void store_put(void *store, struct block *blocks, unsigned n)
{
	all(store, RMEM_CACHE_PUT, blocks, n);
}

const struct store store_rmem = { "rmem", store_open, store_get, store_put };

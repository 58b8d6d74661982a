/* SPDX-License-Identifier: BSD-3-Clause */
/* Which server has a key: rendezvous hashing by the names of the servers, so that every client
 * chooses the same one, and a server that is added or removed moves its share of the keys alone.
 * Threads: [any]. */
#ifndef CACHE_SPREAD_H
#define CACHE_SPREAD_H

#include <stddef.h>
#include <stdint.h>

/* The number that stands for the server of a URI: a hash of its HOST:PORT. */
uint64_t spread_seed(const char *uri);
/* The index of the server, among n > 0, that has the key. */
unsigned spread_choose(const uint64_t *seeds, unsigned n, const void *key,
		       size_t key_bytes);

#endif

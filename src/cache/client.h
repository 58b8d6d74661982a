/* SPDX-License-Identifier: BSD-3-Clause */
/* A client of a cache: its servers, and what is outstanding.  Threads: [owner] of the cache. */
#ifndef CACHE_CLIENT_H
#define CACHE_CLIENT_H

#include <stdatomic.h>

#include "base/error_texts.h"
#include "cache/link.h"
#include "cache/work.h"

struct rmem_cache {
	pid_t pid; /* that has opened it */
	unsigned n, depth;
	unsigned outstanding; /* the program's operations */
	unsigned turn;        /* the server whose results are next */
	struct server *servers;
	struct link **links;
	uint64_t *seeds;
	struct list requests; /* all */
	int epfd, event_fd;
	atomic_bool news; /* of the links */
	struct error_texts errors;
};

/* Make a request of an operation that was checked; it is not begun.  NULL: no memory. */
struct request *cache_request(rmem_cache *cache, const struct rmem_cache_op *op);
/* Begin it. */
void cache_begin(rmem_cache *cache, struct request *request);
void cache_request_free(rmem_cache *cache, struct request *request);
/* -ESTALE with text: the cache is the parent's */
int cache_own(const rmem_cache *cache);
/* -EINVAL with text: the operation is malformed */
int cache_check(const struct rmem_cache_op *op);
/* Submit what has begun. */
void cache_flush(rmem_cache *cache);
/* Go on with everything. */
void cache_run(rmem_cache *cache);
/* As rmem_cache_arm(), without results. */
int cache_arm(rmem_cache *cache);
/* Wait until there may be something to go on with. */
void cache_sleep(rmem_cache *cache, int timeout_ms);

#endif

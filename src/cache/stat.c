/* SPDX-License-Identifier: BSD-3-Clause */
/* What a client has counted. */
#include <errno.h>

#include "base/err.h"
#include "cache/client.h"

static void counters_add(struct rmem_cache_stat *stat, const struct counters *counters)
{
#define ADD(member) stat->member += counters->member
	ADD(hits);
	ADD(misses);
	ADD(stored);
	ADD(deleted);
	ADD(failed);
	ADD(reads);
	ADD(writes);
	ADD(swaps);
	ADD(copies);
	ADD(hints);
	ADD(torn);
	ADD(stale);
	ADD(contended);
	ADD(unknown);
	ADD(claims);
	ADD(seals);
	ADD(evictions);
	ADD(dropped);
	ADD(moved);
	ADD(losses);
#undef ADD
}

static void server_add(struct rmem_cache_stat *stat, const struct server *server)
{
	uint64_t bytes = server->up ? geometry_segment_bytes(&server->geometry) : 0;

	stat->servers++;
	counters_add(stat, &server->counters);
	if (!server->up)
		return;
	if (stat->servers_open++ == 0)
		stat->segment_bytes = bytes;
	else if (stat->segment_bytes != bytes)
		stat->segment_bytes = 0;
	stat->bytes += bytes * server->geometry.segments;
	stat->segments += server->geometry.segments;
	for (unsigned i = 0; i < server->table.n; i++) {
		stat->segments_free += server->table.segments[i].state == SEGMENT_FREE;
		stat->segments_open += server->table.segments[i].state == SEGMENT_OPEN;
	}
}

int rmem_cache_stat(rmem_cache *cache, int server, struct rmem_cache_stat *ret_stat)
{
	struct rmem_cache_stat stat = rmem_cache_stat_init();
	size_t size;
	int err = cache_own(cache);

	if (err)
		return err;
	if (!ret_stat)
		return err_set(-EINVAL, "ret_stat is NULL");
	size = ret_stat->size;
	if (size < sizeof(size))
		return err_set(-EINVAL, "ret_stat: size is not set");
	if (server != RMEM_CACHE_ALL && (server < 0 || (unsigned)server >= cache->n))
		return err_set(-EINVAL, "there is no server %d", server);
	for (unsigned i = 0; i < cache->n; i++) {
		if (server != RMEM_CACHE_ALL && (unsigned)server != i)
			continue;
		server_add(&stat, &cache->servers[i]);
		stat.copied_bytes += link_copied_bytes(cache->links[i]);
	}
	memset(ret_stat, 0, size);
	memcpy(ret_stat, &stat, size < sizeof(stat) ? size : sizeof(stat));
	ret_stat->size = size;
	return err_end(0);
}

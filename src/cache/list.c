/* SPDX-License-Identifier: BSD-3-Clause */
/* The keys of a cache, as the directories of its segments have them.  It waits for each read. */
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "cache/bucket.h"
#include "cache/client.h"

struct listing {
	const struct server *server;
	struct rmem_cache_entry entry;
	int (*each)(const struct rmem_cache_entry *entry, void *arg);
	void *arg;
	unsigned char entries[EVICT_ENTRIES * FORMAT_ENTRY_BYTES];
};

static int lease_read(const struct server *server, uint64_t offset, void *dst,
		      uint64_t bytes)
{
	int err = rmem_read(server->io.lease, offset, dst, bytes);

	return err ? err_set(err, "%s", rmem_error()) : 0;
}

/* Tell of the key of a slot, if it is there still and whole. */
static int slot_list(struct listing *listing, unsigned segment, uint64_t slot,
		     uint32_t bucket_number)
{
	const struct server *server = listing->server;
	const struct geometry *geometry = &server->geometry;
	unsigned char bucket[FORMAT_BUCKET_BYTES], head[FORMAT_HEAD_MAX];
	uint64_t at = geometry_place_at(geometry, slot_place(slot)),
		 now_ms = server_now_ms(server);
	uint64_t end = geometry_segment_at(geometry, segment + 1), head_bytes;
	struct block block;
	int err;

	if (geometry_place_segment(geometry, slot_place(slot)) != segment ||
	    bucket_number >> geometry->bucket_bits)
		return 0;
	err = lease_read(server, geometry_bucket_at(geometry, bucket_number), bucket,
			 sizeof(bucket));
	if (err || bucket_find(bucket, slot) < 0)
		return err;
	head_bytes = end - at < sizeof(head) ? end - at : sizeof(head);
	err = lease_read(server, at, head, head_bytes);
	if (err || !block_decode(geometry, head, head_bytes, slot, &block) ||
	    block.part != 0 || (block.expiry_ms && block.expiry_ms <= now_ms))
		return err;
	listing->entry.key = block.key;
	listing->entry.key_bytes = block.key_bytes;
	listing->entry.bytes = block.value_bytes;
	listing->entry.ttl_ms = block.expiry_ms ? block.expiry_ms - now_ms : 0;
	return listing->each(&listing->entry, listing->arg);
}

/* The keys of one segment: its directory grows down from its end. */
static int segment_list(struct listing *listing, unsigned segment, uint32_t generation)
{
	const struct geometry *geometry = &listing->server->geometry;
	uint64_t most = geometry_segment_bytes(geometry) /
			(FORMAT_HEAD_BYTES + FORMAT_ENTRY_BYTES);
	unsigned seen = 1;
	int result = 0;

	for (unsigned chunk = 0; chunk < most && seen && !result;
	     chunk += EVICT_ENTRIES) {
		unsigned n = most - chunk < EVICT_ENTRIES ? (unsigned)most - chunk
							  : EVICT_ENTRIES;

		result = lease_read(listing->server,
				    entry_at(geometry, segment, chunk + n - 1),
				    listing->entries, FORMAT_ENTRY_BYTES * (uint64_t)n);
		seen = 0;
		for (unsigned i = 0; i < n && !result; i++) {
			uint32_t bucket;
			uint64_t slot;

			if (!entry_decode(geometry, segment, generation, chunk + i,
					  listing->entries +
						  FORMAT_ENTRY_BYTES * (n - 1 - i),
					  &slot, &bucket))
				continue;
			seen++;
			result = slot_list(listing, segment, slot, bucket);
		}
	}
	return result;
}

static int server_list(struct listing *listing)
{
	const struct geometry *geometry = &listing->server->geometry;
	unsigned char *words = calloc(geometry->segments, 8);
	int result;

	if (!words)
		return err_errno(-ENOMEM, "the segments");
	result = lease_read(listing->server, FORMAT_TABLE_AT, words,
			    UINT64_C(8) * geometry->segments);
	for (unsigned i = 0; i < geometry->segments && !result; i++) {
		struct segment segment =
			segment_decode(word_read(words + 8 * (size_t)i));

		if (segment.state != SEGMENT_FREE && segment.state != SEGMENT_RETIRED)
			result = segment_list(listing, i, segment.generation);
	}
	free(words);
	return result;
}

int rmem_cache_list(rmem_cache *cache,
		    int (*each)(const struct rmem_cache_entry *entry, void *arg),
		    void *arg)
{
	struct listing listing = { .each = each, .arg = arg };
	int result = cache_own(cache);

	if (result)
		return result;
	if (!each)
		return err_set(-EINVAL, "each is NULL");
	cache_run(cache);
	for (unsigned i = 0; i < cache->n && !result; i++) {
		listing.server = &cache->servers[i];
		listing.entry.server = i;
		if (cache->servers[i].up)
			result = server_list(&listing);
	}
	return err_end(result);
}

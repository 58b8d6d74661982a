/* SPDX-License-Identifier: BSD-3-Clause */
#include "cache/evict.h"

#include <errno.h>

#include "cache/bucket.h"
#include "cache/server.h"
#include "cache/swap.h"

#define TRIES_MAX 8
#define MOVED_SHARE(bytes) ((bytes) / 4 * 3) /* each eviction frees space */

static struct server *server_of(struct task *task)
{
	return container_of(task, struct server, evict.task);
}

static void evict_end(struct server *server, int err)
{
	server->evict.busy = false;
	server->evict.done(server, err);
}

/* Whether the claim is young enough for what it leads to. */
static bool evict_is_fresh(const struct evict *evict, const struct server *server)
{
	return clock_now_ms() - evict->since_ms < server->claim_ms / 2;
}

/* ---- the end: the next generation ---- */

static void evict_raised(struct task *task)
{
	struct server *server = server_of(task);
	struct evict *evict = &server->evict;
	struct segment *seen = &server->table.segments[evict->segment];

	if (task->result != SWAP_DONE) {
		evict_end(server, -EAGAIN);
		return;
	}
	server->counters.evictions++;
	*seen = segment_decode(evict->word);
	server->table.free += seen->state == SEGMENT_FREE;
	if (seen->state == SEGMENT_OPEN)
		(void)claim_open(server, evict->segment, evict->word, evict->seen_ms, 0,
				 0);
	evict_end(server, 0);
}

static void evict_raise(struct server *server)
{
	struct evict *evict = &server->evict;
	uint64_t old = evict->word;
	uint32_t generation = (evict->state.generation + 1) % SEGMENT_GENERATIONS;
	struct segment next = { .generation = generation };

	if (!evict_is_fresh(evict, server)) {
		evict_end(server, -EAGAIN);
		return;
	}
	if (evict->class >= 0 && !server->claims[evict->class] && !server->leaving &&
	    claims_have_room(server) && server->table.free >= evict->keep)
		next = claim_segment(server, SEGMENT_OPEN,
				     (enum segment_class)evict->class, generation);
	evict->word = segment_encode(&next);
	evict->seen_ms = clock_now_ms();
	swap_start(&server->io, &evict->task, geometry_word_at(evict->segment), old,
		   evict->word, &server->scratch->evict.word, evict_raised);
}

/* ---- moves ---- */

static void evict_copies(struct server *server);
static void evict_publish(struct server *server);
static void evict_wave(struct server *server);

static void evictee_end(struct evictee *evictee)
{
	claim_unref(evictee->claim);
	evictee->claim = NULL;
}

/* The block is at its new place, for those who look. */
static void evict_published(struct task *task)
{
	struct server *server = server_of(task);
	struct evict *evict = &server->evict;
	struct evictee *evictee = &evict->some[evict->at - 1];
	unsigned count = policy_moved_count(&server->policy, &server->table,
					    evict->state.class, evictee->count);
	const struct place *known = known_find(&server->known, evictee->hash);

	if (task->result == SWAP_DONE) {
		server->counters.moved++;
		if (known && known->slot == evictee->slot)
			known_set(&server->known, evictee->hash, evictee->moved,
				  evictee->part_bytes, false);
		if (count > 0)
			io_hint(&server->io,
				evictee->bucket_at + FORMAT_HINTS_AT + evictee->index,
				&server->scratch
					 ->bytes[hint_encode(evictee->moved, count)]);
	}
	evictee_end(evictee);
	evict_publish(server);
}

/* A free segment, or -1. */
static int evict_free(struct server *server)
{
	const struct table *table = &server->table;
	unsigned start = (unsigned)(random_next(&server->random) % table->n);

	for (unsigned i = 0; table->free && i < table->n; i++)
		if (table->segments[(start + i) % table->n].state == SEGMENT_FREE)
			return (int)((start + i) % table->n);
	return -1;
}

/* Whether the segment that blocks are moved to is full, and another one may be claimed. */
static bool evict_extends(const struct server *server)
{
	return !server->claims[SEGMENT_MAIN] && server->table.free &&
	       server->evict.extensions < TRIES_MAX && !server->leaving &&
	       claims_have_room(server);
}

static void evict_extended(struct task *task)
{
	struct server *server = server_of(task);
	struct evict *evict = &server->evict;
	struct segment *segment = &server->table.segments[evict->target];

	server->table.free -=
		segment->state == SEGMENT_FREE; /* or the table was read meanwhile */
	if (task->result == SWAP_DONE) {
		*segment = segment_decode(evict->target_word);
		(void)claim_open(server, evict->target, evict->target_word,
				 evict->seen_ms, 0, 0);
	} else {
		server->counters.contended++;
		segment->state = SEGMENT_RETIRED; /* for this time */
	}
	evict_copies(server);
}

/* Claim a segment to move the others to. */
static void evict_extend(struct server *server)
{
	struct evict *evict = &server->evict;
	int i = evict_free(server);
	struct segment next;
	uint64_t old;

	if (i < 0) { /* the table was read meanwhile */
		server->table.free = 0;
		evict_copies(server);
		return;
	}
	evict->extensions++;
	evict->target = (unsigned)i;
	old = segment_encode(&server->table.segments[i]);
	next = claim_segment(server, SEGMENT_OPEN, SEGMENT_MAIN,
			     server->table.segments[i].generation);
	evict->target_word = segment_encode(&next);
	evict->seen_ms = clock_now_ms();
	swap_start(&server->io, &evict->task, geometry_word_at(evict->target), old,
		   evict->target_word, &server->scratch->evict.word, evict_extended);
}

/* Publish the next one of those that were copied. */
static void evict_publish(struct server *server)
{
	struct evict *evict = &server->evict;

	while (evict->at < evict->n_some) {
		struct evictee *evictee = &evict->some[evict->at++];

		if (!evictee->claim)
			continue;
		if (!claim_is_fresh(evictee->claim)) {
			evictee_end(evictee);
			continue;
		}
		swap_start(&server->io, &evict->task,
			   evictee->bucket_at + 8 * (uint64_t)evictee->index,
			   evictee->slot, evictee->moved, &server->scratch->evict.word,
			   evict_published);
		return;
	}
	if (evict->next < evict->n_some)
		evict_extend(server);
	else
		evict_wave(server);
}

static void evict_copied(struct task *task)
{
	struct server *server = server_of(task);
	struct evict *evict = &server->evict;

	for (unsigned i = 0; task->err && i < evict->n_some; i++)
		if (evict->some[i].claim) {
			evict->some[i].claim->failed = true;
			evictee_end(&evict->some[i]);
		}
	evict->at = 0;
	evict_publish(server);
}

/* A place for the block in the segment that blocks are moved to, if there is room. */
static bool evict_place(struct server *server, struct evictee *evictee,
			struct block *block, unsigned *ret_entry)
{
	struct evict *evict = &server->evict;
	struct claim *claim = server->claims[SEGMENT_MAIN];
	uint64_t bytes =
		block_bytes(&server->geometry, block->key_bytes, evictee->part_bytes);

	if (!claim || evict->moved_bytes + bytes >
			      MOVED_SHARE(geometry_segment_bytes(&server->geometry)))
		return false;
	claim_renew(claim);
	if (!claim_is_fresh(claim))
		return false;
	if (!claim_place(claim, bytes, &block->place, ret_entry)) {
		claim_leave(claim, false);
		return false;
	}
	evictee->claim = claim;
	evict->moved_bytes += bytes;
	block->generation = claim->state.generation;
	block->segment = claim->segment;
	return true;
}

/* Copy the block, at the server, with a header for its new place.  False: there is none. */
static bool evict_copy(struct server *server, unsigned i, struct block *block)
{
	const struct geometry *geometry = &server->geometry;
	struct evict *evict = &server->evict;
	struct evictee *evictee = &evict->some[i];
	unsigned char *head = server->scratch->evict.heads[i],
		      *entry = server->scratch->evict.moved[i];
	uint64_t value_at = block_value_at(block->key_bytes), from, to;
	uint32_t bucket = (uint32_t)((evictee->bucket_at - geometry->buckets_at) /
				     FORMAT_BUCKET_BYTES);
	unsigned index;

	evictee->part_bytes = block_part_bytes(geometry, block);
	if (!evict_place(server, evictee, block, &index))
		return false;
	evictee->hash = format_hash(block->key, block->key_bytes, block->part);
	evictee->moved = slot_encode(evictee->hash, evictee->part_bytes,
				     block->generation, block->place);
	from = geometry_place_at(geometry, slot_place(evictee->slot));
	to = geometry_place_at(geometry, block->place);
	block_encode(geometry, block, head);
	entry_encode(geometry, block->segment, block->generation, index, evictee->moved,
		     bucket, entry);
	io_write(&server->io, &evict->task, to, head, value_at);
	io_write(&server->io, &evict->task, entry_at(geometry, block->segment, index),
		 entry, FORMAT_ENTRY_BYTES);
	if (evictee->part_bytes)
		io_copy(&server->io, &evict->task, to + value_at, from + value_at,
			evictee->part_bytes);
	return true;
}

/* How much of a block's header is read: no more than is in the segment. */
static uint64_t evict_head_bytes(const struct server *server, uint64_t at)
{
	uint64_t end =
		geometry_segment_at(&server->geometry, server->evict.segment + 1);

	return end - at < FORMAT_HEAD_MAX ? end - at : FORMAT_HEAD_MAX;
}

static bool evict_decode(const struct server *server, unsigned i, struct block *block)
{
	uint64_t slot = server->evict.some[i].slot;
	uint64_t at = geometry_place_at(&server->geometry, slot_place(slot));

	return block_decode(&server->geometry, server->scratch->evict.heads[i],
			    evict_head_bytes(server, at), slot, block) &&
	       (!block->expiry_ms || block->expiry_ms > server_now_ms(server));
}

/* Copy the next blocks, as many as there is room for. */
static void evict_copies(struct server *server)
{
	struct evict *evict = &server->evict;
	bool good = !evict->task.err && evict_is_fresh(evict, server);
	struct block block;

	task_then(&evict->task, evict_copied);
	for (; evict->next < evict->n_some; evict->next++) {
		if (!good || evict->some[evict->next].count == 0 ||
		    !evict_decode(server, evict->next, &block) ||
		    evict_copy(server, evict->next, &block))
			continue;
		if (evict_extends(server))
			break;
		server->counters.dropped++;
	}
	if (!evict->task.pending)
		evict_copied(&evict->task);
}

/* The headers were read. */
static void evict_heads(struct task *task)
{
	evict_copies(server_of(task));
}

/* Read the headers of those that are worth to be moved. */
static void evict_move(struct server *server)
{
	struct evict *evict = &server->evict;
	const struct geometry *geometry = &server->geometry;

	evict->next = 0;
	task_then(&evict->task, evict_heads);
	for (unsigned i = 0; i < evict->n_some; i++) {
		uint64_t at =
			geometry_place_at(geometry, slot_place(evict->some[i].slot));

		evict->some[i].claim = NULL;
		if (evict->some[i].count > 0)
			io_read(&server->io, &evict->task, at,
				server->scratch->evict.heads[i],
				evict_head_bytes(server, at));
		else
			server->counters.dropped++;
	}
	if (!evict->task.pending)
		evict_wave(server);
}

/* ---- what is in the segment ---- */

/* The buckets of some blocks were read: those that are not there any more are forgotten. */
static void evict_buckets(struct task *task)
{
	struct server *server = server_of(task);
	struct evict *evict = &server->evict;
	unsigned n = 0;

	for (unsigned i = 0; i < evict->n_some && !task->err; i++) {
		const unsigned char *bucket = server->scratch->evict.buckets[i];
		int index = bucket_find(bucket, evict->some[i].slot);

		if (index < 0)
			continue;
		evict->some[n] = evict->some[i];
		evict->some[n].index = (unsigned)index;
		evict->some[n++].count = bucket_count(bucket, (unsigned)index);
	}
	evict->n_some = n;
	evict_move(server);
}

static bool evict_next(struct server *server, struct evictee *evictee)
{
	const struct geometry *geometry = &server->geometry;
	struct evict *evict = &server->evict;
	unsigned i = evict->entry++;
	uint32_t bucket;
	uint64_t slot;

	if (!entry_decode(geometry, evict->segment, evict->state.generation,
			  evict->chunk + i,
			  server->scratch->evict.entries +
				  FORMAT_ENTRY_BYTES * (size_t)(evict->n_chunk - 1 - i),
			  &slot, &bucket) ||
	    bucket >> geometry->bucket_bits ||
	    geometry_place_segment(geometry, slot_place(slot)) != evict->segment)
		return false;
	evict->n_seen++;
	evictee->slot = slot;
	evictee->bucket_at = geometry_bucket_at(geometry, bucket);
	return true;
}

static void evict_chunk(struct server *server);

/* The next blocks of the directory. */
static void evict_wave(struct server *server)
{
	struct evict *evict = &server->evict;

	evict->n_some = 0;
	task_then(&evict->task, evict_buckets);
	while (evict->entry < evict->n_chunk && evict->n_some < EVICT_BUCKETS) {
		struct evictee *evictee = &evict->some[evict->n_some];

		if (!evict_next(server, evictee))
			continue;
		io_read(&server->io, &evict->task, evictee->bucket_at,
			server->scratch->evict.buckets[evict->n_some++],
			FORMAT_BUCKET_BYTES);
	}
	if (evict->n_some)
		return;
	if (evict->n_seen == 0 || !evict_is_fresh(evict, server)) {
		evict_raise(server);
		return;
	}
	evict->chunk += evict->n_chunk;
	evict_chunk(server);
}

static void evict_directory(struct task *task)
{
	struct server *server = server_of(task);

	if (task->err) {
		evict_end(server, -EAGAIN);
		return;
	}
	server->evict.entry = 0;
	evict_wave(server);
}

/* Read the next entries of the directory, which grows down. */
static void evict_chunk(struct server *server)
{
	const struct geometry *geometry = &server->geometry;
	struct evict *evict = &server->evict;
	uint64_t most = geometry_segment_bytes(geometry) /
			(FORMAT_HEAD_BYTES + FORMAT_ENTRY_BYTES);
	uint64_t left = most > evict->chunk ? most - evict->chunk : 0;

	evict->n_seen = 0;
	evict->n_chunk = left < EVICT_ENTRIES ? (unsigned)left : EVICT_ENTRIES;
	if (evict->n_chunk == 0) {
		evict_raise(server);
		return;
	}
	task_then(&evict->task, evict_directory);
	io_read(&server->io, &evict->task,
		entry_at(geometry, evict->segment, evict->chunk + evict->n_chunk - 1),
		server->scratch->evict.entries,
		FORMAT_ENTRY_BYTES * (uint64_t)evict->n_chunk);
}

/* ---- which segment ---- */

/* The place of the segment in the order, the oldest first, if it may be evicted; else
 * UINT64_MAX. */
static uint64_t evict_order(const struct server *server, const struct segment *segment)
{
	uint64_t now_ms = server_now_ms(server);

	if (segment->state == SEGMENT_FULL && segment_full_age(segment, now_ms) >= 0)
		return STAMPS - (uint64_t)segment_full_age(segment, now_ms);
	/* of a client that did not finish */
	if (segment->state == SEGMENT_EVICT &&
	    segment_age(segment, now_ms) >
		    (server->claim_ms + server->rest_ms) / 1000 + 1)
		return 0;
	return UINT64_MAX;
}

/* The oldest segment of the class, or of any, or -1. */
static int evict_oldest(const struct server *server, int class)
{
	uint64_t least = UINT64_MAX;
	int oldest = -1;

	for (unsigned i = 0; i < server->table.n; i++) {
		const struct segment *segment = &server->table.segments[i];
		uint64_t order = evict_order(server, segment);

		if (order < least && (class < 0 || (int)segment->class == class)) {
			least = order;
			oldest = (int)i;
		}
	}
	return oldest;
}

static void evict_try(struct server *server);

static void evict_claimed(struct task *task)
{
	struct server *server = server_of(task);
	struct evict *evict = &server->evict;

	if (task->result != SWAP_DONE) {
		server->counters.contended++;
		server->table.segments[evict->segment].state =
			SEGMENT_RETIRED; /* for this time */
		evict_try(server);
		return;
	}
	server->table.segments[evict->segment] = segment_decode(evict->word);
	evict->chunk = 0;
	evict_chunk(server);
}

static void evict_try(struct server *server)
{
	struct evict *evict = &server->evict;
	int i = evict_oldest(server,
			     (int)policy_evicts(&server->policy, &server->table));
	struct segment next;
	uint64_t old;

	if (i < 0)
		i = evict_oldest(server, -1);
	if (i < 0 || evict->tries++ >= TRIES_MAX) {
		evict_end(server, i < 0 ? -ENOSPC : -EAGAIN);
		return;
	}
	evict->segment = (unsigned)i;
	evict->state = server->table.segments[i];
	old = segment_encode(&evict->state);
	next = claim_segment(server, SEGMENT_EVICT, evict->state.class,
			     evict->state.generation);
	evict->word = segment_encode(&next);
	evict->since_ms = clock_now_ms();
	swap_start(&server->io, &evict->task, geometry_word_at(evict->segment), old,
		   evict->word, &server->scratch->evict.word, evict_claimed);
}

void evict_start(struct server *server, int class, unsigned keep,
		 void (*done)(struct server *server, int err))
{
	struct evict *evict = &server->evict;

	evict->busy = true;
	evict->class = class;
	evict->keep = keep;
	evict->done = done;
	evict->tries = 0;
	evict->moved_bytes = 0;
	evict->extensions = 0;
	/* puts may not have used it for long; it is renewed before blocks are moved there */
	if (server->claims[SEGMENT_MAIN])
		claim_renew(server->claims[SEGMENT_MAIN]);
	evict_try(server);
}

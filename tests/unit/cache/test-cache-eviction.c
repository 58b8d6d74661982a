/* SPDX-License-Identifier: BSD-3-Clause */
/* One client over a fake memory where nothing goes wrong: what evictions keep, and how many
 * segments are open. */
#include <stdio.h>
#include <stdlib.h>

#include "cache/bucket.h"
#include "cache/parts.h"
#include "cache/work.h"
#include "unit/cache/fake-memory.h"
#include "unit/unit.h"

#define SEGMENTS 32
#define SEGMENT_BITS 12
#define BYTES 64
/* A key of 8 bytes, and its entry of the directory. */
#define BLOCKS ((1u << SEGMENT_BITS) / (128 + BYTES + FORMAT_ENTRY_BYTES))
#define HOT (BLOCKS / 4 * 3 - 1) /* below the share of a segment that may be moved */
#define STEPS 10000

static struct geometry geometry;
static struct fake_memory memory;
static struct fake_queue queue;
static struct server server;
static struct scratch *scratch;
static unsigned char value[BYTES];
static uint64_t now_ns;

static void published(struct fake_memory *, uint64_t, uint64_t)
{
}

static uint64_t simulated_now(void)
{
	return now_ns;
}

static void steps(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		now_ns += NS_PER_MS;
		(void)server_poll(&server);
		fake_memory_step(&memory);
	}
}

static void setup(void)
{
	struct geometry g = { .segment_bits = SEGMENT_BITS,
			      .bucket_bits = 10,
			      .table_bits = 5,
			      .unit_bits = 6 };
	struct opened opened = { .queue = (rmem_queue *)(void *)&queue,
				 .lease = (rmem_lease *)(void *)&queue,
				 .claim_ms = 30000,
				 .rest_ms = 60000 };
	uint64_t word = geometry_encode(&g);

	now_ns = UINT64_C(3600000000000);
	clock_set_source(simulated_now);
	/* enough for any heap, to learn where it begins */
	ck_assert_int_eq(geometry_decode(word, 7, 1 << 20, &g), 0);
	memory = (struct fake_memory){
		.n_bytes = g.heap_at + (SEGMENTS << SEGMENT_BITS),
		.random = 1,
		.deadline = UINT64_MAX / 2,
		.swapped = published,
	};
	ck_assert_int_eq(geometry_decode(word, 7, memory.n_bytes, &geometry), 0);
	memory.bytes = calloc(1, memory.n_bytes + FORMAT_HEAD_MAX);
	scratch = calloc(1, scratch_bytes(&geometry));
	ck_assert(memory.bytes && scratch);
	list_init(&memory.flights);
	fake_queue_init(&queue, &memory);
	ck_assert_int_eq(server_init(&server, 1024), 0);
	opened.geometry = geometry;
	opened.scratch = scratch;
	server.random = 1;
	ck_assert_int_eq(server_begin(&server, &opened), 0);
	steps(STEPS); /* the table is read */
}

static void teardown(void)
{
	fake_queue_kill(&queue);
	server_free(&server);
	free(scratch);
	free(memory.bytes);
}

static void ask(struct request *r, enum rmem_cache_opcode opcode, unsigned key)
{
	*r = (struct request){
		.opcode = opcode, .key_bytes = 8, .value = value, .bytes = BYTES
	};
	list_init(&r->link);
	(void)snprintf((char *)r->key, sizeof(r->key), "%08u", key);
	r->hash = format_hash(r->key, r->key_bytes, 0);
	server_request(&server, r);
}

static enum rmem_cache_outcome answer(struct request *r)
{
	for (unsigned i = 0; i < STEPS && !r->outcome; i++)
		steps(1);
	ck_assert(r->outcome);
	list_remove(&r->link);
	parts_forget(r);
	return r->outcome;
}

static void put(unsigned key)
{
	struct request r;

	ask(&r, RMEM_CACHE_PUT, key);
	ck_assert_int_eq(answer(&r), RMEM_CACHE_STORED);
}

static bool is_there(unsigned key)
{
	struct request r;

	ask(&r, RMEM_CACHE_GET, key);
	return answer(&r) == RMEM_CACHE_HIT;
}

/* The key was asked for. */
static void hint(unsigned key)
{
	char text[9];
	unsigned char *bucket;
	uint64_t hash;
	int index;

	(void)snprintf(text, sizeof(text), "%08u", key);
	hash = format_hash(text, 8, 0);
	bucket = memory.bytes + geometry_bucket_at(&geometry, hash);
	index = bucket_final(bucket, print_of_hash(hash));
	ck_assert_int_ge(index, 0);
	bucket[FORMAT_HINTS_AT + (unsigned)index] =
		hint_encode(bucket_slot(bucket, (unsigned)index), 1);
}

static void evicted(struct server *s, int err)
{
	ck_assert_int_eq(err, 0);
	s->room.busy = false;
}

/* Evict the oldest segment. */
static void evict(void)
{
	uint64_t evictions = server.counters.evictions;

	server.room.busy = true; /* which evicts alone */
	evict_start(&server, -1, 0, evicted);
	for (unsigned i = 0; i < STEPS && server.room.busy; i++)
		steps(1);
	ck_assert_uint_eq(server.counters.evictions, evictions + 1);
}

/* Segments of new keys, until they have their share: the first blocks of each were asked for. */
static void segments_fill(void)
{
	for (unsigned key = 0; server.table.of_class[SEGMENT_NEW] < 5; key++) {
		put(key);
		steps(20);
		if (key % BLOCKS < HOT)
			hint(key);
	}
}

/* The segment that blocks are moved to is full in the middle of the second eviction: what is hot
 * finds another one while there is one. */
START_TEST(hot_blocks__find_another_segment)
{
	segments_fill();
	evict();
	evict();
	ck_assert_uint_eq(server.counters.moved, 2 * HOT);
	for (unsigned i = 0; i < 2 * BLOCKS; i++)
		ck_assert_int_eq(is_there(i), i % BLOCKS < HOT);
}
END_TEST

/* The segment that blocks are moved to was not used for longer than it may be written to. */
START_TEST(hot_blocks__find_a_segment_that_was_idle)
{
	segments_fill();
	evict();
	now_ns += 20000 * NS_PER_MS;
	evict();
	ck_assert_uint_eq(server.counters.moved, 2 * HOT);
}
END_TEST

/* Puts evict rather than to take the last free segments, so that evictions find where to move
 * blocks to, also while many are stored at a time. */
START_TEST(puts__keep_free_segments)
{
	static struct request puts[4 * BLOCKS];
	unsigned key = 0;

	for (unsigned round = 0; round < 40; round++) {
		for (unsigned i = 0; i < 4 * BLOCKS; i++)
			ask(&puts[i], RMEM_CACHE_PUT, key++);
		for (unsigned i = 0; i < 4 * BLOCKS; i++)
			ck_assert_int_eq(answer(&puts[i]), RMEM_CACHE_STORED);
		for (unsigned i = 0; i < 4 * BLOCKS; i++)
			if (i % BLOCKS < HOT)
				hint(key - 1 - i);
	}
	ck_assert_uint_gt(server.counters.moved, server.counters.evictions * HOT / 2);
}
END_TEST

/* Segments that are given up wait for blocks to be published: a put waits for one of them. */
START_TEST(puts__wait_while_many_segments_are_open)
{
	struct request r;
	struct claim *claims[SCRATCH_CLAIMS];

	put(0);
	steps(100);
	for (unsigned class = 0; class < SEGMENT_CLASSES; class ++)
		if (server.claims[class])
			claim_leave(server.claims[class], false);
	steps(100);
	ck_assert_uint_eq(server.n_claims, 0);
	for (unsigned i = 0; i < SCRATCH_CLAIMS; i++) {
		ck_assert_int_eq(claim_open(&server, i, 0, clock_now_ms(), 0, 0), 0);
		claims[i] = server.claims[0];
		claims[i]->refs++;
		claim_leave(claims[i], false);
	}
	ask(&r, RMEM_CACHE_PUT, 1);
	steps(1000);
	ck_assert_int_eq(r.outcome, 0);
	for (unsigned i = 0; i < SCRATCH_CLAIMS; i++)
		claim_unref(claims[i]);
	ck_assert_int_eq(answer(&r), RMEM_CACHE_STORED);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("eviction", setup, teardown);

	tcase_add_test(tc, hot_blocks__find_another_segment);
	tcase_add_test(tc, hot_blocks__find_a_segment_that_was_idle);
	tcase_add_test(tc, puts__keep_free_segments);
	tcase_add_test(tc, puts__wait_while_many_segments_are_open);
	return unit_main();
}

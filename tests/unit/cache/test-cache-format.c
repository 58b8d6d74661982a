/* SPDX-License-Identifier: BSD-3-Clause */
/* The format of a cache: the numbers of rmem-cache(7), written out, and what must be refused. */
#include <errno.h>

#include "base/crc32c.h"
#include "cache/format.h"
#include "cache/spread.h"
#include "unit/unit.h"

#define LEASE_ID 0x1122334455667788u

static const unsigned char id[12] = { 0x88, 0x77, 0x66, 0x55, 0x44, 0x33,
				      0x22, 0x11, 0x21, 0x43, 0x05, 0x00 };

/* 64 KiB segments, 256 buckets, 32 segment words, units of 64 bytes. */
static struct geometry geometry_of(void)
{
	struct geometry g = { .segment_bits = 16,
			      .bucket_bits = 8,
			      .table_bits = 5,
			      .unit_bits = 6,
			      .random = 0x54321 };

	ck_assert_int_eq(geometry_decode(geometry_encode(&g), LEASE_ID, 1 << 20, &g),
			 0);
	return g;
}

START_TEST(super_word__is_that_of_the_page)
{
	struct geometry g = geometry_of();

	ck_assert_uint_eq(geometry_encode(&g),
			  UINT64_C(0x4352) << 48 | UINT64_C(1) << 44 |
				  UINT64_C(16) << 34 | UINT64_C(8) << 28 |
				  UINT64_C(5) << 23 | 0x54321);
	ck_assert_uint_eq(g.buckets_at, 8192);
	ck_assert_uint_eq(g.heap_at, 8192 + 32768);
	ck_assert_uint_eq(g.segments, 15);
	ck_assert_uint_eq(g.seed, crc32c(0, id, sizeof(id)));
	g.immutable = true;
	ck_assert_uint_eq(geometry_encode(&g) >> 40 & 15, 1);
}
END_TEST

START_TEST(super_word__of_others_is_refused)
{
	struct geometry g = geometry_of(), other;
	uint64_t word = geometry_encode(&g);

	ck_assert_int_eq(
		geometry_decode(word ^ UINT64_C(1) << 48, LEASE_ID, 1 << 20, &other),
		-EPROTO);
	for (unsigned bit = 41; bit < 48; bit++) /* flags and version */
		ck_assert_int_eq(geometry_decode(word ^ UINT64_C(1) << bit, LEASE_ID,
						 1 << 20, &other),
				 -EPROTO);
	ck_assert_int_eq(geometry_decode(word, LEASE_ID, 8192 + 32768 + 65536, &other),
			 -EPROTO);
	/* the number of a bucket, in a directory, has 32 bits, and is shifted by so many */
	g.bucket_bits = 31;
	ck_assert_int_eq(geometry_decode(geometry_encode(&g), LEASE_ID,
					 UINT64_C(1) << 40, &other),
			 0);
	g.bucket_bits = 32;
	ck_assert_int_eq(geometry_decode(geometry_encode(&g), LEASE_ID,
					 UINT64_C(1) << 40, &other),
			 -EPROTO);
	/* any word is a geometry whose places are in 64 bits, and whose segments a client can
	 * remember, or refused */
	for (unsigned i = 0; i < 1 << 24; i += 97) {
		uint64_t any = UINT64_C(0x435210) << 40 | (uint64_t)i << 16 << 4 | 1;

		if (geometry_decode(any & ~(UINT64_C(14) << 40), LEASE_ID,
				    UINT64_C(1) << 36, &other))
			continue;
		ck_assert_uint_le(geometry_segment_at(&other, other.segments),
				  UINT64_C(1) << 36);
		ck_assert_uint_le(UINT64_C(1) << other.table_bits, 131072);
	}
}
END_TEST

START_TEST(geometry__is_chosen_by_length)
{
	static const struct {
		uint64_t bytes, segment;
	} rows[] = {
		{ UINT64_C(64) << 20, UINT64_C(1) << 20 },
		{ UINT64_C(16) << 30, UINT64_C(64) << 20 },
		{ UINT64_C(4) << 30, UINT64_C(16) << 20 },
		{ UINT64_C(2) << 40, UINT64_C(64) << 20 },
		{ UINT64_C(8) << 40, UINT64_C(64) << 20 },
	};
	struct geometry g;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		ck_assert_int_eq(geometry_choose(rows[i].bytes, 0, false, 7, &g), 0);
		ck_assert_uint_ge(geometry_segment_bytes(&g), rows[i].segment);
		ck_assert_uint_le(geometry_segment_bytes(&g), 2 * rows[i].segment);
		ck_assert_int_eq(
			geometry_decode(geometry_encode(&g), 1, rows[i].bytes, &g), 0);
		/* each place fits 32 bits */
		ck_assert_uint_le(((uint64_t)g.segments << g.segment_bits) >>
					  g.unit_bits,
				  UINT64_C(1) << 32);
	}
	ck_assert_int_eq(geometry_choose(1 << 20, 3000, false, 7, &g), -EINVAL);
	ck_assert_int_eq(geometry_choose(1 << 20, 1 << 20, false, 7, &g), -EINVAL);
	ck_assert_int_eq(geometry_choose(1 << 30, 8192, false, 7, &g), 0);
	ck_assert_int_eq(geometry_choose(1 << 30, 4096, false, 7, &g), -EINVAL);
}
END_TEST

START_TEST(segment_words__are_those_of_the_page)
{
	struct segment s = { .generation = 0xabcdef,
			     .state = SEGMENT_OPEN,
			     .class = SEGMENT_MAIN,
			     .time = 0x1234,
			     .x = 0x56789 };

	ck_assert_uint_eq(segment_encode(&s),
			  UINT64_C(0xabcdef) << 40 | UINT64_C(1) << 37 |
				  UINT64_C(1) << 36 | UINT64_C(0x1234) << 20 | 0x56789);
	s = (struct segment){ .generation = 1,
			      .state = SEGMENT_FULL,
			      .stamp = STAMP_OF_MS(5000) };
	ck_assert_uint_eq(segment_encode(&s),
			  UINT64_C(1) << 40 | UINT64_C(3) << 37 | 1280);
	s = segment_decode(segment_encode(&s));
	ck_assert_uint_eq(s.stamp, 1280);
	ck_assert_int_eq(segment_decode(0).state, SEGMENT_FREE);
}
END_TEST

START_TEST(times__go_round)
{
	struct segment s = { .state = SEGMENT_OPEN, .time = 65530 };

	ck_assert_uint_eq(segment_age(&s, 65540000), 10);
	ck_assert_uint_eq(segment_age(&s, 65525000), 0); /* another clock */
	ck_assert_uint_eq(segment_age(&s, 65430000), 65436);
	s = (struct segment){ .state = SEGMENT_FULL, .stamp = STAMPS - 256 };
	ck_assert_int_eq(segment_full_age(&s, (STAMPS - 256) / 256 * 1000 + 3000), 768);
	ck_assert_int_eq(segment_full_age(&s, (STAMPS - 256) / 256 * 1000 - 1000),
			 -256);
}
END_TEST

START_TEST(slots__are_those_of_the_page)
{
	uint64_t hash = UINT64_C(0x8003) << 48 | 5,
		 slot = slot_encode(hash, 4096, 0x12345, 77);

	ck_assert_uint_eq(slot, UINT64_C(0x2000) << 50 | UINT64_C(7) << 45 |
					UINT64_C(0x0345) << 32 | 77);
	ck_assert_uint_eq(slot_tentative(slot), slot | UINT64_C(31) << 45);
	ck_assert(slot_is_final(slot) && !slot_is_final(slot_tentative(slot)));
	ck_assert_uint_eq(print_of_hash(5), 1);
	for (uint64_t bytes = 0; bytes < 70000; bytes++) {
		uint64_t most = slot_bytes_max(slot_encode(hash, bytes, 1, 1));

		ck_assert_uint_ge(most, bytes);
		ck_assert(bytes <= 64 || most < 2 * bytes);
	}
	ck_assert_uint_eq(hint_count(slot, hint_encode(slot, 2)), 2);
	ck_assert_uint_eq(slot_behind(slot, 0x12345 + 3), 3);
	ck_assert_uint_eq(slot_behind(slot, 0x12345 - 1), SLOT_GENERATIONS - 1);
}
END_TEST

/* A block at its place, and each of its bits changed. */
START_TEST(block__proves_itself)
{
	struct geometry g = geometry_of();
	struct block block = { .generation = 0x12345,
			       .segment = 2,
			       .place = 2 * 1024 + 3,
			       .value_crc = 0xdeadbeef,
			       .value_bytes = 9000,
			       .expiry_ms = 17,
			       .value_id = 99,
			       .part = 1,
			       .parts = 2,
			       .key_bytes = 5,
			       .key = (const unsigned char *)"hello" };
	unsigned char head[128] = { 0 };
	uint64_t slot = slot_encode(1, 9000 - 8192, 0x12345, block.place);
	struct block read;

	ck_assert_uint_eq(block_value_at(5), 128);
	ck_assert_uint_eq(block_value_at(64), 128);
	ck_assert_uint_eq(block_value_at(65), 192);
	ck_assert_uint_eq(block_bytes(&g, 5, 1), 192);
	block_encode(&g, &block, head);
	ck_assert(block_decode(&g, head, sizeof(head), slot, &read));
	ck_assert_uint_eq(read.value_bytes, 9000);
	ck_assert_uint_eq(block_part_bytes(&g, &read), 9000 - 8192);
	ck_assert_uint_eq(word_read(head + 8), UINT64_C(0x12345) << 32 | 2);
	ck_assert_uint_eq(head[20], 5);
	ck_assert_uint_eq(head[21], 1);
	ck_assert_int_eq(memcmp(head + 64, "hello\0\0", 7), 0);
	ck_assert_uint_eq(word_read(head) & UINT32_MAX,
			  crc32c(g.seed, head + 4, 60 + 5));
	for (unsigned bit = 0; bit < 8 * 69; bit++) {
		head[bit / 8] ^= (unsigned char)(1 << bit % 8);
		ck_assert_msg(!block_decode(&g, head, sizeof(head), slot, &read),
			      "bit %u", bit);
		head[bit / 8] ^= (unsigned char)(1 << bit % 8);
	}
	/* of another generation, at another place, longer than the slot says */
	ck_assert(
		!block_decode(&g, head, sizeof(head), slot ^ UINT64_C(1) << 32, &read));
	ck_assert(!block_decode(&g, head, sizeof(head), slot ^ 1, &read));
	ck_assert(!block_decode(&g, head, sizeof(head),
				slot_encode(1, 64, 0x12345, block.place), &read));
}
END_TEST

/* Who finds one has to make room for it. */
START_TEST(block_of_a_value_that_is_too_long__is_refused)
{
	struct geometry g = geometry_of();
	struct block block = { .value_bytes = FORMAT_VALUE_MAX,
			       .parts = 8192,
			       .key_bytes = 5,
			       .key = (const unsigned char *)"hello" };
	unsigned char head[128];
	uint64_t slot = slot_encode(1, 8192, 0, 0);
	struct block read;

	block_encode(&g, &block, head);
	ck_assert(block_decode(&g, head, sizeof(head), slot, &read));
	block.value_bytes++;
	block.parts++;
	block_encode(&g, &block, head);
	ck_assert(!block_decode(&g, head, sizeof(head), slot, &read));
}
END_TEST

START_TEST(entry__proves_itself)
{
	struct geometry g = geometry_of();
	unsigned char entry[FORMAT_ENTRY_BYTES];
	uint32_t bucket;
	uint64_t slot;

	entry_encode(&g, 3, 0x12345, 7, 0x1234567890, 42, entry);
	ck_assert_uint_eq(entry_at(&g, 3, 7), g.heap_at + 4 * 65536 - 8 * 16);
	ck_assert(entry_decode(&g, 3, 0x12345, 7, entry, &slot, &bucket));
	ck_assert_uint_eq(slot, 0x1234567890);
	ck_assert_uint_eq(bucket, 42);
	ck_assert(!entry_decode(&g, 4, 0x12345, 7, entry, &slot, &bucket));
	ck_assert(!entry_decode(&g, 3, 0x12346, 7, entry, &slot, &bucket));
	ck_assert(!entry_decode(&g, 3, 0x12345, 8, entry, &slot, &bucket));
	for (unsigned bit = 0; bit < 8 * sizeof(entry); bit++) {
		entry[bit / 8] ^= (unsigned char)(1 << bit % 8);
		ck_assert(!entry_decode(&g, 3, 0x12345, 7, entry, &slot, &bucket));
		entry[bit / 8] ^= (unsigned char)(1 << bit % 8);
	}
}
END_TEST

/* The names of the servers decide alone. */
START_TEST(keys__are_spread_by_names)
{
	uint64_t seeds[3], turned[3], fewer[2];
	unsigned moved = 0;

	/* XXH64 of "" and "a" */
	ck_assert_uint_eq(format_hash("", 0, 0), 0xef46db3751d8e999);
	ck_assert_uint_eq(format_hash("a", 1, 0), 0xd24ec4f1a98c6e5b);
	ck_assert_uint_eq(spread_seed("rmem://a"), spread_seed("a:7460?fabric=tcp"));
	ck_assert_uint_eq(spread_seed("rmem://[::1]"), spread_seed("[::1]:7460"));
	ck_assert_uint_eq(spread_seed("a"), format_hash("a:7460", 6, 0));
	ck_assert_uint_ne(spread_seed("a:7461"), spread_seed("a"));
	for (unsigned i = 0; i < 3; i++)
		seeds[i] = turned[2 - i] =
			spread_seed((const char *[]){ "a", "b", "c" }[i]);
	memcpy(fewer, seeds, sizeof(fewer));
	for (unsigned key = 0; key < 3000; key++) {
		unsigned i = spread_choose(seeds, 3, &key, sizeof(key));

		ck_assert_uint_eq(spread_choose(turned, 3, &key, sizeof(key)), 2 - i);
		if (i == 2)
			moved++;
		else /* stays when the third one goes */
			ck_assert_uint_eq(spread_choose(fewer, 2, &key, sizeof(key)),
					  i);
	}
	ck_assert_uint_gt(moved, 850);
	ck_assert_uint_lt(moved, 1150);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("format", NULL, NULL);

	tcase_add_test(tc, super_word__is_that_of_the_page);
	tcase_add_test(tc, super_word__of_others_is_refused);
	tcase_add_test(tc, geometry__is_chosen_by_length);
	tcase_add_test(tc, segment_words__are_those_of_the_page);
	tcase_add_test(tc, times__go_round);
	tcase_add_test(tc, slots__are_those_of_the_page);
	tcase_add_test(tc, block__proves_itself);
	tcase_add_test(tc, block_of_a_value_that_is_too_long__is_refused);
	tcase_add_test(tc, entry__proves_itself);
	tcase_add_test(tc, keys__are_spread_by_names);
	return unit_main();
}

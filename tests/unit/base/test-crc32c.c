/* SPDX-License-Identifier: BSD-3-Clause */
/* CRC-32C: of the processor, portable, and joined. */
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/modular.h"
#include "unit/unit.h"

#define AREA 70000

/* The definition, bit by bit. */
static uint32_t crc_by_bits(const unsigned char *at, size_t bytes)
{
	uint32_t state = UINT32_MAX;

	for (size_t i = 0; i < bytes; i++) {
		state ^= at[i];
		for (unsigned bit = 0; bit < 8; bit++)
			state = (state >> 1) ^ (state & 1 ? 0x82f63b78u : 0);
	}
	return ~state;
}

MODULAR static unsigned char *area_new(void)
{
	unsigned char *area = malloc(AREA);
	uint32_t value = 1;

	ck_assert_ptr_nonnull(area);
	for (size_t i = 0; i < AREA; i++) {
		value = value * 1103515245u + 12345u;
		area[i] = (unsigned char)(value >> 16);
	}
	return area;
}

START_TEST(crc__has_the_values_of_the_standards)
{
	unsigned char zeros[32] = { 0 };

	ck_assert_uint_eq(crc32c(0, "123456789", 9), 0xe3069283u);
	ck_assert_uint_eq(crc32c_portable(0, "123456789", 9), 0xe3069283u);
	/* RFC 3720, B.4 */
	ck_assert_uint_eq(crc32c(0, zeros, 32), 0x8a9136aau);
	ck_assert_uint_eq(crc32c(0, NULL, 0), 0);
}
END_TEST

START_TEST(crc__is_equal_both_ways_at_every_length_and_offset)
{
	static const size_t sizes[] = { 0,    1,     7,     8,     9,
					63,   2015,  2016,  2017,  4032,
					4096, 12289, 36871, 65536, 69990 };
	unsigned char *area = area_new();

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (size_t at = 0; at < 9; at++) {
			uint32_t expected = crc_by_bits(area + at, sizes[i]);

			ck_assert_uint_eq(crc32c(0, area + at, sizes[i]), expected);
			ck_assert_uint_eq(crc32c_portable(0, area + at, sizes[i]),
					  expected);
		}
	free(area);
}
END_TEST

START_TEST(crc__is_continued_and_joined)
{
	static const size_t cuts[] = { 0, 1, 8, 100, 4096, 30001, 69999, 70000 };
	unsigned char *area = area_new();
	uint32_t whole = crc32c(0, area, AREA);

	for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
		size_t rest = AREA - cuts[i];
		uint32_t first = crc32c(0, area, cuts[i]);

		ck_assert_uint_eq(crc32c(first, area + cuts[i], rest), whole);
		ck_assert_uint_eq(crc32c_portable(first, area + cuts[i], rest), whole);
		ck_assert_uint_eq(
			crc32c_combine(first, crc32c(0, area + cuts[i], rest), rest),
			whole);
	}
	free(area);
}
END_TEST

/* Joining is associative, also for lengths that do not fit into memory. */
START_TEST(join__accepts_lengths_beyond_32_bits)
{
	const uint64_t long_bytes = (UINT64_C(1) << 34) + 12345;
	const uint32_t a = 0x12345678, b = 0x9abcdef0, c = 0x0f1e2d3c;

	ck_assert_uint_eq(
		crc32c_combine(crc32c_combine(a, b, long_bytes), c, long_bytes),
		crc32c_combine(a, crc32c_combine(b, c, long_bytes), 2 * long_bytes));
	ck_assert_uint_ne(crc32c_combine(a, b, long_bytes),
			  crc32c_combine(a, b, long_bytes & UINT32_MAX));
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("crc", NULL, NULL);

	tcase_add_test(tcase, crc__has_the_values_of_the_standards);
	tcase_add_test(tcase, crc__is_equal_both_ways_at_every_length_and_offset);
	tcase_add_test(tcase, crc__is_continued_and_joined);
	tcase_add_test(tcase, join__accepts_lengths_beyond_32_bits);
	return unit_main();
}

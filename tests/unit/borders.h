/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers at which arithmetic goes wrong: 0, 2^k, -2^k, given lengths and their negatives, and what
 * is near to each.  Every number has an index, so that a caller walks all of them, or draws some
 * with random numbers of its own. */
#ifndef TESTS_UNIT_BORDERS_H
#define TESTS_UNIT_BORDERS_H

#include <stdint.h>

struct borders {
	const uint64_t *lengths; /* of leases, pools, pages: those of the test */
	unsigned n_lengths;
};

#define BORDERS_NEAR 9
#define BORDERS_BITS 64

/* The number of indices; some have the same number. */
static inline unsigned borders_count(const struct borders *borders)
{
	return (1 + 2 * (BORDERS_BITS + borders->n_lengths)) * BORDERS_NEAR;
}

/* The sum, modulo 2^64. */
static inline uint64_t border_sum(uint64_t a, uint64_t b)
{
	uint64_t sum;

	(void)__builtin_add_overflow(a, b, &sum);
	return sum;
}

/* The number of an index, which may be any random number. */
static inline uint64_t border_at(const struct borders *borders, uint64_t i)
{
	static const int64_t near[BORDERS_NEAR] = {
		0, 1, -1, 2, -2, 8, -8, 4096, -4096
	};
	uint64_t base = 0;
	unsigned which;

	i %= borders_count(borders);
	which = (unsigned)(i / BORDERS_NEAR);
	if (which > 0 && (which - 1) / 2 < BORDERS_BITS)
		base = UINT64_C(1) << (which - 1) / 2;
	else if (which > 0)
		base = borders->lengths[(which - 1) / 2 - BORDERS_BITS];
	/* the negative is the complement and 1 */
	if (which % 2 == 0)
		base = border_sum(~base, 1);
	return border_sum(base, (uint64_t)near[i % BORDERS_NEAR]);
}

#endif

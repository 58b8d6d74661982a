/* SPDX-License-Identifier: BSD-3-Clause */
/* Arithmetic on numbers that a peer, a file or a configuration gave: each function says whether the
 * result is right, and writes it only then.  Threads: [any]. */
#ifndef BASE_CHECKED_H
#define BASE_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

#define CHECKED __attribute__((warn_unused_result)) static inline

CHECKED bool checked_add(uint64_t a, uint64_t b, uint64_t *ret_sum)
{
	uint64_t sum;

	if (__builtin_add_overflow(a, b, &sum))
		return false;
	*ret_sum = sum;
	return true;
}

CHECKED bool checked_mul(uint64_t a, uint64_t b, uint64_t *ret_product)
{
	uint64_t product;

	if (__builtin_mul_overflow(a, b, &product))
		return false;
	*ret_product = product;
	return true;
}

/* The bytes from `offset` to the next multiple of `align`, a power of two. */
CHECKED uint64_t align_gap(uint64_t offset, uint64_t align)
{
	return (align - (offset & (align - 1))) & (align - 1);
}

/* `value` rounded up to a multiple of `align`, a power of two. */
CHECKED bool checked_align_up(uint64_t value, uint64_t align, uint64_t *ret_value)
{
	return checked_add(value, align_gap(value, align), ret_value);
}

/* Whether `n` bytes from `offset` on are inside of `length` bytes. */
CHECKED bool range_inside(uint64_t length, uint64_t offset, uint64_t n)
{
	return offset <= length && n <= length - offset;
}

/* The number as JSON has it, whose whole numbers are signed: a larger one is the largest. */
CHECKED int64_t json_number(uint64_t number)
{
	return number < INT64_MAX ? (int64_t)number : INT64_MAX;
}

#undef CHECKED

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Randomness, for secrets and other numbers, and the comparison of secrets.  Threads: [any]. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/modular.h"

/* Fill with bytes from getrandom(2), which waits until the kernel's generator is ready.
 * -errno with text: the process may not call it */
int random_bytes(void *dst, size_t bytes);
/* Where nothing but chance depends on the number: it is the clock's if the process may not call
 * getrandom(2). */
uint64_t random_u64(void);

/* The next number of a sequence that begins with *state, from random_u64(); without a system call.
 * Not for secrets. */
MODULAR static inline uint64_t random_next(uint64_t *state)
{
	/* SplitMix64 (Steele, Lea, Flood 2014) */
	uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* Compare two secrets in a time that depends only on `bytes`. */
bool secret_equal(const void *a, const void *b, size_t bytes);

#endif

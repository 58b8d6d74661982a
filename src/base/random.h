/* SPDX-License-Identifier: BSD-3-Clause */
/* Randomness for secrets, and their comparison.  Threads: [any]. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Fill with bytes from getrandom(2), which waits until the kernel's generator is ready and then
 * cannot fail. */
void random_bytes(void *dst, size_t bytes);
uint64_t random_u64(void);

/* Compare two secrets in a time that depends only on `bytes`. */
bool secret_equal(const void *a, const void *b, size_t bytes);

#endif

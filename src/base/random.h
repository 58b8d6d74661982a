/* SPDX-License-Identifier: BSD-3-Clause */
/* Randomness for secrets, and their comparison.  Threads: [any]. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Fill with bytes from getrandom(2).  Cannot fail once the kernel's generator is up, and
 * waits for that. */
void random_bytes(void *dst, size_t bytes);
uint64_t random_u64(void);

/* Compare two secrets in a time that depends on `bytes` alone. */
bool secret_equal(const void *a, const void *b, size_t bytes);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Replaces getrandom(2), with the linker's option --wrap=getrandom: tokens and keys are equal in
 * every run of an input, so that stored inputs can have them. */
#include "fuzz/target.h"

#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "base/map.h"
#include "base/random.h"

ssize_t __wrap_getrandom(void *dst, size_t bytes, unsigned flags);

static uint64_t state;

void fuzz_random_reset(void)
{
	/* its seed is drawn once for the process, by the first call */
	(void)map_hash_string("");
	state = 0;
}

ssize_t __wrap_getrandom(void *dst, size_t bytes, unsigned)
{
	uint8_t *at = dst;

	for (size_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)random_next(&state);
	return (ssize_t)bytes;
}

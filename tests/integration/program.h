/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions of the test programs that use the public API: checks that end the program with exit
 * status 1, steps for scripts, random numbers. */
#ifndef TESTS_INTEGRATION_PROGRAM_H
#define TESTS_INTEGRATION_PROGRAM_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <rmem/rmem.h>

#include "base/random.h"

_Noreturn static inline void fail(const char *what, long result)
{
	(void)fprintf(stderr, "%s: %s: %ld (%s)\n", program_invocation_short_name, what,
		      result, rmem_error());
	exit(1);
}

/* A call that must not fail. */
static inline void must(int result, const char *what)
{
	if (result < 0)
		fail(what, result);
}

/* An operation that must have succeeded. */
static inline void must_complete(const rmem_queue *queue,
				 const struct rmem_completion *completion)
{
	if (!completion->status)
		return;
	(void)fprintf(stderr, "%s: %s\n", program_invocation_short_name,
		      rmem_completion_error(queue, NULL));
	exit(1);
}

/* Print a promise of the API that was checked. */
static inline void kept(const char *promise)
{
	(void)printf("kept: %s\n", promise);
}

/* Print `where`, and wait for a line on standard input. */
static inline void step(const char *where)
{
	char line[16];

	(void)printf("%s\n", where);
	(void)fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		exit(1);
}

/* A random number below `below`. */
static inline uint32_t draw(uint64_t *seed, uint32_t below)
{
	return (uint32_t)(random_next(seed) % below);
}

#endif

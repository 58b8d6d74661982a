/* SPDX-License-Identifier: BSD-3-Clause */
/* A histogram of durations, with limits that are the same for all.  Threads: one at a time. */
#ifndef RMEMD_LOOP_DURATIONS_H
#define RMEMD_LOOP_DURATIONS_H

#include <stdint.h>

#define DURATIONS_LIMITS 18

/* Nanoseconds, with their text in seconds; rising. */
extern const struct durations_limit {
	uint64_t ns;
	const char *seconds;
} durations_limits[DURATIONS_LIMITS];

struct durations {
	uint64_t n[DURATIONS_LIMITS + 1]; /* up to each limit, and above the last */
	uint64_t sum_ns;
};

void durations_add(struct durations *durations, uint64_t ns);

#endif

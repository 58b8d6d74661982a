/* SPDX-License-Identifier: BSD-3-Clause */
/* Clients of a cache over a fake memory, in simulated time: a seed decides whose step is next, what
 * they do, and what goes wrong. */
#ifndef TESTS_UNIT_CACHE_SIMULATION_H
#define TESTS_UNIT_CACHE_SIMULATION_H

#include <stdbool.h>
#include <stdint.h>

/* What a history may be made of. */
struct mix {
	bool immutable;
	bool one_key; /* and channels that are lost often */
	bool turns;   /* few segments are used again and again; sessions do not end */
	bool quiet;   /* nobody is stopped, killed, or ends */
	unsigned steps;
};

struct totals {
	uint64_t histories, steps, hits, misses, stored, refused, deleted, stops, kills,
		ends;
	uint64_t evictions, moved, seals, torn, damaged;
};

/* Run one history.  NULL, or what is wrong. */
const char *simulation_run(uint64_t seed, const struct mix *mix, struct totals *totals);

#endif

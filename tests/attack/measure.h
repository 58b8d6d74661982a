/* SPDX-License-Identifier: BSD-3-Clause */
/* What the daemon uses, and how long the pings of honest sessions take, while something is
 * tried. */
#ifndef TESTS_ATTACK_MEASURE_H
#define TESTS_ATTACK_MEASURE_H

#include <stdint.h>

#include "attack.h"

/* Honest sessions were fenced. */
#define MEASURE_FENCED "status counters sessions_fenced"

struct measure {
	uint64_t begin_ns, ns;
	uint32_t begin_pings;
	struct usage_cpu cpu; /* until the end: at the beginning */
	uint64_t before_kib, most_kib, looked_ms;
	uint32_t p50_us, p99_us, p999_us, max_us; /* of pings */
};

/* Of the daemon that runs now. */
void measures_open(void);
struct measure measure_begin(void);
/* Look at the daemon's memory, if that was not done just now. */
void measure_look(struct measure *measure);
/* Waits for the pings that were begun by now. */
void measure_end(struct measure *measure);
/* What nothing is tried beside. */
struct measure measure_quiet(uint64_t ms);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Keeps what peers do over and over from filling the log: so many lines a second pass,
 * the rest is counted.  Threads: [loop]. */
#ifndef RMEMD_CONTROL_QUIET_H
#define RMEMD_CONTROL_QUIET_H

#include <stdbool.h>
#include <stdint.h>

/* All zero at first. */
struct quiet {
	uint64_t second;
	unsigned passed;
	uint64_t dropped;
};

/* Whether a line may be written.  *ret_dropped is how many were not since the last one that
 * was. */
bool quiet_pass(struct quiet *quiet, uint64_t *ret_dropped);

#endif

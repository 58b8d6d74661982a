/* SPDX-License-Identifier: BSD-3-Clause */
/* How far pools are populated, for people who wait: the service's status each time, a line
 * of the log only now and then, and none when it is done soon.  Threads: [loop]. */
#ifndef RMEMD_PROGRESS_H
#define RMEMD_PROGRESS_H

#include <stdint.h>

/* Not so soon again; and then when so much of all is new, or after so long in any case. */
#define PROGRESS_MS 5000
#define PROGRESS_PERCENT 10
#define PROGRESS_LATE_MS 30000

/* All zero before the first call. */
struct progress {
	uint64_t begin_ms;
	uint64_t told_ms, told_bytes; /* of the last line */
};

void progress_tell(struct progress *progress, uint64_t done, uint64_t bytes);
/* The line alone. */
void progress_log(struct progress *progress, uint64_t done, uint64_t bytes);

#endif

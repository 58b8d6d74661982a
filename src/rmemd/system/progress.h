/* SPDX-License-Identifier: BSD-3-Clause */
/* The progress of populating pools: the status of the service each time, a line of the log at
 * longer intervals, and no line when it takes a short time.  Threads: [loop]. */
#ifndef RMEMD_PROGRESS_H
#define RMEMD_PROGRESS_H

#include <stdint.h>

/* The shortest interval of lines, the percentage that makes a line due, and the longest interval.
 */
#define PROGRESS_MS 5000
#define PROGRESS_PERCENT 10
#define PROGRESS_LATE_MS 30000

/* All zero before the first call. */
struct progress {
	uint64_t begin_ms;
	uint64_t reported_ms, reported_bytes; /* of the last line */
};

void progress_report(struct progress *progress, uint64_t done, uint64_t bytes);
/* Without the status. */
void progress_log(struct progress *progress, uint64_t done, uint64_t bytes);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* A line on stderr with the progress of a transfer: only on a terminal, and only if it takes
 * longer than a second.  Threads: [main]. */
#ifndef RMEM_PROGRESS_H
#define RMEM_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct progress {
	const char *title;
	uint64_t total_bytes; /* 0: unknown */
	uint64_t start_ns;
	uint64_t drawn_ns; /* 0: no line is shown */
	bool enabled;
};

/* Start counting.  `title` must outlive the progress. */
void progress_start(struct progress *p, const char *title, uint64_t total_bytes);

/* Set the number of bytes done. */
void progress_update(struct progress *p, uint64_t done_bytes);

/* Remove the line. */
void progress_end(struct progress *p);

/* Format the line for a terminal of `columns`. */
void progress_format(const struct progress *p, uint64_t done_bytes, uint64_t now_ns,
		     unsigned columns, char *buf, size_t buf_bytes);

#endif

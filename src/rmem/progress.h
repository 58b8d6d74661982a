/* SPDX-License-Identifier: BSD-3-Clause */
/* A line on stderr that tells how far a transfer is: only on a terminal, and only when
 * it takes longer than a second.  Threads: none but main. */
#ifndef RMEM_PROGRESS_H
#define RMEM_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct progress {
	const char *title;
	uint64_t total_bytes; /* 0: unknown */
	uint64_t start_ns;
	uint64_t drawn_ns; /* 0: nothing stands on the terminal */
	bool enabled;
};

/* Start counting.  `title` must outlive the progress. */
void progress_start(struct progress *p, const char *title, uint64_t total_bytes);

/* So many bytes are done. */
void progress_update(struct progress *p, uint64_t done_bytes);

/* Take the line away. */
void progress_end(struct progress *p);

/* The line for a terminal of `columns`: made apart from the terminal, to be tested. */
void progress_format(const struct progress *p, uint64_t done_bytes, uint64_t now_ns,
		     unsigned columns, char *buf, size_t buf_bytes);

#endif

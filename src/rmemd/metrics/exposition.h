/* SPDX-License-Identifier: BSD-3-Clause */
/* A sample as text in Prometheus's format, in parts.  Threads: [any]. */
#ifndef RMEMD_METRICS_EXPOSITION_H
#define RMEMD_METRICS_EXPOSITION_H

#include <stdbool.h>
#include <stddef.h>

#include "rmemd/metrics/sample.h"

/* More than the longest item of a metric with its head. */
#define EXPOSITION_BYTES 16384

/* Where the text goes on; begins as zeros. */
struct exposition {
	size_t row;    /* of the table */
	unsigned item; /* of its group */
};

/* Write the next part to buf, which has EXPOSITION_BYTES; returns its length, 0 at the end. */
size_t exposition_write(struct exposition *at, const struct sample *sample, char *buf);

#endif

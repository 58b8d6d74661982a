/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of all metrics, which the exposition and rmemd(8) follow.  Names, units and types are
 * Prometheus's conventions: counters end in _total, units are seconds and bytes.
 * Threads: constant. */
#ifndef RMEMD_METRICS_TABLE_H
#define RMEMD_METRICS_TABLE_H

#include <stddef.h>

#include "rmemd/metrics/sample.h"

enum metric_type { METRIC_GAUGE, METRIC_COUNTER, METRIC_HISTOGRAM };

/* How a number of a sample is written. */
enum metric_unit {
	METRIC_PLAIN,
	METRIC_FROM_MS, /* milliseconds, as seconds */
	METRIC_FROM_NS, /* nanoseconds, as seconds */
};

/* A series for each item of a group.  Rows with one name are one metric, and stand together. */
struct metric {
	const char *name;
	const char *help; /* of the first row with the name */
	enum metric_type type;
	enum sample_group_id group;
	size_t offset; /* in the items: a uint64_t, or struct durations of a histogram */
	enum metric_unit unit;
	const char *labels; /* besides those of the item: `state="active"`, or "" */
};

extern const struct metric metrics[];
extern const size_t metrics_n;

#endif

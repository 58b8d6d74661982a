/* SPDX-License-Identifier: BSD-3-Clause */
/* Latencies in buckets: 64 of equal width for each power of two, so a percentile is up to 1.6 %
 * above the exact value.  Takes any 64-bit value; adding one costs a few instructions.  Threads:
 * one at a time. */
#ifndef RMEM_HISTOGRAM_H
#define RMEM_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_SUB_BITS 6
#define HISTOGRAM_SUB (1u << HISTOGRAM_SUB_BITS)
#define HISTOGRAM_BUCKETS ((64 - HISTOGRAM_SUB_BITS + 1) * HISTOGRAM_SUB)

/* Set all members to 0 before use. */
struct histogram {
	uint64_t count;
	uint64_t min, max; /* exact; 0 while count is 0 */
	double sum;
	uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *h, uint64_t value);

/* Add all values of another one. */
void histogram_merge(struct histogram *h, const struct histogram *other);

/* The value that `fraction` (0 to 1) of all values do not exceed, rounded up to the end of its
 * bucket, but at most `max`; 0 while there are no values. */
uint64_t histogram_quantile(const struct histogram *h, double fraction);

double histogram_mean(const struct histogram *h);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmem/histogram.h"

/* Values below HISTOGRAM_SUB have a bucket each; above, the bits behind the leading one
 * choose the bucket within the power of two. */
static unsigned bucket_index(uint64_t value)
{
	unsigned shift;

	if (value < HISTOGRAM_SUB)
		return (unsigned)value;
	shift = 63u - (unsigned)__builtin_clzll(value) - HISTOGRAM_SUB_BITS;
	return shift * HISTOGRAM_SUB + (unsigned)(value >> shift);
}

/* The largest value of a bucket. */
static uint64_t bucket_end(unsigned index)
{
	unsigned shift;

	if (index < 2 * HISTOGRAM_SUB)
		return index;
	shift = index / HISTOGRAM_SUB - 1;
	return ((uint64_t)(index - shift * HISTOGRAM_SUB) << shift) +
	       ((UINT64_C(1) << shift) - 1);
}

void histogram_add(struct histogram *h, uint64_t value)
{
	if (h->count == 0 || value < h->min)
		h->min = value;
	if (value > h->max)
		h->max = value;
	h->count++;
	h->sum += (double)value;
	h->buckets[bucket_index(value)]++;
}

void histogram_merge(struct histogram *h, const struct histogram *other)
{
	if (other->count == 0)
		return;
	if (h->count == 0 || other->min < h->min)
		h->min = other->min;
	if (other->max > h->max)
		h->max = other->max;
	h->count += other->count;
	h->sum += other->sum;
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
		h->buckets[i] += other->buckets[i];
}

uint64_t histogram_quantile(const struct histogram *h, double fraction)
{
	double rank = fraction * (double)h->count;
	uint64_t seen = 0;

	if (h->count == 0)
		return 0;
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		uint64_t end;

		seen += h->buckets[i];
		if (seen == 0 || (double)seen < rank)
			continue;
		end = bucket_end(i);
		return end < h->max ? end : h->max;
	}
	return h->max;
}

double histogram_mean(const struct histogram *h)
{
	return h->count ? h->sum / (double)h->count : 0;
}

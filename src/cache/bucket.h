/* SPDX-License-Identifier: BSD-3-Clause */
/* A bucket as it was read.  Threads: [any]. */
#ifndef CACHE_BUCKET_H
#define CACHE_BUCKET_H

#include "cache/format.h"

struct table;

static inline uint64_t bucket_slot(const unsigned char *bucket, unsigned i)
{
	return word_read(bucket + 8 * (size_t)i);
}
static inline unsigned bucket_count(const unsigned char *bucket, unsigned i)
{
	return hint_count(bucket_slot(bucket, i), bucket[FORMAT_HINTS_AT + i]);
}
/* The final slot of a fingerprint, or -1. */
int bucket_final(const unsigned char *bucket, unsigned print);
/* The slot with this word, or -1. */
int bucket_find(const unsigned char *bucket, uint64_t slot);
/* A tentative slot of a fingerprint beside `except`, or -1. */
int bucket_tentative(const unsigned char *bucket, unsigned print, unsigned except);
/* The slot that a new key takes: a free one, else a tentative, a stale, or an old one that was not
 * asked for. */
unsigned bucket_victim(const unsigned char *bucket, const struct table *table,
		       const struct geometry *geometry);

#endif

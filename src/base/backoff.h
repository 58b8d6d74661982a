/* SPDX-License-Identifier: BSD-3-Clause */
/* Exponential back-off with jitter.  The time to wait before the next attempt is up to 20 ms, then
 * up to twice that, up to a maximum, and by chance down to half of it, so that clients that have
 * lost their server together come back one by one.  Not thread-safe. */
#ifndef BASE_BACKOFF_H
#define BASE_BACKOFF_H

#include "base/random.h"

#define BACKOFF_FIRST_MS 20u

struct backoff {
	unsigned max_ms; /* at least BACKOFF_FIRST_MS */
	unsigned ms; /* the longest that the last wait could be; 0: there was none */
};

#define BACKOFF_INIT(max) { .max_ms = (max) }

/* An attempt failed: the time to wait before the next one, in milliseconds. */
static inline unsigned backoff_next(struct backoff *backoff)
{
	unsigned half = backoff->max_ms / 2;

	if (backoff->ms == 0)
		backoff->ms = BACKOFF_FIRST_MS;
	else
		backoff->ms = backoff->ms > half ? backoff->max_ms : backoff->ms * 2;
	return backoff->ms - (unsigned)(random_u64() % (backoff->ms / 2 + 1));
}

/* An attempt succeeded: start again with the shortest wait. */
static inline void backoff_reset(struct backoff *backoff)
{
	backoff->ms = 0;
}

#endif

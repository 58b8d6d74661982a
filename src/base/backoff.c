/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/backoff.h"

unsigned backoff_next(struct backoff *backoff)
{
	unsigned half = backoff->max_ms / 2;

	if (backoff->ms == 0)
		backoff->ms = BACKOFF_FIRST_MS;
	else
		backoff->ms = backoff->ms > half ? backoff->max_ms : backoff->ms * 2;
	return backoff->ms;
}

void backoff_reset(struct backoff *backoff)
{
	backoff->ms = 0;
}

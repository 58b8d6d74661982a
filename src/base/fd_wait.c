/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/fd_wait.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>

#include "base/clock.h"

int fd_wait(int fd, short events, uint64_t deadline_ms, const atomic_bool *cancelled)
{
	struct pollfd pfd = { .fd = fd, .events = events };
	const uint64_t step_ms = cancelled ? FD_WAIT_CANCEL_MS : INT_MAX;

	for (;;) {
		uint64_t now_ms = clock_now_ms();
		uint64_t left_ms = deadline_ms > now_ms ? deadline_ms - now_ms : 0;
		int n;

		if (cancelled && atomic_load(cancelled))
			return -ECANCELED;
		n = poll(&pfd, 1, (int)(left_ms < step_ms ? left_ms : step_ms));
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0 && left_ms <= step_ms)
			return -ETIMEDOUT;
	}
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "rdma-loop.h"

#include <time.h>

static uint64_t stopwatch_now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void stopwatch_start(struct stopwatch *watch, const struct work *work)
{
	*watch = (struct stopwatch){ .depth = work->depth,
				     .rest_ns = UINT64_C(1000) * work->rest_us };
	watch->started_ns = stopwatch_now_ns();
}

uint64_t stopwatch_rest(struct stopwatch *watch)
{
	uint64_t start_ns = stopwatch_now_ns(), now_ns = start_ns;

	while (now_ns - start_ns < watch->rest_ns)
		now_ns = stopwatch_now_ns();
	watch->rested_ns += now_ns - start_ns;
	return now_ns;
}

void stopwatch_posted(struct stopwatch *watch, unsigned n, uint64_t now_ns)
{
	watch->posted += n;
	for (; n > 0; n--) {
		watch->posted_ns[watch->post_at] = now_ns;
		watch->post_at =
			watch->post_at + 1 < watch->depth ? watch->post_at + 1 : 0;
	}
}

void stopwatch_done(struct stopwatch *watch, unsigned n)
{
	uint64_t now_ns = stopwatch_now_ns();

	watch->done += n;
	for (; n > 0; n--) {
		watch->latency_ns += now_ns - watch->posted_ns[watch->done_at];
		watch->done_at =
			watch->done_at + 1 < watch->depth ? watch->done_at + 1 : 0;
	}
}

void stopwatch_stop(const struct stopwatch *watch, struct slice *ret_slice)
{
	ret_slice->seconds =
		(double)(stopwatch_now_ns() - watch->started_ns - watch->rested_ns) /
		1e9;
	ret_slice->latency_us = (double)watch->latency_ns / 1e3 / watch->done;
}

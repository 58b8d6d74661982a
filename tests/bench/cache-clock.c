/* SPDX-License-Identifier: BSD-3-Clause */
/* Preloaded into Redis: its clock runs 500 times as fast, and its timers as ever. */
#include <sys/time.h>
#include <time.h>

#define SPEED 500

__attribute__((visibility("default"))) int gettimeofday(struct timeval *restrict tv,
							void *restrict zone)
{
	static time_t begin;
	struct timespec now;
	long long us;

	(void)zone;
	(void)clock_gettime(CLOCK_REALTIME, &now);
	if (!begin)
		begin = now.tv_sec;
	us = ((now.tv_sec - begin) * 1000000LL + now.tv_nsec / 1000) * SPEED;
	tv->tv_sec = begin + (time_t)(us / 1000000);
	tv->tv_usec = (suseconds_t)(us % 1000000);
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/spin.h"

#include <sched.h>

#include "base/clock.h"

/* The time for looking: about what it takes to sleep and be woken. */
#define SPIN_NS UINT64_C(50000)
/* Devices answer within this time, and a system call would only delay the look. */
#define DEVICE_NS UINT64_C(5000)
/* A look takes a microsecond or two.  After this time another thread has had the core. */
#define SHARED_NS UINT64_C(20000)
#define LOOKS_MAX 1000u
/* After many failures in a row, one wait of so many looks. */
#define SKIPPED_MAX 64u

bool spin_begin(struct spin *spin)
{
	if (spin->skipped > 0) {
		spin->skipped--;
		return false;
	}
	spin->looks = 0;
	spin->begin_ns = spin->last_ns = clock_now_ns();
	return true;
}

bool spin_more(struct spin *spin)
{
	uint64_t now_ns = clock_now_ns(), before_ns = spin->last_ns;

	if (now_ns - spin->begin_ns > DEVICE_NS) {
		(void)sched_yield();
		now_ns = clock_now_ns();
	}
	spin->last_ns = now_ns;
	return now_ns - spin->begin_ns < SPIN_NS && now_ns - before_ns < SHARED_NS &&
	       spin->looks++ < LOOKS_MAX;
}

void spin_end(struct spin *spin, bool found)
{
	if (found) {
		spin->failed = 0;
		return;
	}
	spin->failed = spin->failed < SKIPPED_MAX ? 2 * spin->failed + 1 : SKIPPED_MAX;
	spin->skipped = spin->failed;
}

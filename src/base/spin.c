/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/spin.h"

#include <sched.h>

#include "base/clock.h"

/* The time of its own for which a thread looks: about what it takes to sleep and be woken. */
#define SPIN_NS UINT64_C(50000)
/* Devices answer within this time, and a system call would only delay the look. */
#define DEVICE_NS UINT64_C(5000)
/* Giving up the core takes longer if another thread has waited for it. */
#define YIELD_NS UINT64_C(3000)
/* Threads that answer each other have the core for shorter turns.  One that computes would have it
 * for milliseconds after each look, and gives it up at once to a thread that is woken. */
#define TURN_NS UINT64_C(200000)
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

/* Let others have the core; their time is not the thread's own.  Returns the time. */
static uint64_t core_yield(struct spin *spin, uint64_t now_ns)
{
	uint64_t after_ns;

	(void)sched_yield();
	after_ns = clock_now_ns();
	spin->shared = after_ns - now_ns > YIELD_NS;
	if (spin->shared)
		spin->begin_ns += after_ns - now_ns;
	return after_ns;
}

bool spin_more(struct spin *spin)
{
	uint64_t now_ns = clock_now_ns(), before_ns = spin->last_ns;

	if (spin->shared || now_ns - spin->begin_ns > DEVICE_NS)
		now_ns = core_yield(spin, now_ns);
	spin->last_ns = now_ns;
	return now_ns - spin->begin_ns < SPIN_NS && now_ns - before_ns < TURN_NS &&
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

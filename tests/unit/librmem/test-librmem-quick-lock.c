/* SPDX-License-Identifier: BSD-3-Clause */
/* The lock's timed wait ends at its deadline, whatever clock the library uses: the kernel waits on
 * CLOCK_MONOTONIC. */
#include <pthread.h>
#include <time.h>

#include "base/clock.h"
#include "librmem/session/quick_lock.h"
#include "unit/suspended.h"
#include "unit/unit.h"

#define WAIT_MS 100u
/* With room for a busy machine. */
#define WAIT_MAX_MS 5000u

static struct quick_lock lock;
static uint64_t begin_ns; /* of the test, on CLOCK_MONOTONIC */

static uint64_t monotonic_ns(void)
{
	struct timespec now;

	ck_assert_int_eq(clock_gettime(CLOCK_MONOTONIC, &now), 0);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t clock_ahead(void)
{
	return monotonic_ns() + SUSPENDED_S * 1000 * NS_PER_MS;
}

static uint64_t clock_behind(void)
{
	return monotonic_ns() - begin_ns + NS_PER_MS;
}

static uint64_t (*const sources[])(void) = { NULL, clock_ahead, clock_behind };
#define SOURCES ((int)(sizeof(sources) / sizeof(sources[0])))

/* The wait takes its time, and not much longer. */
static void expect_late(void)
{
	uint64_t start_ns = monotonic_ns(), took_ms;

	ck_assert(!quick_lock_wait_until(&lock, clock_now_ns() + WAIT_MS * NS_PER_MS));
	took_ms = (monotonic_ns() - start_ns) / NS_PER_MS;
	ck_assert_uint_ge(took_ms, WAIT_MS);
	ck_assert_uint_lt(took_ms, WAIT_MAX_MS);
}

static void setup(void)
{
	begin_ns = monotonic_ns();
	ck_assert(quick_lock_try(&lock));
}

static void teardown(void)
{
	clock_set_source(NULL);
	quick_lock_release(&lock);
}

START_TEST(wait__ends_at_its_deadline)
{
	clock_set_source(sources[_i]);
	expect_late();
	/* a deadline that is over ends it at once */
	ck_assert(!quick_lock_wait_until(&lock, 1));
	quick_lock_release(&lock);
	ck_assert(quick_lock_wait_until(&lock, 1));
}
END_TEST

START_TEST(wait__ends_at_its_deadline_after_a_suspension)
{
	if (unit_suspended())
		expect_late();
}
END_TEST

static void *run_release(void *arg)
{
	const struct timespec wait = { .tv_nsec = (long)(WAIT_MS * NS_PER_MS) };

	(void)nanosleep(&wait, NULL);
	quick_lock_release(&lock);
	return arg;
}

START_TEST(wait__ends_with_the_lock)
{
	uint64_t until_ns;
	pthread_t thread;

	clock_set_source(sources[_i]);
	until_ns = clock_now_ns() + SUSPENDED_S * 1000 * NS_PER_MS;
	ck_assert_int_eq(pthread_create(&thread, NULL, run_release, NULL), 0);
	ck_assert(quick_lock_wait_until(&lock, until_ns));
	ck_assert_uint_ge(monotonic_ns() - begin_ns, WAIT_MS * NS_PER_MS);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	/* this wait has no deadline */
	ck_assert_int_eq(pthread_create(&thread, NULL, run_release, NULL), 0);
	quick_lock_acquire(&lock);
	ck_assert_uint_ge(monotonic_ns() - begin_ns, 2 * WAIT_MS * NS_PER_MS);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert(!quick_lock_try(&lock));
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("quick-lock", setup, teardown);

	tcase_add_loop_test(tc, wait__ends_at_its_deadline, 0, SOURCES);
	tcase_add_loop_test(tc, wait__ends_with_the_lock, 0, SOURCES);
	tcase_add_test(tc, wait__ends_at_its_deadline_after_a_suspension);
	return unit_main();
}

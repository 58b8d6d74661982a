/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads get the lock in their order.  Its timed wait ends at its deadline, whatever clock the
 * library uses: the kernel waits on CLOCK_MONOTONIC. */
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "base/clock.h"
#include "librmem/session/turns.h"
#include "unit/suspended.h"
#include "unit/unit.h"

#define WAIT_MS 100u

static struct turns lock;
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

/* The wait takes its time; a wrong clock would make it longer than the case may take. */
static void expect_late(void)
{
	uint64_t start_ns = monotonic_ns();

	ck_assert(!turns_wait_until(&lock, clock_now_ns() + WAIT_MS * NS_PER_MS));
	ck_assert_uint_ge(monotonic_ns() - start_ns, WAIT_MS * NS_PER_MS);
}

static void setup(void)
{
	begin_ns = monotonic_ns();
	turns_init(&lock);
	ck_assert(turns_try(&lock));
}

static void teardown(void)
{
	clock_set_source(NULL);
	turns_release(&lock);
}

START_TEST(wait__ends_at_its_deadline)
{
	clock_set_source(sources[_i]);
	expect_late();
	/* a deadline that is over ends it at once */
	ck_assert(!turns_wait_until(&lock, 1));
	turns_release(&lock);
	ck_assert(turns_wait_until(&lock, 1));
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
	turns_release(&lock);
	return arg;
}

START_TEST(wait__ends_with_the_lock)
{
	uint64_t until_ns;
	pthread_t thread;

	clock_set_source(sources[_i]);
	until_ns = clock_now_ns() + SUSPENDED_S * 1000 * NS_PER_MS;
	ck_assert_int_eq(pthread_create(&thread, NULL, run_release, NULL), 0);
	ck_assert(turns_wait_until(&lock, until_ns));
	ck_assert_uint_ge(monotonic_ns() - begin_ns, WAIT_MS * NS_PER_MS);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	/* this wait has no deadline */
	ck_assert_int_eq(pthread_create(&thread, NULL, run_release, NULL), 0);
	ck_assert(turns_wait_until(&lock, UINT64_MAX));
	ck_assert_uint_ge(monotonic_ns() - begin_ns, 2 * WAIT_MS * NS_PER_MS);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert(!turns_try(&lock));
}
END_TEST

/* ---- the order ---- */

#define THREADS 4u
#define TURNS 1000u

static unsigned order[THREADS], n_order;

static unsigned waiting(void)
{
	unsigned n = 0;

	quick_lock_acquire(&lock.guard);
	list_for_each_safe(node, &lock.waiting)
		n++;
	quick_lock_release(&lock.guard);
	return n;
}

static void await_waiting(unsigned n)
{
	while (waiting() != n)
		(void)sched_yield();
}

/* arg: the thread's number */
static void *run_turn(void *arg)
{
	ck_assert(turns_wait_until(&lock, UINT64_MAX));
	order[n_order++] = *(unsigned *)arg;
	turns_release(&lock);
	return NULL;
}

START_TEST(turns__come_in_their_order)
{
	unsigned numbers[THREADS];
	pthread_t threads[THREADS];

	n_order = 0;
	for (unsigned i = 0; i < THREADS; i++) {
		numbers[i] = i;
		ck_assert_int_eq(
			pthread_create(&threads[i], NULL, run_turn, &numbers[i]), 0);
		await_waiting(i + 1);
	}
	turns_release(&lock);
	/* it has passed to another thread: this one is behind all */
	ck_assert(turns_wait_until(&lock, UINT64_MAX));
	ck_assert_uint_eq(n_order, THREADS);
	for (unsigned i = 0; i < THREADS; i++) {
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
		ck_assert_uint_eq(order[i], i);
	}
}
END_TEST

/* One that gives up is left out. */
START_TEST(turn__that_was_given_up_does_not_come)
{
	unsigned number = 7;
	pthread_t thread;

	n_order = 0;
	ck_assert(!turns_wait_until(&lock, 1));
	ck_assert_uint_eq(waiting(), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, run_turn, &number), 0);
	await_waiting(1);
	ck_assert(!turns_wait_until(&lock, 1));
	turns_release(&lock);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_uint_eq(order[0], 7);
	ck_assert(turns_try(&lock));
	/* the lock is free again after all that */
	turns_release(&lock);
	ck_assert_int_eq(atomic_load(&lock.state), 0);
	ck_assert(turns_try(&lock));
}
END_TEST

static unsigned held; /* under the lock */

static void *run_turns(void *arg)
{
	for (unsigned i = 0; i < TURNS; i++) {
		/* a few give up at about the time when their turn comes */
		uint64_t until_ns = i % 4 ? UINT64_MAX : clock_now_ns() + 1000;

		if (!turns_try(&lock) && !turns_wait_until(&lock, until_ns))
			continue;
		held++;
		ck_assert_uint_eq(held, 1);
		held--;
		turns_release(&lock);
	}
	return arg;
}

START_TEST(turn__is_one_threads)
{
	pthread_t threads[THREADS];

	turns_release(&lock);
	for (unsigned i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, run_turns, NULL), 0);
	for (unsigned i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	ck_assert(turns_try(&lock));
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("turns", setup, teardown);

	tcase_add_loop_test(tc, wait__ends_at_its_deadline, 0, SOURCES);
	tcase_add_loop_test(tc, wait__ends_with_the_lock, 0, SOURCES);
	tcase_add_test(tc, wait__ends_at_its_deadline_after_a_suspension);
	tcase_add_test(tc, turns__come_in_their_order);
	tcase_add_test(tc, turn__that_was_given_up_does_not_come);
	tcase_add_test(tc, turn__is_one_threads);
	return unit_main();
}

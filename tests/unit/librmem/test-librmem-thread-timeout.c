/* SPDX-License-Identifier: BSD-3-Clause */
/* The time-out that a thread has for its own calls. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "unit/librmem/core-case.h"

#define SESSION_MS 1000u
#define THREAD_MS 100u

static rmem_lease *lease;

static void open_session(unsigned timeout_ms)
{
	ck_assert_int_eq(open_within(0, timeout_ms), 0);
	lease = alloc(1000, NULL);
	queue_open(1);
}

static int call_stat(void)
{
	struct rmem_stat stat = rmem_stat_init();

	proxy.hold = WIRE_TYPE_stat;
	return rmem_stat(stage.client, "name", &stat);
}

static int call_read(void)
{
	fake.automatic = false;
	return rmem_read(lease, 0, stage.buf, 9);
}

static int call_queue_create(void)
{
	rmem_queue *another = NULL;

	fake.slow_ms = UINT_MAX;
	return rmem_queue_create(stage.client, NULL, &another);
}

static int (*const calls[])(void) = { call_stat, call_read, call_queue_create };
#define CALLS (int)(sizeof(calls) / sizeof(calls[0]))

/* The call times out; returns the milliseconds that it took. */
static uint64_t timed_out(int (*call)(void))
{
	uint64_t begin_ms = clock_now_ms();
	int err = call();

	ck_assert_msg(err == -ETIMEDOUT, "%d: %s", err, rmem_error());
	return clock_now_ms() - begin_ms;
}

START_TEST(thread_timeout__ends_calls)
{
	/* longer than the case may take */
	open_session(INT_MAX);
	ck_assert_uint_eq(rmem_thread_timeout(THREAD_MS), 0);
	ck_assert_uint_ge(timed_out(calls[_i]), THREAD_MS - 1);
}
END_TEST

START_TEST(thread_timeout__of_0_is_the_sessions)
{
	open_session(SESSION_MS);
	ck_assert_uint_eq(rmem_thread_timeout(THREAD_MS), 0);
	ck_assert_uint_eq(rmem_thread_timeout(0), THREAD_MS);
	ck_assert_uint_eq(rmem_thread_timeout(0), 0);
	ck_assert_uint_ge(timed_out(calls[_i]), SESSION_MS - 1);
}
END_TEST

/* Also of a time-out that is over before the call is handed to the service thread. */
START_TEST(thread_timeout__is_told)
{
	unsigned long ms;

	open_session(SESSION_MS);
	(void)rmem_thread_timeout(1);
	(void)timed_out(call_stat);
	ck_assert_int_eq(sscanf(strstr(rmem_error(), "within"), "within %lu ms", &ms),
			 1);
	ck_assert_uint_lt(ms, 3600000);
}
END_TEST

/* The operations of a queue have the time-out of the session, or their own. */
START_TEST(thread_timeout__is_not_for_queues)
{
	uint64_t begin_ms;

	open_session(SESSION_MS);
	ck_assert_uint_eq(rmem_thread_timeout(THREAD_MS), 0);
	fake.automatic = false;
	begin_ms = clock_now_ms();
	submit_write(lease);
	ck_assert_int_eq(wait_status(), -ETIMEDOUT);
	ck_assert_uint_ge(clock_now_ms() - begin_ms, SESSION_MS - 1);
	ck_assert_uint_eq(rmem_thread_timeout(0), THREAD_MS);
}
END_TEST

/* Connecting takes longer than the thread's time-out. */
START_TEST(thread_timeout__is_not_for_open)
{
	fake.slow_ms = 2 * THREAD_MS;
	ck_assert_uint_eq(rmem_thread_timeout(THREAD_MS), 0);
	open_with(0);
	ck_assert_uint_eq(rmem_thread_timeout(0), THREAD_MS);
}
END_TEST

static void *run_read(void *arg)
{
	(void)arg;
	/* the other thread's time-out is not this thread's */
	ck_assert_uint_eq(rmem_thread_timeout(0), 0);
	ck_assert_int_eq(rmem_read(lease, 0, stage.buf, 9), 0);
	return NULL;
}

/* The wait for another thread's operation is within the time-out. */
START_TEST(thread_timeout__ends_the_wait_for_other_threads)
{
	unsigned posts;
	pthread_t thread;

	ck_assert_int_eq(open_within(0, 0), 0);
	lease = alloc(1000, NULL);
	ck_assert_uint_eq(rmem_thread_timeout(THREAD_MS), 0);
	fake.automatic = false;
	posts = fake.posts;
	ck_assert_int_eq(pthread_create(&thread, NULL, run_read, NULL), 0);
	AWAIT(fake.posts > posts);
	ck_assert_int_eq(rmem_read(lease, 0, stage.buf, 9), -ETIMEDOUT);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "took its 100 ms"));
	fake_complete_all();
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_uint_eq(rmem_thread_timeout(0), THREAD_MS);
}
END_TEST

int main(void)
{
	TCase *tc = core_case("thread-timeout");

	tcase_add_loop_test(tc, thread_timeout__ends_calls, 0, CALLS);
	tcase_add_loop_test(tc, thread_timeout__of_0_is_the_sessions, 0, CALLS);
	tcase_add_test(tc, thread_timeout__is_told);
	tcase_add_test(tc, thread_timeout__is_not_for_queues);
	tcase_add_test(tc, thread_timeout__is_not_for_open);
	tcase_add_test(tc, thread_timeout__ends_the_wait_for_other_threads);
	return unit_main();
}

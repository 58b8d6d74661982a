/* SPDX-License-Identifier: BSD-3-Clause */
/* The hook by which a thread lets signals end its calls. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>

#include "unit/librmem/core-case.h"

static rmem_lease *lease;
static rmem_calls *begun;
static unsigned asked, patience;
static volatile sig_atomic_t signals;

static int is_over(void *ctx)
{
	ck_assert_ptr_eq(ctx, &asked);
	return asked++ >= patience;
}

static void teardown(void)
{
	rmem_thread_interrupt(NULL, NULL);
	rmem_calls_free(begun);
	begun = NULL;
}

static int call_stat(void)
{
	struct rmem_stat stat = rmem_stat_init();

	proxy.hold = WIRE_TYPE_stat;
	return rmem_stat(stage.client, "name", &stat);
}

static int call_alloc(void)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();
	rmem_lease *another = NULL;

	params.bytes = 1000;
	proxy.hold = WIRE_TYPE_allocate;
	return rmem_alloc(stage.client, &params, &another);
}

static int call_read(void)
{
	fake.automatic = false;
	return rmem_read(lease, 0, stage.buf, 9);
}

static int call_wait(void)
{
	struct rmem_completion completion;

	fake.automatic = false;
	submit_write(lease);
	return rmem_wait(stage.queue, &completion, 1, 1, -1);
}

static int call_notified(void)
{
	struct rmem_notice notice;

	return rmem_notified(stage.client, &notice, 1, -1);
}

static int call_calls_wait(void)
{
	struct rmem_request request = rmem_request_init(RMEM_CALL_STAT);
	struct rmem_answer answer;

	proxy.hold = WIRE_TYPE_stat;
	request.session = stage.client;
	request.name = "name";
	ck_assert_int_eq(rmem_calls_create(NULL, &begun), 0);
	ck_assert_int_eq(rmem_calls_begin(begun, &request, 1), 1);
	return rmem_calls_wait(begun, &answer, 1, 1, -1);
}

static int (*const calls[])(void) = {
	call_stat, call_alloc, call_read, call_wait, call_notified, call_calls_wait,
};
#define CALLS (int)(sizeof(calls) / sizeof(calls[0]))

/* The calls would take longer than the case may. */
static void open_session(unsigned flags)
{
	ck_assert_int_eq(open_within(flags, INT_MAX), 0);
	lease = alloc(1000, NULL);
	queue_open(1);
}

/* The hook is asked until it says so.  _i & 1: without the service threads. */
START_TEST(interrupt__ends_a_call)
{
	open_session(_i & 1 ? RMEM_NO_THREAD : 0);
	patience = 2;
	asked = 0;
	rmem_thread_interrupt(is_over, &asked);
	ck_assert_int_eq(calls[_i / 2](), -EINTR);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "hook"));
	ck_assert_uint_eq(asked, patience + 1);
}
END_TEST

/* Nothing of the operation is left that the next one would meet. */
START_TEST(interrupt__leaves_the_session_usable)
{
	open_session(0);
	patience = asked = 0;
	rmem_thread_interrupt(is_over, &asked);
	ck_assert_int_eq(call_read(), -EINTR);
	fake.automatic = true;
	rmem_thread_interrupt(NULL, NULL);
	ck_assert_int_eq(rmem_write(lease, 0, stage.buf, 9), 0);
	ck_assert_int_eq(rmem_read(lease, 0, stage.buf, 9), 0);
	ck_assert_int_eq(rmem_detach(lease), 0);
}
END_TEST

/* The operations are outstanding still. */
START_TEST(interrupt__of_a_wait_keeps_the_operations)
{
	open_session(0);
	patience = asked = 0;
	rmem_thread_interrupt(is_over, &asked);
	ck_assert_int_eq(call_wait(), -EINTR);
	ck_assert_uint_eq(rmem_queue_outstanding(stage.queue), 1);
	rmem_thread_interrupt(NULL, NULL);
	fake_complete_all();
	ck_assert_int_eq(wait_status(), 0);
}
END_TEST

static void *run_read(void *arg)
{
	(void)arg;
	ck_assert_int_eq(rmem_read(lease, 0, stage.buf, 9), 0);
	return NULL;
}

/* The hook is that of a thread: it ends the wait for the other one, which goes on. */
START_TEST(interrupt__is_of_one_thread)
{
	unsigned posts;
	pthread_t thread;

	open_session(0);
	fake.automatic = false;
	posts = fake.posts;
	ck_assert_int_eq(pthread_create(&thread, NULL, run_read, NULL), 0);
	AWAIT(fake.posts > posts);
	patience = asked = 0;
	rmem_thread_interrupt(is_over, &asked);
	ck_assert_int_eq(rmem_read(lease, 0, stage.buf, 9), -EINTR);
	fake_complete_all();
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

static void on_signal(int signo)
{
	(void)signo;
	signals++;
}

static int has_signal(void *ctx)
{
	(void)ctx;
	return signals > 0;
}

static void *send_signal(void *arg)
{
	(void)pthread_kill(*(pthread_t *)arg, SIGUSR1);
	return NULL;
}

/* Also one that comes before the wait. */
START_TEST(interrupt__by_a_signal)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	pthread_t self = pthread_self(), thread;

	signals = 0;
	ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
	open_session(0);
	rmem_thread_interrupt(has_signal, NULL);
	ck_assert_int_eq(pthread_create(&thread, NULL, send_signal, &self), 0);
	ck_assert_int_eq(calls[_i](), -EINTR);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

int main(void)
{
	TCase *tc = core_case("thread-interrupt");

	tcase_add_checked_fixture(tc, NULL, teardown);
	tcase_add_loop_test(tc, interrupt__ends_a_call, 0, 2 * CALLS);
	tcase_add_test(tc, interrupt__leaves_the_session_usable);
	tcase_add_test(tc, interrupt__of_a_wait_keeps_the_operations);
	tcase_add_test(tc, interrupt__is_of_one_thread);
	tcase_add_loop_test(tc, interrupt__by_a_signal, 0, CALLS);
	return unit_main();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon is lost while sessions and queues are opened, and comes back or is replaced. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>

#include "unit/librmem/core-case.h"

/* Ways to lose the server, run by the next `losses` attempts to connect. */
static unsigned losses;
static void (*lose)(void);

static int at_connect(void)
{
	if (losses == 0)
		return 0;
	losses--;
	lose();
	return -EACCES;
}

static void lose_by(void (*way)(void), unsigned times)
{
	lose = way;
	losses = times;
	fake.at_connect = at_connect;
}

/* The client learns of the lost connection after the failed attempt. */
static void cut_at_ping(void)
{
	proxy.drop = WIRE_TYPE_ping;
}

static pthread_t thread;
static int away_ms = 300;

static void *restart(void *arg)
{
	(void)poll(NULL, 0, away_ms);
	server_start();
	return arg;
}

static void start_thread(void *(*run)(void *arg))
{
	ck_assert_int_eq(pthread_create(&thread, NULL, run, NULL), 0);
}

static void join_thread(void)
{
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

static void stop_for_a_time(void)
{
	server_stop();
	start_thread(restart);
}

static void check_session(void)
{
	rmem_lease *lease = alloc(1000, NULL);

	ck_assert_int_eq(rmem_write(lease, 5, stage.buf, 100), 0);
	ck_assert_int_eq(rmem_read(lease, 5, stage.buf, 100), 0);
}

/* Every way to lose the server, for sessions that it knows afterwards or not. */
static const struct {
	void (*lose)(void);
	bool forget, no_thread, rdma;
} cases[] = {
	{ proxy_cut, false, false, false },      { proxy_cut, true, false, false },
	{ proxy_cut, false, true, true },        { proxy_cut, true, true, true },
	{ cut_at_ping, false, false, true },     { cut_at_ping, true, false, true },
	{ cut_at_ping, false, true, false },     { cut_at_ping, true, true, false },
	{ stop_for_a_time, false, false, true }, { stop_for_a_time, true, false, true },
	{ stop_for_a_time, false, true, false }, { stop_for_a_time, true, true, false },
};

START_TEST(open__succeeds_when_the_server_is_lost)
{
	if (cases[_i].rdma)
		serve_rdma();
	proxy.forget = cases[_i].forget;
	lose_by(cases[_i].lose, 1);
	open_over(cases[_i].no_thread ? RMEM_NO_THREAD : 0,
		  cases[_i].rdma ? RMEM_FABRIC_RDMA : RMEM_FABRIC_TCP);
	ck_assert_uint_eq(losses, 0);
	ck_assert_uint_eq(info().resumes, !cases[_i].forget);
	if (cases[_i].rdma)
		ck_assert_ptr_null(info().downgrade);
	check_session();
	client_close();
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_bye], 1);
	if (cases[_i].lose == stop_for_a_time)
		join_thread();
}
END_TEST

/* A queue is created if the server knows the session afterwards. */
START_TEST(queue_create__succeeds_when_the_server_is_lost)
{
	rmem_lease *lease;
	int err;

	if (cases[_i].rdma)
		serve_rdma();
	lease = open_with_lease(cases[_i].no_thread ? RMEM_NO_THREAD : 0);
	proxy.forget = cases[_i].forget;
	lose_by(cases[_i].lose, 1);
	err = queue_result(0);
	if (cases[_i].forget) {
		ck_assert_int_lt(err, 0);
	} else {
		ck_assert_msg(err == 0, "%s", rmem_error());
		ck_assert_int_eq(queue_write(lease), 0);
	}
	client_close();
	if (cases[_i].lose == stop_for_a_time)
		join_thread();
}
END_TEST

static void *stop_at_hello(void *arg)
{
	proxy_await(WIRE_TYPE_hello, 1);
	server_stop();
	return restart(arg);
}

START_TEST(hello__is_sent_again_when_the_server_is_lost)
{
	proxy.drop = WIRE_TYPE_hello;
	if (_i)
		start_thread(stop_at_hello);
	open_with(0);
	check_session();
	if (_i)
		join_thread();
}
END_TEST

static void *cut_at_third_ping(void *arg)
{
	/* the service thread drives the session while the devices are opened */
	proxy_await(WIRE_TYPE_ping, 3);
	proxy_cut();
	return arg;
}

/* The connection is lost while devices are opened. */
START_TEST(open__succeeds_with_a_second_welcome)
{
	serve_rdma();
	(void)strcat(stage.uri, "?channels=2");
	set_heartbeat(50, 2000);
	fake.slow_ms = 600;
	start_thread(cut_at_third_ping);
	open_with(0);
	join_thread();
	ck_assert_uint_eq(info().resumes, 1);
	ck_assert_int_eq(info().fabric, RMEM_FABRIC_RDMA);
	check_session();
}
END_TEST

/* The second of two attempts to connect fails, and the proxy denies a channel for now. */
static int cut_at_second(void)
{
	if (losses == 0 || --losses > 0)
		return 0;
	proxy_cut();
	proxy.deny = 4;
	return -ECONNRESET;
}

/* A lost server does not make a device unreachable. */
START_TEST(reach__includes_a_device_of_a_lost_server)
{
	serve_sole_rdma();
	losses = 2;
	fake.at_connect = cut_at_second;
	open_with(0);
	ck_assert_uint_eq(losses, 0);
	(void)alloc(1000, NULL);
	ck_assert_uint_eq(info().resumes, 1);
	ck_assert_uint_eq(proxy.last[WIRE_TYPE_allocate].allocate.reach, 6);
}
END_TEST

START_TEST(open__does_not_fall_back_when_the_server_is_lost)
{
	serve_rdma();
	lose_by(stop_for_a_time, 1);
	/* less than twice the time-out */
	away_ms = 500;
	ck_assert_int_lt(open_within(0, 400), 0);
	ck_assert_uint_eq(losses, 0);
	join_thread();
}
END_TEST

START_TEST(open__fails_at_once_when_the_server_refuses)
{
	/* a time-out that is longer than the case may take */
	fake.connect_err = -EACCES;
	ck_assert_int_eq(open_within(0, INT_MAX), -EACCES);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "no fake channel"));
	ck_assert_uint_eq(fake.tried[9], 1);
	fake.connect_err = 0;
	proxy_fail(WIRE_TYPE_hello, EACCES, 0);
	ck_assert_int_eq(open_within(0, INT_MAX), -EACCES);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "it failed"));
	ck_assert_uint_eq(proxy.connections, 2);
}
END_TEST

static unsigned attempts(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < FAKE_SESSIONS; i++)
		n += fake.tried[i];
	return n;
}

/* The server is lost again and again. */
START_TEST(open__times_out)
{
	uint64_t start = clock_now_ms();

	proxy.forget = _i;
	lose_by(proxy_cut, UINT_MAX);
	ck_assert_int_lt(open_within(0, 500), 0);
	ck_assert_uint_ge(clock_now_ms() - start, 500);
	ck_assert_uint_ge(attempts(), 2);
}
END_TEST

/* Later calls have the whole time-out, however long rmem_open() took. */
START_TEST(open__sets_the_time_out_of_later_calls)
{
	uint64_t start;

	proxy.drop = WIRE_TYPE_hello;
	ck_assert_msg(open_within(0, 1500) == 0, "%s", rmem_error());
	proxy.mute = true;
	start = clock_now_ms();
	ck_assert_int_eq(rmem_ping(stage.client, NULL), -ETIMEDOUT);
	ck_assert_uint_ge(clock_now_ms() - start, 1500);
}
END_TEST

int main(void)
{
	TCase *tc = core_case("restart");
	const int n = sizeof(cases) / sizeof(cases[0]);

	tcase_add_loop_test(tc, open__succeeds_when_the_server_is_lost, 0, n);
	tcase_add_loop_test(tc, queue_create__succeeds_when_the_server_is_lost, 0, n);
	tcase_add_loop_test(tc, hello__is_sent_again_when_the_server_is_lost, 0, 2);
	tcase_add_test(tc, open__succeeds_with_a_second_welcome);
	tcase_add_test(tc, reach__includes_a_device_of_a_lost_server);
	tcase_add_test(tc, open__does_not_fall_back_when_the_server_is_lost);
	tcase_add_test(tc, open__fails_at_once_when_the_server_refuses);
	tcase_add_loop_test(tc, open__times_out, 0, 2);
	tcase_add_test(tc, open__sets_the_time_out_of_later_calls);
	return unit_main();
}

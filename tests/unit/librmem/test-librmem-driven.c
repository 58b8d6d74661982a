/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions with RMEM_NO_THREAD, which the program drives. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "librmem/session/session.h"
#include "unit/librmem/core-case.h"

static void wait_readable(void)
{
	struct pollfd pollfd = { .fd = rmem_fd(stage.client), .events = POLLIN };

	ck_assert_int_eq(poll(&pollfd, 1, 5000), 1);
}

/* Wait for the session's descriptor, and drive the session. */
static int drive(void)
{
	wait_readable();
	return rmem_process(stage.client);
}

START_TEST(program__drives_the_session)
{
	rmem_lease *lease = open_with_lease(RMEM_NO_THREAD);
	int err;

	ck_assert_int_ge(rmem_fd(stage.client), 0);
	while (proxy.seen[WIRE_TYPE_ping] < 4)
		ck_assert_int_eq(drive(), 0);
	proxy_cut();
	do {
		err = drive();
	} while (err == 0 && info().resumes == 0);
	if (err)
		ck_assert_int_eq(err, -ECONNRESET);
	while (info().resumes == 0)
		(void)drive();
	/* a synchronous call drives the session, too */
	ck_assert_int_eq(rmem_write(lease, 0, stage.buf, 10), 0);
	server_restart_empty();
	while (rmem_process(stage.client) != -ESTALE)
		wait_readable();
}
END_TEST

/* The library sends heartbeats while it opens one slow device after another. */
START_TEST(program__opens_slow_devices)
{
	set_heartbeat(20, 20000);
	serve_devices(WIRE_ENDPOINTS_MAX - 1);
	(void)snprintf(stage.uri + strlen(stage.uri), 20, "?channels=%d",
		       WIRE_ENDPOINTS_MAX - 1);
	fake.slow_ms = 400 / WIRE_ENDPOINTS_MAX;
	open_with(RMEM_NO_THREAD);
	proxy_await(WIRE_TYPE_ping, 3);
	ck_assert_int_eq(rmem_ping(stage.client, NULL), 0);
	ck_assert_uint_eq(info().resumes, 0);
	ck_assert_uint_eq(proxy.connections, 1);
}
END_TEST

/* It waits for as long as the call may take, in attempts between which heartbeats are sent. */
START_TEST(program__waits_for_a_channel)
{
	unsigned pings;
	uint64_t start;

	set_heartbeat(100, 20000);
	ck_assert_int_eq(open_within(RMEM_NO_THREAD, 1500), 0);
	/* half an interval after the next heartbeat is due */
	ck_assert_uint_le(fake.connect_timeout_ms, 150);
	fake.slow_ms = UINT_MAX;
	pings = proxy.seen[WIRE_TYPE_ping];
	start = clock_now_ms();
	ck_assert_int_eq(queue_result(0), -ETIMEDOUT);
	ck_assert_uint_ge(clock_now_ms() - start, 1500);
	proxy_await(WIRE_TYPE_ping, pings + 2);
	ck_assert_int_eq(rmem_ping(stage.client, NULL), 0);
	ck_assert_uint_eq(info().resumes, 0);
	ck_assert_uint_eq(proxy.connections, 1);
	fake.slow_ms = 0;
	queue_open(1);
}
END_TEST

/* Connecting takes longer than the time-out of the first attempt. */
START_TEST(program__connects_to_a_slow_server)
{
	rmem_lease *lease;

	set_heartbeat(200, 20000);
	lease = open_with_lease(RMEM_NO_THREAD);
	queue_open(1);
	fake.slow_ms = 700;
	fake_peer_gone(fake_latest());
	ck_assert_int_eq(queue_write(lease), 0);
	ck_assert_uint_eq(info().resumes, 0);
}
END_TEST

/* No call of the program has to sleep. */
START_TEST(program__sends_heartbeats_while_it_writes)
{
	uint64_t end = clock_now_ms() + 10000;
	rmem_lease *lease = open_with_lease(RMEM_NO_THREAD);
	unsigned pings;

	queue_open(1);
	pings = proxy.seen[WIRE_TYPE_ping];
	while (proxy.seen[WIRE_TYPE_ping] < pings + 3) {
		ck_assert_msg(clock_now_ms() < end, "%u heartbeats",
			      proxy.seen[WIRE_TYPE_ping] - pings);
		ck_assert_int_eq(queue_write(lease), 0);
	}
}
END_TEST

/* In each state of a session that is not lost, the program closes a descriptor of it. */
START_TEST(closed_descriptor__ends_the_session)
{
	static const enum session_state states[] = { SESSION_UP, SESSION_WAIT,
						     SESSION_HELLO, SESSION_REKEY };
	const enum session_state state = states[_i];

	(void)open_with_lease(RMEM_NO_THREAD);
	proxy.hold = state == SESSION_HELLO   ? WIRE_TYPE_hello
		     : state == SESSION_REKEY ? WIRE_TYPE_attach
					      : 0;
	if (state != SESSION_UP)
		proxy_cut();
	while (stage.client->state != state)
		(void)rmem_process(stage.client);
	ck_assert_int_eq(close(stage.client->wake.epfd), 0);
	/* look now */
	stage.client->look_ns = 0;
	ck_assert_int_eq(rmem_process(stage.client), -ESTALE);
	ck_assert(stage.client->state == SESSION_LOST && stage.client->robbed);
}
END_TEST

static void *process(void *)
{
	/* the next cancellation point ends the thread */
	(void)pthread_cancel(pthread_self());
	(void)rmem_process(stage.client);
	pthread_testcancel();
	return NULL;
}

/* A heartbeat is due, which the thread sends. */
START_TEST(cancelled_thread__ends_after_process)
{
	pthread_t thread;
	void *result;

	open_with(RMEM_NO_THREAD);
	wait_readable();
	ck_assert_int_eq(pthread_create(&thread, NULL, process, NULL), 0);
	ck_assert_int_eq(pthread_join(thread, &result), 0);
	ck_assert_ptr_eq(result, PTHREAD_CANCELED);
	ck_assert_int_eq(rmem_ping(stage.client, NULL), 0);
}
END_TEST

int main(void)
{
	TCase *tc = core_case("driven");

	tcase_add_test(tc, program__drives_the_session);
	tcase_add_loop_test(tc, closed_descriptor__ends_the_session, 0, 4);
	tcase_add_test(tc, program__opens_slow_devices);
	tcase_add_test(tc, program__waits_for_a_channel);
	tcase_add_test(tc, program__connects_to_a_slow_server);
	tcase_add_test(tc, program__sends_heartbeats_while_it_writes);
	tcase_add_test(tc, cancelled_thread__ends_after_process);
	return unit_main();
}

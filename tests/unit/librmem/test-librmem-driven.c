/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions with a scripted server that the program drives: RMEM_NO_THREAD. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "unit/librmem/librmem-client.h"

START_TEST(no_thread__the_program_drives)
{
	struct pollfd pollfd = { .events = POLLIN };
	rmem_lease *lease;
	int err;

	open_with(RMEM_NO_THREAD);
	lease = alloc(1000, NULL);
	pollfd.fd = rmem_fd(client);
	ck_assert_int_ge(pollfd.fd, 0);
	while (server.seen[WIRE_TYPE_ping] < 4) {
		ck_assert_int_eq(poll(&pollfd, 1, 5000), 1);
		ck_assert_int_eq(rmem_process(client), 0);
	}
	server_hang_up();
	do {
		ck_assert_int_eq(poll(&pollfd, 1, 5000), 1);
		err = rmem_process(client);
	} while (err == 0 && info().resumes == 0);
	if (err)
		ck_assert_int_eq(err, -ECONNRESET);
	while (info().resumes == 0) {
		ck_assert_int_eq(poll(&pollfd, 1, 5000), 1);
		(void)rmem_process(client);
	}
	/* a synchronous call drives the session by itself */
	ck_assert_int_eq(rmem_write(lease, 0, buf, 10), 0);
	server_lock();
	server.forget = true;
	server_unlock();
	server_hang_up();
	while (rmem_process(client) != -ESTALE)
		ck_assert_int_eq(poll(&pollfd, 1, 5000), 1);
	rmem_close(client);
}
END_TEST

/* Heartbeats go on while the program waits for one device after another. */
START_TEST(no_thread__opens_what_is_slow)
{
	server.welcome.heartbeat_ms = 50;
	server.welcome.fence_ms = 300;
	server.welcome.n_endpoints = WIRE_ENDPOINTS_MAX;
	for (unsigned i = 0; i < WIRE_ENDPOINTS_MAX; i++)
		server.welcome.endpoints[i].fabric = WIRE_FABRIC_VERBS;
	(void)snprintf(uri + strlen(uri), 20, "?channels=%d", WIRE_ENDPOINTS_MAX);
	fake.slow_ms = 400 / WIRE_ENDPOINTS_MAX;
	open_with(RMEM_NO_THREAD);
	ck_assert_int_eq(rmem_ping(client, NULL), 0);
	ck_assert_uint_eq(info().resumes, 0);
	ck_assert_uint_eq(server.connections, 1);
	rmem_close(client);
}
END_TEST

/* One connect alone may take longer than the fence. */
START_TEST(no_thread__waits_for_a_channel)
{
	struct rmem_options options = RMEM_OPTIONS_INIT;
	struct rmem_queue_params params = RMEM_QUEUE_INIT;
	rmem_queue *queue = NULL;
	uint64_t start;

	server.welcome.heartbeat_ms = 100;
	server.welcome.fence_ms = 600;
	options.flags = RMEM_NO_THREAD;
	options.timeout_ms = 1500;
	ck_assert_int_eq(rmem_open(uri, &options, &client), 0);
	fake.slow_ms = UINT_MAX;
	start = clock_now_ms();
	ck_assert_int_eq(rmem_queue_create(client, &params, &queue), -ETIMEDOUT);
	ck_assert_uint_ge(clock_now_ms() - start, 1500);
	ck_assert_int_eq(rmem_ping(client, NULL), 0);
	ck_assert_uint_eq(info().resumes, 0);
	ck_assert_uint_eq(server.connections, 1);
	fake.slow_ms = 0;
	ck_assert_int_eq(rmem_queue_create(client, &params, &queue), 0);
	rmem_close(client);
}
END_TEST

/* It takes longer than heartbeats are kept waiting at first. */
START_TEST(no_thread__reaches_a_server_that_is_slow)
{
	struct rmem_queue_params params = RMEM_QUEUE_INIT;
	struct rmem_op op = { .opcode = RMEM_OP_WRITE, .addr = buf, .bytes = 9 };
	struct rmem_completion completion;
	rmem_queue *queue = NULL;

	server.welcome.heartbeat_ms = 200;
	server.welcome.fence_ms = 2000;
	open_with(RMEM_NO_THREAD);
	op.lease = alloc(1000, NULL);
	ck_assert_int_eq(rmem_queue_create(client, &params, &queue), 0);
	fake.slow_ms = 700;
	fake_peer_gone(fake_latest());
	ck_assert_int_eq(rmem_submit(queue, &op, 1), 1);
	ck_assert_int_eq(rmem_wait(queue, &completion, 1, 1, -1), 1);
	ck_assert_int_eq(completion.status, 0);
	ck_assert_uint_eq(info().resumes, 0);
	rmem_close(client);
}
END_TEST

/* A program that never has to sleep sends heartbeats all the same. */
START_TEST(no_thread__waits_without_sleeping)
{
	struct rmem_queue_params params = RMEM_QUEUE_INIT;
	struct rmem_op op = { .opcode = RMEM_OP_WRITE, .addr = buf, .bytes = 9 };
	struct rmem_completion completion;
	uint64_t end = clock_now_ms() + 10000;
	rmem_queue *queue = NULL;
	unsigned pings;

	open_with(RMEM_NO_THREAD);
	op.lease = alloc(1000, NULL);
	ck_assert_int_eq(rmem_queue_create(client, &params, &queue), 0);
	pings = server.seen[WIRE_TYPE_ping];
	while (server.seen[WIRE_TYPE_ping] < pings + 3) {
		ck_assert_msg(clock_now_ms() < end, "%u heartbeats",
			      server.seen[WIRE_TYPE_ping] - pings);
		ck_assert_int_eq(rmem_submit(queue, &op, 1), 1);
		ck_assert_int_eq(rmem_wait(queue, &completion, 1, 1, -1), 1);
		ck_assert_int_eq(completion.status, 0);
	}
	rmem_close(client);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("librmem-driven");
	TCase *tc = tcase_create("driven");

	tcase_add_checked_fixture(tc, client_setup, client_teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, no_thread__the_program_drives);
	tcase_add_test(tc, no_thread__opens_what_is_slow);
	tcase_add_test(tc, no_thread__waits_for_a_channel);
	tcase_add_test(tc, no_thread__reaches_a_server_that_is_slow);
	tcase_add_test(tc, no_thread__waits_without_sleeping);
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}

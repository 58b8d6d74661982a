/* SPDX-License-Identifier: BSD-3-Clause */
/* A server that is lost, and comes back or another one in its place, while sessions and queues
 * are being opened. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>

#include "unit/librmem/librmem-client.h"

static unsigned kills; /* of the server, by the connects to come */

/* Nothing is known of the channel any more. */
static int hung_up(void)
{
	if (kills == 0)
		return 0;
	kills--;
	server_hang_up();
	return -EACCES;
}

/* The same, before the client can know that its connection is lost, too. */
static int hung_up_later(void)
{
	if (kills == 0)
		return 0;
	kills--;
	server_lock();
	server.drop_on = WIRE_TYPE_ping;
	server_unlock();
	return -EACCES;
}

static pthread_t next;
static int away_ms = 300;

static void *restart(void *arg)
{
	(void)poll(NULL, 0, away_ms);
	server_restart();
	return arg;
}

/* It takes a while until there is another one. */
static int stopped(void)
{
	if (kills == 0)
		return 0;
	kills--;
	server_stop();
	ck_assert_int_eq(pthread_create(&next, NULL, restart, NULL), 0);
	return -EACCES;
}

static void works(void)
{
	rmem_lease *lease = alloc(1000, NULL);

	ck_assert_int_eq(rmem_write(lease, 5, buf, 100), 0);
	ck_assert_int_eq(rmem_read(lease, 5, buf, 100), 0);
}

/* Every way of losing it, of a session that is known afterwards or not. */
static const struct {
	int (*lose)(void);
	bool forget, no_thread, rdma;
} losses[] = {
	{ hung_up, false, false, false },      { hung_up, true, false, false },
	{ hung_up, false, true, true },        { hung_up, true, true, true },
	{ hung_up_later, false, false, true }, { hung_up_later, true, false, true },
	{ hung_up_later, false, true, false }, { hung_up_later, true, true, false },
	{ stopped, false, false, true },       { stopped, true, false, true },
	{ stopped, false, true, false },       { stopped, true, true, false },
};

START_TEST(open__outlives_its_server)
{
	if (losses[_i].rdma)
		serve_rdma();
	server.forget = losses[_i].forget;
	kills = 1;
	fake.at_connect = losses[_i].lose;
	open_with(losses[_i].no_thread ? RMEM_NO_THREAD : 0);
	ck_assert_uint_eq(kills, 0);
	ck_assert_uint_eq(info().resumes, !losses[_i].forget);
	ck_assert_int_eq(info().fabric,
			 losses[_i].rdma ? RMEM_FABRIC_RDMA : RMEM_FABRIC_TCP);
	if (losses[_i].rdma)
		ck_assert_ptr_null(info().downgrade);
	works();
	rmem_close(client);
	ck_assert_uint_eq(server.seen[WIRE_TYPE_bye], 1);
	if (losses[_i].lose == stopped)
		ck_assert_int_eq(pthread_join(next, NULL), 0);
}
END_TEST

/* So does the making of a queue, of a session that is known. */
START_TEST(queue__outlives_its_server)
{
	struct rmem_queue_params params = RMEM_QUEUE_INIT;
	struct rmem_op op = { .opcode = RMEM_OP_WRITE, .addr = buf, .bytes = 9 };
	struct rmem_completion completion;
	rmem_queue *queue = NULL;
	int err;

	if (losses[_i].rdma)
		serve_rdma();
	open_with(losses[_i].no_thread ? RMEM_NO_THREAD : 0);
	op.lease = alloc(1000, NULL);
	server_lock();
	server.forget = losses[_i].forget;
	server_unlock();
	kills = 1;
	fake.at_connect = losses[_i].lose;
	err = rmem_queue_create(client, &params, &queue);
	if (losses[_i].forget) {
		ck_assert_int_lt(err, 0);
	} else {
		ck_assert_msg(err == 0, "%s", rmem_error());
		ck_assert_int_eq(rmem_submit(queue, &op, 1), 1);
		ck_assert_int_eq(rmem_wait(queue, &completion, 1, 1, 10000), 1);
		ck_assert_int_eq(completion.status, 0);
	}
	rmem_close(client);
	if (losses[_i].lose == stopped)
		ck_assert_int_eq(pthread_join(next, NULL), 0);
}
END_TEST

static void *stop_at_hello(void *arg)
{
	server_await(WIRE_TYPE_hello, 1);
	server_stop();
	return restart(arg);
}

/* The hello was sent, and nobody answers it any more. */
START_TEST(hello__outlives_its_server)
{
	server.drop_on = WIRE_TYPE_hello;
	if (_i)
		ck_assert_int_eq(pthread_create(&next, NULL, stop_at_hello, NULL), 0);
	open_with(0);
	works();
	if (_i)
		ck_assert_int_eq(pthread_join(next, NULL), 0);
	rmem_close(client);
}
END_TEST

static void *hang_up_at_ping(void *arg)
{
	/* the service thread has it, and the devices are slow to open */
	server_await(WIRE_TYPE_ping, 3);
	server_hang_up();
	return arg;
}

/* Another welcome comes while there are devices to open still. */
START_TEST(open__gets_another_welcome)
{
	serve_rdma();
	(void)strcat(uri, "?channels=2");
	server.welcome.heartbeat_ms = 50;
	server.welcome.fence_ms = 2000;
	fake.slow_ms = 600;
	ck_assert_int_eq(pthread_create(&next, NULL, hang_up_at_ping, NULL), 0);
	open_with(0);
	ck_assert_int_eq(pthread_join(next, NULL), 0);
	ck_assert_uint_eq(info().resumes, 1);
	ck_assert_int_eq(info().fabric, RMEM_FABRIC_RDMA);
	works();
	rmem_close(client);
}
END_TEST

/* The second of two connects is cut, and there is no channel for a while. */
static int second_cut(void)
{
	if (kills == 0 || --kills > 0)
		return 0;
	server_hang_up();
	server_lock();
	server.deny = 4;
	server_unlock();
	return -ECONNRESET;
}

/* A device says nothing of itself while its server is lost. */
START_TEST(reach__outlives_its_server)
{
	serve_rdma();
	for (unsigned i = 1; i < 3; i++)
		server.welcome.endpoints[i].flags |= WIRE_ENDPOINT_SOLE;
	kills = 2;
	fake.at_connect = second_cut;
	open_with(0);
	ck_assert_uint_eq(kills, 0);
	(void)alloc(1000, NULL);
	ck_assert_uint_eq(info().resumes, 1);
	ck_assert_uint_eq(server.reach, 6);
	rmem_close(client);
}
END_TEST

/* Nor does it say that there is no RDMA. */
START_TEST(open__takes_no_other_fabric_for_a_lost_server)
{
	struct rmem_options options = RMEM_OPTIONS_INIT;
	uint64_t start = clock_now_ms();

	serve_rdma();
	kills = 1;
	fake.at_connect = stopped;
	/* it is back before that has passed twice */
	away_ms = 500;
	options.timeout_ms = 400;
	ck_assert_int_lt(rmem_open(uri, &options, &client), 0);
	ck_assert_uint_lt(clock_now_ms() - start, 2000);
	ck_assert_uint_eq(kills, 0);
	ck_assert_int_eq(pthread_join(next, NULL), 0);
}
END_TEST

/* One that is there, and refuses, means it. */
START_TEST(refused__by_a_server_that_stays)
{
	uint64_t start = clock_now_ms();

	fake.connect_err = -EACCES;
	ck_assert_int_eq(rmem_open(uri, NULL, &client), -EACCES);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "no fake channel"));
	ck_assert_uint_eq(fake.tried[9], 1);
	fake.connect_err = 0;
	server.refuse = EACCES;
	ck_assert_int_eq(rmem_open(uri, NULL, &client), -EACCES);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "you may not"));
	ck_assert_uint_eq(server.connections, 2);
	ck_assert_uint_lt(clock_now_ms() - start, 5000);
}
END_TEST

/* It is lost again and again: the caller's time ends it. */
START_TEST(open__ends_in_time)
{
	struct rmem_options options = RMEM_OPTIONS_INIT;
	uint64_t start = clock_now_ms();

	server.forget = _i;
	kills = UINT_MAX;
	fake.at_connect = hung_up;
	options.timeout_ms = 500;
	ck_assert_int_lt(rmem_open(uri, &options, &client), 0);
	ck_assert_uint_ge(clock_now_ms() - start, 500);
	ck_assert_uint_lt(clock_now_ms() - start, 5000);
	ck_assert_uint_ge(fake.tried[9], 2);
}
END_TEST

/* What the caller gave is what requests have later, however long the opening took. */
START_TEST(open__keeps_the_time_out)
{
	struct rmem_options options = RMEM_OPTIONS_INIT;
	uint64_t start;

	server.drop_on = WIRE_TYPE_hello;
	options.timeout_ms = 1500;
	ck_assert_msg(rmem_open(uri, &options, &client) == 0, "%s", rmem_error());
	server_lock();
	server.mute = true;
	server_unlock();
	start = clock_now_ms();
	ck_assert_int_eq(rmem_ping(client, NULL), -ETIMEDOUT);
	ck_assert_uint_ge(clock_now_ms() - start, 1500);
	rmem_close(client);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("librmem-restart");
	TCase *tc = tcase_create("restart");
	const int n = sizeof(losses) / sizeof(losses[0]);

	tcase_add_checked_fixture(tc, client_setup, client_teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, open__outlives_its_server, 0, n);
	tcase_add_loop_test(tc, queue__outlives_its_server, 0, n);
	tcase_add_loop_test(tc, hello__outlives_its_server, 0, 2);
	tcase_add_test(tc, open__gets_another_welcome);
	tcase_add_test(tc, reach__outlives_its_server);
	tcase_add_test(tc, open__takes_no_other_fabric_for_a_lost_server);
	tcase_add_test(tc, refused__by_a_server_that_stays);
	tcase_add_loop_test(tc, open__ends_in_time, 0, 2);
	tcase_add_test(tc, open__keeps_the_time_out);
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}

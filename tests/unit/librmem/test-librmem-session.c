/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions with the daemon that lose their connection, resume and end. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/librmem/core-case.h"
#include "librmem/lease/lease.h"
#include "librmem/session/session.h"

/* ---- losing the connection ---- */

START_TEST(heartbeats__go_on)
{
	open_with(0);
	proxy_await(WIRE_TYPE_ping, 5);
	ck_assert_uint_eq(info().resumes, 0);
}
END_TEST

START_TEST(session__resumes_after_a_lost_connection)
{
	rmem_lease *lease = open_with_lease(0);
	uint64_t ns = 0;

	ck_assert_int_eq(rmem_write(lease, 0, stage.buf, 100), 0);
	proxy_cut();
	/* a call waits until the session has resumed */
	AWAIT(rmem_ping(stage.client, &ns) == 0 && info().resumes == 1);
	ck_assert_uint_gt(ns, 0);
	ck_assert_uint_eq(proxy.resumed, 1);
	AWAIT(rmem_write(lease, 0, stage.buf, 100) == 0);
	ck_assert_int_eq(rmem_lease_status(lease), 0);
}
END_TEST

/* The library asks for the keys of REKEYS_MAX leases at once. */
START_TEST(resume__with_many_leases)
{
	enum { N = 80 };
	static rmem_lease *leases[N];

	ck_assert_uint_gt(N, REKEYS_MAX);
	open_with(0);
	for (unsigned i = 0; i < N; i++)
		leases[i] = alloc(1000, NULL);
	proxy.hold = WIRE_TYPE_attach;
	proxy_cut();
	proxy_await(WIRE_TYPE_attach, REKEYS_MAX);
	/* the reply comes behind those to earlier requests */
	ck_assert_int_eq(rmem_ping(stage.client, NULL), 0);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_attach], REKEYS_MAX);
	ck_assert_uint_eq(info().resumes, 0);
	/* a lease whose keys were not requested yet is freed */
	ck_assert_int_eq(rmem_destroy(leases[N - 1]), 0);
	proxy_release();
	AWAIT(info().resumes == 1);
	ck_assert_uint_ge(proxy.seen[WIRE_TYPE_attach], N - 1);
	for (unsigned i = 0; i < N - 1; i++)
		AWAIT(rmem_write(leases[i], 0, stage.buf, 100) == 0);
}
END_TEST

/* As while the server has no memory for keys. */
START_TEST(resume__reports_why_a_lease_has_no_keys)
{
	rmem_lease *lease;

	open_with(0);
	lease = alloc(1000, NULL);
	proxy_fail(WIRE_TYPE_attach, ENOSPC, UINT_MAX);
	proxy_cut();
	proxy_await(WIRE_TYPE_attach, 1);
	ck_assert_int_eq(rmem_write(lease, 0, stage.buf, 100), -ENOSPC);
	ck_assert_msg(
		strstr(rmem_error(), "the server could not attach the lease again"),
		"%s", rmem_error());
	proxy_fail(WIRE_TYPE_attach, 0, 0);
	AWAIT(rmem_write(lease, 0, stage.buf, 100) == 0);
}
END_TEST

/* A session that has resumed waits for the keys of all leases. */
START_TEST(queue_create__does_not_wait_for_a_freed_lease)
{
	rmem_lease *lease;
	pthread_t thread;

	/* longer than the case may take */
	ck_assert_int_eq(open_within(0, INT_MAX), 0);
	lease = alloc(1000, NULL);
	proxy.hold = WIRE_TYPE_attach;
	proxy_cut();
	proxy_await(WIRE_TYPE_attach, 1);
	ck_assert_int_eq(pthread_create(&thread, NULL, run_queue_open, NULL), 0);
	/* an ended lease is freed without a request */
	proxy_event(WIRE_TYPE_revoked, rmem_lease_id(lease), WIRE_REASON_REVOKED);
	AWAIT(rmem_lease_status(lease) == -ESTALE);
	for (unsigned i = 0; i < 20; i++)
		sleep_1ms();
	ck_assert_uint_eq(fake.connects, 1);
	ck_assert_int_eq(rmem_destroy(lease), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_ptr_nonnull(stage.queue);
	proxy_release();
}
END_TEST

/* The lease is being attached again when the connection is lost, and ends before the answer. */
START_TEST(session__resumes_when_a_lease_ends_meanwhile)
{
	rmem_lease *lease = open_with_lease(0);

	proxy.hold = WIRE_TYPE_attach;
	proxy_event(WIRE_TYPE_changed, rmem_lease_id(lease), 0);
	proxy_await(WIRE_TYPE_attach, 1);
	proxy_cut();
	proxy_await(WIRE_TYPE_attach, 2);
	proxy_event(WIRE_TYPE_revoked, rmem_lease_id(lease), WIRE_REASON_REVOKED);
	AWAIT(rmem_lease_status(lease) == -ESTALE);
	proxy_release();
	AWAIT(info().resumes == 1);
}
END_TEST

/* A lease that changes before each answer to an attach is attached again without end, and holds
 * nobody up. */
START_TEST(session__resumes_and_connects_while_a_lease_changes)
{
	rmem_lease *lease = open_with_lease(_i ? RMEM_NO_THREAD : 0);

	proxy.change = true;
	proxy_event(WIRE_TYPE_changed, rmem_lease_id(lease), 0);
	queue_open(1);
	ck_assert_int_eq(queue_write(lease), 0);
	proxy_cut();
	AWAIT(rmem_ping(stage.client, NULL) == 0 && info().resumes == 1);
	ck_assert_int_eq(rmem_write(lease, 0, stage.buf, 100), 0);
	ck_assert_int_eq(queue_write(lease), 0);
	ck_assert_uint_gt(proxy.seen[WIRE_TYPE_attach], 2);
	proxy.change = false;
}
END_TEST

/* Drop the reply to the next request of this type, with the connection. */
static void drop_reply(unsigned type)
{
	proxy.repeated = 0;
	proxy.drop = type;
}

/* That request was sent again. */
static void check_repeated(void)
{
	ck_assert_uint_eq(proxy.repeated, 1);
}

START_TEST(alloc__whose_reply_was_lost_takes_effect_once)
{
	rmem_lease *lease;

	open_with(_i ? RMEM_NO_THREAD : 0);
	drop_reply(WIRE_TYPE_allocate);
	lease = alloc(1000, "name");
	check_repeated();
	ck_assert_uint_eq(core_leases(), 1);
	ck_assert_uint_eq(rmem_lease_bytes(lease), 1000);
	AWAIT(rmem_write(lease, 0, stage.buf, 100) == 0);
	ck_assert_uint_eq(info().resumes, 1);
	ck_assert_int_eq(rmem_destroy(lease), 0);
	ck_assert_uint_eq(core_leases(), 0);
}
END_TEST

START_TEST(calls__whose_reply_was_lost_take_effect_once)
{
	rmem_lease *lease;
	struct rmem_stat stat = rmem_stat_init();

	open_with(0);
	lease = alloc(1000, "name");
	drop_reply(WIRE_TYPE_resize);
	ck_assert_int_eq(rmem_grow(lease, 2000), 0);
	ck_assert_uint_eq(rmem_lease_bytes(lease), 2000);
	check_repeated();
	drop_reply(WIRE_TYPE_rename);
	ck_assert_int_eq(rmem_rename(lease, "other", 0), 0);
	check_repeated();
	drop_reply(WIRE_TYPE_renew);
	ck_assert_int_eq(rmem_renew(lease, 60000), 0);
	check_repeated();
	drop_reply(WIRE_TYPE_detach);
	ck_assert_int_eq(rmem_detach(lease), 0);
	check_repeated();
	/* the server has processed a request for the lease's keys, if there was one */
	ck_assert_int_eq(rmem_ping(stage.client, NULL), 0);
	drop_reply(WIRE_TYPE_attach);
	ck_assert_int_eq(
		rmem_attach(stage.client, "other", RMEM_READ | RMEM_WRITE, &lease), 0);
	check_repeated();
	ck_assert_uint_eq(rmem_lease_bytes(lease), 2000);
	drop_reply(WIRE_TYPE_stat);
	ck_assert_int_eq(rmem_stat(stage.client, "other", &stat), 0);
	drop_reply(WIRE_TYPE_free);
	ck_assert_int_eq(rmem_destroy(lease), 0);
	check_repeated();
	lease = alloc(10, "third");
	drop_reply(WIRE_TYPE_remove);
	ck_assert_int_eq(rmem_remove(stage.client, "third"), 0);
	check_repeated();
	ck_assert_uint_eq(core_leases(), 0);
}
END_TEST

static int alloc_result(void)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();
	rmem_lease *lease = NULL;

	params.bytes = 10;
	return rmem_alloc(stage.client, &params, &lease);
}

START_TEST(alloc__whose_error_was_lost_fails)
{
	core_config.tenants[0].limits.lease_max = 5;
	server_restart();
	open_with(0);
	drop_reply(WIRE_TYPE_allocate);
	ck_assert_int_eq(alloc_result(), -EDQUOT);
	check_repeated();
	ck_assert_uint_eq(core_leases(), 0);
}
END_TEST

/* The caller's time-out is over before the session has resumed. */
START_TEST(alloc__that_times_out_frees_the_granted_lease)
{
	open_with(0);
	proxy_fail(WIRE_TYPE_hello, EBUSY, 0);
	drop_reply(WIRE_TYPE_allocate);
	(void)rmem_thread_timeout(1000);
	ck_assert_int_eq(alloc_result(), -ETIMEDOUT);
	ck_assert_uint_eq(core_leases(), 1);
	proxy_fail(WIRE_TYPE_hello, 0, 0);
	proxy_await(WIRE_TYPE_detach, 1);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_allocate], 2);
	ck_assert_uint_eq(core_leases(), 0);
}
END_TEST

START_TEST(queue_create__whose_reply_was_lost)
{
	open_with(0);
	drop_reply(WIRE_TYPE_open_channel);
	queue_open(1);
	ck_assert_uint_eq(info().resumes, 1);
}
END_TEST

START_TEST(reply__that_comes_too_late_frees_the_lease)
{
	set_heartbeat(5000, 20000);
	open_with(0);
	proxy.delay = WIRE_TYPE_allocate;
	(void)rmem_thread_timeout(300);
	ck_assert_int_eq(alloc_result(), -ETIMEDOUT);
	(void)rmem_thread_timeout(0);
	/* the proxy sends the delayed reply behind that to the ping */
	ck_assert_int_eq(rmem_ping(stage.client, NULL), 0);
	proxy_await(WIRE_TYPE_detach, 1);
}
END_TEST

static void *run_attach(void *arg)
{
	rmem_lease **ret_lease = arg;

	ck_assert_int_eq(
		rmem_attach(stage.client, "name", RMEM_READ | RMEM_WRITE, ret_lease),
		0);
	return NULL;
}

/* The handle for which keys were asked is gone when they come, and the lease is attached again. */
START_TEST(attach__is_not_undone_by_keys_of_an_earlier_handle)
{
	rmem_lease *lease;
	pthread_t thread;

	open_with(0);
	lease = alloc(1000, "name");
	proxy.hold = WIRE_TYPE_attach;
	proxy_event(WIRE_TYPE_changed, rmem_lease_id(lease), 0);
	proxy_await(WIRE_TYPE_attach, 1);
	ck_assert_int_eq(rmem_detach(lease), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, run_attach, &lease), 0);
	proxy_await(WIRE_TYPE_attach, 2);
	proxy_release();
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	/* its answer comes behind that of any other request */
	ck_assert_int_eq(rmem_ping(stage.client, NULL), 0);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_detach], 1);
	ck_assert_int_eq(rmem_write(lease, 0, stage.buf, 1), 0);
}
END_TEST

START_TEST(mute_server__stops_operations_at_the_fence_time)
{
	struct rmem_op op = {
		.opcode = RMEM_OP_WRITE, .addr = stage.buf, .bytes = 1, .timeout_ms = 50
	};
	uint64_t start, before;
	int status;

	core_config.fence_ms = 200;
	op.lease = open_with_lease(0);
	queue_open(1);
	start = clock_now_ms();
	proxy.mute = true;
	/* The client's deadline runs from the time when the last answered ping was sent.  No
	 * operation may start after it, even if the service thread runs late. */
	do {
		before = clock_now_ms();
		ck_assert_int_eq(rmem_submit(stage.queue, &op, 1), 1);
		status = wait_status();
		ck_assert(status || before <= start + 200);
	} while (!status);
	ck_assert_int_eq(status, -ETIMEDOUT);
	proxy.mute = false;
	/* an operation with a longer time-out waits until the session has resumed */
	ck_assert_int_eq(rmem_write(op.lease, 0, stage.buf, 1), 0);
	ck_assert_uint_ge(info().resumes, 1);
}
END_TEST

START_TEST(session__unknown_to_the_server_is_lost)
{
	rmem_lease *lease = open_with_lease(0);

	server_restart_empty();
	AWAIT(rmem_lease_status(lease) == -ESTALE);
	ck_assert_int_eq((int)rmem_lease_reason(lease), RMEM_REASON_LOST);
	ck_assert_int_eq(rmem_write(lease, 0, stage.buf, 1), -ESTALE);
	ck_assert_int_eq(alloc_result(), -ESTALE);
	ck_assert_int_eq(rmem_ping(stage.client, NULL), -ESTALE);
	ck_assert_ptr_nonnull(
		strstr(rmem_error(), "has ended, or the token is not its own"));
	client_close();
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_bye], 0);
}
END_TEST

/* The server was asked for new rkeys, and has not answered yet. */
START_TEST(session__lost_while_it_resumes_says_so_of_its_leases)
{
	rmem_lease *lease = open_with_lease(0);
	unsigned asked = proxy.seen[WIRE_TYPE_attach];

	proxy.hold = WIRE_TYPE_attach;
	proxy_cut();
	proxy_await(WIRE_TYPE_attach, asked + 1);
	server_restart_empty();
	AWAIT(rmem_lease_status(lease) == -ESTALE);
	ck_assert_int_eq((int)rmem_lease_reason(lease), RMEM_REASON_LOST);
}
END_TEST

/* The server says that it may resume the session later. */
static const int not_now[] = { EBUSY, ENOMEM, ENOSPC, ESHUTDOWN, EDQUOT };

START_TEST(session__is_lost_after_the_grace_time)
{
	rmem_lease *lease;

	core_config.fence_ms = 200;
	core_config.grace_ms = 100;
	lease = open_with_lease(0);
	proxy_fail(WIRE_TYPE_hello, not_now[_i], 0);
	proxy_cut();
	AWAIT(rmem_lease_status(lease) == -ESTALE);
	ck_assert_int_eq(rmem_ping(stage.client, NULL), -ESTALE);
	ck_assert_ptr_nonnull(strstr(
		rmem_error(), "its grace time was over before it could be resumed: "));
}
END_TEST

START_TEST(session__resumes_when_fenced_and_ends_at_shutdown)
{
	rmem_lease *lease = open_with_lease(0);

	proxy_event(WIRE_TYPE_fenced, 0, 0);
	AWAIT(info().resumes == 1);
	ck_assert_int_eq(rmem_lease_status(lease), 0);
	proxy_event(WIRE_TYPE_closing, 0, WIRE_REASON_SHUTDOWN);
	AWAIT(rmem_lease_status(lease) == -ESTALE);
	ck_assert_int_eq(rmem_ping(stage.client, NULL), -ESTALE);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "the server stops"));
}
END_TEST

START_TEST(session__ends_if_the_administrator_ends_it)
{
	rmem_lease *lease = open_with_lease(0);

	proxy_event(WIRE_TYPE_closing, 0, WIRE_REASON_REVOKED);
	AWAIT(rmem_lease_status(lease) == -ESTALE);
	ck_assert_int_eq(rmem_ping(stage.client, NULL), -ESTALE);
	ck_assert_ptr_nonnull(
		strstr(rmem_error(), "the server's administrator ended the session"));
}
END_TEST

START_TEST(session__resumes_after_a_protocol_error)
{
	open_with(0);
	/* a reply without a request */
	proxy_event(WIRE_TYPE_ok, 0, 0);
	AWAIT(info().resumes == 1);
}
END_TEST

static unsigned lowered; /* the limit that becomes lower */

static void edit_lower(struct wire_msg *msg)
{
	uint32_t *const limits[] = { &msg->welcome.requests_max,
				     &msg->welcome.stream_bytes_max,
				     &msg->welcome.inband_bytes_max,
				     &msg->welcome.inband_requests_max };

	if (msg->type == WIRE_TYPE_welcome)
		--*limits[lowered];
}

/* Queues go by the limits that they had when they were made. */
START_TEST(session__does_not_resume_with_lower_limits)
{
	rmem_lease *lease = open_with_lease(0);

	lowered = (unsigned)_i;
	proxy.edit = edit_lower;
	proxy_cut();
	AWAIT(rmem_write(lease, 0, stage.buf, 100) == -ESTALE);
}
END_TEST

static void edit_lease(struct wire_msg *msg)
{
	if (msg->type == WIRE_TYPE_lease)
		msg->type = WIRE_TYPE_ok;
}

/* Of all answers about leases; a client that connects anew for each of them would never end. */
START_TEST(replies__that_nobody_can_read_cost_no_connection)
{
	rmem_lease *lease = open_with_lease(0), *another;
	struct rmem_alloc_params params = rmem_alloc_params_init();

	proxy.edit = edit_lease;
	params.bytes = 1000;
	ck_assert_int_eq(rmem_alloc(stage.client, &params, &another), -EPROTO);
	ck_assert_msg(strstr(rmem_error(), "the server answers allocate with ok"), "%s",
		      rmem_error());
	proxy_cut();
	AWAIT(info().resumes == 1);
	ck_assert_int_eq(rmem_write(lease, 0, stage.buf, 100), -EPROTO);
	ck_assert_uint_eq(proxy.connections, 2);
	proxy.edit = NULL;
	AWAIT(rmem_write(lease, 0, stage.buf, 100) == 0);
}
END_TEST

/* ---- ends ---- */

START_TEST(close__frees_all_objects)
{
	struct rmem_buffer_params memory = rmem_buffer_params_init();
	rmem_buffer *buffer = NULL;
	rmem_lease *lease;

	serve_rdma();
	for (unsigned round = 0; round < 3; round++) {
		open_with(0);
		fake.automatic = true;
		lease = alloc(1000, NULL);
		memory.bytes = 8192;
		ck_assert_int_eq(rmem_buffer_create(stage.client, &memory, &buffer), 0);
		ck_assert_int_eq(rmem_write(lease, 0, rmem_buffer_addr(buffer), 100),
				 0);
		queue_open(1);
		fake.automatic = false;
		submit_write(lease);
		client_close();
		ck_assert_int_eq(fake.live, 0);
	}
}
END_TEST

static atomic_bool stop_threads;
static atomic_uint rounds;

static void *run_calls(void *arg)
{
	rmem_lease *lease = arg;
	unsigned char mine[64];

	while (!stop_threads) {
		int err = rmem_write(lease, 0, stage.buf, 64);

		if (!err)
			err = rmem_read(lease, 0, mine, 64);
		if (!err)
			err = rmem_ping(stage.client, NULL);
		ck_assert_msg(err == 0 || err == -ECONNRESET, "%d: %s", err,
			      rmem_error());
		if (!err)
			rounds++;
	}
	return NULL;
}

/* Three threads make calls while the connection is lost again and again. */
START_TEST(threads__share_a_session)
{
	pthread_t threads[3];

	open_with(_i ? RMEM_NO_THREAD : 0);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(
			pthread_create(&threads[i], NULL, run_calls, alloc(100, NULL)),
			0);
	for (unsigned i = 0; i < 5; i++) {
		unsigned before = rounds;

		proxy_cut();
		AWAIT(info().resumes > i && rounds > before + 10);
	}
	stop_threads = true;
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	ck_assert_uint_ge(info().resumes, 5);
}
END_TEST

int main(void)
{
	TCase *tc = core_case("session");

	tcase_add_test(tc, heartbeats__go_on);
	tcase_add_test(tc, session__resumes_after_a_lost_connection);
	tcase_add_test(tc, resume__with_many_leases);
	tcase_add_test(tc, resume__reports_why_a_lease_has_no_keys);
	tcase_add_test(tc, queue_create__does_not_wait_for_a_freed_lease);
	tcase_add_test(tc, session__resumes_when_a_lease_ends_meanwhile);
	tcase_add_loop_test(tc, session__resumes_and_connects_while_a_lease_changes, 0,
			    2);
	tcase_add_loop_test(tc, alloc__whose_reply_was_lost_takes_effect_once, 0, 2);
	tcase_add_test(tc, calls__whose_reply_was_lost_take_effect_once);
	tcase_add_test(tc, alloc__whose_error_was_lost_fails);
	tcase_add_test(tc, alloc__that_times_out_frees_the_granted_lease);
	tcase_add_test(tc, queue_create__whose_reply_was_lost);
	tcase_add_test(tc, reply__that_comes_too_late_frees_the_lease);
	tcase_add_test(tc, attach__is_not_undone_by_keys_of_an_earlier_handle);
	tcase_add_test(tc, mute_server__stops_operations_at_the_fence_time);
	tcase_add_test(tc, session__unknown_to_the_server_is_lost);
	tcase_add_test(tc, session__lost_while_it_resumes_says_so_of_its_leases);
	tcase_add_loop_test(tc, session__is_lost_after_the_grace_time, 0,
			    (int)(sizeof(not_now) / sizeof(not_now[0])));
	tcase_add_test(tc, session__resumes_when_fenced_and_ends_at_shutdown);
	tcase_add_test(tc, session__ends_if_the_administrator_ends_it);
	tcase_add_test(tc, session__resumes_after_a_protocol_error);
	tcase_add_loop_test(tc, session__does_not_resume_with_lower_limits, 0, 4);
	tcase_add_test(tc, replies__that_nobody_can_read_cost_no_connection);
	tcase_add_test(tc, close__frees_all_objects);
	tcase_add_loop_test(tc, threads__share_a_session, 0, 2);
	return unit_main();
}

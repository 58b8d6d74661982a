/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions with a scripted server: lost, resumed and ended. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/librmem/librmem-client.h"
#include "librmem/lease/lease.h"
#include "librmem/session/session.h"

/* ---- losing the connection ---- */

START_TEST(heartbeats__go_on)
{
	open_with(0);
	server_await(WIRE_TYPE_ping, 5);
	ck_assert_uint_eq(info().resumes, 0);
	rmem_close(client);
}
END_TEST

START_TEST(connection__lost_and_resumed)
{
	rmem_lease *lease;
	uint64_t ns = 0;

	open_with(0);
	lease = alloc(1000, NULL);
	ck_assert_int_eq(rmem_write(lease, 0, buf, 100), 0);
	server_lock();
	fake.refused_rkey = server.rkey;
	server_unlock();
	server_hang_up();
	/* a call made now waits for the session to be back */
	AWAIT(rmem_ping(client, &ns) == 0 && info().resumes == 1);
	ck_assert_uint_gt(ns, 0);
	ck_assert_uint_eq(server.resumed, 1);
	AWAIT(rmem_write(lease, 0, buf, 100) == 0);
	ck_assert_int_eq(rmem_lease_status(lease), 0);
	rmem_close(client);
}
END_TEST

static unsigned leases_count(void)
{
	unsigned n = 0;

	server_lock();
	for (unsigned i = 0; i < SERVER_LEASES; i++)
		n += server.leases[i].id != 0;
	server_unlock();
	return n;
}

/* The server takes so many requests at once: leases get their keys by and by. */
START_TEST(resume__with_many_leases)
{
	static rmem_lease *leases[SERVER_LEASES];

	ck_assert_uint_gt(SERVER_LEASES, REKEYS_MAX);
	open_with(0);
	for (unsigned i = 0; i < SERVER_LEASES; i++)
		leases[i] = alloc(1000, NULL);
	server_lock();
	server.hold_on = WIRE_TYPE_attach;
	server_unlock();
	server_hang_up();
	server_await(WIRE_TYPE_attach, REKEYS_MAX);
	/* comes behind all that were asked for */
	ck_assert_int_eq(rmem_ping(client, NULL), 0);
	ck_assert_uint_eq(server.seen[WIRE_TYPE_attach], REKEYS_MAX);
	ck_assert_uint_eq(info().resumes, 0);
	/* one that waits for its turn may go */
	ck_assert_int_eq(rmem_free(leases[SERVER_LEASES - 1]), 0);
	server_release();
	AWAIT(info().resumes == 1);
	ck_assert_uint_ge(server.seen[WIRE_TYPE_attach], SERVER_LEASES - 1);
	for (unsigned i = 0; i < SERVER_LEASES - 1; i++)
		AWAIT(rmem_write(leases[i], 0, buf, 100) == 0);
	rmem_close(client);
}
END_TEST

/* Who waits until all leases have their keys does not wait for one that is gone. */
START_TEST(queue__waits_for_the_keys_of_a_lease_that_goes)
{
	rmem_queue *queue = NULL;
	rmem_lease *lease;
	pthread_t thread;
	unsigned channels;
	uint64_t start = clock_now_ms();

	open_with(0);
	lease = alloc(1000, NULL);
	server_lock();
	server.hold_on = WIRE_TYPE_attach;
	channels = server.seen[WIRE_TYPE_open_channel];
	server_unlock();
	server_event(WIRE_TYPE_changed, rmem_lease_id(lease), 0);
	server_await(WIRE_TYPE_attach, 1);
	ck_assert_int_eq(pthread_create(&thread, NULL, queue_make, &queue), 0);
	server_await(WIRE_TYPE_open_channel, channels + 1);
	/* a lease that has ended is freed without the server's help */
	server_event(WIRE_TYPE_revoked, rmem_lease_id(lease), WIRE_REASON_REVOKED);
	AWAIT(rmem_lease_status(lease) == -ESTALE);
	for (unsigned i = 0; i < 20; i++)
		breathe();
	ck_assert_uint_eq(fake.connects, 1);
	ck_assert_int_eq(rmem_free(lease), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_ptr_nonnull(queue);
	/* it looks by itself when its time-out of 10 s is over */
	ck_assert_uint_lt(clock_now_ms() - start, 8000);
	server_release();
	rmem_close(client);
}
END_TEST

static void drop_on(unsigned type)
{
	server_lock();
	server.drop_on = type;
	server.done = server.repeated = 0;
	server_unlock();
}

/* The request before was done once, though it was asked twice. */
static void check_once(void)
{
	ck_assert_uint_eq(server.done, 1);
	ck_assert_uint_eq(server.repeated, 1);
}

START_TEST(allocate__whose_answer_was_lost)
{
	rmem_lease *lease;

	open_with(_i ? RMEM_NO_THREAD : 0);
	drop_on(WIRE_TYPE_allocate);
	lease = alloc(1000, "name");
	check_once();
	ck_assert_uint_eq(leases_count(), 1);
	ck_assert_uint_eq(rmem_lease_bytes(lease), 1000);
	AWAIT(rmem_write(lease, 0, buf, 100) == 0);
	ck_assert_uint_eq(info().resumes, 1);
	ck_assert_int_eq(rmem_free(lease), 0);
	ck_assert_uint_eq(leases_count(), 0);
	rmem_close(client);
}
END_TEST

START_TEST(change__whose_answer_was_lost)
{
	rmem_lease *lease;
	struct rmem_stat stat;

	open_with(0);
	lease = alloc(1000, "name");
	drop_on(WIRE_TYPE_resize);
	ck_assert_int_eq(rmem_grow(lease, 2000), 0);
	ck_assert_uint_eq(rmem_lease_bytes(lease), 2000);
	check_once();
	drop_on(WIRE_TYPE_rename);
	ck_assert_int_eq(rmem_rename(lease, "other", 0), 0);
	check_once();
	drop_on(WIRE_TYPE_renew);
	ck_assert_int_eq(rmem_renew(lease, 1000), 0);
	check_once();
	drop_on(WIRE_TYPE_detach);
	ck_assert_int_eq(rmem_detach(lease), 0);
	check_once();
	/* the lease's keys may have been asked for meanwhile: the server has heard that */
	ck_assert_int_eq(rmem_ping(client, NULL), 0);
	drop_on(WIRE_TYPE_attach);
	ck_assert_int_eq(rmem_attach(client, "other", RMEM_READ | RMEM_WRITE, &lease),
			 0);
	check_once();
	ck_assert_uint_eq(rmem_lease_bytes(lease), 2000);
	drop_on(WIRE_TYPE_stat);
	ck_assert_int_eq(rmem_stat(client, "other", &stat), 0);
	drop_on(WIRE_TYPE_free);
	ck_assert_int_eq(rmem_free(lease), 0);
	check_once();
	lease = alloc(10, "third");
	drop_on(WIRE_TYPE_remove);
	ck_assert_int_eq(rmem_remove(client, "third"), 0);
	check_once();
	ck_assert_uint_eq(leases_count(), 0);
	rmem_close(client);
}
END_TEST

START_TEST(failure__whose_answer_was_lost)
{
	struct rmem_alloc_params params = RMEM_ALLOC_INIT;
	rmem_lease *lease = NULL;

	open_with(0);
	server_lock();
	server.fail_on = WIRE_TYPE_allocate;
	server.fail_errno = EDQUOT;
	server_unlock();
	drop_on(WIRE_TYPE_allocate);
	params.bytes = 10;
	ck_assert_int_eq(rmem_alloc(client, &params, &lease), -EDQUOT);
	check_once();
	ck_assert_uint_eq(leases_count(), 0);
	rmem_close(client);
}
END_TEST

/* The caller gives up before the session is back: what was granted is given back. */
START_TEST(allocate__given_up_while_lost)
{
	struct rmem_options options = RMEM_OPTIONS_INIT;
	struct rmem_alloc_params params = RMEM_ALLOC_INIT;
	rmem_lease *lease = NULL;

	options.timeout_ms = 300;
	ck_assert_int_eq(rmem_open(uri, &options, &client), 0);
	server_lock();
	server.refuse = EAGAIN;
	server_unlock();
	drop_on(WIRE_TYPE_allocate);
	params.bytes = 10;
	ck_assert_int_eq(rmem_alloc(client, &params, &lease), -ETIMEDOUT);
	ck_assert_uint_eq(leases_count(), 1);
	server_lock();
	server.refuse = 0;
	server_unlock();
	server_await(WIRE_TYPE_free, 1);
	ck_assert_uint_eq(server.seen[WIRE_TYPE_allocate], 2);
	ck_assert_uint_eq(leases_count(), 0);
	rmem_close(client);
}
END_TEST

START_TEST(queue__whose_channel_was_lost)
{
	struct rmem_queue_params params = RMEM_QUEUE_INIT;
	rmem_queue *queue = NULL;

	open_with(0);
	drop_on(WIRE_TYPE_open_channel);
	ck_assert_int_eq(rmem_queue_create(client, &params, &queue), 0);
	ck_assert_uint_eq(info().resumes, 1);
	rmem_close(client);
}
END_TEST

START_TEST(attach__twice)
{
	rmem_lease *lease = NULL;

	open_with(0);
	lease = alloc(100, "name");
	ck_assert_int_eq(rmem_attach(client, "name", RMEM_READ, &lease), -EBUSY);
	rmem_close(client);
}
END_TEST

START_TEST(answer__that_comes_too_late)
{
	struct rmem_options options = RMEM_OPTIONS_INIT;
	struct rmem_alloc_params params = RMEM_ALLOC_INIT;
	rmem_lease *lease = NULL;

	server.welcome.heartbeat_ms = 5000;
	server.welcome.fence_ms = 20000;
	options.timeout_ms = 300;
	ck_assert_int_eq(rmem_open(uri, &options, &client), 0);
	server_lock();
	server.delay_on = WIRE_TYPE_allocate;
	server_unlock();
	params.bytes = 10;
	ck_assert_int_eq(rmem_alloc(client, &params, &lease), -ETIMEDOUT);
	/* the next answer brings the lease nobody wants any more: it is given back */
	ck_assert_int_eq(rmem_ping(client, NULL), 0);
	server_await(WIRE_TYPE_free, 1);
	rmem_close(client);
}
END_TEST

START_TEST(mute_server__stops_the_client_in_time)
{
	struct rmem_queue_params params = RMEM_QUEUE_INIT;
	struct rmem_op op = {
		.opcode = RMEM_OP_WRITE, .addr = buf, .bytes = 1, .timeout_ms = 50
	};
	struct rmem_completion completion;
	rmem_queue *queue = NULL;
	uint64_t start, before;

	server.welcome.fence_ms = 200;
	open_with(0);
	op.lease = alloc(1000, NULL);
	ck_assert_int_eq(rmem_queue_create(client, &params, &queue), 0);
	server_lock();
	server.mute = true;
	start = clock_now_ms();
	server_unlock();
	/* by the client's clock, which runs from the sending of the last answered ping, no
	 * operation may start once 200 ms have passed, however late the service is */
	do {
		before = clock_now_ms();
		ck_assert_int_eq(rmem_submit(queue, &op, 1), 1);
		ck_assert_int_eq(rmem_wait(queue, &completion, 1, 1, -1), 1);
		ck_assert(completion.status || before <= start + 200);
	} while (!completion.status);
	ck_assert_int_eq(completion.status, -ETIMEDOUT);
	server_lock();
	server.mute = false;
	server_unlock();
	/* what has more time waits until the session is back */
	ck_assert_int_eq(rmem_write(op.lease, 0, buf, 1), 0);
	ck_assert_uint_ge(info().resumes, 1);
	rmem_close(client);
}
END_TEST

START_TEST(session__that_is_unknown_is_lost)
{
	rmem_lease *lease;
	struct rmem_alloc_params params = RMEM_ALLOC_INIT;

	open_with(0);
	lease = alloc(1000, "name");
	server_lock();
	server.forget = true;
	server_unlock();
	server_hang_up();
	AWAIT(rmem_lease_status(lease) == -ESTALE);
	ck_assert_int_eq(rmem_write(lease, 0, buf, 1), -ESTALE);
	ck_assert_int_eq(rmem_alloc(client, &params, &lease), -ESTALE);
	ck_assert_int_eq(rmem_ping(client, NULL), -ESTALE);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "the session is unknown"));
	rmem_close(client);
	ck_assert_uint_eq(server.seen[WIRE_TYPE_bye], 0);
}
END_TEST

START_TEST(session__whose_grace_is_over_is_lost)
{
	rmem_lease *lease;

	server.welcome.fence_ms = 200;
	server.welcome.grace_ms = 100;
	open_with(0);
	lease = alloc(1000, NULL);
	server_lock();
	server.refuse = EAGAIN;
	server_unlock();
	server_hang_up();
	AWAIT(rmem_lease_status(lease) == -ESTALE);
	rmem_close(client);
}
END_TEST

START_TEST(session__closed_by_the_server)
{
	rmem_lease *lease;

	open_with(0);
	lease = alloc(1000, NULL);
	/* fenced: come back */
	server_event(WIRE_TYPE_closing, 0, WIRE_REASON_FENCED);
	AWAIT(info().resumes == 1);
	ck_assert_int_eq(rmem_lease_status(lease), 0);
	server_event(WIRE_TYPE_closing, 0, WIRE_REASON_SHUTDOWN);
	AWAIT(rmem_lease_status(lease) == -ESTALE);
	ck_assert_int_eq(rmem_ping(client, NULL), -ESTALE);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "the server stops"));
	rmem_close(client);
}
END_TEST

START_TEST(server__that_breaks_the_protocol)
{
	open_with(0);
	/* answers what was not asked */
	server_event(WIRE_TYPE_ok, 0, 0);
	AWAIT(info().resumes == 1);
	rmem_close(client);
}
END_TEST

/* ---- ends ---- */

START_TEST(close__frees_everything)
{
	struct rmem_queue_params params = RMEM_QUEUE_INIT;
	struct rmem_buffer_params memory = RMEM_BUFFER_INIT;
	struct rmem_op op = { .opcode = RMEM_OP_WRITE, .addr = buf, .bytes = 9 };
	rmem_queue *queue = NULL;
	rmem_buffer *buffer = NULL;

	serve_rdma();
	for (unsigned round = 0; round < 3; round++) {
		open_with(0);
		fake.automatic = true;
		op.lease = alloc(1000, NULL);
		memory.bytes = 8192;
		ck_assert_int_eq(rmem_buffer_create(client, &memory, &buffer), 0);
		ck_assert_int_eq(rmem_write(op.lease, 0, rmem_buffer_addr(buffer), 100),
				 0);
		ck_assert_int_eq(rmem_queue_create(client, &params, &queue), 0);
		fake.automatic = false;
		ck_assert_int_eq(rmem_submit(queue, &op, 1), 1);
		rmem_close(client);
		ck_assert_int_eq(fake.live, 0);
		server_lock();
		memset(server.leases, 0, sizeof(server.leases));
		server_unlock();
	}
}
END_TEST

static atomic_bool enough;
static atomic_uint rounds;

static void *inflight(void *arg)
{
	rmem_lease *lease = arg;
	unsigned char mine[64];

	while (!enough) {
		int err = rmem_write(lease, 0, buf, 64);

		if (!err)
			err = rmem_read(lease, 0, mine, 64);
		if (!err)
			err = rmem_ping(client, NULL);
		ck_assert_msg(err == 0 || err == -ECONNRESET, "%d: %s", err,
			      rmem_error());
		if (!err)
			rounds++;
	}
	return NULL;
}

/* Three threads at work while the connection is lost again and again. */
START_TEST(threads__share_a_session)
{
	pthread_t threads[3];

	open_with(_i ? RMEM_NO_THREAD : 0);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(
			pthread_create(&threads[i], NULL, inflight, alloc(100, NULL)),
			0);
	for (unsigned i = 0; i < 5; i++) {
		unsigned before = rounds;

		server_hang_up();
		AWAIT(info().resumes > i && rounds > before + 10);
	}
	enough = true;
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	ck_assert_uint_ge(info().resumes, 5);
	rmem_close(client);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("librmem-session");
	TCase *tc = tcase_create("session");

	tcase_add_checked_fixture(tc, client_setup, client_teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, heartbeats__go_on);
	tcase_add_test(tc, connection__lost_and_resumed);
	tcase_add_test(tc, resume__with_many_leases);
	tcase_add_test(tc, queue__waits_for_the_keys_of_a_lease_that_goes);
	tcase_add_loop_test(tc, allocate__whose_answer_was_lost, 0, 2);
	tcase_add_test(tc, change__whose_answer_was_lost);
	tcase_add_test(tc, failure__whose_answer_was_lost);
	tcase_add_test(tc, allocate__given_up_while_lost);
	tcase_add_test(tc, queue__whose_channel_was_lost);
	tcase_add_test(tc, attach__twice);
	tcase_add_test(tc, answer__that_comes_too_late);
	tcase_add_test(tc, mute_server__stops_the_client_in_time);
	tcase_add_test(tc, session__that_is_unknown_is_lost);
	tcase_add_test(tc, session__whose_grace_is_over_is_lost);
	tcase_add_test(tc, session__closed_by_the_server);
	tcase_add_test(tc, server__that_breaks_the_protocol);
	tcase_add_test(tc, close__frees_everything);
	tcase_add_loop_test(tc, threads__share_a_session, 0, 2);
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}

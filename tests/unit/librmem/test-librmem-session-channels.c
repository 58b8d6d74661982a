/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels of sessions that are connected again after a loss, joined without rdma_cm, or
 * refused. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "unit/librmem/core-case.h"

/* The connection that was made last ends, and the library makes another one. */
static void replace_connection(void)
{
	struct rmem_completion completion;
	unsigned connects = fake.connects;

	fake_peer_gone(fake_latest());
	AWAIT(rmem_poll(stage.queue, &completion, 1) == 0 &&
	      fake.connects == connects + 1);
}

START_TEST(channel__whose_peer_is_gone_is_replaced)
{
	rmem_lease *lease = open_with_lease(0);

	queue_open(1);
	replace_connection();
	proxy_await(WIRE_TYPE_close_channel, 1);
	ck_assert_int_eq(queue_write(lease), 0);
	rmem_queue_free(stage.queue);
}
END_TEST

static void *run_alloc(void *arg)
{
	(void)arg;
	(void)alloc(2000, NULL);
	return NULL;
}

/* The thread that waits for the reply drives the session instead of the service threads. */
START_TEST(channel__is_replaced_while_a_call_waits)
{
	pthread_t caller;

	open_with(0);
	queue_open(1);
	proxy.hold = WIRE_TYPE_allocate;
	ck_assert_int_eq(pthread_create(&caller, NULL, run_alloc, NULL), 0);
	proxy_await(WIRE_TYPE_allocate, 1);
	for (unsigned i = 0; i < 5; i++)
		replace_connection();
	proxy_release();
	ck_assert_int_eq(pthread_join(caller, NULL), 0);
	rmem_queue_free(stage.queue);
}
END_TEST

START_TEST(queue_create__fails_without_its_channels)
{
	struct rmem_queue_params deep = rmem_queue_params_init();

	open_with(0);
	proxy_fail(WIRE_TYPE_open_channel, EDQUOT, 2);
	ck_assert_int_eq(queue_result(3), -EDQUOT);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "channel 3 of 3"));
	proxy_await(WIRE_TYPE_close_channel, 2);
	ck_assert_int_eq(queue_result(RMEM_CHANNELS_MAX + 1), -EINVAL);
	deep.depth = RMEM_DEPTH_MAX + 1;
	ck_assert_int_eq(rmem_queue_create(stage.client, &deep, &stage.queue), -EINVAL);
	fake.cq_err = -ENOMEM;
	ck_assert_int_eq(queue_result(1), -ENOMEM);
	fake.cq_err = 0;
	ck_assert_ptr_null(stage.queue);
}
END_TEST

START_TEST(operations__wait_until_the_session_has_resumed)
{
	rmem_lease *lease = open_with_lease(0);

	queue_open(1);
	fake.automatic = false;
	submit_write(lease);
	proxy_cut();
	/* the posted write is flushed, and posted again */
	AWAIT(info().resumes == 1);
	fake.automatic = true;
	ck_assert_int_eq(wait_status(), 0);
	/* the channel is connected while the operation waits in the queue */
	ck_assert_int_eq(queue_write(lease), 0);
}
END_TEST

/* The device reports no completions. */
START_TEST(wait__without_completions_times_out)
{
	rmem_lease *lease;

	ck_assert_int_eq(open_within(0, 1000), 0);
	lease = alloc(1000, NULL);
	queue_open(1);
	fake.automatic = false;
	fake.hold_flush = true;
	ck_assert_int_eq(queue_write(lease), -ETIMEDOUT);
	ck_assert_int_eq(rmem_write(lease, 0, stage.buf, 9), -ETIMEDOUT);
	rmem_queue_free(stage.queue);
}
END_TEST

/* The timer that rmem_queue_arm() has set expires, and the program waits in rmem_wait() after. */
START_TEST(wait__sleeps_after_the_timer_has_expired)
{
	rmem_lease *lease = open_with_lease(0);
	struct rmem_op op = { .opcode = RMEM_OP_READ,
			      .lease = lease,
			      .addr = stage.buf,
			      .bytes = 9,
			      .timeout_ms = 20 };
	struct rmem_completion completion;
	struct pollfd pollfd = { .events = POLLIN };
	unsigned arms;

	queue_open(1);
	fake.automatic = false;
	pollfd.fd = rmem_queue_fd(stage.queue);
	ck_assert_int_eq(rmem_submit(stage.queue, &op, 1), 1);
	ck_assert_int_eq(rmem_queue_arm(stage.queue), 0);
	ck_assert_int_eq(poll(&pollfd, 1, 5000), 1);
	ck_assert_int_eq(wait_status(), -ETIMEDOUT);
	op.timeout_ms = 60000;
	ck_assert_int_eq(rmem_submit(stage.queue, &op, 1), 1);
	arms = fake.arms;
	ck_assert_int_eq(rmem_wait(stage.queue, &completion, 1, 1, 100), 0);
	ck_assert_uint_lt(fake.arms - arms, 20);
}
END_TEST

/* ---- operations that end in an error ---- */

static void open_for_cancel(bool rdma)
{
	rmem_lease *lease;

	if (rdma)
		serve_rdma();
	open_over(0, rdma ? RMEM_FABRIC_RDMA : RMEM_FABRIC_TCP);
	lease = alloc(1000, NULL);
	queue_open(1);
	fake.automatic = false;
	submit_write(lease);
}

static int poll_status(int *ret_status)
{
	struct rmem_completion completion;
	int n = rmem_poll(stage.queue, &completion, 1);

	if (n == 1)
		*ret_status = completion.status;
	return n;
}

/* Until the server confirms that its end of the channel is closed, the write may be applied.  On
 * both fabrics. */
START_TEST(cancelled_write__is_reported_when_the_server_has_closed_its_channel)
{
	int status = 0;

	open_for_cancel(_i);
	proxy.hold = WIRE_TYPE_close_channel;
	ck_assert_int_eq(rmem_cancel(stage.queue, NULL), 1);
	AWAIT(poll_status(&status) == 0 && proxy.seen[WIRE_TYPE_close_channel] == 1);
	ck_assert_int_eq(poll_status(&status), 0);
	proxy_release();
	ck_assert_int_eq(wait_status(), -ECANCELED);
	ck_assert_uint_eq(info().resumes, 0);
}
END_TEST

/* A server that does not answer any more has fenced the session after two fence times at most: one
 * until the client gives it up, one from its last heartbeat. */
START_TEST(cancelled_write__is_reported_when_a_silent_server_has_fenced)
{
	uint64_t start_ms;

	set_heartbeat(200, 1000);
	open_for_cancel(_i);
	proxy.mute = true;
	start_ms = clock_now_ms();
	ck_assert_int_eq(rmem_cancel(stage.queue, NULL), 1);
	ck_assert_int_eq(wait_status(), -ECANCELED);
	/* not before the second */
	ck_assert_uint_ge(clock_now_ms() - start_ms, 1000);
	ck_assert_uint_eq(info().resumes, 0);
}
END_TEST

/* The server answers heartbeats, but not the request to close its end of the channel: the client
 * gives the connection up, and the server's end is closed with its side of the session. */
START_TEST(cancelled_write__is_reported_when_the_server_does_not_answer)
{
	set_heartbeat(200, 1000);
	open_for_cancel(_i);
	proxy.hold = WIRE_TYPE_close_channel;
	ck_assert_int_eq(rmem_cancel(stage.queue, NULL), 1);
	ck_assert_int_eq(wait_status(), -ECANCELED);
	AWAIT(info().resumes > 0);
}
END_TEST

/* ---- synchronous calls of several threads ---- */

#define CALLERS 5

struct caller {
	pthread_t thread;
	rmem_lease *lease;
	int result;
	char text[200];
};

static void *run_write(void *arg)
{
	struct caller *caller = arg;

	caller->result = rmem_write(caller->lease, 0, stage.buf, 9);
	(void)snprintf(caller->text, sizeof(caller->text), "%s", rmem_error());
	return NULL;
}

static void callers_start(struct caller *callers, unsigned n, rmem_lease *lease)
{
	for (unsigned i = 0; i < n; i++) {
		callers[i].lease = lease;
		ck_assert_int_eq(pthread_create(&callers[i].thread, NULL, run_write,
						&callers[i]),
				 0);
	}
}

/* One call takes longer than its time-out, as the server does not close its channel.  The time-outs
 * of the others count meanwhile. */
START_TEST(synchronous_calls__time_out_while_they_wait_for_others)
{
	struct caller first, others[CALLERS];

	ck_assert_int_eq(open_within(0, 1000), 0);
	fake.automatic = false;
	proxy.hold = WIRE_TYPE_close_channel;
	callers_start(&first, 1, alloc(1000, NULL));
	AWAIT(fake.posts == 1);
	callers_start(others, CALLERS, first.lease);
	for (unsigned i = 0; i < CALLERS; i++) {
		ck_assert_int_eq(pthread_join(others[i].thread, NULL), 0);
		ck_assert_int_eq(others[i].result, -ETIMEDOUT);
		ck_assert_ptr_nonnull(strstr(others[i].text, "of other threads"));
	}
	ck_assert_uint_eq(fake.posts, 1);
	proxy_release();
	ck_assert_int_eq(pthread_join(first.thread, NULL), 0);
	ck_assert_int_eq(first.result, -ETIMEDOUT);
	fake.automatic = true;
	ck_assert_int_eq(rmem_write(first.lease, 0, stage.buf, 9), 0);
}
END_TEST

/* ---- channels that are joined without rdma_cm ---- */

static unsigned session_flags;

/* Serve one endpoint without rdma_cm; the first of two runs has a service thread. */
static void open_direct(int run)
{
	serve_devices(1);
	fake_endpoints[1].flags |= FABRIC_ENDPOINT_DIRECT;
	session_flags = run ? RMEM_NO_THREAD : 0;
	open_over(session_flags, RMEM_FABRIC_RDMA);
}

/* Drive a session without a service thread. */
static bool drive(void)
{
	return session_flags == 0 || rmem_process(stage.client) <= 0;
}

static uint32_t joined_channel(void)
{
	return proxy.last[WIRE_TYPE_join_channel].join_channel.channel;
}

static void end_channel(void *arg)
{
	fake_server_end_channel(*(uint32_t *)arg);
}

/* The server ends the channel that was joined last. */
static void end_joined_channel(void)
{
	uint32_t channel = joined_channel();

	core_call(end_channel, &channel);
}

/* A channel without rdma_cm does not notice the end of its peer. */
START_TEST(joined__is_replaced_after_an_event)
{
	rmem_lease *lease;
	uint32_t first;

	open_direct(_i);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_join_channel], 1);
	first = joined_channel();
	ck_assert_uint_eq(fake.joined_qpn,
			  proxy.last[WIRE_TYPE_join_channel].join_channel.qpn + 1);
	lease = alloc(1000, NULL);
	ck_assert_int_eq(rmem_write(lease, 0, stage.buf, 10), 0);
	/* events about unknown channels are ignored */
	proxy_event(WIRE_TYPE_channel_ended, 0, 0);
	proxy_event(WIRE_TYPE_channel_ended, first + 7, 0);
	ck_assert_int_eq(rmem_write(lease, 0, stage.buf, 10), 0);
	ck_assert_uint_eq(fake.connects, 1);
	end_joined_channel();
	ck_assert_int_eq(rmem_ping(stage.client, NULL), 0);
	/* the queue's owner may have aborted it, too */
	ck_assert_uint_ge(fake.aborts, 1);
	/* the thread that writes joins a new one */
	ck_assert_int_eq(rmem_write(lease, 0, stage.buf, 10), 0);
	ck_assert_uint_eq(fake.connects, 2);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_join_channel], 2);
	ck_assert_uint_gt(joined_channel(), first);
	ck_assert_uint_eq(info().resumes, 0);
}
END_TEST

/* Otherwise the server would keep its end until the session ends. */
START_TEST(joined__is_closed_when_joining_again_fails)
{
	rmem_lease *lease;

	open_direct(_i);
	lease = alloc(1000, NULL);
	ck_assert_int_eq(rmem_write(lease, 0, stage.buf, 10), 0);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_close_channel], 0);
	proxy_fail(WIRE_TYPE_join_channel, EACCES, 0);
	end_joined_channel();
	ck_assert_int_eq(rmem_ping(stage.client, NULL), 0);
	ck_assert_int_eq(rmem_write(lease, 0, stage.buf, 10), 0);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_join_channel], 3);
	/* the channel that ended, and the one that was not joined */
	ck_assert_int_eq(rmem_ping(stage.client, NULL), 0);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_close_channel], 2);
}
END_TEST

START_TEST(joined__is_closed_when_the_server_refuses)
{
	struct rmem_completion completion;

	open_direct(_i);
	proxy_fail(WIRE_TYPE_join_channel, EACCES, 0);
	ck_assert_int_eq(queue_result(0), -EACCES);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "it failed"));
	proxy_await(WIRE_TYPE_close_channel, 1);
	queue_open(1);
	/* the connection is lost, and the session resumes, while a channel is joined again */
	proxy_cut();
	AWAIT(drive() && info().resumes == 1);
	AWAIT(drive() && rmem_poll(stage.queue, &completion, 1) == 0 &&
	      proxy.seen[WIRE_TYPE_join_channel] >= 4);
}
END_TEST

START_TEST(joined__is_replaced_before_its_queue_exists)
{
	pthread_t thread;

	open_direct(_i);
	proxy.hold = WIRE_TYPE_join_channel;
	ck_assert_int_eq(pthread_create(&thread, NULL, run_queue_open, NULL), 0);
	proxy_await(WIRE_TYPE_joined, 2);
	end_joined_channel();
	proxy_release();
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_ptr_nonnull(stage.queue);
	AWAIT(drive() && rmem_poll(stage.queue, NULL, 0) == 0 &&
	      proxy.seen[WIRE_TYPE_join_channel] == 3);
}
END_TEST

/* The session's time-out is that of all channels together. */
START_TEST(queue_create__takes_the_time_out_at_most)
{
	ck_assert_int_eq(open_within(0, 20000), 0);
	fake.slow_ms = 300;
	queue_open(4);
	/* three channels have taken 900 ms */
	ck_assert_uint_le(fake.connect_timeout_ms, 19101);
	fake.slow_ms = 0;
}
END_TEST

int main(void)
{
	TCase *tc = core_case("session-channels");

	tcase_add_test(tc, channel__whose_peer_is_gone_is_replaced);
	tcase_add_test(tc, channel__is_replaced_while_a_call_waits);
	tcase_add_test(tc, queue_create__fails_without_its_channels);
	tcase_add_test(tc, operations__wait_until_the_session_has_resumed);
	tcase_add_test(tc, wait__without_completions_times_out);
	tcase_add_test(tc, wait__sleeps_after_the_timer_has_expired);
	tcase_add_loop_test(
		tc, cancelled_write__is_reported_when_the_server_has_closed_its_channel,
		0, 2);
	tcase_add_loop_test(
		tc, cancelled_write__is_reported_when_a_silent_server_has_fenced, 0, 2);
	tcase_add_test(tc, synchronous_calls__time_out_while_they_wait_for_others);
	tcase_add_loop_test(tc, joined__is_replaced_after_an_event, 0, 2);
	tcase_add_loop_test(
		tc, cancelled_write__is_reported_when_the_server_does_not_answer, 0, 2);
	tcase_add_loop_test(tc, joined__is_closed_when_joining_again_fails, 0, 2);
	tcase_add_loop_test(tc, joined__is_closed_when_the_server_refuses, 0, 2);
	tcase_add_loop_test(tc, joined__is_replaced_before_its_queue_exists, 0, 2);
	tcase_add_test(tc, queue_create__takes_the_time_out_at_most);
	return unit_main();
}

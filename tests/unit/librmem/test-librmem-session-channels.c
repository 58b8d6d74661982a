/* SPDX-License-Identifier: BSD-3-Clause */
/* The channels of sessions with a scripted server: replaced when they are lost, joined without
 * rdma_cm, or not to be had. */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "unit/librmem/librmem-client.h"

START_TEST(channel__whose_peer_is_gone_is_replaced)
{
	struct rmem_queue_params params = RMEM_QUEUE_INIT;
	struct rmem_completion completion;
	rmem_queue *queue = NULL;
	struct rmem_op op = { .opcode = RMEM_OP_WRITE, .addr = buf, .bytes = 9 };
	unsigned connects;

	open_with(0);
	op.lease = alloc(1000, NULL);
	ck_assert_int_eq(rmem_queue_create(client, &params, &queue), 0);
	connects = fake.connects;
	fake_peer_gone(fake_latest());
	ck_assert_int_eq(rmem_wait(queue, &completion, 1, 1, 0), 0);
	AWAIT(rmem_poll(queue, &completion, 1) == 0 && fake.connects == connects + 1);
	server_await(WIRE_TYPE_close_channel, 1);
	ck_assert_int_eq(rmem_submit(queue, &op, 1), 1);
	ck_assert_int_eq(rmem_wait(queue, &completion, 1, 1, -1), 1);
	ck_assert_int_eq(completion.status, 0);
	rmem_queue_free(queue);
	rmem_close(client);
}
END_TEST

static void *slow_allocation(void *arg)
{
	(void)arg;
	(void)alloc(2000, NULL);
	return NULL;
}

/* Who waits for an answer drives the session in place of the service threads. */
START_TEST(channel__is_replaced_while_an_answer_takes_long)
{
	struct rmem_queue_params params = RMEM_QUEUE_INIT;
	struct rmem_completion completion;
	rmem_queue *queue = NULL;
	unsigned connects;
	pthread_t caller;

	open_with(0);
	ck_assert_int_eq(rmem_queue_create(client, &params, &queue), 0);
	server_lock();
	server.hold_on = WIRE_TYPE_allocate;
	server_unlock();
	ck_assert_int_eq(pthread_create(&caller, NULL, slow_allocation, NULL), 0);
	server_await(WIRE_TYPE_allocate, 1);
	for (unsigned i = 0; i < 5; i++) {
		connects = fake.connects;
		fake_peer_gone(fake_latest());
		AWAIT(rmem_poll(queue, &completion, 1) == 0 &&
		      fake.connects == connects + 1);
	}
	server_release();
	ck_assert_int_eq(pthread_join(caller, NULL), 0);
	rmem_queue_free(queue);
	rmem_close(client);
}
END_TEST

START_TEST(queue__that_cannot_have_its_channels)
{
	struct rmem_queue_params params = RMEM_QUEUE_INIT;
	rmem_queue *queue = NULL;

	open_with(0);
	params.channels = 3;
	server_lock();
	server.fail_on = WIRE_TYPE_open_channel;
	server.fail_errno = EDQUOT;
	server.fail_skip = 2;
	server_unlock();
	ck_assert_int_eq(rmem_queue_create(client, &params, &queue), -EDQUOT);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "channel 3 of 3"));
	server_await(WIRE_TYPE_close_channel, 2);
	params.channels = RMEM_CHANNELS_MAX + 1;
	ck_assert_int_eq(rmem_queue_create(client, &params, &queue), -EINVAL);
	params.channels = 1;
	params.depth = RMEM_DEPTH_MAX + 1;
	ck_assert_int_eq(rmem_queue_create(client, &params, &queue), -EINVAL);
	params.depth = 0;
	fake.cq_err = -ENOMEM;
	ck_assert_int_eq(rmem_queue_create(client, &params, &queue), -ENOMEM);
	fake.cq_err = 0;
	ck_assert_ptr_null(queue);
	rmem_close(client);
}
END_TEST

START_TEST(operations__wait_out_a_resume)
{
	struct rmem_queue_params params = RMEM_QUEUE_INIT;
	struct rmem_op op = { .opcode = RMEM_OP_WRITE, .addr = buf, .bytes = 9 };
	struct rmem_completion completion;
	rmem_queue *queue = NULL;

	open_with(0);
	op.lease = alloc(1000, NULL);
	ck_assert_int_eq(rmem_queue_create(client, &params, &queue), 0);
	fake.automatic = false;
	ck_assert_int_eq(rmem_submit(queue, &op, 1), 1);
	server_hang_up();
	/* what was under way is flushed, and posted again */
	AWAIT(info().resumes == 1);
	fake.automatic = true;
	ck_assert_int_eq(rmem_wait(queue, &completion, 1, 1, -1), 1);
	ck_assert_int_eq(completion.status, 0);
	/* the channel comes while the operation waits in the queue */
	ck_assert_int_eq(rmem_submit(queue, &op, 1), 1);
	ck_assert_int_eq(rmem_wait(queue, &completion, 1, 1, -1), 1);
	ck_assert_int_eq(completion.status, 0);
	rmem_close(client);
}
END_TEST

/* A device that gives no completions holds up nobody for ever. */
START_TEST(wait__for_what_never_completes)
{
	struct rmem_options options = RMEM_OPTIONS_INIT;
	struct rmem_queue_params params = RMEM_QUEUE_INIT;
	struct rmem_op op = { .opcode = RMEM_OP_WRITE, .addr = buf, .bytes = 9 };
	struct rmem_completion completion;
	rmem_queue *queue = NULL;

	options.timeout_ms = 100;
	ck_assert_int_eq(rmem_open(uri, &options, &client), 0);
	op.lease = alloc(1000, NULL);
	ck_assert_int_eq(rmem_queue_create(client, &params, &queue), 0);
	fake.automatic = false;
	fake.hold_flush = true;
	ck_assert_int_eq(rmem_submit(queue, &op, 1), 1);
	ck_assert_int_eq(rmem_wait(queue, &completion, 1, 1, -1), 1);
	ck_assert_int_eq(completion.status, -ETIMEDOUT);
	ck_assert_int_eq(rmem_write(op.lease, 0, buf, 9), -ETIMEDOUT);
	rmem_queue_free(queue);
	rmem_close(client);
}
END_TEST

static void serve_direct(void)
{
	serve_rdma();
	server.welcome.n_endpoints = 2;
	server.welcome.endpoints[1].flags = WIRE_ENDPOINT_DIRECT;
}

/* What a lost server is to a channel: only a server that is there can tell. */
START_TEST(channel__that_is_joined_ends_by_the_servers_word)
{
	unsigned flags = _i ? RMEM_NO_THREAD : 0;
	rmem_lease *lease;
	uint32_t first;

	serve_direct();
	open_with(flags);
	ck_assert_int_eq(info().fabric, RMEM_FABRIC_RDMA);
	ck_assert_uint_eq(server.seen[WIRE_TYPE_join_channel], 1);
	first = server.joined_channel;
	ck_assert_uint_eq(fake.joined_qpn, first + 1001);
	lease = alloc(1000, NULL);
	ck_assert_int_eq(rmem_write(lease, 0, buf, 10), 0);
	/* of no channel, or of one that is not there: nothing */
	server_event(WIRE_TYPE_channel_ended, 0, 0);
	server_event(WIRE_TYPE_channel_ended, first + 7, 0);
	ck_assert_int_eq(rmem_write(lease, 0, buf, 10), 0);
	ck_assert_uint_eq(fake.connects, 1);
	server_event(WIRE_TYPE_channel_ended, first, 0);
	ck_assert_int_eq(rmem_ping(client, NULL), 0);
	/* the owner may have done so, too */
	ck_assert_uint_ge(fake.aborts, 1);
	/* a new one is joined, by who connects */
	ck_assert_int_eq(rmem_write(lease, 0, buf, 10), 0);
	ck_assert_uint_eq(fake.connects, 2);
	ck_assert_uint_eq(server.seen[WIRE_TYPE_join_channel], 2);
	ck_assert_uint_gt(server.joined_channel, first);
	ck_assert_uint_eq(fake.joined_qpn, server.joined_channel + 1001);
	ck_assert_uint_eq(info().resumes, 0);
	rmem_close(client);
}
END_TEST

/* The server's end would else be there for as long as the session, one more each time. */
START_TEST(channel__that_cannot_be_joined_again_is_given_back)
{
	rmem_lease *lease;

	serve_direct();
	open_with(_i ? RMEM_NO_THREAD : 0);
	lease = alloc(1000, NULL);
	ck_assert_int_eq(rmem_write(lease, 0, buf, 10), 0);
	ck_assert_uint_eq(server.seen[WIRE_TYPE_close_channel], 0);
	server_lock();
	server.fail_on = WIRE_TYPE_join_channel;
	server.fail_errno = EACCES;
	server_unlock();
	server_event(WIRE_TYPE_channel_ended, server.joined_channel, 0);
	ck_assert_int_eq(rmem_ping(client, NULL), 0);
	ck_assert_int_eq(rmem_write(lease, 0, buf, 10), 0);
	ck_assert_uint_eq(server.seen[WIRE_TYPE_join_channel], 3);
	/* the one that ended, and the one that was not joined */
	ck_assert_int_eq(rmem_ping(client, NULL), 0);
	ck_assert_uint_eq(server.seen[WIRE_TYPE_close_channel], 2);
	rmem_close(client);
}
END_TEST

START_TEST(channel__that_the_server_does_not_join)
{
	struct rmem_queue_params params = RMEM_QUEUE_INIT;
	struct rmem_completion completion;
	rmem_queue *queue = NULL;

	serve_direct();
	open_with(_i ? RMEM_NO_THREAD : 0);
	server_lock();
	server.fail_on = WIRE_TYPE_join_channel;
	server.fail_errno = EACCES;
	server_unlock();
	ck_assert_int_eq(rmem_queue_create(client, &params, &queue), -EACCES);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "it failed"));
	/* its number is given back */
	server_await(WIRE_TYPE_close_channel, 1);
	ck_assert_int_eq(rmem_queue_create(client, &params, &queue), 0);
	/* the session is lost and comes back while one is being joined anew */
	server_hang_up();
	AWAIT((_i == 0 || rmem_process(client) <= 0) && info().resumes == 1);
	AWAIT((_i == 0 || rmem_process(client) <= 0) &&
	      rmem_poll(queue, &completion, 1) == 0 &&
	      server.seen[WIRE_TYPE_join_channel] >= 4);
	rmem_close(client);
}
END_TEST

/* The word of a channel's end may come before all channels of its queue are there. */
START_TEST(channel__that_ends_before_its_queue_is_made)
{
	unsigned flags = _i ? RMEM_NO_THREAD : 0;
	rmem_queue *queue = NULL;
	pthread_t thread;

	serve_direct();
	open_with(flags);
	server_lock();
	server.hold_on = WIRE_TYPE_join_channel;
	server_unlock();
	ck_assert_int_eq(pthread_create(&thread, NULL, queue_make, &queue), 0);
	server_await(WIRE_TYPE_join_channel, 2);
	server_event(WIRE_TYPE_channel_ended, server.joined_channel, 0);
	server_release();
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_ptr_nonnull(queue);
	/* it is replaced */
	AWAIT((_i == 0 || rmem_process(client) <= 0) &&
	      rmem_poll(queue, NULL, 0) == 0 &&
	      server.seen[WIRE_TYPE_join_channel] == 3);
	rmem_close(client);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("librmem-session-channels");
	TCase *tc = tcase_create("channels");

	tcase_add_checked_fixture(tc, client_setup, client_teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, channel__whose_peer_is_gone_is_replaced);
	tcase_add_test(tc, channel__is_replaced_while_an_answer_takes_long);
	tcase_add_test(tc, queue__that_cannot_have_its_channels);
	tcase_add_test(tc, operations__wait_out_a_resume);
	tcase_add_test(tc, wait__for_what_never_completes);
	tcase_add_loop_test(tc, channel__that_is_joined_ends_by_the_servers_word, 0, 2);
	tcase_add_loop_test(tc, channel__that_cannot_be_joined_again_is_given_back, 0,
			    2);
	tcase_add_loop_test(tc, channel__that_the_server_does_not_join, 0, 2);
	tcase_add_loop_test(tc, channel__that_ends_before_its_queue_is_made, 0, 2);
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}

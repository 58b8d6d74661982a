/* SPDX-License-Identifier: BSD-3-Clause */
/* Queues over a scripted fabric: dead channels, devices that give nothing back, refusals. */
#include <errno.h>
#include <string.h>

#include "unit/librmem/librmem-case.h"

/* ---- dead channels ---- */

START_TEST(dead_channel__costs_the_operation_at_fault_only)
{
	struct rmem_queue *queue = stage_queue(8, 2);

	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	submit(queue, op_of(RMEM_OP_WRITE, 1, local, 1, 2));
	submit(queue, op_of(RMEM_OP_WRITE, 2, local, 1, 3));
	/* 1 and 3 are on channel 0 */
	fake_complete(stage_channel(queue, 0), -EIO);
	expect(queue, 1, -EIO);
	ck_assert_uint_eq(done[0].vendor, 0x99);
	ck_assert_str_eq(
		rmem_completion_error(queue),
		"write of 1 bytes at offset 0 of lease 5 at stage:1: fake status "
		"(vendor error 0x99): EIO");
	/* 3 may have been applied, or may still be */
	expect_none(queue);
	/* the dead one is freed, the other works on */
	ck_assert_ptr_null(stage_channel(queue, 0));
	submit(queue, op_of(RMEM_OP_WRITE, 3, local, 1, 4));
	ck_assert_uint_eq(stage_channel(queue, 1)->n, 2);
	stage_bury(queue, 0, PEER_END_CLOSED);
	expect_none(queue);
	ck_assert_uint_eq(stage_channel(queue, 1)->n, 3);
	fake_complete_all();
	ck_assert_int_eq(rmem_poll(queue, done, 4), 3);
	ck_assert_uint_eq(done[2].cookie, 3);
	ck_assert_int_eq(done[2].status, 0);
	/* and its replacement takes its turn again */
	ck_assert_uint_eq(stage_reconnect(queue), 1);
	expect_none(queue);
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 5));
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 6));
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 1);
	ck_assert_uint_eq(stage_channel(queue, 1)->n, 1);
	stage_close();
}
END_TEST

START_TEST(lost__whose_channel_nobody_can_bury)
{
	struct rmem_queue *queue = stage_queue(8, 2);

	submit(queue, op_of(RMEM_OP_WRITE, SEG - 1, local, 2, 1));
	fake_complete(stage_channel(queue, 0), -ECONNRESET);
	expect_none(queue);
	stage_bury(queue, 0, PEER_END_UNKNOWN);
	/* the other half is still on the wire */
	expect_none(queue);
	fake_complete_all();
	expect(queue, 1, -ECONNRESET);
	ck_assert_ptr_nonnull(strstr(rmem_completion_error(queue), "its channel died"));
	stage_close();
}
END_TEST

START_TEST(lost__ends_in_time_cancelled_or_with_its_lease)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = op_of(RMEM_OP_WRITE, 0, local, 1, 1);

	op.timeout_ms = 50;
	submit(queue, op);
	submit(queue, op_of(RMEM_OP_READ, 0, local, 1, 2));
	fake_complete(stage_channel(queue, 0), -ETIMEDOUT);
	expect_none(queue);
	stage_advance_ms(50);
	expect(queue, 1, -ETIMEDOUT);
	if (_i) {
		ck_assert_int_eq(rmem_cancel(queue, NULL), 1);
		expect(queue, 2, -ECANCELED);
	} else {
		lease_end(lease);
		stage_bury(queue, 0, PEER_END_CLOSED);
		expect(queue, 2, -ESTALE);
	}
	stage_close();
}
END_TEST

START_TEST(lost__again_and_again_ends_at_last)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	unsigned rounds = 0, asked = atomic_load(&lease->asked);

	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	while (rmem_poll(queue, done, 1) == 0) {
		ck_assert_uint_lt(rounds++, 20);
		if (!stage_channel(queue, 0))
			ck_assert_uint_eq(stage_reconnect(queue), 1);
		else
			fake_complete(stage_channel(queue, 0), -ECONNRESET);
	}
	ck_assert_int_eq(done[0].status, -ECONNRESET);
	/* perhaps it was the keys */
	ck_assert_uint_gt(atomic_load(&lease->asked), asked);
	stage_close();
}
END_TEST

START_TEST(dead_channel__found_when_posting_loses_nothing)
{
	struct rmem_queue *queue = stage_queue(8, 2);

	fake.hold_flush = true;
	stage_channel(queue, 0)->aborted = true;
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 3, 1));
	submit(queue, op_of(RMEM_OP_WRITE, 9, local, 3, 2));
	ck_assert_uint_eq(stage_channel(queue, 1)->n, 2);
	fake_complete_all();
	expect(queue, 1, 0);
	expect(queue, 2, 0);
	stage_close();
}
END_TEST

START_TEST(channels__begin_on_the_node_asked_for)
{
	static const struct {
		int node;
		unsigned first; /* domain */
	} cases[] = { { RMEM_NODE_ANY, 0 }, { 0, 0 }, { 1, 1 }, { 2, 0 } };
	struct rmem_queue_params params = RMEM_QUEUE_INIT;
	struct rmem_queue *queue;

	for (unsigned i = 0; i < STAGE_ENDPOINTS; i++)
		stage.session.domains.domains[i].endpoint.node = (int)i;
	params.node = cases[_i].node;
	params.channels = 3;
	ck_assert_int_eq(queue_new(&stage.session, &params, &queue), 0);
	for (unsigned i = 0; i < 3; i++) {
		unsigned domain = (cases[_i].first + i) % STAGE_ENDPOINTS;

		ck_assert_uint_eq(queue->channels.all[i].domain, domain);
		ck_assert_uint_eq(queue->channels.all[i].endpoint, domain);
	}
	queue_drop(queue);
	params.node = -2;
	ck_assert_int_eq(queue_new(&stage.session, &params, &queue), -EINVAL);
	stage_close();
}
END_TEST

START_TEST(no_channel__operations_wait_for_one)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	stage_channel(queue, 0)->aborted = true;
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 3, 1));
	expect_none(queue);
	ck_assert_ptr_null(stage_channel(queue, 0));
	ck_assert_uint_eq(stage_reconnect(queue), 1);
	expect_none(queue);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 1);
	fake_complete_all();
	expect(queue, 1, 0);
	ck_assert_mem_eq(seg_a, local, 3);
	/* one that does not come in time */
	stage_channel(queue, 0)->aborted = true;
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 3, 2));
	stage_advance_ms(STAGE_TIMEOUT_MS - 1);
	expect_none(queue);
	stage_advance_ms(1);
	expect(queue, 2, -ETIMEDOUT);
	stage_close();
}
END_TEST

START_TEST(doomed_channel__is_not_posted_to)
{
	struct rmem_queue *queue = stage_queue(8, 2);

	(void)pthread_mutex_lock(&stage.session.lock);
	queue->channels.all[0].doomed = true;
	queue_wake(queue);
	(void)pthread_mutex_unlock(&stage.session.lock);
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 2));
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 0);
	ck_assert_uint_eq(stage_channel(queue, 1)->n, 2);
	expect_none(queue);
	ck_assert_int_eq(queue->channels.all[0].stage, CHANNEL_WANTED);
	ck_assert(!queue->channels.all[0].doomed);
	stage_close();
}
END_TEST

START_TEST(channel_that_takes_part__is_replaced)
{
	struct rmem_queue *queue;
	struct rmem_op ops[5];

	stage.session.timeout_ms = 10 * CHANNEL_FLUSH_MS;
	queue = stage_queue(8, 1);
	for (unsigned i = 0; i < 5; i++)
		ops[i] = op_of(RMEM_OP_WRITE, i, local + i, 1, i);
	fake.post_max = 3;
	ck_assert_int_eq(rmem_submit(queue, ops, 5), 5);
	stage_advance_ms(CHANNEL_FLUSH_MS - 1);
	expect_none(queue);
	ck_assert_ptr_nonnull(stage_channel(queue, 0));
	/* what it took never ends by itself */
	stage_advance_ms(1);
	expect_none(queue);
	ck_assert_ptr_null(stage_channel(queue, 0));
	ck_assert_uint_eq(stage_reconnect(queue), 1);
	expect_none(queue);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 5);
	fake_complete_all();
	ck_assert_int_eq(rmem_poll(queue, done, 8), 5);
	for (unsigned i = 0; i < 5; i++)
		ck_assert_int_eq(done[i].status, 0);
	stage_close();
}
END_TEST

START_TEST(broken_cq__ends_everything_on_it)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 2));
	fake.poll_err = -EIO;
	expect(queue, 1, -EIO);
	expect(queue, 2, -EIO);
	fake.poll_err = 0;
	ck_assert_uint_eq(stage_reconnect(queue), 1);
	expect_none(queue);
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 3));
	fake_complete_all();
	expect(queue, 3, 0);
	stage_close();
}
END_TEST

/* ---- a device that gives nothing back ---- */

START_TEST(dead_channel__without_completions_is_given_up)
{
	struct rmem_queue *queue = stage_queue(8, 2);
	struct rmem_op op = op_of(RMEM_OP_READ, 0, local, 1, 1);
	struct rmem_op patient = op_of(RMEM_OP_READ, 2, local, 1, 3);

	fake.hold_flush = true;
	op.timeout_ms = 50;
	patient.timeout_ms = 10000;
	submit(queue, op);
	submit(queue, op_of(RMEM_OP_READ, 1, local, 1, 2));
	submit(queue, patient);
	stage_advance_ms(50);
	expect_none(queue);
	ck_assert_uint_eq(fake.aborts, 1);
	/* who sleeps meanwhile wakes in time */
	ck_assert_uint_le(queue->next_deadline_ns,
			  stage.now_ns + CHANNEL_FLUSH_MS * UINT64_C(1000000));
	fake_complete(stage_channel(queue, 1), 0);
	expect(queue, 2, 0);
	stage_advance_ms(CHANNEL_FLUSH_MS - 1);
	expect_none(queue);
	ck_assert_ptr_nonnull(stage_channel(queue, 0));
	stage_advance_ms(1);
	expect(queue, 1, -ETIMEDOUT);
	/* without the channel nothing can touch the memory any more */
	ck_assert_ptr_null(stage_channel(queue, 0));
	/* the channel comes back, with all its credits, and what was lost goes again */
	ck_assert_uint_eq(queue->channels.sides[0].in_flight, 0);
	ck_assert_uint_eq(queue->channels.n_dead, 0);
	ck_assert_uint_eq(stage_reconnect(queue), 1);
	expect_none(queue);
	fake.hold_flush = false;
	fake_complete_all();
	expect(queue, 3, 0);
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 4));
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 5));
	fake_complete_all();
	ck_assert_int_eq(rmem_poll(queue, done, 4), 2);
	stage_close();
}
END_TEST

START_TEST(dead_channel__given_up_with_an_ended_lease_is_stale)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op patient = op_of(RMEM_OP_READ, 0, local, 1, 1);

	fake.hold_flush = true;
	patient.timeout_ms = 10000;
	submit(queue, patient);
	(void)pthread_mutex_lock(&stage.session.lock);
	queue->channels.all[0].doomed = true;
	lease_end(lease);
	(void)pthread_mutex_unlock(&stage.session.lock);
	expect_none(queue);
	stage_advance_ms(CHANNEL_FLUSH_MS);
	expect(queue, 1, -ESTALE);
	stage_close();
}
END_TEST

/* ---- refused by the server ---- */

START_TEST(refused__of_an_ended_lease_is_stale)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	fake_complete(stage_channel(queue, 0), -EACCES);
	/* the server is asked first */
	expect_none(queue);
	ck_assert(!lease_verified(lease, atomic_load(&lease->asked)));
	(void)pthread_mutex_lock(&stage.session.lock);
	lease_end(lease);
	(void)pthread_mutex_unlock(&stage.session.lock);
	expect(queue, 1, -ESTALE);
	stage_close();
}
END_TEST

START_TEST(refused__with_an_old_key_goes_again_with_the_new_one)
{
	static const uint64_t other[] = { 21, 22 };
	struct rmem_queue *queue = stage_queue(8, 1);

	submit(queue, op_of(RMEM_OP_WRITE, SEG - 2, local, 4, 1));
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 2);
	fake_complete(stage_channel(queue, 0), 0);
	fake_complete(stage_channel(queue, 0), -EACCES);
	expect_none(queue);
	stage_rekey(lease, 2, segments, seg_bytes, other);
	expect_none(queue);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 1);
	ck_assert_uint_eq(stage_channel(queue, 0)->posted[0].rkey, 22);
	fake_complete_all();
	expect(queue, 1, 0);
	ck_assert_mem_eq(seg_b, local + 2, 2);
	stage_close();
}
END_TEST

START_TEST(refused__with_the_key_the_server_confirms)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	fake_complete(stage_channel(queue, 0), -EACCES);
	expect_none(queue);
	stage_rekey(lease, 2, segments, seg_bytes, keys);
	expect(queue, 1, -EACCES);
	stage_close();
}
END_TEST

START_TEST(refused__with_ever_new_keys_ends_at_last)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	uint64_t other[] = { 100, 100 };
	unsigned rounds = 0;

	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	while (rmem_poll(queue, done, 1) == 0) {
		ck_assert_uint_lt(rounds++, 10);
		fake_complete(stage_channel(queue, 0), -EACCES);
		expect_none(queue);
		other[0]++;
		stage_rekey(lease, 2, segments, seg_bytes, other);
	}
	ck_assert_int_eq(done[0].status, -EACCES);
	stage_close();
}
END_TEST

START_TEST(key__that_is_missing_is_asked_for)
{
	static const uint64_t none[] = { 0, 0 };
	struct rmem_lease *bare = stage_lease(6, 3, 2, segments, seg_bytes, none);
	struct rmem_queue *queue = stage_queue(8, 2);
	struct rmem_op op = op_of(RMEM_OP_WRITE, 0, local, 5, 1);

	op.lease = bare;
	submit(queue, op);
	expect_none(queue);
	ck_assert_uint_eq(fake.posts, 0);
	ck_assert(!lease_verified(bare, atomic_load(&bare->asked)));
	/* others are not held up */
	submit(queue, op_of(RMEM_OP_WRITE, 9, local, 1, 2));
	fake_complete_all();
	expect(queue, 2, 0);
	stage_rekey(bare, 2, segments, seg_bytes, keys);
	expect_none(queue);
	fake_complete_all();
	expect(queue, 1, 0);
	ck_assert_mem_eq(seg_a, local, 5);
	stage_close();
}
END_TEST

START_TEST(lease__made_shorter_under_an_operation)
{
	static const uint64_t shorter[] = { 100 };
	static const uint64_t other[] = { 21 };
	struct rmem_queue *queue = stage_queue(8, 1);

	submit(queue, op_of(RMEM_OP_WRITE, 1000, local, 4, 1));
	fake_complete(stage_channel(queue, 0), -EACCES);
	expect_none(queue);
	stage_rekey(lease, 1, segments, shorter, other);
	expect(queue, 1, -ESTALE);
	stage_close();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("librmem-channels");
	TCase *tcp = tcase_create("tcp"), *verbs = tcase_create("verbs");

	tcase_set_timeout(tcp, 60);
	tcase_set_timeout(verbs, 60);
	tcase_add_checked_fixture(tcp, case_tcp, NULL);
	tcase_add_checked_fixture(verbs, case_verbs, NULL);
	tcase_add_test(tcp, lost__whose_channel_nobody_can_bury);
	tcase_add_loop_test(tcp, lost__ends_in_time_cancelled_or_with_its_lease, 0, 2);
	tcase_add_test(tcp, lost__again_and_again_ends_at_last);
	tcase_add_test(tcp, dead_channel__costs_the_operation_at_fault_only);
	tcase_add_test(verbs, dead_channel__costs_the_operation_at_fault_only);
	tcase_add_test(tcp, dead_channel__found_when_posting_loses_nothing);
	tcase_add_loop_test(tcp, channels__begin_on_the_node_asked_for, 0, 4);
	tcase_add_test(tcp, no_channel__operations_wait_for_one);
	tcase_add_test(tcp, doomed_channel__is_not_posted_to);
	tcase_add_test(tcp, channel_that_takes_part__is_replaced);
	tcase_add_test(tcp, broken_cq__ends_everything_on_it);
	tcase_add_test(tcp, dead_channel__without_completions_is_given_up);
	tcase_add_test(verbs, dead_channel__without_completions_is_given_up);
	tcase_add_test(tcp, dead_channel__given_up_with_an_ended_lease_is_stale);
	tcase_add_test(tcp, refused__of_an_ended_lease_is_stale);
	tcase_add_test(tcp, refused__with_an_old_key_goes_again_with_the_new_one);
	tcase_add_test(verbs, refused__with_an_old_key_goes_again_with_the_new_one);
	tcase_add_test(tcp, refused__with_the_key_the_server_confirms);
	tcase_add_test(tcp, refused__with_ever_new_keys_ends_at_last);
	tcase_add_test(tcp, key__that_is_missing_is_asked_for);
	tcase_add_test(tcp, lease__made_shorter_under_an_operation);
	suite_add_tcase(suite, tcp);
	suite_add_tcase(suite, verbs);
	return unit_main(suite);
}

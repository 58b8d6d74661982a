/* SPDX-License-Identifier: BSD-3-Clause */
/* Queues over the fake fabric: dead channels, channels that are not flushed, operations that
 * the server refuses. */
#include <errno.h>
#include <string.h>

#include "unit/librmem/librmem-case.h"

/* ---- dead channels ---- */

START_TEST(dead_channel__fails_only_the_faulty_operation)
{
	struct rmem_queue *queue = stage_queue(8, 2);

	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	submit(queue, op_of(RMEM_OP_WRITE, 1, local, 1, 2));
	submit(queue, op_of(RMEM_OP_WRITE, 2, local, 1, 3));
	/* 1 and 3 are on channel 0 */
	fake_complete(stage_channel(queue, 0), -EIO);
	/* 1 and 3 may have been applied, or may be applied later */
	expect_none(queue);
	expect_none(queue);
	/* the dead connection is freed, the other still works */
	ck_assert_ptr_null(stage_channel(queue, 0));
	submit(queue, op_of(RMEM_OP_WRITE, 3, local, 1, 4));
	ck_assert_uint_eq(stage_channel(queue, 1)->n, 2);
	stage_peer_end(queue, 0, PEER_END_CLOSED);
	expect(queue, 1, -EIO);
	ck_assert_uint_eq(done[0].vendor, 0x99);
	ck_assert_str_eq(
		rmem_completion_error(queue, NULL),
		"write of 1 bytes at offset 0 of lease 5 at stage:1: fake status "
		"(vendor error 0x99): EIO");
	expect_none(queue);
	ck_assert_uint_eq(stage_channel(queue, 1)->n, 3);
	complete_and_poll(queue, 3);
	ck_assert_uint_eq(done[2].cookie, 3);
	ck_assert_int_eq(done[2].status, 0);
	/* and the next connection is used in turn again */
	reconnect(queue);
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 5));
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 6));
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 1);
	ck_assert_uint_eq(stage_channel(queue, 1)->n, 1);
}
END_TEST

START_TEST(lost_operation__fails_when_the_peer_end_stays_unknown)
{
	struct rmem_queue *queue = stage_queue(8, 2);

	submit(queue, op_of(RMEM_OP_WRITE, SEG - 1, local, 2, 1));
	complete_quietly(queue, 0, -ECONNRESET);
	stage_peer_end(queue, 0, PEER_END_UNKNOWN);
	/* the other half is still on the wire */
	expect_none(queue);
	fake_complete_all();
	expect_error(queue, 1, -ECONNRESET, "its channel died");
}
END_TEST

START_TEST(lost_operation__ends_by_timeout_cancel_or_end_of_lease)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = op_of(RMEM_OP_WRITE, 0, local, 1, 1);

	op.timeout_ms = 50;
	submit(queue, op);
	submit(queue, op_of(RMEM_OP_READ, 0, local, 1, 2));
	complete_quietly(queue, 0, -ETIMEDOUT);
	stage_advance_ms(50);
	/* the write may still be applied */
	expect_none(queue);
	if (_i) {
		ck_assert_int_eq(rmem_cancel(queue, NULL), 2);
		expect(queue, 2, -ECANCELED);
		peer_closes(queue, 0);
		expect(queue, 1, -ETIMEDOUT);
	} else {
		stage_lease_end(lease);
		peer_closes(queue, 0);
		expect(queue, 1, -ETIMEDOUT);
		expect(queue, 2, -ESTALE);
	}
}
END_TEST

START_TEST(lost_operation__of_an_ended_session_tells_why_its_lease_ended)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	complete_quietly(queue, 0, -ECONNRESET);
	/* it waits for a connection */
	submit(queue, op_of(RMEM_OP_WRITE, 1, local, 1, 2));
	if (_i)
		stage_lease_end(lease);
	stage_status(-ESTALE);
	stage_peer_end(queue, 0, PEER_END_UNKNOWN);
	for (uint64_t cookie = 1; cookie <= 2; cookie++)
		expect_error(queue, cookie, -ESTALE,
			     _i ? "the lease was freed" : "the session has ended");
}
END_TEST

START_TEST(lost_operation__is_not_retried_for_ever)
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
	/* the rkeys may have been wrong */
	ck_assert_uint_gt(atomic_load(&lease->asked), asked);
}
END_TEST

START_TEST(lost_operation__is_not_blamed_behind_another_one)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	unsigned rounds = 0;

	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	submit(queue, op_of(RMEM_OP_WRITE, 1, local, 1, 2));
	while (rmem_poll(queue, done, 1) == 0) {
		ck_assert_uint_lt(rounds++, 60);
		if (!stage_channel(queue, 0))
			ck_assert_uint_eq(stage_reconnect(queue), 1);
		else if (stage_channel(queue, 0)->n > 0)
			fake_complete(stage_channel(queue, 0), -ECONNRESET);
	}
	ck_assert_uint_eq(done[0].cookie, 1);
	ck_assert_int_eq(done[0].status, -ECONNRESET);
	expect_none(queue);
	complete_and_expect(queue, 2);
}
END_TEST

START_TEST(dead_channel__found_when_posting_loses_no_operation)
{
	struct rmem_queue *queue = stage_queue(8, 2);

	fake.hold_flush = true;
	stage_channel(queue, 0)->aborted = true;
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 3, 1));
	submit(queue, op_of(RMEM_OP_WRITE, 9, local, 3, 2));
	ck_assert_uint_eq(stage_channel(queue, 1)->n, 2);
	complete_and_expect(queue, 1);
	expect(queue, 2, 0);
}
END_TEST

START_TEST(channels__start_on_the_requested_node)
{
	static const struct {
		int node;
		unsigned first; /* domain */
	} cases[] = { { RMEM_NODE_ANY, 0 }, { 0, 0 }, { 1, 1 }, { 2, 0 } };
	struct rmem_queue_params params = rmem_queue_params_init();
	struct rmem_queue *queue;

	for (unsigned i = 0; i < STAGE_ENDPOINTS; i++)
		stage.session.domains->domains[i].endpoint.node = (int)i;
	params.node = cases[_i].node;
	params.channels = 3;
	ck_assert_int_eq(queue_new(&stage.session, &params, 0, &queue), 0);
	for (unsigned i = 0; i < 3; i++) {
		unsigned domain = (cases[_i].first + i) % STAGE_ENDPOINTS;

		ck_assert_uint_eq(queue->channels.all[i].domain, domain);
		ck_assert_uint_eq(queue->channels.all[i].endpoint, domain);
	}
	queue_drop(queue);
	params.node = -2;
	ck_assert_int_eq(queue_new(&stage.session, &params, 0, &queue), -EINVAL);
}
END_TEST

START_TEST(operation__waits_for_a_connection)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	stage_channel(queue, 0)->aborted = true;
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 3, 1));
	expect_none(queue);
	ck_assert_ptr_null(stage_channel(queue, 0));
	reconnect(queue);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 1);
	complete_and_expect(queue, 1);
	ck_assert_mem_eq(seg_a, local, 3);
	/* what has completed is found by the next look */
	idle_ms(queue, STAGE_TIMEOUT_MS / 4);
	/* no channel is connected in time */
	stage_channel(queue, 0)->aborted = true;
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 3, 2));
	idle_ms(queue, STAGE_TIMEOUT_MS - 1);
	stage_advance_ms(1);
	expect(queue, 2, -ETIMEDOUT);
}
END_TEST

START_TEST(aborted_channel__is_not_posted_to)
{
	struct rmem_queue *queue = stage_queue(8, 2);

	stage_abort(queue, 0);
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 2));
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 0);
	ck_assert_uint_eq(stage_channel(queue, 1)->n, 2);
	expect_none(queue);
	ck_assert_int_eq(queue->channels.all[0].state, CHANNEL_WANTED);
	ck_assert(!queue->channels.all[0].doomed);
}
END_TEST

START_TEST(partial_post__replaces_the_connection)
{
	struct rmem_queue *queue;
	struct rmem_op ops[5];

	stage.session.timeout_ms = 10 * CHANNEL_FLUSH_MS;
	queue = stage_queue(8, 1);
	for (unsigned i = 0; i < 5; i++)
		ops[i] = op_of(RMEM_OP_WRITE, i, local + i, 1, i);
	fake.post_max = 3;
	ck_assert_int_eq(rmem_submit(queue, ops, 5), 5);
	idle_ms(queue, CHANNEL_FLUSH_MS - 1);
	ck_assert_ptr_nonnull(stage_channel(queue, 0));
	/* the posted ones do not complete */
	idle_ms(queue, 1);
	ck_assert_ptr_null(stage_channel(queue, 0));
	reconnect(queue);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 5);
	complete_and_poll(queue, 5);
	for (unsigned i = 0; i < 5; i++)
		ck_assert_int_eq(done[i].status, 0);
}
END_TEST

START_TEST(broken_cq__fails_its_operations)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 2));
	fake.poll_err = -EIO;
	peer_closes(queue, 0);
	expect(queue, 1, -EIO);
	expect(queue, 2, -EIO);
	fake.poll_err = 0;
	reconnect(queue);
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 3));
	complete_and_expect(queue, 3);
}
END_TEST

/* ---- channels whose keys wear out ---- */

/* Writes 1 and 3 on channel 0, whose key is worn, and write 2 on channel 1. */
static struct rmem_queue *worn_queue(void)
{
	struct rmem_queue *queue = stage_queue(8, 2);

	submit(queue, op_of(RMEM_OP_WRITE, 15, local, 1, 1));
	submit(queue, op_of(RMEM_OP_WRITE, 16, local, 1, 2));
	submit(queue, op_of(RMEM_OP_WRITE, 17, local, 1, 3));
	fake_wear_out(stage_channel(queue, 0));
	expect_none(queue);
	return queue;
}

START_TEST(worn_channel__is_replaced_once_it_is_empty)
{
	struct rmem_queue *queue = worn_queue();

	ck_assert_uint_eq(stage_reconnect(queue), 0);
	/* nothing more is posted on it */
	for (uint64_t cookie = 4; cookie <= 7; cookie++)
		submit(queue, op_of(RMEM_OP_WRITE, 18, local, 1, cookie));
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 2);
	ck_assert_uint_eq(stage_channel(queue, 1)->n, 5);
	fake_complete(stage_channel(queue, 0), 0);
	expect(queue, 1, 0);
	ck_assert_uint_eq(stage_reconnect(queue), 0);
	fake_complete(stage_channel(queue, 0), 0);
	expect(queue, 3, 0);
	ck_assert_uint_eq(fake.aborts, 0);
	reconnect(queue);
	submit(queue, op_of(RMEM_OP_WRITE, 18, local, 1, 8));
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 1);
	complete_and_poll(queue, 6);
}
END_TEST

START_TEST(worn_channel__breaks_as_any_other)
{
	struct rmem_queue *queue = worn_queue();

	complete_quietly(queue, 0, -ECONNRESET);
	expect_none(queue);
	ck_assert_ptr_null(stage_channel(queue, 0));
	ck_assert_uint_eq(queue->channels.n_dead, 0);
	peer_closes(queue, 0);
	expect_none(queue);
	complete_and_poll(queue, 3);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(done[i].status, 0);
	reconnect(queue);
}
END_TEST

START_TEST(worn_channel__is_ended_by_a_timeout)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = op_of(RMEM_OP_WRITE, 0, local, 1, 1);

	op.timeout_ms = 50;
	submit(queue, op);
	fake_wear_out(stage_channel(queue, 0));
	idle_ms(queue, 49);
	ck_assert_uint_eq(fake.aborts, 0);
	idle_ms(queue, 1);
	ck_assert_uint_eq(fake.aborts, 1);
	peer_closes(queue, 0);
	expect(queue, 1, -ETIMEDOUT);
	reconnect(queue);
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 2));
	complete_and_expect(queue, 2);
}
END_TEST

/* ---- a device that flushes nothing ---- */

START_TEST(unflushed_channel__is_freed_after_the_flush_time)
{
	struct rmem_queue *queue = stage_queue(8, 2);
	struct rmem_op op = op_of(RMEM_OP_READ, 0, local, 1, 1);
	struct rmem_op long_op = op_of(RMEM_OP_READ, 2, local, 1, 3);

	fake.hold_flush = true;
	op.timeout_ms = 50;
	long_op.timeout_ms = 10000;
	submit(queue, op);
	submit(queue, op_of(RMEM_OP_READ, 1, local, 1, 2));
	submit(queue, long_op);
	idle_ms(queue, 50);
	ck_assert_uint_eq(fake.aborts, 1);
	/* a thread that sleeps meanwhile wakes in time */
	ck_assert_uint_le(queue->next_deadline_ns,
			  stage.now_ns + CHANNEL_FLUSH_MS * UINT64_C(1000000));
	fake_complete(stage_channel(queue, 1), 0);
	expect(queue, 2, 0);
	idle_ms(queue, CHANNEL_FLUSH_MS - 1);
	ck_assert_ptr_nonnull(stage_channel(queue, 0));
	stage_advance_ms(1);
	expect(queue, 1, -ETIMEDOUT);
	/* without the connection nothing accesses the memory */
	ck_assert_ptr_null(stage_channel(queue, 0));
	/* the next connection has all credits; the lost operation is posted again */
	ck_assert_uint_eq(queue->channels.sides[0].in_flight, 0);
	ck_assert_uint_eq(queue->channels.n_dead, 0);
	reconnect(queue);
	fake.hold_flush = false;
	complete_and_expect(queue, 3);
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 4));
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 5));
	complete_and_poll(queue, 2);
}
END_TEST

START_TEST(unflushed_channel__operation_of_an_ended_lease_is_stale)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op long_op = op_of(RMEM_OP_READ, 0, local, 1, 1);

	fake.hold_flush = true;
	long_op.timeout_ms = 10000;
	submit(queue, long_op);
	stage_abort(queue, 0);
	stage_lease_end(lease);
	expect_none(queue);
	stage_advance_ms(CHANNEL_FLUSH_MS);
	expect(queue, 1, -ESTALE);
}
END_TEST

/* ---- refused by the server ---- */

START_TEST(refused_operation__of_an_ended_lease_is_stale)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	fake_complete(stage_channel(queue, 0), -EACCES);
	/* the server is asked first */
	expect_none(queue);
	ck_assert(!lease_verified(lease, atomic_load(&lease->asked)));
	stage_lease_end(lease);
	expect(queue, 1, -ESTALE);
}
END_TEST

START_TEST(refused_operation__is_posted_again_with_new_rkeys)
{
	static const uint64_t new_keys[] = { 21, 22 };
	struct rmem_queue *queue = stage_queue(8, 1);

	submit(queue, op_of(RMEM_OP_WRITE, SEG - 2, local, 4, 1));
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 2);
	fake_complete(stage_channel(queue, 0), 0);
	complete_quietly(queue, 0, -EACCES);
	stage_rekey(lease, 2, segments, seg_bytes, new_keys);
	expect_none(queue);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 1);
	ck_assert_uint_eq(stage_channel(queue, 0)->posted[0].rkey, 22);
	complete_and_expect(queue, 1);
	ck_assert_mem_eq(seg_b, local + 2, 2);
}
END_TEST

START_TEST(refused_operation__fails_when_the_rkey_is_confirmed)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	complete_quietly(queue, 0, -EACCES);
	stage_rekey(lease, 2, segments, seg_bytes, keys);
	expect(queue, 1, -EACCES);
}
END_TEST

/* The lease was revoked, and the server stopped before it told so: the question stays without an
 * answer. */
START_TEST(refused_operation__of_an_ended_session_is_stale)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	complete_quietly(queue, 0, -EACCES);
	stage_status(-ESTALE);
	stage_rekey(lease, 2, segments, seg_bytes, keys);
	expect(queue, 1, -ESTALE);
}
END_TEST

START_TEST(refused_operation__is_not_retried_for_ever)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	uint64_t new_keys[] = { 100, 100 };
	unsigned rounds = 0;

	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	while (rmem_poll(queue, done, 1) == 0) {
		ck_assert_uint_lt(rounds++, 10);
		complete_quietly(queue, 0, -EACCES);
		new_keys[0]++;
		stage_rekey(lease, 2, segments, seg_bytes, new_keys);
	}
	ck_assert_int_eq(done[0].status, -EACCES);
}
END_TEST

START_TEST(missing_rkey__is_requested)
{
	static const uint64_t none[] = { 0, 0 };
	struct rmem_lease *bare =
		stage_lease(6, RMEM_READ | RMEM_WRITE, 2, segments, seg_bytes, none);
	struct rmem_queue *queue = stage_queue(8, 2);
	struct rmem_op op = op_of(RMEM_OP_WRITE, 0, local, 5, 1);

	op.lease = bare;
	submit(queue, op);
	expect_none(queue);
	ck_assert_uint_eq(fake.posts, 0);
	ck_assert(!lease_verified(bare, atomic_load(&bare->asked)));
	/* it delays no operation of another lease */
	submit(queue, op_of(RMEM_OP_WRITE, 9, local, 1, 2));
	complete_and_expect(queue, 2);
	stage_rekey(bare, 2, segments, seg_bytes, keys);
	expect_none(queue);
	complete_and_expect(queue, 1);
	ck_assert_mem_eq(seg_a, local, 5);
}
END_TEST

START_TEST(refused_operation__beyond_a_trimmed_lease_is_stale)
{
	static const uint64_t shorter[] = { 100 };
	static const uint64_t new_keys[] = { 21 };
	struct rmem_queue *queue = stage_queue(8, 1);

	submit(queue, op_of(RMEM_OP_WRITE, 1000, local, 4, 1));
	complete_quietly(queue, 0, -EACCES);
	stage_rekey(lease, 1, segments, shorter, new_keys);
	expect(queue, 1, -ESTALE);
}
END_TEST

int main(void)
{
	TCase *tcp = tcp_case(NULL), *verbs = verbs_case(NULL);

	tcase_add_test(tcp, lost_operation__fails_when_the_peer_end_stays_unknown);
	tcase_add_loop_test(tcp, lost_operation__ends_by_timeout_cancel_or_end_of_lease,
			    0, 2);
	tcase_add_loop_test(
		tcp, lost_operation__of_an_ended_session_tells_why_its_lease_ended, 0,
		2);
	tcase_add_test(tcp, lost_operation__is_not_retried_for_ever);
	tcase_add_test(tcp, lost_operation__is_not_blamed_behind_another_one);
	tcase_add_test(tcp, dead_channel__fails_only_the_faulty_operation);
	tcase_add_test(verbs, dead_channel__fails_only_the_faulty_operation);
	tcase_add_test(tcp, dead_channel__found_when_posting_loses_no_operation);
	tcase_add_loop_test(tcp, channels__start_on_the_requested_node, 0, 4);
	tcase_add_test(tcp, operation__waits_for_a_connection);
	tcase_add_test(tcp, aborted_channel__is_not_posted_to);
	tcase_add_test(tcp, partial_post__replaces_the_connection);
	tcase_add_test(tcp, broken_cq__fails_its_operations);
	tcase_add_test(tcp, worn_channel__is_replaced_once_it_is_empty);
	tcase_add_test(tcp, worn_channel__breaks_as_any_other);
	tcase_add_test(tcp, worn_channel__is_ended_by_a_timeout);
	tcase_add_test(tcp, unflushed_channel__is_freed_after_the_flush_time);
	tcase_add_test(verbs, unflushed_channel__is_freed_after_the_flush_time);
	tcase_add_test(tcp, unflushed_channel__operation_of_an_ended_lease_is_stale);
	tcase_add_test(tcp, refused_operation__of_an_ended_lease_is_stale);
	tcase_add_test(tcp, refused_operation__is_posted_again_with_new_rkeys);
	tcase_add_test(verbs, refused_operation__is_posted_again_with_new_rkeys);
	tcase_add_test(tcp, refused_operation__fails_when_the_rkey_is_confirmed);
	tcase_add_test(tcp, refused_operation__of_an_ended_session_is_stale);
	tcase_add_test(tcp, refused_operation__is_not_retried_for_ever);
	tcase_add_test(tcp, missing_rkey__is_requested);
	tcase_add_test(tcp, refused_operation__beyond_a_trimmed_lease_is_stale);
	return unit_main();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Queues over the fake fabric: operations that time out, are cancelled, or wait for a session
 * that has lost its server. */
#include <errno.h>
#include <string.h>

#include "librmem/queue/deadlines.h"
#include "unit/librmem/librmem-case.h"

/* ---- time-outs, cancel ---- */

START_TEST(timeout__is_reported_after_the_flush)
{
	struct rmem_queue *queue = stage_queue(8, 2);
	struct rmem_op op = op_of(RMEM_OP_READ, 0, local, 1, 1);
	struct fabric_channel *channel = stage_channel(queue, 0);

	fake.hold_flush = true;
	op.timeout_ms = 50;
	submit(queue, op);
	submit(queue, op_of(RMEM_OP_READ, 1, local, 1, 2));
	submit(queue, op_of(RMEM_OP_READ, 2, local, 1, 3));
	idle_ms(queue, 49);
	ck_assert_uint_eq(fake.aborts, 0);
	idle_ms(queue, 1);
	ck_assert_uint_eq(fake.aborts, 1);
	expect_none(queue);
	fake_flush(channel);
	expect(queue, 1, -ETIMEDOUT);
	complete_and_expect(queue, 2);
	/* the other operation on its channel is posted on the other one */
	stage_peer_end(queue, 0, PEER_END_CLOSED);
	expect_none(queue);
	complete_and_expect(queue, 3);
}
END_TEST

START_TEST(default_timeout__runs_from_the_last_progress)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = op_of(RMEM_OP_READ, 0, local, 2 * SEG, 1);

	/* of six fragments, five complete just in time */
	submit(queue, op);
	for (unsigned i = 0; i < 5; i++) {
		stage_advance_ms(STAGE_TIMEOUT_MS - 1);
		complete_quietly(queue, 0, 0);
	}
	idle_ms(queue, STAGE_TIMEOUT_MS);
	expect(queue, 1, -ETIMEDOUT);
	/* a deadline applies to the whole operation */
	reconnect(queue);
	op.flags = RMEM_OP_DEADLINE;
	op.timeout_ms = STAGE_TIMEOUT_MS;
	submit(queue, op);
	stage_advance_ms(STAGE_TIMEOUT_MS - 1);
	complete_quietly(queue, 0, 0);
	idle_ms(queue, 1);
	expect(queue, 1, -ETIMEDOUT);
}
END_TEST

/* The process was stopped beyond the deadline of writes that it had posted, and of one that waited.
 * When it goes on, the server has closed its end of the lost channel, and there is another one; and
 * the program polls, or submits. */
START_TEST(deadline__that_passed_while_stopped_ends_lost_writes)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = op_of(RMEM_OP_WRITE, 0, local, 8, 1);
	unsigned posts;

	op.flags = RMEM_OP_DEADLINE;
	op.timeout_ms = 50;
	submit(queue, op);
	submit(queue, op_of(RMEM_OP_WRITE, SEG - 4, local, 8, 1));
	ck_assert_uint_ge(stage_posted(queue), 2);
	stage_abort(queue, 0);
	expect_none(queue);
	submit(queue, op);
	posts = fake.posts;
	stage_advance_ms(STAGE_TIMEOUT_MS);
	ck_assert_uint_eq(stage_reconnect(queue), 1);
	if (_i) {
		submit(queue, op_of(RMEM_OP_READ, 0, local, 1, 2));
		posts++;
		ck_assert_uint_eq(stage_channel(queue, 0)->posted[0].opcode,
				  FABRIC_READ);
	}
	ck_assert_int_eq((int)stage_posted(queue), _i);
	for (unsigned i = 0; i < 3; i++)
		expect(queue, 1, -ETIMEDOUT);
	ck_assert_int_eq((int)stage_posted(queue), _i);
	ck_assert_uint_eq(fake.posts, posts);
}
END_TEST

/* A synchronous call that has waited for those of other threads has less time for its operation. */
START_TEST(limit__shortens_the_timeout_until_progress)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	submit(queue, op_of(RMEM_OP_READ, 0, local, 1, 1));
	deadlines_limit(queue, stage.now_ns + 20 * NS_PER_MS);
	idle_ms(queue, 19);
	ck_assert_uint_eq(fake.aborts, 0);
	idle_ms(queue, 1);
	expect(queue, 1, -ETIMEDOUT);
	reconnect(queue);
	/* of six fragments one completes in time, then the next time-out counts */
	submit(queue, op_of(RMEM_OP_READ, 0, local, 2 * SEG, 2));
	deadlines_limit(queue, stage.now_ns + 20 * NS_PER_MS);
	stage_advance_ms(19);
	complete_quietly(queue, 0, 0);
	/* the queue looks for progress when the limit is over */
	idle_ms(queue, 1);
	idle_ms(queue, STAGE_TIMEOUT_MS - 1);
	ck_assert_uint_eq(fake.aborts, 1);
	idle_ms(queue, 1);
	expect(queue, 2, -ETIMEDOUT);
}
END_TEST

/* Operations that wait for their turn, on a channel, for a credit, or behind a fence, time out only
 * when nothing moves. */
START_TEST(timeout__does_not_run_while_the_queue_moves)
{
	enum { N = 40 }; /* more than the credits of a channel */
	struct rmem_queue *queue = stage_queue(64, 1);
	struct rmem_op op = op_of(RMEM_OP_READ, 0, local, 1, 0);
	unsigned left = 3;

	for (unsigned i = 0; i < N; i++) {
		op.cookie = i;
		op.timeout_ms = 100;
		op.flags = i == N - 1 ? RMEM_OP_FENCE : 0;
		submit(queue, op);
	}
	for (unsigned i = 0; i < N - 3; i++) {
		stage_advance_ms(60);
		fake_complete(stage_channel(queue, 0), 0);
		expect(queue, i, 0);
	}
	/* nothing moves any more */
	expect_none(queue);
	idle_ms(queue, 99);
	stage_advance_ms(26);
	for (unsigned i = 0; i < 2; i++) {
		int n = rmem_poll(queue, done, 64);

		for (int k = 0; k < n; k++)
			ck_assert_int_eq(done[k].status, -ETIMEDOUT);
		left -= (unsigned)n;
	}
	ck_assert_uint_eq(left, 0);
}
END_TEST

/* What moves on one channel is no progress of an operation on another. */
START_TEST(timeout__runs_on_a_channel_that_does_not_move)
{
	struct rmem_queue *queue = stage_queue(8, 2);
	struct rmem_op op = op_of(RMEM_OP_READ, 0, local, 1, 1);

	op.timeout_ms = 100;
	submit(queue, op);
	for (unsigned i = 0; i < 4; i++) {
		ck_assert_uint_eq(stage_channel(queue, 0)->n, 1);
		op.cookie = 2;
		queue->channels.next = &queue->channels.sides[1];
		submit(queue, op);
		stage_advance_ms(20);
		fake_complete(stage_channel(queue, 1), 0);
		expect(queue, 2, 0);
	}
	idle_ms(queue, 20);
	expect(queue, 1, -ETIMEDOUT);
}
END_TEST

/* A lost channel is no progress. */
START_TEST(timeout__runs_while_channels_are_lost)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = op_of(RMEM_OP_READ, 0, local, 1, 1);

	op.timeout_ms = 100;
	submit(queue, op);
	for (unsigned i = 0; i < 4; i++) {
		stage_advance_ms(20);
		complete_quietly(queue, 0, -ECONNRESET);
		reconnect(queue);
		ck_assert_uint_eq(stage_channel(queue, 0)->n, 1);
	}
	idle_ms(queue, 20);
	expect(queue, 1, -ETIMEDOUT);
}
END_TEST

/* A deadline runs whatever moves; with the session's time-out, too. */
/* The device of a deaf channel does not find that no packet arrives: the operation is posted on
 * another channel in its time. */
START_TEST(silence__ends_a_deaf_channel)
{
	struct rmem_queue *queue = stage_queue(8, 2);
	struct rmem_op op = op_of(RMEM_OP_READ, 0, local, 1, 1);
	bool deaf = _i;

	queue->channels.sides[0].deaf = deaf;
	op.timeout_ms = 8000;
	submit(queue, op);
	/* two looks, as the first one sees that nothing has completed until then */
	idle_ms(queue, 2000);
	idle_ms(queue, 1999);
	ck_assert_uint_eq(fake.aborts, 0);
	idle_ms(queue, 1);
	ck_assert_uint_eq(fake.aborts, deaf);
	expect_none(queue);
	if (deaf)
		stage_peer_end(queue, 0, PEER_END_CLOSED);
	expect_none(queue);
	complete_and_expect(queue, 1);
}
END_TEST

/* What completes is heard, and an in-band request may wait for a server that is busy. */
START_TEST(silence__is_not_that_of_a_busy_server)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = op_of(RMEM_OP_READ, 0, local, 2 * SEG, 1);

	queue->channels.sides[0].deaf = true;
	op.timeout_ms = 8000;
	submit(queue, op);
	for (unsigned i = 0; i < 5; i++) {
		idle_ms(queue, 2000);
		complete_quietly(queue, 0, 0);
	}
	ck_assert_uint_eq(fake.aborts, 0);
	queue->channels.sides[0].requests = queue->channels.sides[0].in_flight;
	idle_ms(queue, 2000);
	idle_ms(queue, 2000);
	idle_ms(queue, 2000);
	ck_assert_uint_eq(fake.aborts, 0);
	queue->channels.sides[0].requests = 0;
	complete_and_expect(queue, 1);
}
END_TEST

START_TEST(deadline__counts_from_submission)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = op_of(RMEM_OP_READ, 0, local, 1, 1);

	submit(queue, op);
	op.flags = RMEM_OP_DEADLINE;
	op.timeout_ms = _i ? 0 : STAGE_TIMEOUT_MS;
	op.cookie = 2;
	submit(queue, op);
	stage_advance_ms(STAGE_TIMEOUT_MS / 2);
	fake_complete(stage_channel(queue, 0), 0);
	expect(queue, 1, 0);
	idle_ms(queue, STAGE_TIMEOUT_MS / 2 - 1);
	ck_assert_uint_eq(fake.aborts, 0);
	idle_ms(queue, 1);
	expect(queue, 2, -ETIMEDOUT);
}
END_TEST

START_TEST(timeout__yields_to_the_result)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = op_of(RMEM_OP_READ, 0, local, 1, 1);

	fake.hold_flush = true;
	op.timeout_ms = 50;
	submit(queue, op);
	idle_ms(queue, 60);
	fake_complete(stage_channel(queue, 0), 0);
	expect(queue, 1, 0);
}
END_TEST

/* A program that was busy with other things submits before it looks for results. */
START_TEST(submit__finds_results_before_deadlines)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = op_of(RMEM_OP_READ, 0, local, 1, 1);

	op.flags = RMEM_OP_DEADLINE;
	op.timeout_ms = 50;
	submit(queue, op);
	fake_complete(stage_channel(queue, 0), 0);
	stage_advance_ms(60);
	op.cookie = 2;
	submit(queue, op);
	ck_assert_uint_eq(fake.aborts, 0);
	expect(queue, 1, 0);
	complete_and_expect(queue, 2);
}
END_TEST

START_TEST(cancel__one_lease_or_all)
{
	struct rmem_lease *other = case_lease(6, RMEM_READ | RMEM_WRITE, 2);
	struct rmem_queue *queue = stage_queue(8, 2);
	struct rmem_op op = op_of(RMEM_OP_WRITE, 0, local, 1, 2);

	op.lease = other;
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	submit(queue, op);
	ck_assert_int_eq(rmem_cancel(queue, lease), 1);
	peer_closes(queue, 0);
	expect(queue, 1, -ECANCELED);
	expect_none(queue);
	ck_assert_int_eq(rmem_cancel(queue, NULL), 1);
	peer_closes(queue, 1);
	expect(queue, 2, -ECANCELED);
	ck_assert_int_eq(rmem_cancel(queue, NULL), 0);
	/* no channel is left: waiting operations can be cancelled, too */
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 3));
	ck_assert_int_eq(rmem_cancel(queue, lease), 1);
	expect(queue, 3, -ECANCELED);
}
END_TEST

START_TEST(cancel__keeps_earlier_results)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	fake_complete_all();
	ck_assert_int_eq(rmem_cancel(queue, NULL), 0);
	expect(queue, 1, 0);
}
END_TEST

START_TEST(queue_free__with_operations_outstanding)
{
	struct rmem_queue *queue = stage_queue(8, 2);

	for (unsigned i = 0; i < 6; i++)
		submit(queue, op_of(RMEM_OP_WRITE, i, local, 9000, i));
	fake_complete(stage_channel(queue, 0), 0);
	rmem_queue_free(queue);
	ck_assert_uint_eq(lease_inflight(lease), 0);
}
END_TEST

/* ---- the session ---- */

START_TEST(lost_session__keeps_operations_until_it_resumes)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	/* the session's deadline has passed, and its driver has not run since */
	atomic_store(&stage.session.until_ns, stage.now_ns);
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	expect_none(queue);
	stage_status(-ECONNRESET);
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 2));
	expect_none(queue);
	ck_assert_uint_eq(fake.posts, 0);
	stage_status(0);
	expect_none(queue);
	ck_assert_uint_eq(fake.posts, 1);
	complete_and_expect(queue, 1);
	expect(queue, 2, 0);
}
END_TEST

START_TEST(ended_session__fails_operations)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	stage_status(-ECONNRESET);
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	expect_none(queue);
	stage_status(-ESTALE);
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 2));
	expect(queue, 2, -ESTALE);
	expect(queue, 1, -ESTALE);
	ck_assert_int_eq(rmem_lease_status(lease), -ESTALE);
	ck_assert_uint_eq(fake.posts, 0);
}
END_TEST

START_TEST(lost_session__times_out_waiting_operations)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = op_of(RMEM_OP_WRITE, 0, local, 1, 1);

	op.timeout_ms = 1;
	stage_status(-ECONNRESET);
	submit(queue, op);
	expect_none(queue);
	stage_advance_ms(1);
	expect_error(queue, 1, -ETIMEDOUT, "the session has lost its server");
}
END_TEST

START_TEST(lost_session__keeps_waiting_operations_until_it_ends)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op fenced = op_of(RMEM_OP_WRITE, 1, local, 1, 2);

	fenced.flags = RMEM_OP_FENCE;
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	submit(queue, fenced);
	stage_status(-ECONNRESET);
	fake_flush(stage_channel(queue, 0));
	expect_none(queue);
	stage_status(-ESTALE);
	expect(queue, 2, -ESTALE);
	expect(queue, 1, -ESTALE);
}
END_TEST

int main(void)
{
	TCase *tcp = tcp_case(NULL), *verbs = verbs_case(NULL);

	tcase_add_test(tcp, timeout__is_reported_after_the_flush);
	tcase_add_test(verbs, timeout__is_reported_after_the_flush);
	tcase_add_loop_test(tcp, deadline__that_passed_while_stopped_ends_lost_writes,
			    0, 2);
	tcase_add_test(tcp, default_timeout__runs_from_the_last_progress);
	tcase_add_test(tcp, limit__shortens_the_timeout_until_progress);
	tcase_add_test(tcp, timeout__does_not_run_while_the_queue_moves);
	tcase_add_test(verbs, timeout__does_not_run_while_the_queue_moves);
	tcase_add_test(tcp, timeout__runs_on_a_channel_that_does_not_move);
	tcase_add_test(tcp, timeout__runs_while_channels_are_lost);
	tcase_add_loop_test(tcp, silence__ends_a_deaf_channel, 0, 2);
	tcase_add_test(tcp, silence__is_not_that_of_a_busy_server);
	tcase_add_loop_test(tcp, deadline__counts_from_submission, 0, 2);
	tcase_add_test(tcp, timeout__yields_to_the_result);
	tcase_add_test(tcp, submit__finds_results_before_deadlines);
	tcase_add_test(tcp, cancel__one_lease_or_all);
	tcase_add_test(tcp, cancel__keeps_earlier_results);
	tcase_add_test(tcp, queue_free__with_operations_outstanding);
	tcase_add_test(verbs, queue_free__with_operations_outstanding);
	tcase_add_test(tcp, lost_session__keeps_operations_until_it_resumes);
	tcase_add_test(tcp, ended_session__fails_operations);
	tcase_add_test(tcp, lost_session__times_out_waiting_operations);
	tcase_add_test(tcp, lost_session__keeps_waiting_operations_until_it_ends);
	return unit_main();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Queues over a scripted fabric: operations that time out, are cancelled, or wait for a session
 * that is down. */
#include <errno.h>
#include <string.h>

#include "unit/librmem/librmem-case.h"

/* ---- time-outs and cancelling ---- */

START_TEST(timeout__on_the_wire_is_told_after_the_flush)
{
	struct rmem_queue *queue = stage_queue(8, 2);
	struct rmem_op op = op_of(RMEM_OP_READ, 0, local, 1, 1);
	struct fabric_channel *channel = stage_channel(queue, 0);

	fake.hold_flush = true;
	op.timeout_ms = 50;
	submit(queue, op);
	submit(queue, op_of(RMEM_OP_READ, 1, local, 1, 2));
	submit(queue, op_of(RMEM_OP_READ, 2, local, 1, 3));
	stage_advance_ms(49);
	expect_none(queue);
	ck_assert_uint_eq(fake.aborts, 0);
	stage_advance_ms(1);
	expect_none(queue);
	ck_assert_uint_eq(fake.aborts, 1);
	expect_none(queue);
	fake_flush(channel);
	expect(queue, 1, -ETIMEDOUT);
	fake_complete_all();
	expect(queue, 2, 0);
	/* what shared its channel goes another way */
	stage_bury(queue, 0, PEER_END_CLOSED);
	expect_none(queue);
	fake_complete_all();
	expect(queue, 3, 0);
	stage_close();
}
END_TEST

START_TEST(timeout__of_the_session_runs_from_the_last_progress)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = op_of(RMEM_OP_READ, 0, local, 2 * SEG, 1);

	/* six fragments, each just in time */
	submit(queue, op);
	for (unsigned i = 0; i < 5; i++) {
		stage_advance_ms(STAGE_TIMEOUT_MS - 1);
		fake_complete(stage_channel(queue, 0), 0);
		expect_none(queue);
	}
	stage_advance_ms(STAGE_TIMEOUT_MS);
	expect_none(queue);
	expect(queue, 1, -ETIMEDOUT);
	/* one of its own is for the whole */
	ck_assert_uint_eq(stage_reconnect(queue), 1);
	expect_none(queue);
	op.timeout_ms = STAGE_TIMEOUT_MS;
	submit(queue, op);
	stage_advance_ms(STAGE_TIMEOUT_MS - 1);
	fake_complete(stage_channel(queue, 0), 0);
	expect_none(queue);
	stage_advance_ms(1);
	expect_none(queue);
	expect(queue, 1, -ETIMEDOUT);
	stage_close();
}
END_TEST

START_TEST(timeout__loses_against_the_result)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = op_of(RMEM_OP_READ, 0, local, 1, 1);

	fake.hold_flush = true;
	op.timeout_ms = 50;
	submit(queue, op);
	stage_advance_ms(60);
	expect_none(queue);
	fake_complete(stage_channel(queue, 0), 0);
	expect(queue, 1, 0);
	stage_close();
}
END_TEST

START_TEST(cancel__one_lease_or_all)
{
	struct rmem_lease *other = stage_lease(6, 3, 2, segments, seg_bytes, keys);
	struct rmem_queue *queue = stage_queue(8, 2);
	struct rmem_op op = op_of(RMEM_OP_WRITE, 0, local, 1, 2);

	op.lease = other;
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	submit(queue, op);
	ck_assert_int_eq(rmem_cancel(queue, lease), 1);
	expect(queue, 1, -ECANCELED);
	expect_none(queue);
	ck_assert_int_eq(rmem_cancel(queue, NULL), 1);
	expect(queue, 2, -ECANCELED);
	ck_assert_int_eq(rmem_cancel(queue, NULL), 0);
	/* no channel is left: what waits can be cancelled as well */
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 3));
	ck_assert_int_eq(rmem_cancel(queue, lease), 1);
	expect(queue, 3, -ECANCELED);
	stage_close();
}
END_TEST

START_TEST(cancel__leaves_results_that_came_first)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	fake_complete_all();
	ck_assert_int_eq(rmem_cancel(queue, NULL), 0);
	expect(queue, 1, 0);
	stage_close();
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
	stage_close();
}
END_TEST

/* ---- the session ---- */

START_TEST(session__that_is_down_keeps_operations_until_it_is_back)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	/* the lease clock has run out, though nobody has noticed yet */
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
	fake_complete_all();
	expect(queue, 1, 0);
	expect(queue, 2, 0);
	stage_close();
}
END_TEST

START_TEST(session__that_has_ended_takes_no_operations)
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
	stage_close();
}
END_TEST

START_TEST(session__that_is_down_too_long_ends_what_waits)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = op_of(RMEM_OP_WRITE, 0, local, 1, 1);

	op.timeout_ms = 1;
	stage_status(-ECONNRESET);
	submit(queue, op);
	expect_none(queue);
	stage_advance_ms(1);
	expect(queue, 1, -ETIMEDOUT);
	ck_assert_ptr_nonnull(strstr(rmem_completion_error(queue),
				     "the session has lost its server"));
	stage_close();
}
END_TEST

START_TEST(session__that_goes_down_keeps_what_waits)
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
	stage_close();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("librmem-timeouts");
	TCase *tcp = tcase_create("tcp"), *verbs = tcase_create("verbs");

	tcase_set_timeout(tcp, 60);
	tcase_set_timeout(verbs, 60);
	tcase_add_checked_fixture(tcp, case_tcp, NULL);
	tcase_add_checked_fixture(verbs, case_verbs, NULL);
	tcase_add_test(tcp, timeout__on_the_wire_is_told_after_the_flush);
	tcase_add_test(verbs, timeout__on_the_wire_is_told_after_the_flush);
	tcase_add_test(tcp, timeout__of_the_session_runs_from_the_last_progress);
	tcase_add_test(tcp, timeout__loses_against_the_result);
	tcase_add_test(tcp, cancel__one_lease_or_all);
	tcase_add_test(tcp, cancel__leaves_results_that_came_first);
	tcase_add_test(tcp, queue_free__with_operations_outstanding);
	tcase_add_test(verbs, queue_free__with_operations_outstanding);
	tcase_add_test(tcp, session__that_is_down_keeps_operations_until_it_is_back);
	tcase_add_test(tcp, session__that_has_ended_takes_no_operations);
	tcase_add_test(tcp, session__that_is_down_too_long_ends_what_waits);
	tcase_add_test(tcp, session__that_goes_down_keeps_what_waits);
	suite_add_tcase(suite, tcp);
	suite_add_tcase(suite, verbs);
	return unit_main(suite);
}

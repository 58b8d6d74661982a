/* SPDX-License-Identifier: BSD-3-Clause */
/* Queues over a scripted fabric: cutting, credits, what is refused here, fences. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit/librmem/librmem-case.h"

/* ---- moving bytes ---- */

START_TEST(write_and_read__across_segments_in_any_order)
{
	struct rmem_queue *queue = stage_queue(8, 2);

	submit(queue, op_of(RMEM_OP_WRITE, 1, local, 2 * SEG - 2, 1));
	expect_none(queue);
	fake_complete_all();
	expect(queue, 1, 0);
	ck_assert_uint_eq(done[0].bytes, 2 * SEG - 2);
	ck_assert_mem_eq(seg_a + 1, local, SEG - 1);
	ck_assert_mem_eq(seg_b, local + SEG - 1, SEG - 1);
	ck_assert_uint_eq(seg_a[0], 0);
	ck_assert_uint_eq(seg_b[SEG - 1], 0);

	memset(local, 0xee, sizeof(local));
	submit(queue, op_of(RMEM_OP_READ, SEG - 3, local, 6, 2));
	fake_complete_all();
	expect(queue, 2, 0);
	ck_assert_mem_eq(local, seg_a + SEG - 3, 3);
	ck_assert_mem_eq(local + 3, seg_b, 3);
	ck_assert_uint_eq(local[6], 0xee);
	ck_assert_uint_eq(rmem_queue_outstanding(queue), 0);
	stage_close();
}
END_TEST

START_TEST(fragments__stay_within_segments_and_the_fabrics_limit)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	const struct fabric_channel *channel = stage_channel(queue, 0);
	uint64_t total = 0;

	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 2 * SEG, 1));
	/* 8192 + 8192 + 3616, twice */
	ck_assert_uint_eq(channel->n, 6);
	for (unsigned i = 0; i < channel->n; i++) {
		const struct fake_wr *wr = &channel->posted[i];
		uintptr_t base = (uintptr_t)(wr->rkey == 11 ? seg_a : seg_b);

		ck_assert_uint_le(wr->bytes, FAKE_MAX_BYTES);
		ck_assert_uint_ge(wr->remote_addr, base);
		ck_assert_uint_le(wr->remote_addr + wr->bytes, base + SEG);
		total += wr->bytes;
	}
	ck_assert_uint_eq(total, 2 * SEG);
	/* the operation completes with its last fragment, not before */
	for (unsigned i = 0; i < 5; i++) {
		fake_complete(stage_channel(queue, 0), 0);
		expect_none(queue);
	}
	fake_complete(stage_channel(queue, 0), 0);
	expect(queue, 1, 0);
	stage_close();
}
END_TEST

START_TEST(channels__take_turns_and_have_credits)
{
	struct rmem_queue *queue = stage_queue(128, 2);
	unsigned depth = queue->channels.depth;

	for (unsigned i = 0; i < 10; i++)
		submit(queue, op_of(RMEM_OP_WRITE, i, local, 1, i));
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 5);
	ck_assert_uint_eq(stage_channel(queue, 1)->n, 5);
	/* a channel that completes faster than the other gets more */
	queue->channels.depth = 8;
	for (unsigned i = 10; i < 26; i++)
		submit(queue, op_of(RMEM_OP_WRITE, i, local, 1, i));
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 8);
	ck_assert_uint_eq(stage_channel(queue, 1)->n, 8);
	for (unsigned i = 0; i < 4; i++)
		fake_complete(stage_channel(queue, 1), 0);
	ck_assert_int_eq(rmem_poll(queue, done, 64), 4);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 8);
	ck_assert_uint_eq(stage_channel(queue, 1)->n, 8);
	for (unsigned i = 0; i < 4; i++) {
		fake_complete_all();
		(void)rmem_poll(queue, done, 64);
	}
	ck_assert_uint_eq(rmem_queue_outstanding(queue), 0);
	queue->channels.depth = depth;
	stage_close();
}
END_TEST

START_TEST(large_operation__is_spread_over_all_channels)
{
	static unsigned char big[4 << 16];
	unsigned char *const one[] = { big };
	const uint64_t bytes = sizeof(big);
	struct rmem_lease *large = stage_lease(6, 3, 1, one, &bytes, keys);
	struct rmem_queue *queue = stage_queue(8, 4);
	struct rmem_op op = op_of(RMEM_OP_READ, 0, malloc(sizeof(big)), sizeof(big), 1);

	op.lease = large;
	submit(queue, op);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_uint_eq(stage_channel(queue, i)->n, 8);
	fake_complete_all();
	expect(queue, 1, 0);
	ck_assert_mem_eq(op.addr, big, sizeof(big));
	free(op.addr);
	stage_close();
}
END_TEST

START_TEST(batch__is_posted_at_once)
{
	struct rmem_queue *queue = stage_queue(64, 1);
	struct rmem_op ops[20];

	for (unsigned i = 0; i < 20; i++)
		ops[i] = op_of(RMEM_OP_READ, i, local + i, 1, i);
	ck_assert_int_eq(rmem_submit(queue, ops, 20), 20);
	ck_assert_uint_eq(fake.posts, 1);
	stage_close();
}
END_TEST

/* ---- what is refused here ---- */

START_TEST(operation__at_fault_completes_with_its_error)
{
	struct rmem_lease *readable =
		stage_lease(6, RMEM_READ, 2, segments, seg_bytes, keys);
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op;

	submit(queue, op_of(RMEM_OP_READ, 2 * SEG - 1, local, 2, 1));
	expect(queue, 1, -EINVAL);
	ck_assert_ptr_nonnull(strstr(rmem_completion_error(queue), "beyond the lease"));
	submit(queue, op_of(RMEM_OP_READ, UINT64_MAX, local, 2, 2));
	expect(queue, 2, -EINVAL);
	submit(queue, op_of(RMEM_OP_WRITE, 1, local, UINT64_MAX, 3));
	expect(queue, 3, -EINVAL);
	submit(queue, op_of(RMEM_OP_READ, 0, NULL, 1, 4));
	expect(queue, 4, -EINVAL);
	op = op_of(RMEM_OP_WRITE, 0, local, 1, 5);
	op.lease = readable;
	submit(queue, op);
	expect(queue, 5, -EACCES);
	/* of no length, at the end: nothing to do */
	submit(queue, op_of(RMEM_OP_READ, 2 * SEG, NULL, 0, 6));
	expect(queue, 6, 0);
	submit(queue, op_of(RMEM_OP_READ, 2 * SEG + 1, NULL, 0, 7));
	expect(queue, 7, -EINVAL);
	lease_end(lease);
	submit(queue, op_of(RMEM_OP_READ, 0, local, 1, 8));
	expect(queue, 8, -ESTALE);
	ck_assert_uint_eq(fake.posts, 0);
	stage_close();
}
END_TEST

START_TEST(lease__without_bytes)
{
	struct rmem_lease *empty = stage_lease(6, 3, 0, NULL, NULL, NULL);
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = op_of(RMEM_OP_READ, 0, local, 1, 1);

	op.lease = empty;
	submit(queue, op);
	expect(queue, 1, -EINVAL);
	op.bytes = 0;
	submit(queue, op);
	expect(queue, 1, 0);
	ck_assert_uint_eq(rmem_lease_bytes(empty), 0);
	stage_close();
}
END_TEST

START_TEST(submit__refuses_what_makes_no_sense)
{
	struct rmem_queue *queue = stage_queue(2, 1);
	struct rmem_op ops[4];

	for (unsigned i = 0; i < 4; i++)
		ops[i] = op_of(RMEM_OP_WRITE, 0, local, 1, i);
	ops[0].opcode = (enum rmem_opcode)77;
	ck_assert_int_eq(rmem_submit(queue, ops, 1), -EINVAL);
	ops[0].opcode = RMEM_OP_WRITE;
	ops[0].flags = 0x80;
	ck_assert_int_eq(rmem_submit(queue, ops, 1), -EINVAL);
	ops[0].flags = 0;
	ops[0].lease = NULL;
	ck_assert_int_eq(rmem_submit(queue, ops, 1), -EINVAL);
	ops[0].lease = lease;
	ops[1].flags = 0x80;
	ck_assert_int_eq(rmem_submit(queue, ops, 4), 1);
	ops[1].flags = 0;
	ck_assert_int_eq(rmem_submit(queue, ops + 1, 3), 1);
	ck_assert_int_eq(rmem_submit(queue, ops + 2, 2), -EOVERFLOW);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "rmem_submit"));
	ck_assert_int_eq(rmem_submit(queue, ops, 0), 0);
	/* complete is not taken yet: still as full */
	fake_complete_all();
	ck_assert_int_eq(rmem_submit(queue, ops + 2, 2), -EOVERFLOW);
	ck_assert_int_eq(rmem_poll(queue, done, 1), 1);
	ck_assert_int_eq(rmem_submit(queue, ops + 2, 2), 1);
	stage_close();
}
END_TEST

START_TEST(lease__is_busy_until_completions_are_taken)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 2));
	ck_assert_int_eq(rmem_free(lease), -EBUSY);
	ck_assert_int_eq(rmem_detach(lease), -EBUSY);
	ck_assert_int_eq(rmem_trim(lease, 1), -EBUSY);
	fake_complete_all();
	expect(queue, 1, 0);
	ck_assert_int_eq(rmem_free(lease), -EBUSY);
	ck_assert_ptr_nonnull(
		strstr(rmem_error(), "rmem_free of lease 5 at stage:1: 1 "));
	expect(queue, 2, 0);
	ck_assert_uint_eq(lease_inflight(lease), 0);
	stage_close();
}
END_TEST

/* ---- fences ---- */

START_TEST(fence__holds_itself_and_all_behind)
{
	struct rmem_queue *queue = stage_queue(8, 2);
	struct rmem_op fenced = op_of(RMEM_OP_WRITE, 2, local, 1, 3);

	fenced.flags = RMEM_OP_FENCE;
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	submit(queue, op_of(RMEM_OP_WRITE, 1, local, 1, 2));
	submit(queue, fenced);
	submit(queue, op_of(RMEM_OP_WRITE, 3, local, 1, 4));
	ck_assert_uint_eq(stage_channel(queue, 0)->n + stage_channel(queue, 1)->n, 2);
	fake_complete(stage_channel(queue, 1), 0);
	expect(queue, 2, 0);
	ck_assert_uint_eq(stage_channel(queue, 0)->n + stage_channel(queue, 1)->n, 1);
	fake_complete(stage_channel(queue, 0), 0);
	expect(queue, 1, 0);
	/* both go now, the one behind the fence beside it */
	ck_assert_uint_eq(stage_channel(queue, 0)->n + stage_channel(queue, 1)->n, 2);
	fake_complete_all();
	ck_assert_int_eq(rmem_poll(queue, done, 4), 2);
	stage_close();
}
END_TEST

START_TEST(fence__outlives_the_operation_that_brought_it)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op fenced = op_of(RMEM_OP_WRITE, 1, local, 1, 2);

	fenced.flags = RMEM_OP_FENCE;
	fenced.timeout_ms = 10;
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	submit(queue, fenced);
	stage_advance_ms(20);
	expect(queue, 2, -ETIMEDOUT);
	/* submitted after it: held by its fence all the same */
	submit(queue, op_of(RMEM_OP_WRITE, 2, local, 1, 3));
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 1);
	fake_complete_all();
	expect(queue, 1, 0);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 1);
	fake_complete_all();
	expect(queue, 3, 0);

	/* the same with one behind it already */
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 4));
	submit(queue, fenced);
	submit(queue, op_of(RMEM_OP_WRITE, 2, local, 1, 5));
	stage_advance_ms(20);
	expect(queue, 2, -ETIMEDOUT);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 1);
	fake_complete_all();
	expect(queue, 4, 0);
	fake_complete_all();
	expect(queue, 5, 0);
	stage_close();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("librmem-queue");
	TCase *tcp = tcase_create("tcp"), *verbs = tcase_create("verbs");

	tcase_set_timeout(tcp, 60);
	tcase_set_timeout(verbs, 60);
	tcase_add_checked_fixture(tcp, case_tcp, NULL);
	tcase_add_checked_fixture(verbs, case_verbs, NULL);
	tcase_add_test(tcp, write_and_read__across_segments_in_any_order);
	tcase_add_test(verbs, write_and_read__across_segments_in_any_order);
	tcase_add_test(tcp, fragments__stay_within_segments_and_the_fabrics_limit);
	tcase_add_test(tcp, channels__take_turns_and_have_credits);
	tcase_add_test(tcp, large_operation__is_spread_over_all_channels);
	tcase_add_test(tcp, batch__is_posted_at_once);
	tcase_add_test(tcp, operation__at_fault_completes_with_its_error);
	tcase_add_test(verbs, operation__at_fault_completes_with_its_error);
	tcase_add_test(tcp, lease__without_bytes);
	tcase_add_test(tcp, submit__refuses_what_makes_no_sense);
	tcase_add_test(tcp, lease__is_busy_until_completions_are_taken);
	tcase_add_test(tcp, fence__holds_itself_and_all_behind);
	tcase_add_test(tcp, fence__outlives_the_operation_that_brought_it);
	suite_add_tcase(suite, tcp);
	suite_add_tcase(suite, verbs);
	return unit_main(suite);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Queues over the fake fabric: fragments, credits, validation, fences. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit/librmem/librmem-case.h"

/* ---- reads and writes ---- */

START_TEST(write_and_read__across_segments)
{
	struct rmem_queue *queue = stage_queue(8, 2);

	submit(queue, op_of(RMEM_OP_WRITE, 1, local, 2 * SEG - 2, 1));
	expect_none(queue);
	complete_and_expect(queue, 1);
	ck_assert_uint_eq(done[0].bytes, 2 * SEG - 2);
	ck_assert_mem_eq(seg_a + 1, local, SEG - 1);
	ck_assert_mem_eq(seg_b, local + SEG - 1, SEG - 1);
	ck_assert_uint_eq(seg_a[0], 0);
	ck_assert_uint_eq(seg_b[SEG - 1], 0);

	memset(local, 0xee, sizeof(local));
	submit(queue, op_of(RMEM_OP_READ, SEG - 3, local, 6, 2));
	complete_and_expect(queue, 2);
	ck_assert_mem_eq(local, seg_a + SEG - 3, 3);
	ck_assert_mem_eq(local + 3, seg_b, 3);
	ck_assert_uint_eq(local[6], 0xee);
	ck_assert_uint_eq(rmem_queue_outstanding(queue), 0);
}
END_TEST

START_TEST(fragments__stay_within_segments_and_the_limit)
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
		complete_quietly(queue, 0, 0);
	}
	fake_complete(stage_channel(queue, 0), 0);
	expect(queue, 1, 0);
}
END_TEST

START_TEST(channels__are_used_in_turn_up_to_their_credits)
{
	struct rmem_queue *queue = stage_queue(128, 2);
	unsigned depth = queue->channels.depth;

	for (unsigned i = 0; i < 10; i++)
		submit(queue, op_of(RMEM_OP_WRITE, i, local, 1, i));
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 5);
	ck_assert_uint_eq(stage_channel(queue, 1)->n, 5);
	/* waiting operations are posted on the channel that completes first */
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
}
END_TEST

START_TEST(large_operation__is_spread_over_all_channels)
{
	static unsigned char big[4 << 16];
	struct rmem_queue *queue = stage_queue(8, 4);
	struct rmem_op op = op_of(RMEM_OP_READ, 0, malloc(sizeof(big)), sizeof(big), 1);

	op.lease = case_lease_over(6, big, sizeof(big), 11);
	submit(queue, op);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_uint_eq(stage_channel(queue, i)->n, 8);
	complete_and_expect(queue, 1);
	ck_assert_mem_eq(op.addr, big, sizeof(big));
	free(op.addr);
}
END_TEST

START_TEST(batch__takes_one_post)
{
	struct rmem_queue *queue = stage_queue(64, 1);
	struct rmem_op ops[20];

	for (unsigned i = 0; i < 20; i++)
		ops[i] = op_of(RMEM_OP_READ, i, local + i, 1, i);
	ck_assert_int_eq(rmem_submit(queue, ops, 20), 20);
	ck_assert_uint_eq(fake.posts, 1);
}
END_TEST

/* ---- validation ---- */

START_TEST(invalid_operation__completes_with_an_error)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op;

	submit(queue, op_of(RMEM_OP_READ, 2 * SEG - 1, local, 2, 1));
	expect_error(queue, 1, -EINVAL, "beyond the lease");
	submit(queue, op_of(RMEM_OP_READ, UINT64_MAX, local, 2, 2));
	expect(queue, 2, -EINVAL);
	submit(queue, op_of(RMEM_OP_WRITE, 1, local, UINT64_MAX, 3));
	expect(queue, 3, -EINVAL);
	submit(queue, op_of(RMEM_OP_READ, 0, NULL, 1, 4));
	expect(queue, 4, -EINVAL);
	op = op_of(RMEM_OP_WRITE, 0, local, 1, 5);
	op.lease = case_lease(6, RMEM_READ, 2);
	submit(queue, op);
	expect(queue, 5, -EACCES);
	/* without bytes, at the end of the lease: nothing to do */
	submit(queue, op_of(RMEM_OP_READ, 2 * SEG, NULL, 0, 6));
	expect(queue, 6, 0);
	submit(queue, op_of(RMEM_OP_READ, 2 * SEG + 1, NULL, 0, 7));
	expect(queue, 7, -EINVAL);
	stage_lease_end(lease);
	submit(queue, op_of(RMEM_OP_READ, 0, local, 1, 8));
	expect(queue, 8, -ESTALE);
	ck_assert_uint_eq(fake.posts, 0);
}
END_TEST

/* The last completion names its operation. */
static void check_completion(enum rmem_opcode opcode, enum rmem_reason reason)
{
	ck_assert_ptr_eq(done[0].lease, lease);
	ck_assert_uint_eq(done[0].opcode, opcode);
	ck_assert_uint_eq(done[0].reason, reason);
	for (unsigned i = 0; i < 2; i++)
		ck_assert_uint_eq(done[0].reserved[i], 0);
}

START_TEST(completion__names_its_operation)
{
	struct rmem_queue *queue = stage_queue(8, 2);
	struct rmem_op ops[2] = { op_of(RMEM_OP_WRITE, 0, local, 1, 1),
				  op_of(RMEM_OP_WRITE, 1, local, 1, 2) };

	memset(done, 0xee, sizeof(done[0]));
	submit(queue, op_of(RMEM_OP_READ, 0, local, 1, 1));
	complete_and_expect(queue, 1);
	check_completion(RMEM_OP_READ, RMEM_REASON_NONE);
	/* of a batch, and of an operation that is cut */
	memset(done, 0xee, sizeof(done[0]));
	ck_assert_int_eq(rmem_submit(queue, ops, 2), 2);
	complete_and_poll(queue, 2);
	check_completion(RMEM_OP_WRITE, RMEM_REASON_NONE);
	memset(done, 0xee, sizeof(done[0]));
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 2 * SEG, 3));
	complete_and_expect(queue, 3);
	check_completion(RMEM_OP_WRITE, RMEM_REASON_NONE);
}
END_TEST

START_TEST(failed_completion__tells_the_reason)
{
	struct rmem_queue *queue = stage_queue(8, 2);
	struct rmem_op op = op_of(RMEM_OP_WRITE, 0, local, 1, 1);

	/* a write that was posted may have been done, a read has no effect */
	op.timeout_ms = 50;
	submit(queue, op);
	idle_ms(queue, 50);
	peer_closes(queue, 0);
	expect(queue, 1, -ETIMEDOUT);
	check_completion(RMEM_OP_WRITE, RMEM_REASON_OUTCOME);
	queue = stage_queue(8, 1);
	op.opcode = RMEM_OP_READ;
	submit(queue, op);
	idle_ms(queue, 50);
	expect(queue, 1, -ETIMEDOUT);
	check_completion(RMEM_OP_READ, RMEM_REASON_NONE);
	submit(queue, op_of(RMEM_OP_WRITE, 2 * SEG, local, 1, 2));
	expect(queue, 2, -EINVAL);
	check_completion(RMEM_OP_WRITE, RMEM_REASON_NONE);
	stage_lease_end(lease);
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 3));
	expect(queue, 3, -ESTALE);
	check_completion(RMEM_OP_WRITE, RMEM_REASON_FREED);
}
END_TEST

START_TEST(empty_lease__accepts_only_empty_operations)
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
}
END_TEST

START_TEST(submit__refuses_invalid_operations)
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
	ops[1].reserved[1] = 1;
	ck_assert_int_eq(rmem_submit(queue, ops + 1, 3), -EINVAL);
	ops[1].reserved[1] = 0;
	ck_assert_int_eq(rmem_submit(queue, ops + 1, 3), 1);
	ck_assert_int_eq(rmem_submit(queue, ops + 2, 2), -EOVERFLOW);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "rmem_submit"));
	ck_assert_int_eq(rmem_submit(queue, ops, 0), 0);
	/* completions that were not polled still take their slots */
	fake_complete_all();
	ck_assert_int_eq(rmem_submit(queue, ops + 2, 2), -EOVERFLOW);
	ck_assert_int_eq(rmem_poll(queue, done, 1), 1);
	ck_assert_int_eq(rmem_submit(queue, ops + 2, 2), 1);
}
END_TEST

START_TEST(lease__is_busy_until_completions_are_polled)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 2));
	ck_assert_int_eq(rmem_destroy(lease), -EBUSY);
	ck_assert_int_eq(rmem_detach(lease), -EBUSY);
	ck_assert_int_eq(rmem_shrink(lease, 1), -EBUSY);
	complete_and_expect(queue, 1);
	ck_assert_int_eq(rmem_destroy(lease), -EBUSY);
	ck_assert_ptr_nonnull(
		strstr(rmem_error(), "rmem_destroy of lease 5 at stage:1: 1 "));
	expect(queue, 2, 0);
	ck_assert_uint_eq(lease_inflight(lease), 0);
}
END_TEST

/* ---- fences ---- */

START_TEST(fence__delays_its_operation_and_later_ones)
{
	struct rmem_queue *queue = stage_queue(8, 2);
	struct rmem_op fenced = op_of(RMEM_OP_WRITE, 2, local, 1, 3);

	fenced.flags = RMEM_OP_FENCE;
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	submit(queue, op_of(RMEM_OP_WRITE, 1, local, 1, 2));
	submit(queue, fenced);
	submit(queue, op_of(RMEM_OP_WRITE, 3, local, 1, 4));
	ck_assert_uint_eq(stage_posted(queue), 2);
	fake_complete(stage_channel(queue, 1), 0);
	expect(queue, 2, 0);
	ck_assert_uint_eq(stage_posted(queue), 1);
	fake_complete(stage_channel(queue, 0), 0);
	expect(queue, 1, 0);
	/* now both are posted */
	ck_assert_uint_eq(stage_posted(queue), 2);
	complete_and_poll(queue, 2);
}
END_TEST

START_TEST(fence__outlives_its_operation)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op fenced = op_of(RMEM_OP_WRITE, 1, local, 1, 2);

	fenced.flags = RMEM_OP_FENCE;
	fenced.timeout_ms = 10;
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	submit(queue, fenced);
	stage_advance_ms(20);
	expect(queue, 2, -ETIMEDOUT);
	/* submitted later: the fence still delays it */
	submit(queue, op_of(RMEM_OP_WRITE, 2, local, 1, 3));
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 1);
	complete_and_expect(queue, 1);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 1);
	complete_and_expect(queue, 3);

	/* again, with an operation submitted behind it before the time-out */
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 4));
	submit(queue, fenced);
	submit(queue, op_of(RMEM_OP_WRITE, 2, local, 1, 5));
	/* what has completed before is found by the first look */
	idle_ms(queue, 3);
	stage_advance_ms(20);
	expect(queue, 2, -ETIMEDOUT);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 1);
	complete_and_expect(queue, 4);
	complete_and_expect(queue, 5);
}
END_TEST

/* ---- the functions that make operations ---- */

static struct rmem_op made_op(unsigned i)
{
	static const struct rmem_atomic operands = { .compare = 1, .operand = 2 };
	static const struct rmem_vec vec[2] = { { local, 5, NULL },
						{ local + 9, 6, NULL } };
	static struct rmem_source source;
	static uint64_t old;
	static uint32_t crc;

	source = (struct rmem_source){ .lease = lease, .offset = 100 };
	switch (i) {
	case 0:
		return rmem_op_read(lease, 8, local, 11);
	case 1:
		return rmem_op_write(lease, 8, local, 11);
	case 2:
		return rmem_op_readv(lease, 8, vec, 2);
	case 3:
		return rmem_op_writev(lease, 8, vec, 2);
	case 4:
		return rmem_op_compare_swap(lease, 8, &operands, &old);
	case 5:
		return rmem_op_fetch_add(lease, 8, &operands, &old);
	case 6:
		return rmem_op_fill(lease, 8, 11, RMEM_FILL_BYTE(7));
	case 7:
		return rmem_op_copy(lease, 8, &source, 11);
	case 8:
		return rmem_op_crc32c(lease, 8, 11, &crc);
	case 9:
		return rmem_op_write_notify(lease, 8, local, 11, 42);
	default:
		return rmem_op_init(RMEM_OP_PING, NULL, 0, 0);
	}
}

START_TEST(made_operation__is_one_that_can_be_submitted)
{
	static const enum rmem_opcode opcodes[] = {
		RMEM_OP_READ, RMEM_OP_WRITE,        RMEM_OP_READV, RMEM_OP_WRITEV,
		RMEM_OP_CAS,  RMEM_OP_FETCH_ADD,    RMEM_OP_FILL,  RMEM_OP_COPY,
		RMEM_OP_CRC,  RMEM_OP_WRITE_NOTIFY, RMEM_OP_PING,
	};
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = made_op((unsigned)_i);
	bool atomic = opcodes[_i] == RMEM_OP_CAS || opcodes[_i] == RMEM_OP_FETCH_ADD;

	ck_assert_uint_eq(op.flags | op.timeout_ms | op.cookie | op.reserved[0] |
				  op.reserved[1],
			  0);
	ck_assert_ptr_null(op.buffer);
	op.cookie = 3;
	submit(queue, op);
	/* the lease's atomic device is not known: the server would be asked */
	if (atomic)
		ck_assert_int_eq(rmem_cancel(queue, NULL), 1);
	complete_until_done(queue);
	ck_assert_uint_eq(done[0].cookie, 3);
	ck_assert_int_eq(done[0].status, atomic ? -ECANCELED : 0);
	ck_assert_uint_eq(done[0].opcode, opcodes[_i]);
	ck_assert_uint_eq(done[0].bytes, opcodes[_i] == RMEM_OP_PING ? 0
					 : atomic                    ? 8
								     : 11);
}
END_TEST

int main(void)
{
	TCase *tcp = tcp_case(NULL), *verbs = verbs_case(NULL);

	tcase_add_test(tcp, write_and_read__across_segments);
	tcase_add_test(verbs, write_and_read__across_segments);
	tcase_add_test(tcp, fragments__stay_within_segments_and_the_limit);
	tcase_add_test(tcp, channels__are_used_in_turn_up_to_their_credits);
	tcase_add_test(tcp, large_operation__is_spread_over_all_channels);
	tcase_add_test(tcp, batch__takes_one_post);
	tcase_add_test(tcp, invalid_operation__completes_with_an_error);
	tcase_add_test(verbs, invalid_operation__completes_with_an_error);
	tcase_add_test(tcp, empty_lease__accepts_only_empty_operations);
	tcase_add_test(tcp, submit__refuses_invalid_operations);
	tcase_add_test(tcp, completion__names_its_operation);
	tcase_add_test(tcp, failed_completion__tells_the_reason);
	tcase_add_test(tcp, lease__is_busy_until_completions_are_polled);
	tcase_add_test(tcp, fence__delays_its_operation_and_later_ones);
	tcase_add_test(tcp, fence__outlives_its_operation);
	tcase_add_loop_test(tcp, made_operation__is_one_that_can_be_submitted, 0, 11);
	return unit_main();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations that are submitted one at a time: posted at once, or waiting; validation; errors. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit/librmem/librmem-single.h"
#include "librmem/lease/buffer.h"

#define MANY 60         /* divisible by 3, the number of channels */
#define CREDITS_MAX 256 /* of a channel */

/* ---- posted at once ---- */

START_TEST(single__completes)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	submit(queue, write_single(16, 1));
	ck_assert_uint_eq(fake.posts, 1);
	ck_assert_uint_eq(lease_inflight(single), 1);
	ck_assert_uint_eq(buffer_inflight(buffer), 1);
	ck_assert_int_eq(rmem_buffer_free(buffer), -EBUSY);
	ck_assert_uint_eq(rmem_queue_outstanding(queue), 1);
	expect_none(queue);
	fake_complete_all();
	/* without capacity the completion stays */
	ck_assert_int_eq(rmem_poll(queue, done, 0), 0);
	ck_assert_uint_eq(rmem_queue_outstanding(queue), 1);
	ck_assert_int_eq(rmem_poll(queue, done, 8), 1);
	ck_assert_uint_eq(done[0].cookie, 1);
	ck_assert_uint_eq(done[0].bytes, 8);
	ck_assert_int_eq(done[0].status, 0);
	ck_assert_uint_eq(done[0].vendor, 0);
	ck_assert_uint_eq(rmem_queue_outstanding(queue), 0);
	ck_assert_uint_eq(lease_inflight(single), 0);
	ck_assert_uint_eq(buffer_inflight(buffer), 0);
	ck_assert_mem_eq(seg_a + 16, local + 16, 8);
	expect_none(queue);
	memset(local + 16, 0, 8);
	submit(queue, op_single(RMEM_OP_READ, 16, 8, 2));
	complete_and_expect(queue, 2);
	ck_assert_mem_eq(seg_a + 16, local + 16, 8);
}
END_TEST

START_TEST(singles__use_channels_in_turn)
{
	struct rmem_queue *queue = stage_queue(MANY, 3);
	unsigned depth = queue->channels.depth;
	bool seen[64] = { false };

	for (unsigned i = 0; i < MANY; i++)
		submit(queue, write_single(i * 8, i));
	for (unsigned i = 0; i < 3; i++)
		ck_assert_uint_eq(stage_channel(queue, i)->n, MANY / 3);
	ck_assert_uint_ge(depth, MANY / 3);
	/* the queue is full */
	ck_assert_int_eq(rmem_submit(queue, &(struct rmem_op){ 0 }, 1), -EOVERFLOW);
	complete_and_poll(queue, MANY);
	for (unsigned i = 0; i < MANY; i++) {
		ck_assert_int_eq(done[i].status, 0);
		ck_assert(!seen[done[i].cookie]);
		seen[done[i].cookie] = true;
	}
	ck_assert_mem_eq(seg_a, local, MANY * 8);
}
END_TEST

/* On one channel, which has fewer credits than the queue has slots. */
START_TEST(singles__share_credits_with_batches)
{
	struct rmem_queue *queue = stage_queue(2 * CREDITS_MAX, 1);
	unsigned depth = queue->channels.depth, n = 0, got = 0;
	struct rmem_op ops[3];

	ck_assert_uint_lt(depth, 2 * CREDITS_MAX);
	while (n + 4 <= depth) {
		submit(queue, write_single(n * 8, n));
		for (unsigned i = 0; i < 3; i++)
			ops[i] = write_single((n + 1 + i) * 8, n + 1 + i);
		ck_assert_int_eq(rmem_submit(queue, ops, 3), 3);
		n += 4;
	}
	while (n < depth) {
		submit(queue, write_single(n * 8, n));
		n++;
	}
	ck_assert_uint_eq(stage_channel(queue, 0)->n, depth);
	/* without a credit it waits, and later operations wait behind it */
	submit(queue, write_single(n * 8, n));
	n++;
	fake_complete(stage_channel(queue, 0), 0);
	submit(queue, write_single(n * 8, n));
	n++;
	while (got < n) {
		int now = rmem_poll(queue, done, 64);

		for (int i = 0; i < now; i++) {
			ck_assert_uint_eq(done[i].cookie, got + (unsigned)i);
			ck_assert_int_eq(done[i].status, 0);
		}
		got += (unsigned)now;
		fake_complete_all();
	}
	ck_assert_mem_eq(seg_a, local, n * 8);
	submit(queue, write_single(0, 0));
	complete_and_expect(queue, 0);
}
END_TEST

/* ---- validated, or waiting ---- */

static const struct {
	uint64_t offset, bytes;
	intptr_t local;
	int status;
} places[] = {
	{ SEG - 8, 8, 0, 0 },
	{ 0, 8, 2 * SEG - 8, 0 },
	{ 0, FAKE_MAX_BYTES, 0, 0 },
	{ SEG - 7, 8, 0, -EINVAL },
	{ SEG, 8, 0, -EINVAL },
	{ UINT64_MAX - 3, 8, 0, -EINVAL },
	{ 0, SEG + 1, 0, -EINVAL },
	{ 0, UINT64_MAX, 0, -EINVAL },
	{ 8, UINT64_MAX - 7, 0, -EINVAL },
	{ 0, 8, 2 * SEG - 7, -EINVAL },
	{ 0, 8, 2 * SEG, -EINVAL },
	{ 0, 8, -1, -EINVAL }, /* before the buffer */
	{ 0, 8, -8, -EINVAL },
	{ 0, 0, 0, 0 },
	{ 0, FAKE_MAX_BYTES + 1, 0, 0 }, /* it is cut */
};

START_TEST(single__is_validated)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op =
		op_single(RMEM_OP_WRITE, places[_i].offset, places[_i].bytes, 3);

	fake.automatic = true;
	op.addr = (void *)((intptr_t)local + places[_i].local);
	submit(queue, op);
	expect(queue, 3, places[_i].status);
	if (places[_i].status)
		ck_assert_uint_eq(fake.posts, 0);
	expect_none(queue);
}
END_TEST

START_TEST(single__of_a_short_lease_is_validated)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = op_single(RMEM_OP_WRITE, 0, 101, 1);

	fake.automatic = true;
	op.lease = case_lease_over(7, seg_a, 100, 11);
	submit(queue, op);
	expect(queue, 1, -EINVAL);
	ck_assert_uint_eq(fake.posts, 0);
	op.bytes = 100;
	submit(queue, op);
	expect(queue, 1, 0);
}
END_TEST

START_TEST(single__needs_the_right)
{
	struct rmem_lease *readable = case_lease(7, RMEM_READ, 1);
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = write_single(0, 1);

	fake.automatic = true;
	op.lease = readable;
	submit(queue, op);
	expect(queue, 1, -EACCES);
	op.opcode = RMEM_OP_READ;
	submit(queue, op);
	expect(queue, 1, 0);
	atomic_store(&readable->status, -ESTALE);
	submit(queue, op);
	expect(queue, 1, -ESTALE);
	ck_assert_uint_eq(lease_inflight(readable), 0);
}
END_TEST

START_TEST(invalid_single__is_refused)
{
	static struct rmem other;
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_lease foreign = { .session = &other };
	struct rmem_buffer elsewhere = { .session = &other };
	struct rmem_op op = write_single(0, 1);

	op.lease = _i == 0 ? NULL : _i == 1 ? &foreign : single;
	if (_i == 2)
		op.buffer = &elsewhere;
	if (_i == 3)
		op.flags = 0x80;
	if (_i == 4)
		op.opcode = 0;
	if (_i == 5)
		op.reserved[1] = 1;
	ck_assert_int_eq(rmem_submit(queue, &op, 1), -EINVAL);
	ck_assert_uint_eq(fake.posts, 0);
	ck_assert_uint_eq(rmem_queue_outstanding(queue), 0);
}
END_TEST

START_TEST(single__waits_while_the_session_is_lost)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	if (_i)
		atomic_store(&stage.session.until_ns, stage.now_ns);
	else
		stage_status(-ECONNRESET);
	submit(queue, write_single(0, 1));
	ck_assert_uint_eq(fake.posts, 0);
	stage_status(0);
	expect_none(queue);
	ck_assert_uint_eq(fake.posts, 1);
	complete_and_expect(queue, 1);
}
END_TEST

START_TEST(single__across_segments_is_cut)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = op_of(RMEM_OP_WRITE, SEG - 4, local, 8, 1);

	op.buffer = buffer;
	submit(queue, op);
	fake_complete_all();
	/* two fragments of one operation */
	expect(queue, 1, 0);
	ck_assert_mem_eq(seg_a + SEG - 4, local, 4);
	ck_assert_mem_eq(seg_b, local + 4, 4);
}
END_TEST

/* It is not posted on the other channel, also when that is next. */
START_TEST(single__uses_the_endpoint_that_lends_the_segment)
{
	struct rmem_queue *queue = stage_queue(CREDITS_MAX + 1, 2);
	unsigned depth = queue->channels.depth;

	stage.through[0] = 1u << _i;
	stage_rekey(single, 1, segments, seg_bytes, keys);
	expect_none(queue);
	for (unsigned i = 0; i < depth; i++)
		submit(queue, write_single(i * 8, i));
	ck_assert_uint_eq(stage_channel(queue, (unsigned)_i)->n, depth);
	/* when that channel is full, they wait */
	submit(queue, write_single(depth * 8, depth));
	ck_assert_uint_eq(stage_channel(queue, (unsigned)(1 - _i))->n, 0);
	for (unsigned n = 0; n <= depth;) {
		fake_complete_all();
		n += (unsigned)rmem_poll(queue, done, 64);
	}
	ck_assert_mem_eq(seg_a, local, (depth + 1) * 8);
}
END_TEST

START_TEST(single__without_an_rkey_waits)
{
	static const uint64_t none[] = { 0 };
	struct rmem_queue *queue = stage_queue(8, 1);

	stage_rekey(single, 1, segments, seg_bytes, none);
	submit(queue, write_single(0, 1));
	ck_assert_uint_eq(fake.posts, 0);
	stage_rekey(single, 1, segments, seg_bytes, keys);
	atomic_store(&single->verified, atomic_load(&single->asked));
	atomic_store(&queue->woken, true);
	expect_none(queue);
	complete_and_expect(queue, 1);
}
END_TEST

START_TEST(fence__delays_singles)
{
	struct rmem_queue *queue = stage_queue(8, 2);
	struct rmem_op op = write_single(8, 2);

	submit(queue, write_single(0, 1));
	op.flags = RMEM_OP_FENCE;
	submit(queue, op);
	/* it must not overtake the operation that waits */
	submit(queue, write_single(16, 3));
	ck_assert_uint_eq(stage_posted(queue), 1);
	complete_and_expect(queue, 1);
	ck_assert_uint_eq(stage_posted(queue), 2);
	complete_and_poll(queue, 2);
	/* the next operation inherits the fence of one that did not start */
	submit(queue, write_single(0, 4));
	op.bytes = 0;
	op.addr = NULL;
	op.flags = RMEM_OP_FENCE;
	submit(queue, op);
	ck_assert_int_eq(rmem_cancel(queue, single), 2);
	submit(queue, write_single(24, 6));
	while (rmem_queue_outstanding(queue) > 0) {
		(void)stage_reconnect(queue);
		fake_complete_all();
		(void)rmem_poll(queue, done, 8);
	}
	ck_assert_mem_eq(seg_a + 24, local + 24, 8);
}
END_TEST

/* ---- errors ---- */

START_TEST(single__on_a_dead_channel_moves_to_another)
{
	struct rmem_queue *queue = stage_queue(8, 2);

	stage_channel(queue, 0)->aborted = true;
	submit(queue, write_single(0, 1));
	ck_assert(!queue->channels.sides[0].live);
	ck_assert_uint_eq(stage_channel(queue, 1)->n, 1);
	complete_and_expect(queue, 1);
	ck_assert_mem_eq(seg_a, local, 8);
}
END_TEST

START_TEST(single__on_the_only_channel_waits_for_the_next)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	stage_channel(queue, 0)->aborted = true;
	submit(queue, write_single(0, 1));
	expect_none(queue);
	reconnect(queue);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 1);
	complete_and_expect(queue, 1);
}
END_TEST

START_TEST(failed_single__reports_the_error)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	submit(queue, write_single(0, 1));
	fake_complete(stage_channel(queue, 0), -EIO);
	peer_closes(queue, 0);
	expect_error(queue, 1, -EIO, "fake status");
	ck_assert_uint_eq(done[0].vendor, 0x99);
	expect_none(queue);
}
END_TEST

/* No state of the failed one is left. */
START_TEST(single__in_the_slot_of_a_failed_one)
{
	struct rmem_queue *queue = stage_queue(1, 1);

	submit(queue, write_single(0, 1));
	fake_complete(stage_channel(queue, 0), -EIO);
	peer_closes(queue, 0);
	expect(queue, 1, -EIO);
	expect_none(queue);
	reconnect(queue);
	submit(queue, write_single(8, 2));
	complete_quietly(queue, 0, -ECONNRESET);
	reconnect(queue);
	complete_and_expect(queue, 2);
	ck_assert_uint_eq(done[0].vendor, 0);
}
END_TEST

START_TEST(lost_single__is_posted_again)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	submit(queue, write_single(0, 1));
	complete_quietly(queue, 0, -ECONNRESET);
	/* before the reconnect no other operation is posted */
	submit(queue, write_single(8, 2));
	reconnect(queue);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 2);
	complete_and_poll(queue, 2);
	ck_assert_mem_eq(seg_a, local, 16);
}
END_TEST

/* _i: its own time-out, or the default. */
START_TEST(single__times_out)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = write_single(0, 1);

	fake.hold_flush = true;
	op.timeout_ms = _i ? 10 : 0;
	submit(queue, op);
	idle_ms(queue, (_i ? 10 : STAGE_TIMEOUT_MS) - 1);
	ck_assert(!stage_channel(queue, 0)->aborted);
	idle_ms(queue, 1);
	ck_assert(stage_channel(queue, 0)->aborted);
	fake_flush(stage_channel(queue, 0));
	peer_closes(queue, 0);
	expect(queue, 1, -ETIMEDOUT);
	fake.hold_flush = false;
}
END_TEST

START_TEST(poll__processes_channel_events)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	submit(queue, write_single(0, 1));
	stage_abort(queue, 0);
	expect_none(queue);
	ck_assert(!queue->channels.sides[0].live);
	reconnect(queue);
	complete_and_expect(queue, 1);
}
END_TEST

START_TEST(broken_cq__fails_a_single)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	submit(queue, write_single(0, 1));
	fake.poll_err = -EIO;
	peer_closes(queue, 0);
	expect(queue, 1, -EIO);
	fake.poll_err = 0;
}
END_TEST

START_TEST(queue_free__with_a_single_outstanding)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	submit(queue, write_single(0, 1));
	rmem_queue_free(queue);
}
END_TEST

/* ---- over a fabric that takes unregistered memory ---- */

START_TEST(single__over_tcp)
{
	struct rmem_queue *queue = stage_queue(8, 2);

	submit(queue, write_single(0, 1));
	complete_and_expect(queue, 1);
	ck_assert_mem_eq(seg_a, local, 8);
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("single", single_verbs, single_close),
	      *tcp = unit_case("tcp", single_tcp, single_close);

	tcase_add_test(tcase, single__completes);
	tcase_add_test(tcase, singles__use_channels_in_turn);
	tcase_add_test(tcase, singles__share_credits_with_batches);
	tcase_add_loop_test(tcase, single__is_validated, 0,
			    sizeof(places) / sizeof(places[0]));
	tcase_add_test(tcase, single__of_a_short_lease_is_validated);
	tcase_add_test(tcase, single__needs_the_right);
	tcase_add_loop_test(tcase, invalid_single__is_refused, 0, 6);
	tcase_add_loop_test(tcase, single__waits_while_the_session_is_lost, 0, 2);
	tcase_add_test(tcase, single__across_segments_is_cut);
	tcase_add_loop_test(tcase, single__uses_the_endpoint_that_lends_the_segment, 0,
			    2);
	tcase_add_test(tcase, single__without_an_rkey_waits);
	tcase_add_test(tcase, fence__delays_singles);
	tcase_add_test(tcase, single__on_a_dead_channel_moves_to_another);
	tcase_add_test(tcase, single__on_the_only_channel_waits_for_the_next);
	tcase_add_test(tcase, failed_single__reports_the_error);
	tcase_add_test(tcase, single__in_the_slot_of_a_failed_one);
	tcase_add_test(tcase, lost_single__is_posted_again);
	tcase_add_loop_test(tcase, single__times_out, 0, 2);
	tcase_add_test(tcase, poll__processes_channel_events);
	tcase_add_test(tcase, broken_cq__fails_a_single);
	tcase_add_test(tcase, queue_free__with_a_single_outstanding);
	tcase_add_test(tcp, single__over_tcp);
	return unit_main();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations that are submitted one at a time: what may go the short way does, nothing else, and
 * whatever way they go they end alike. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit/librmem/librmem-single.h"
#include "librmem/lease/buffer.h"

#define MANY 60         /* as many for each of three channels */
#define CREDITS_MAX 256 /* of a channel */

static void setup(void)
{
	case_verbs();
	single_make();
}

/* A write of 8 bytes. */
static struct rmem_op write_at(uint64_t at, uint64_t cookie)
{
	return op_single(RMEM_OP_WRITE, at, 8, cookie);
}

/* It goes the short way, or not. */
static void submit_by(struct rmem_queue *queue, struct rmem_op op, bool is_short)
{
	unsigned before = fake.singles;

	submit(queue, op);
	ck_assert_uint_eq(fake.singles - before, is_short);
}

/* ---- the short way ---- */

START_TEST(single__is_done)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	submit_by(queue, write_at(16, 1), true);
	ck_assert_uint_eq(fake.posts, 1);
	ck_assert_uint_eq(lease_inflight(single), 1);
	ck_assert_uint_eq(buffer_inflight(buffer), 1);
	ck_assert_int_eq(rmem_buffer_free(buffer), -EBUSY);
	ck_assert_uint_eq(rmem_queue_outstanding(queue), 1);
	expect_none(queue);
	fake_complete_all();
	/* no room for it: it stays */
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
	submit_by(queue, op_single(RMEM_OP_READ, 16, 8, 2), true);
	fake_complete_all();
	expect(queue, 2, 0);
	ck_assert_mem_eq(seg_a + 16, local + 16, 8);
	single_end();
}
END_TEST

START_TEST(singles__take_turns_and_credits)
{
	struct rmem_queue *queue = stage_queue(MANY, 3);
	unsigned depth = queue->channels.depth;
	bool seen[64] = { false };

	for (unsigned i = 0; i < MANY; i++)
		submit_by(queue, write_at(i * 8, i), true);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_uint_eq(stage_channel(queue, i)->n, MANY / 3);
	ck_assert_uint_ge(depth, MANY / 3);
	/* the queue is full */
	ck_assert_int_eq(rmem_submit(queue, &(struct rmem_op){ 0 }, 1), -EOVERFLOW);
	fake_complete_all();
	ck_assert_int_eq(rmem_poll(queue, done, 64), MANY);
	for (unsigned i = 0; i < MANY; i++) {
		ck_assert_int_eq(done[i].status, 0);
		ck_assert(!seen[done[i].cookie]);
		seen[done[i].cookie] = true;
	}
	ck_assert_mem_eq(seg_a, local, MANY * 8);
	single_end();
}
END_TEST

/* Singles and batches on one channel, whose credits are fewer than the queue's. */
START_TEST(singles__count_with_batches)
{
	struct rmem_queue *queue = stage_queue(2 * CREDITS_MAX, 1);
	unsigned depth = queue->channels.depth, n = 0, got = 0;
	struct rmem_op ops[3];

	ck_assert_uint_lt(depth, 2 * CREDITS_MAX);
	while (n + 4 <= depth) {
		submit_by(queue, write_at(n * 8, n), true);
		for (unsigned i = 0; i < 3; i++)
			ops[i] = write_at((n + 1 + i) * 8, n + 1 + i);
		ck_assert_int_eq(rmem_submit(queue, ops, 3), 3);
		n += 4;
	}
	while (n < depth) {
		submit_by(queue, write_at(n * 8, n), true);
		n++;
	}
	ck_assert_uint_eq(stage_channel(queue, 0)->n, depth);
	/* no credit: it waits, and all that come later wait behind it */
	submit_by(queue, write_at(n * 8, n), false);
	n++;
	fake_complete(stage_channel(queue, 0), 0);
	submit_by(queue, write_at(n * 8, n), false);
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
	submit_by(queue, write_at(0, 0), true);
	fake_complete_all();
	expect(queue, 0, 0);
	single_end();
}
END_TEST

/* ---- what does not go it ---- */

static const struct {
	uint64_t offset, bytes, local;
	int status;
	bool is_short;
} places[] = {
	{ SEG - 8, 8, 0, 0, true },
	{ 0, 8, 2 * SEG - 8, 0, true },
	{ 0, FAKE_MAX_BYTES, 0, 0, true },
	{ SEG - 7, 8, 0, -EINVAL, false },
	{ SEG, 8, 0, -EINVAL, false },
	{ UINT64_MAX - 3, 8, 0, -EINVAL, false },
	{ 0, SEG + 1, 0, -EINVAL, false },
	{ 0, UINT64_MAX, 0, -EINVAL, false },
	{ 8, UINT64_MAX - 7, 0, -EINVAL, false },
	{ 0, 8, 2 * SEG - 7, -EINVAL, false },
	{ 0, 8, 2 * SEG, -EINVAL, false },
	{ 0, 8, UINT64_MAX, -EINVAL, false }, /* ahead of the buffer */
	{ 0, 8, UINT64_MAX - 7, -EINVAL, false },
	{ 0, 0, 0, 0, false },
	{ 0, FAKE_MAX_BYTES + 1, 0, 0, false }, /* it is cut */
};

START_TEST(single__is_checked)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op =
		op_single(RMEM_OP_WRITE, places[_i].offset, places[_i].bytes, 3);

	fake.automatic = true;
	op.addr = (void *)((uintptr_t)local + places[_i].local);
	submit_by(queue, op, places[_i].is_short);
	expect(queue, 3, places[_i].status);
	if (places[_i].status)
		ck_assert_uint_eq(fake.posts, 0);
	expect_none(queue);
	single_end();
}
END_TEST

START_TEST(single__of_a_short_lease_is_checked)
{
	const uint64_t bytes[] = { 100 };
	struct rmem_lease *small =
		stage_lease(7, RMEM_READ | RMEM_WRITE, 1, segments, bytes, keys);
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = op_single(RMEM_OP_WRITE, 0, 101, 1);

	fake.automatic = true;
	op.lease = small;
	submit_by(queue, op, false);
	expect(queue, 1, -EINVAL);
	ck_assert_uint_eq(fake.posts, 0);
	op.bytes = 100;
	submit_by(queue, op, true);
	expect(queue, 1, 0);
	single_end();
}
END_TEST

START_TEST(single__needs_the_right)
{
	struct rmem_lease *readable =
		stage_lease(7, RMEM_READ, 1, segments, seg_bytes, keys);
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = write_at(0, 1);

	fake.automatic = true;
	op.lease = readable;
	submit_by(queue, op, false);
	expect(queue, 1, -EACCES);
	op.opcode = RMEM_OP_READ;
	submit_by(queue, op, true);
	expect(queue, 1, 0);
	atomic_store(&readable->status, -ESTALE);
	submit_by(queue, op, false);
	expect(queue, 1, -ESTALE);
	ck_assert_uint_eq(lease_inflight(readable), 0);
	single_end();
}
END_TEST

START_TEST(single__of_others_is_refused)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem other = { 0 };
	struct rmem_lease foreign = { .session = &other };
	struct rmem_buffer elsewhere = { .session = &other };
	struct rmem_op op = write_at(0, 1);

	op.lease = _i == 0 ? NULL : _i == 1 ? &foreign : single;
	if (_i == 2)
		op.buffer = &elsewhere;
	if (_i == 3)
		op.flags = 0x80;
	if (_i == 4)
		op.opcode = 0;
	ck_assert_int_eq(rmem_submit(queue, &op, 1), -EINVAL);
	ck_assert_uint_eq(fake.posts, 0);
	ck_assert_uint_eq(rmem_queue_outstanding(queue), 0);
	single_end();
}
END_TEST

START_TEST(single__waits_while_the_session_is_lost)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	if (_i)
		atomic_store(&stage.session.until_ns, stage.now_ns);
	else
		stage_status(-ECONNRESET);
	submit_by(queue, write_at(0, 1), false);
	ck_assert_uint_eq(fake.posts, 0);
	stage_status(0);
	expect_none(queue);
	ck_assert_uint_eq(fake.posts, 1);
	fake_complete_all();
	expect(queue, 1, 0);
	single_end();
}
END_TEST

START_TEST(single__of_many_segments_goes_the_long_way)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = op_of(RMEM_OP_WRITE, SEG - 4, local, 8, 1);

	op.buffer = buffer;
	submit_by(queue, op, false);
	fake_complete_all();
	/* two fragments of one operation that is outstanding alone */
	expect(queue, 1, 0);
	ck_assert_mem_eq(seg_a + SEG - 4, local, 4);
	ck_assert_mem_eq(seg_b, local + 4, 4);
	single_end();
}
END_TEST

/* The turn of the others passes by. */
START_TEST(single__of_one_endpoint_goes_the_short_way)
{
	struct rmem_queue *queue = stage_queue(CREDITS_MAX + 1, 2);
	unsigned depth = queue->channels.depth;
	const uint64_t key[] = { 11 };

	stage.through[0] = 1u << _i;
	stage_rekey(single, 1, segments, seg_bytes, key);
	expect_none(queue);
	for (unsigned i = 0; i < depth; i++)
		submit_by(queue, write_at(i * 8, i), true);
	ck_assert_uint_eq(stage_channel(queue, (unsigned)_i)->n, depth);
	/* and when that is full, they wait */
	submit_by(queue, write_at(depth * 8, depth), false);
	ck_assert_uint_eq(stage_channel(queue, (unsigned)(1 - _i))->n, 0);
	for (unsigned n = 0; n <= depth;) {
		fake_complete_all();
		n += (unsigned)rmem_poll(queue, done, 64);
	}
	ck_assert_mem_eq(seg_a, local, (depth + 1) * 8);
	single_end();
}
END_TEST

START_TEST(single__without_a_key_goes_the_long_way)
{
	static const uint64_t none[] = { 0 };
	static const uint64_t key[] = { 11 };
	struct rmem_queue *queue = stage_queue(8, 1);

	stage_rekey(single, 1, segments, seg_bytes, none);
	submit_by(queue, write_at(0, 1), false);
	ck_assert_uint_eq(fake.posts, 0);
	stage_rekey(single, 1, segments, seg_bytes, key);
	atomic_store(&single->verified, atomic_load(&single->asked));
	atomic_store(&queue->woken, true);
	expect_none(queue);
	fake_complete_all();
	expect(queue, 1, 0);
	single_end();
}
END_TEST

START_TEST(fence__holds_up_singles)
{
	struct rmem_queue *queue = stage_queue(8, 2);
	struct rmem_op op = write_at(8, 2);

	submit_by(queue, write_at(0, 1), true);
	op.flags = RMEM_OP_FENCE;
	submit_by(queue, op, false);
	/* it would overtake the one that waits */
	submit_by(queue, write_at(16, 3), false);
	ck_assert_uint_eq(stage_channel(queue, 0)->n + stage_channel(queue, 1)->n, 1);
	fake_complete_all();
	expect(queue, 1, 0);
	ck_assert_uint_eq(stage_channel(queue, 0)->n + stage_channel(queue, 1)->n, 2);
	fake_complete_all();
	ck_assert_int_eq(rmem_poll(queue, done, 8), 2);
	/* a fence that never started is the next one's */
	submit_by(queue, write_at(0, 4), true);
	op.bytes = 0;
	op.addr = NULL;
	op.flags = RMEM_OP_FENCE;
	submit_by(queue, op, false);
	ck_assert_int_eq(rmem_cancel(queue, single), 2);
	submit_by(queue, write_at(24, 6), false);
	while (rmem_queue_outstanding(queue) > 0) {
		(void)stage_reconnect(queue);
		fake_complete_all();
		(void)rmem_poll(queue, done, 8);
	}
	ck_assert_mem_eq(seg_a + 24, local + 24, 8);
	single_end();
}
END_TEST

/* ---- what goes wrong on it ---- */

START_TEST(single__to_a_dead_channel_goes_to_another)
{
	struct rmem_queue *queue = stage_queue(8, 2);

	stage_channel(queue, 0)->aborted = true;
	submit(queue, write_at(0, 1));
	ck_assert(!queue->channels.sides[0].live);
	ck_assert_uint_eq(stage_channel(queue, 1)->n, 1);
	fake_complete_all();
	expect(queue, 1, 0);
	ck_assert_mem_eq(seg_a, local, 8);
	single_end();
}
END_TEST

START_TEST(single__to_the_only_channel_waits_for_another)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	stage_channel(queue, 0)->aborted = true;
	submit(queue, write_at(0, 1));
	expect_none(queue);
	ck_assert_uint_eq(stage_reconnect(queue), 1);
	expect_none(queue);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 1);
	fake_complete_all();
	expect(queue, 1, 0);
	single_end();
}
END_TEST

START_TEST(single__that_fails_says_so)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	submit_by(queue, write_at(0, 1), true);
	fake_complete(stage_channel(queue, 0), -EIO);
	expect(queue, 1, -EIO);
	ck_assert_uint_eq(done[0].vendor, 0x99);
	ck_assert_ptr_nonnull(strstr(rmem_completion_error(queue), "fake status"));
	expect_none(queue);
	single_end();
}
END_TEST

/* Nothing of it is left for the next one, which has its place. */
START_TEST(single__after_one_that_failed)
{
	struct rmem_queue *queue = stage_queue(1, 1);

	submit_by(queue, write_at(0, 1), true);
	fake_complete(stage_channel(queue, 0), -EIO);
	expect(queue, 1, -EIO);
	expect_none(queue);
	ck_assert_uint_eq(stage_reconnect(queue), 1);
	expect_none(queue);
	submit_by(queue, write_at(8, 2), true);
	fake_complete(stage_channel(queue, 0), -ECONNRESET);
	expect_none(queue);
	ck_assert_uint_eq(stage_reconnect(queue), 1);
	expect_none(queue);
	fake_complete_all();
	expect(queue, 2, 0);
	ck_assert_uint_eq(done[0].vendor, 0);
	single_end();
}
END_TEST

START_TEST(single__that_is_lost_goes_again)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	submit_by(queue, write_at(0, 1), true);
	fake_complete(stage_channel(queue, 0), -ECONNRESET);
	expect_none(queue);
	/* and until then no other goes ahead */
	submit_by(queue, write_at(8, 2), false);
	ck_assert_uint_eq(stage_reconnect(queue), 1);
	expect_none(queue);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 2);
	fake_complete_all();
	ck_assert_int_eq(rmem_poll(queue, done, 8), 2);
	ck_assert_mem_eq(seg_a, local, 16);
	single_end();
}
END_TEST

/* Alone, and looked for again and again. */
START_TEST(time__of_a_single_is_over)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = write_at(0, 1);

	fake.hold_flush = true;
	op.timeout_ms = _i ? 10 : 0;
	submit_by(queue, op, true);
	stage_advance_ms((_i ? 10 : STAGE_TIMEOUT_MS) - 1);
	expect_none(queue);
	ck_assert(!stage_channel(queue, 0)->aborted);
	stage_advance_ms(1);
	expect_none(queue);
	ck_assert(stage_channel(queue, 0)->aborted);
	fake_flush(stage_channel(queue, 0));
	expect(queue, 1, -ETIMEDOUT);
	fake.hold_flush = false;
	single_end();
}
END_TEST

START_TEST(news__come_to_who_polls_for_a_single)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	submit_by(queue, write_at(0, 1), true);
	queue->channels.all[0].doomed = true;
	atomic_store(&queue->woken, true);
	expect_none(queue);
	ck_assert(!queue->channels.sides[0].live);
	ck_assert_uint_eq(stage_reconnect(queue), 1);
	expect_none(queue);
	fake_complete_all();
	expect(queue, 1, 0);
	single_end();
}
END_TEST

START_TEST(poll__that_breaks_fails_a_single)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	submit_by(queue, write_at(0, 1), true);
	fake.poll_err = -EIO;
	expect(queue, 1, -EIO);
	fake.poll_err = 0;
	single_end();
}
END_TEST

START_TEST(queue__freed_with_a_single_under_way)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	submit_by(queue, write_at(0, 1), true);
	rmem_queue_free(queue);
	single_end();
}
END_TEST

/* ---- over a fabric that takes any memory ---- */

START_TEST(single__over_tcp)
{
	struct rmem_queue *queue;

	case_tcp();
	single_make();
	queue = stage_queue(8, 2);
	submit_by(queue, write_at(0, 1), true);
	fake_complete_all();
	expect(queue, 1, 0);
	ck_assert_mem_eq(seg_a, local, 8);
	single_end();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("librmem-single");
	TCase *tcase = tcase_create("single"), *tcp = tcase_create("tcp");

	tcase_add_checked_fixture(tcase, setup, NULL);
	tcase_add_test(tcase, single__is_done);
	tcase_add_test(tcase, singles__take_turns_and_credits);
	tcase_add_test(tcase, singles__count_with_batches);
	tcase_add_loop_test(tcase, single__is_checked, 0,
			    sizeof(places) / sizeof(places[0]));
	tcase_add_test(tcase, single__of_a_short_lease_is_checked);
	tcase_add_test(tcase, single__needs_the_right);
	tcase_add_loop_test(tcase, single__of_others_is_refused, 0, 5);
	tcase_add_loop_test(tcase, single__waits_while_the_session_is_lost, 0, 2);
	tcase_add_test(tcase, single__of_many_segments_goes_the_long_way);
	tcase_add_loop_test(tcase, single__of_one_endpoint_goes_the_short_way, 0, 2);
	tcase_add_test(tcase, single__without_a_key_goes_the_long_way);
	tcase_add_test(tcase, fence__holds_up_singles);
	tcase_add_test(tcase, single__to_a_dead_channel_goes_to_another);
	tcase_add_test(tcase, single__to_the_only_channel_waits_for_another);
	tcase_add_test(tcase, single__that_fails_says_so);
	tcase_add_test(tcase, single__after_one_that_failed);
	tcase_add_test(tcase, single__that_is_lost_goes_again);
	tcase_add_loop_test(tcase, time__of_a_single_is_over, 0, 2);
	tcase_add_test(tcase, news__come_to_who_polls_for_a_single);
	tcase_add_test(tcase, poll__that_breaks_fails_a_single);
	tcase_add_test(tcase, queue__freed_with_a_single_under_way);
	suite_add_tcase(suite, tcase);
	tcase_add_test(tcp, single__over_tcp);
	suite_add_tcase(suite, tcp);
	return unit_main(suite);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations that wait for nothing, on a lease of one segment: posted as they are submitted,
 * and what becomes of them when something goes wrong. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit/librmem/librmem-single.h"
#include "librmem/lease/buffer.h"

#define MANY 64

static struct rmem_op ops[MANY];

static void setup(void)
{
	case_verbs();
	single_make();
}

/* n writes of 8 bytes each, side by side; the cookie is the index. */
static void writes_submit(struct rmem_queue *queue, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		ops[i] = op_single(RMEM_OP_WRITE, i * 8, 8, i);
	ck_assert_int_eq(rmem_submit(queue, ops, n), (int)n);
}

/* So many operations end, all with this status, each once. */
static void expect_all(struct rmem_queue *queue, unsigned n, int status)
{
	bool seen[MANY] = { false };
	unsigned got = 0;

	while (got < n) {
		int now = rmem_poll(queue, done, 5);

		ck_assert_int_gt(now, 0);
		for (int i = 0; i < now; i++) {
			ck_assert_uint_lt(done[i].cookie, n);
			ck_assert(!seen[done[i].cookie]);
			seen[done[i].cookie] = true;
			ck_assert_int_eq(done[i].status, status);
			ck_assert_uint_eq(done[i].bytes, 8);
		}
		got += (unsigned)now;
	}
	expect_none(queue);
	ck_assert_uint_eq(rmem_queue_outstanding(queue), 0);
}

START_TEST(burst__is_one_doorbell)
{
	struct rmem_queue *queue = stage_queue(MANY, 1);

	writes_submit(queue, MANY);
	ck_assert_uint_eq(fake.posts, 1);
	ck_assert_uint_eq(lease_inflight(single), MANY);
	ck_assert_uint_eq(buffer_inflight(buffer), MANY);
	ck_assert_int_eq(rmem_submit(queue, ops, 1), -EOVERFLOW);
	expect_none(queue);
	fake_complete_all();
	expect_all(queue, MANY, 0);
	ck_assert_uint_eq(buffer_inflight(buffer), 0);
	ck_assert_mem_eq(seg_a, local, MANY * 8);
	single_end();
}
END_TEST

START_TEST(burst__goes_on_while_others_are_under_way)
{
	struct rmem_queue *queue = stage_queue(MANY, 1);
	unsigned taken = 0;

	/* the rings of channel, operations and completions go round and round */
	writes_submit(queue, 7);
	for (unsigned round = 0; round < 200; round++) {
		for (unsigned i = 0; i < 5; i++)
			fake_complete(stage_channel(queue, 0), 0);
		ck_assert_int_eq(rmem_poll(queue, done, 3), 3);
		ck_assert_int_eq(rmem_poll(queue, done, 3), 2);
		taken += 5;
		for (unsigned i = 0; i < 5; i++)
			ops[i] = op_single(RMEM_OP_READ, (taken + i) % 100, 8, i);
		ck_assert_int_eq(rmem_submit(queue, ops, 5), 5);
		ck_assert_uint_eq(rmem_queue_outstanding(queue), 7);
	}
	fake_complete_all();
	ck_assert_int_eq(rmem_poll(queue, done, 64), 7);
	single_end();
}
END_TEST

START_TEST(burst__is_spread_over_the_channels)
{
	struct rmem_queue *queue = stage_queue(MANY, 4);
	unsigned n;

	/* small ones pay a doorbell together */
	writes_submit(queue, MANY);
	ck_assert_uint_eq(fake.posts, 4);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_uint_eq(stage_channel(queue, i)->n, MANY / 4);
	fake_complete_all();
	expect_all(queue, MANY, 0);
	/* large ones don't, and the turns go on where they ended */
	for (unsigned i = 0; i < 16; i++)
		ops[i] = op_single(RMEM_OP_READ, 0, FAKE_MAX_BYTES, i);
	n = (unsigned)(CHANNEL_SHARE_BYTES / FAKE_MAX_BYTES);
	ck_assert_int_eq(rmem_submit(queue, ops, n + 1), (int)n + 1);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, n);
	ck_assert_uint_eq(stage_channel(queue, 1)->n, 1);
	fake_complete_all();
	ck_assert_int_eq(rmem_poll(queue, done, 64), (int)n + 1);
	submit(queue, op_single(RMEM_OP_READ, 0, 1, 1));
	ck_assert_uint_eq(stage_channel(queue, 2)->n, 1);
	fake_complete_all();
	ck_assert_int_eq(rmem_poll(queue, done, 64), 1);
	single_end();
}
END_TEST

START_TEST(burst__may_name_other_leases_in_turn)
{
	unsigned char *const other[] = { seg_b };
	const uint64_t other_key[] = { 99 };
	struct rmem_lease *second = stage_lease(7, 3, 1, other, seg_bytes, other_key);
	struct rmem_queue *queue = stage_queue(MANY, 1);

	for (unsigned i = 0; i < 10; i++) {
		ops[i] = op_single(RMEM_OP_WRITE, i * 8, 8, i);
		if (i % 2)
			ops[i].lease = second;
	}
	ck_assert_int_eq(rmem_submit(queue, ops, 10), 10);
	ck_assert_uint_eq(fake.posts, 1);
	for (unsigned i = 0; i < 10; i++)
		ck_assert_uint_eq(stage_channel(queue, 0)->posted[i].rkey,
				  i % 2 ? 99 : 11);
	fake_complete_all();
	expect_all(queue, 10, 0);
	for (unsigned i = 0; i < 10; i++)
		ck_assert_mem_eq((i % 2 ? seg_b : seg_a) + i * 8, local + i * 8, 8);
	single_end();
}
END_TEST

/* What one operation must not do to the others of its batch. */
static const struct {
	uint64_t offset, bytes;
	ptrdiff_t local;
	int status;
} wrong[] = {
	{ SEG - 7, 8, 0, -EINVAL },        { SEG + 1, 8, 0, -EINVAL },
	{ UINT64_MAX - 3, 8, 0, -EINVAL }, { 0, UINT64_MAX, 0, -EINVAL },
	{ 0, 8, 2 * SEG - 7, -EINVAL },    { 0, 8, -1, -EINVAL },
	{ 0, SEG + 1, 0, -EINVAL },        { 0, 0, 0, 0 },
};

START_TEST(burst__checks_every_operation)
{
	struct rmem_queue *queue = stage_queue(MANY, 2);
	unsigned ok = 0;

	for (unsigned i = 0; i < 9; i++)
		ops[i] = op_single(RMEM_OP_WRITE, i * 8, 8, i);
	ops[4].offset = wrong[_i].offset;
	ops[4].bytes = wrong[_i].bytes;
	ops[4].addr = local + wrong[_i].local;
	ck_assert_int_eq(rmem_submit(queue, ops, 9), 9);
	fake_complete_all();
	ck_assert_int_eq(rmem_poll(queue, done, 64), 9);
	for (unsigned i = 0; i < 9; i++) {
		ck_assert_int_eq(done[i].status,
				 done[i].cookie == 4 ? wrong[_i].status : 0);
		ok += done[i].status == 0 && done[i].cookie != 4;
	}
	ck_assert_uint_eq(ok, 8);
	ck_assert_mem_eq(seg_a + 40, local + 40, 32);
	single_end();
}
END_TEST

START_TEST(burst__needs_the_right)
{
	struct rmem_lease *readable =
		stage_lease(7, RMEM_READ, 1, segments, seg_bytes, keys);
	struct rmem_queue *queue = stage_queue(8, 1);

	ops[0] = op_single(RMEM_OP_WRITE, 0, 8, 0);
	ops[0].lease = readable;
	ck_assert_int_eq(rmem_submit(queue, ops, 1), 1);
	expect(queue, 0, -EACCES);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 0);
	atomic_store(&single->status, -ESTALE);
	submit(queue, op_single(RMEM_OP_READ, 0, 8, 1));
	expect(queue, 1, -ESTALE);
	single_end();
}
END_TEST

START_TEST(post__that_takes_part_keeps_the_rest)
{
	struct rmem_queue *queue;

	stage.session.timeout_ms = 10 * CHANNEL_FLUSH_MS;
	queue = stage_queue(MANY, 2);
	fake.post_max = 3;
	writes_submit(queue, MANY);
	/* all but those three go through the other channel */
	fake_complete_all();
	stage_advance_ms(CHANNEL_FLUSH_MS / 2);
	ck_assert_int_eq(rmem_poll(queue, done, 64), MANY - 3);
	stage_advance_ms(CHANNEL_FLUSH_MS / 2);
	expect_none(queue);
	ck_assert_uint_eq(stage_reconnect(queue), 1);
	expect_none(queue);
	fake_complete_all();
	ck_assert_int_eq(rmem_poll(queue, done, 64), 3);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(done[i].status, 0);
	ck_assert_mem_eq(seg_a, local, MANY * 8);
	single_end();
}
END_TEST

START_TEST(poll__of_few_gives_everyone_a_turn)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	unsigned turns[8] = { 0 };

	fake.automatic = true;
	writes_submit(queue, 8);
	/* one that ended here is as good as any other */
	ck_assert_int_eq(rmem_poll(queue, done, 1), 1);
	ops[0] = op_single(RMEM_OP_READ, SEG, 8, 7);
	ck_assert_int_eq(rmem_submit(queue, ops, 1), 1);
	for (unsigned i = 0; i < 100; i++) {
		ck_assert_int_eq(rmem_poll(queue, done, 1), 1);
		turns[done[0].cookie]++;
		ops[0] = op_single(RMEM_OP_READ, 0, 8, done[0].cookie);
		ck_assert_int_eq(rmem_submit(queue, ops, 1), 1);
	}
	for (unsigned i = 1; i < 8; i++)
		ck_assert_uint_ge(turns[i], 10);
	ck_assert_int_eq(rmem_poll(queue, done, 64), 8);
	single_end();
}
END_TEST

START_TEST(burst__shares_by_bytes_too)
{
	struct rmem_queue *queue = stage_queue(MANY, 4);
	uint64_t bytes[4] = { 0 };

	/* a small one first, then large ones */
	ops[0] = op_single(RMEM_OP_READ, 0, 8, 0);
	for (unsigned i = 1; i <= 16; i++)
		ops[i] = op_single(RMEM_OP_READ, 0, FAKE_MAX_BYTES, i);
	ck_assert_int_eq(rmem_submit(queue, ops, 17), 17);
	for (unsigned i = 0; i < 4; i++) {
		const struct fabric_channel *channel = stage_channel(queue, i);

		for (unsigned k = 0; k < channel->n; k++)
			bytes[i] += channel->posted[k].bytes;
		ck_assert_uint_le(bytes[i], CHANNEL_SHARE_BYTES);
	}
	ck_assert_uint_eq(bytes[1], CHANNEL_SHARE_BYTES);
	fake_complete_all();
	ck_assert_int_eq(rmem_poll(queue, done, 64), 17);
	single_end();
}
END_TEST

START_TEST(post__to_a_dead_channel_goes_to_another)
{
	struct rmem_queue *queue = stage_queue(MANY, 2);

	stage_channel(queue, 0)->aborted = true;
	writes_submit(queue, MANY);
	fake_complete_all();
	expect_all(queue, MANY, 0);
	ck_assert_mem_eq(seg_a, local, MANY * 8);
	single_end();
}
END_TEST

START_TEST(channel__that_dies_fails_what_is_on_it)
{
	struct rmem_queue *queue = stage_queue(MANY, 1);

	writes_submit(queue, MANY);
	for (unsigned i = 0; i < 10; i++)
		fake_complete(stage_channel(queue, 0), 0);
	fake_complete(stage_channel(queue, 0), -EIO);
	ck_assert_int_eq(rmem_poll(queue, done, 64), 11);
	ck_assert_int_eq(done[9].status, 0);
	ck_assert_int_eq(done[10].status, -EIO);
	ck_assert_uint_eq(done[10].vendor, 0x99);
	ck_assert_ptr_nonnull(strstr(rmem_completion_error(queue), "fake status"));
	/* the others were flushed by it, and go again once it is dead at the server, too */
	expect_none(queue);
	ck_assert_uint_eq(stage_reconnect(queue), 1);
	expect_none(queue);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, MANY - 11);
	fake_complete_all();
	ck_assert_int_eq(rmem_poll(queue, done, 64), MANY - 11);
	for (unsigned i = 0; i < MANY - 11; i++)
		ck_assert_int_eq(done[i].status, 0);
	ck_assert_mem_eq(seg_a, local, 10 * 8);
	ck_assert_mem_eq(seg_a + 11 * 8, local + 11 * 8, (MANY - 11) * 8);
	writes_submit(queue, MANY);
	fake_complete_all();
	expect_all(queue, MANY, 0);
	single_end();
}
END_TEST

START_TEST(refused__is_asked_about)
{
	static const uint64_t new_key[] = { 22 };
	struct rmem_queue *queue = stage_queue(8, 1);

	writes_submit(queue, 2);
	fake_complete(stage_channel(queue, 0), 0);
	fake_complete(stage_channel(queue, 0), -EACCES);
	expect(queue, 0, 0);
	expect_none(queue);
	/* _i: the server gives another key, or confirms the one there is */
	stage_rekey(single, 1, segments, seg_bytes, _i ? new_key : keys);
	if (_i) {
		expect_none(queue);
		ck_assert_uint_eq(stage_channel(queue, 0)->posted[0].rkey, 22);
		fake_complete_all();
	}
	expect(queue, 1, _i ? 0 : -EACCES);
	single_end();
}
END_TEST

START_TEST(time__runs_for_each)
{
	struct rmem_queue *queue = stage_queue(8, 2);

	writes_submit(queue, 2);
	ops[0] = op_single(RMEM_OP_READ, 0, 8, 7);
	ops[0].timeout_ms = 10;
	fake.hold_flush = true;
	ck_assert_int_eq(rmem_submit(queue, ops, 1), 1);
	stage_advance_ms(11);
	expect_none(queue);
	/* its channel went with it, and gives its memory back */
	ck_assert(stage_channel(queue, 1)->aborted);
	ck_assert(!stage_channel(queue, 0)->aborted);
	fake_flush(stage_channel(queue, 1));
	expect(queue, 7, -ETIMEDOUT);
	ck_assert_ptr_nonnull(
		strstr(rmem_completion_error(queue), "its time was over"));
	fake_complete(stage_channel(queue, 0), 0);
	fake_complete(stage_channel(queue, 0), 0);
	ck_assert_int_eq(rmem_poll(queue, done, 8), 2);
	fake.hold_flush = false;
	single_end();
}
END_TEST

START_TEST(time__is_over_whatever_else_goes_on)
{
	struct rmem_queue *queue = stage_queue(8, 2);

	/* one on each channel: the first never ends, the second always has when asked */
	ops[0] = op_single(RMEM_OP_READ, 0, 8, 7);
	ops[0].timeout_ms = 10;
	ck_assert_int_eq(rmem_submit(queue, ops, 1), 1);
	writes_submit(queue, 1);
	stage_advance_ms(11);
	fake_complete(stage_channel(queue, 1), 0);
	ck_assert_int_eq(rmem_poll(queue, done, 8), 1);
	ck_assert_int_eq(done[0].status, 0);
	ck_assert(!stage_channel(queue, 0)->aborted);
	writes_submit(queue, 1);
	ck_assert(stage_channel(queue, 0)->aborted);
	expect(queue, 7, -ETIMEDOUT);
	fake_complete_all();
	ck_assert_int_eq(rmem_poll(queue, done, 8), 1);
	single_end();
}
END_TEST

START_TEST(cancel__takes_those_of_the_lease)
{
	struct rmem_queue *queue = stage_queue(MANY, 1);

	writes_submit(queue, 3);
	fake_complete(stage_channel(queue, 0), 0);
	ck_assert_int_eq(rmem_cancel(queue, lease), 0);
	ck_assert_int_eq(rmem_cancel(queue, single), 2);
	ck_assert_int_eq(rmem_poll(queue, done, 8), 3);
	ck_assert_int_eq(done[0].status, 0);
	ck_assert_int_eq(done[1].status, -ECANCELED);
	ck_assert_int_eq(done[2].status, -ECANCELED);
	single_end();
}
END_TEST

START_TEST(fence__stands_between_bursts)
{
	struct rmem_queue *queue = stage_queue(MANY, 2);
	struct fabric_channel *first = stage_channel(queue, 0);

	for (unsigned i = 0; i < 9; i++)
		ops[i] = op_single(RMEM_OP_WRITE, i * 8, 8, i);
	ops[4].flags = RMEM_OP_FENCE;
	ck_assert_int_eq(rmem_submit(queue, ops, 9), 9);
	ck_assert_uint_eq(first->n + stage_channel(queue, 1)->n, 4);
	for (unsigned i = 0; i < 3; i++)
		fake_complete(first, 0);
	ck_assert_int_eq(rmem_poll(queue, done, 8), 3);
	ck_assert_uint_eq(first->n + stage_channel(queue, 1)->n, 1);
	/* what comes later waits behind it, too */
	ops[9] = op_single(RMEM_OP_WRITE, 72, 8, 9);
	ck_assert_int_eq(rmem_submit(queue, &ops[9], 1), 1);
	ck_assert_uint_eq(first->n + stage_channel(queue, 1)->n, 1);
	fake_complete_all();
	expect(queue, 3, 0);
	ck_assert_uint_eq(first->n + stage_channel(queue, 1)->n, 6);
	fake_complete_all();
	ck_assert_int_eq(rmem_poll(queue, done, 8), 6);
	single_end();
}
END_TEST

START_TEST(queue__freed_with_a_burst_under_way)
{
	struct rmem_queue *queue = stage_queue(MANY, 2);

	writes_submit(queue, 20);
	ck_assert_int_eq(rmem_buffer_free(buffer), -EBUSY);
	rmem_queue_free(queue);
	single_end();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("librmem-burst");
	TCase *tcase = tcase_create("burst");

	tcase_add_checked_fixture(tcase, setup, NULL);
	tcase_add_test(tcase, burst__is_one_doorbell);
	tcase_add_test(tcase, burst__goes_on_while_others_are_under_way);
	tcase_add_test(tcase, burst__is_spread_over_the_channels);
	tcase_add_test(tcase, burst__may_name_other_leases_in_turn);
	tcase_add_loop_test(tcase, burst__checks_every_operation, 0,
			    sizeof(wrong) / sizeof(wrong[0]));
	tcase_add_test(tcase, burst__needs_the_right);
	tcase_add_test(tcase, poll__of_few_gives_everyone_a_turn);
	tcase_add_test(tcase, burst__shares_by_bytes_too);
	tcase_add_test(tcase, post__that_takes_part_keeps_the_rest);
	tcase_add_test(tcase, post__to_a_dead_channel_goes_to_another);
	tcase_add_test(tcase, channel__that_dies_fails_what_is_on_it);
	tcase_add_loop_test(tcase, refused__is_asked_about, 0, 2);
	tcase_add_test(tcase, time__runs_for_each);
	tcase_add_test(tcase, time__is_over_whatever_else_goes_on);
	tcase_add_test(tcase, cancel__takes_those_of_the_lease);
	tcase_add_test(tcase, fence__stands_between_bursts);
	tcase_add_test(tcase, queue__freed_with_a_burst_under_way);
	suite_add_tcase(suite, tcase);
	return unit_main(suite);
}

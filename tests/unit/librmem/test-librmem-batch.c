/* SPDX-License-Identifier: BSD-3-Clause */
/* Batches on a lease of one segment: operations that need not wait are posted as they are
 * submitted; errors, time-outs and lost channels. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit/librmem/librmem-single.h"
#include "librmem/lease/buffer.h"

#define MANY 64

static struct rmem_op ops[MANY];

/* n writes of 8 bytes each, side by side; the cookie is the index. */
static void writes_fill(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		ops[i] = write_single(i * 8, i);
}

static void writes_submit(struct rmem_queue *queue, unsigned n)
{
	writes_fill(n);
	ck_assert_int_eq(rmem_submit(queue, ops, n), (int)n);
}

/* Everything posted completes; these are n operations, each once, without error. */
static void complete_writes(struct rmem_queue *queue, unsigned n)
{
	bool seen[MANY] = { false };
	unsigned got = 0;

	fake_complete_all();
	while (got < n) {
		int now = rmem_poll(queue, done, 5);

		ck_assert_int_gt(now, 0);
		for (int i = 0; i < now; i++) {
			ck_assert_uint_lt(done[i].cookie, n);
			ck_assert(!seen[done[i].cookie]);
			seen[done[i].cookie] = true;
			ck_assert_int_eq(done[i].status, 0);
			ck_assert_uint_eq(done[i].bytes, 8);
		}
		got += (unsigned)now;
	}
	expect_none(queue);
	ck_assert_uint_eq(rmem_queue_outstanding(queue), 0);
}

START_TEST(batch__takes_one_doorbell)
{
	struct rmem_queue *queue = stage_queue(MANY, 1);

	writes_submit(queue, MANY);
	ck_assert_uint_eq(fake.posts, 1);
	ck_assert_uint_eq(lease_inflight(single), MANY);
	ck_assert_uint_eq(buffer_inflight(buffer), MANY);
	ck_assert_int_eq(rmem_submit(queue, ops, 1), -EOVERFLOW);
	expect_none(queue);
	complete_writes(queue, MANY);
	ck_assert_uint_eq(buffer_inflight(buffer), 0);
	ck_assert_mem_eq(seg_a, local, MANY * 8);
}
END_TEST

/* What goes at once and what is scheduled, as a vectored operation is, go together. */
START_TEST(batch__of_several_kinds_takes_one_doorbell)
{
	struct rmem_queue *queue = stage_queue(MANY, 1);
	const struct rmem_vec vec = { local + 8, 8, buffer };

	writes_fill(3);
	ops[1] = rmem_op_writev(single, 8, &vec, 1);
	ops[1].cookie = 1;
	ck_assert_int_eq(rmem_submit(queue, ops, 3), 3);
	ck_assert_uint_eq(fake.posts, 1);
	complete_writes(queue, 3);
	ck_assert_mem_eq(seg_a, local, 3 * 8);
}
END_TEST

START_TEST(batch__wraps_around_the_rings)
{
	struct rmem_queue *queue = stage_queue(MANY, 1);
	unsigned polled = 0;

	/* the rings of channel, operations and completions */
	writes_submit(queue, 7);
	for (unsigned round = 0; round < 200; round++) {
		for (unsigned i = 0; i < 5; i++)
			fake_complete(stage_channel(queue, 0), 0);
		ck_assert_int_eq(rmem_poll(queue, done, 3), 3);
		ck_assert_int_eq(rmem_poll(queue, done, 3), 2);
		polled += 5;
		for (unsigned i = 0; i < 5; i++)
			ops[i] = op_single(RMEM_OP_READ, (polled + i) % 100, 8, i);
		ck_assert_int_eq(rmem_submit(queue, ops, 5), 5);
		ck_assert_uint_eq(rmem_queue_outstanding(queue), 7);
	}
	complete_and_poll(queue, 7);
}
END_TEST

START_TEST(batch__is_spread_over_the_channels)
{
	struct rmem_queue *queue = stage_queue(MANY, 4);
	unsigned n;

	/* small operations share a doorbell */
	writes_submit(queue, MANY);
	ck_assert_uint_eq(fake.posts, 4);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_uint_eq(stage_channel(queue, i)->n, MANY / 4);
	complete_writes(queue, MANY);
	/* large ones do not; the round robin continues */
	for (unsigned i = 0; i < 16; i++)
		ops[i] = op_single(RMEM_OP_READ, 0, FAKE_MAX_BYTES, i);
	n = (unsigned)(CHANNEL_SHARE_BYTES / FAKE_MAX_BYTES);
	ck_assert_int_eq(rmem_submit(queue, ops, n + 1), (int)n + 1);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, n);
	ck_assert_uint_eq(stage_channel(queue, 1)->n, 1);
	complete_and_poll(queue, n + 1);
	submit(queue, op_single(RMEM_OP_READ, 0, 1, 1));
	ck_assert_uint_eq(stage_channel(queue, 2)->n, 1);
	complete_and_poll(queue, 1);
}
END_TEST

START_TEST(batch__may_alternate_between_leases)
{
	struct rmem_lease *second = case_lease_over(7, seg_b, SEG, 99);
	struct rmem_queue *queue = stage_queue(MANY, 1);

	writes_fill(10);
	for (unsigned i = 1; i < 10; i += 2)
		ops[i].lease = second;
	ck_assert_int_eq(rmem_submit(queue, ops, 10), 10);
	ck_assert_uint_eq(fake.posts, 1);
	for (unsigned i = 0; i < 10; i++)
		ck_assert_uint_eq(stage_channel(queue, 0)->posted[i].rkey,
				  i % 2 ? 99 : 11);
	complete_writes(queue, 10);
	for (unsigned i = 0; i < 10; i++)
		ck_assert_mem_eq((i % 2 ? seg_b : seg_a) + i * 8, local + i * 8, 8);
}
END_TEST

/* Places of an operation that must not affect the others of its batch. */
static const struct {
	uint64_t offset, bytes;
	ptrdiff_t local;
	int status;
} places[] = {
	{ SEG - 7, 8, 0, -EINVAL },        { SEG + 1, 8, 0, -EINVAL },
	{ UINT64_MAX - 3, 8, 0, -EINVAL }, { 0, UINT64_MAX, 0, -EINVAL },
	{ 0, 8, 2 * SEG - 7, -EINVAL },    { 0, 8, -1, -EINVAL },
	{ 0, SEG + 1, 0, -EINVAL },        { 0, 0, 0, 0 },
};

START_TEST(batch__checks_every_operation)
{
	struct rmem_queue *queue = stage_queue(MANY, 2);
	unsigned ok = 0;

	writes_fill(9);
	ops[4].offset = places[_i].offset;
	ops[4].bytes = places[_i].bytes;
	ops[4].addr = local + places[_i].local;
	ck_assert_int_eq(rmem_submit(queue, ops, 9), 9);
	complete_and_poll(queue, 9);
	for (unsigned i = 0; i < 9; i++) {
		ck_assert_int_eq(done[i].status,
				 done[i].cookie == 4 ? places[_i].status : 0);
		ok += done[i].status == 0 && done[i].cookie != 4;
	}
	ck_assert_uint_eq(ok, 8);
	ck_assert_mem_eq(seg_a + 40, local + 40, 32);
}
END_TEST

START_TEST(batch__needs_the_right_and_a_live_lease)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	writes_fill(1);
	ops[0].lease = case_lease(7, RMEM_READ, 1);
	ck_assert_int_eq(rmem_submit(queue, ops, 1), 1);
	expect(queue, 0, -EACCES);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 0);
	atomic_store(&single->status, -ESTALE);
	submit(queue, op_single(RMEM_OP_READ, 0, 8, 1));
	expect(queue, 1, -ESTALE);
}
END_TEST

START_TEST(partial_post__sends_the_rest_on_another_channel)
{
	struct rmem_queue *queue;

	stage.session.timeout_ms = 10 * CHANNEL_FLUSH_MS;
	queue = stage_queue(MANY, 2);
	fake.post_max = 3;
	writes_submit(queue, MANY);
	/* the others use the other channel */
	fake_complete_all();
	stage_advance_ms(CHANNEL_FLUSH_MS / 2);
	ck_assert_int_eq(rmem_poll(queue, done, 64), MANY - 3);
	idle_ms(queue, CHANNEL_FLUSH_MS / 2);
	reconnect(queue);
	complete_and_poll(queue, 3);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(done[i].status, 0);
	ck_assert_mem_eq(seg_a, local, MANY * 8);
}
END_TEST

START_TEST(poll__with_a_small_capacity_is_fair)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	unsigned turns[8] = { 0 };

	fake.automatic = true;
	writes_submit(queue, 8);
	/* an invalid operation has its turn, too */
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
}
END_TEST

START_TEST(batch__is_spread_by_bytes)
{
	struct rmem_queue *queue = stage_queue(MANY, 4);
	uint64_t bytes[4] = { 0 };

	/* one small, then large operations */
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
	complete_and_poll(queue, 17);
}
END_TEST

START_TEST(batch__on_a_dead_channel_moves_to_another)
{
	struct rmem_queue *queue = stage_queue(MANY, 2);

	stage_channel(queue, 0)->aborted = true;
	writes_submit(queue, MANY);
	complete_writes(queue, MANY);
	ck_assert_mem_eq(seg_a, local, MANY * 8);
}
END_TEST

START_TEST(dead_channel__fails_one_operation_and_retries_the_others)
{
	struct rmem_queue *queue = stage_queue(MANY, 1);

	writes_submit(queue, MANY);
	for (unsigned i = 0; i < 10; i++)
		fake_complete(stage_channel(queue, 0), 0);
	fake_complete(stage_channel(queue, 0), -EIO);
	ck_assert_int_eq(rmem_poll(queue, done, 64), 10);
	ck_assert_int_eq(done[9].status, 0);
	/* once the server has closed the channel, the operation fails, and the others, which were
	 * flushed, are posted again */
	peer_closes(queue, 0);
	expect_error(queue, 10, -EIO, "fake status");
	ck_assert_uint_eq(done[0].vendor, 0x99);
	expect_none(queue);
	reconnect(queue);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, MANY - 11);
	complete_and_poll(queue, MANY - 11);
	for (unsigned i = 0; i < MANY - 11; i++)
		ck_assert_int_eq(done[i].status, 0);
	ck_assert_mem_eq(seg_a, local, 10 * 8);
	ck_assert_mem_eq(seg_a + 11 * 8, local + 11 * 8, (MANY - 11) * 8);
	writes_submit(queue, MANY);
	complete_writes(queue, MANY);
}
END_TEST

START_TEST(refused_operation__follows_the_servers_answer)
{
	static const uint64_t new_key[] = { 22 };
	struct rmem_queue *queue = stage_queue(8, 1);

	writes_submit(queue, 2);
	fake_complete(stage_channel(queue, 0), 0);
	fake_complete(stage_channel(queue, 0), -EACCES);
	expect(queue, 0, 0);
	expect_none(queue);
	/* _i: the server confirms the current rkey, sends another one, or cannot make one */
	atomic_store(&single->rekey_err, _i == 2 ? -ENOSPC : 0);
	stage_rekey(single, 1, segments, seg_bytes, _i == 1 ? new_key : keys);
	if (_i == 1) {
		expect_none(queue);
		ck_assert_uint_eq(stage_channel(queue, 0)->posted[0].rkey, 22);
		fake_complete_all();
	}
	expect(queue, 1, (const int[]){ -EACCES, 0, -ENOSPC }[_i]);
}
END_TEST

START_TEST(timeout__is_per_operation)
{
	struct rmem_queue *queue = stage_queue(8, 2);

	writes_submit(queue, 2);
	ops[0] = op_single(RMEM_OP_READ, 0, 8, 7);
	ops[0].timeout_ms = 10;
	fake.hold_flush = true;
	ck_assert_int_eq(rmem_submit(queue, ops, 1), 1);
	idle_ms(queue, 11);
	/* its channel is aborted, so that nothing accesses its memory */
	ck_assert(stage_channel(queue, 1)->aborted);
	ck_assert(!stage_channel(queue, 0)->aborted);
	fake_flush(stage_channel(queue, 1));
	expect_error(queue, 7, -ETIMEDOUT, "its time was over");
	fake_complete(stage_channel(queue, 0), 0);
	fake_complete(stage_channel(queue, 0), 0);
	ck_assert_int_eq(rmem_poll(queue, done, 8), 2);
	fake.hold_flush = false;
}
END_TEST

START_TEST(timeout__is_noticed_while_other_channels_complete)
{
	struct rmem_queue *queue = stage_queue(8, 2);

	/* one on each channel: the first never completes, the second always does */
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
	complete_and_poll(queue, 1);
}
END_TEST

START_TEST(cancel__ends_only_operations_of_the_lease)
{
	struct rmem_queue *queue = stage_queue(MANY, 1);

	writes_submit(queue, 3);
	fake_complete(stage_channel(queue, 0), 0);
	ck_assert_int_eq(rmem_cancel(queue, lease), 0);
	ck_assert_int_eq(rmem_cancel(queue, single), 2);
	ck_assert_int_eq(rmem_poll(queue, done, 8), 1);
	ck_assert_int_eq(done[0].status, 0);
	peer_closes(queue, 0);
	ck_assert_int_eq(rmem_poll(queue, done, 8), 2);
	ck_assert_int_eq(done[0].status, -ECANCELED);
	ck_assert_int_eq(done[1].status, -ECANCELED);
}
END_TEST

START_TEST(cancel__ends_only_operations_with_the_cookie)
{
	struct rmem_queue *queue = stage_queue(MANY, 1);

	for (unsigned i = 0; i < 3; i++)
		ops[i] = op_single(RMEM_OP_READ, 0, 8, 5 + i % 2);
	ck_assert_int_eq(rmem_submit(queue, ops, 3), 3);
	ck_assert_int_eq(rmem_cancel_cookie(queue, 7), 0);
	ck_assert_int_eq(rmem_cancel_cookie(queue, 6), 1);
	/* it is outstanding until it is taken */
	ck_assert_uint_eq(rmem_queue_outstanding(queue), 3);
	expect(queue, 6, -ECANCELED);
	ck_assert_int_eq(rmem_cancel_cookie(queue, 6), 0);
	ck_assert_uint_eq(rmem_queue_outstanding(queue), 2);
	ck_assert_int_eq(rmem_cancel_cookie(queue, 5), 2);
	ck_assert_int_eq(rmem_poll(queue, done, 8), 2);
	ck_assert_uint_eq(done[0].cookie, 5);
	ck_assert_int_eq(done[0].status, -ECANCELED);
	ck_assert_int_eq(rmem_cancel_cookie(queue, 5), 0);
}
END_TEST

START_TEST(completion_error__is_that_of_the_completion)
{
	struct rmem_queue *queue = stage_queue(MANY, 1);

	for (unsigned i = 0; i < 3; i++)
		ops[i] = op_single(RMEM_OP_READ, 8 * i, 8, i);
	ck_assert_int_eq(rmem_submit(queue, ops, 3), 3);
	fake_complete(stage_channel(queue, 0), 0);
	ck_assert_int_eq(rmem_poll(queue, done, 8), 1);
	ck_assert_str_eq(rmem_completion_error(queue, &done[0]), "");
	ck_assert_str_eq(rmem_completion_error(queue, NULL), "");
	ck_assert_int_eq(rmem_cancel(queue, NULL), 2);
	ck_assert_int_eq(rmem_poll(queue, done, 8), 2);
	ck_assert_ptr_nonnull(
		strstr(rmem_completion_error(queue, &done[0]), "offset 8 of"));
	ck_assert_ptr_nonnull(
		strstr(rmem_completion_error(queue, &done[1]), "offset 16 of"));
	ck_assert_str_eq(rmem_completion_error(queue, NULL),
			 rmem_completion_error(queue, &done[1]));
}
END_TEST

START_TEST(completion_error__of_long_ago_is_the_meaning_of_the_status)
{
	struct rmem_queue *queue = stage_queue(2, 1);

	for (unsigned i = 0; i < 3; i++) {
		ops[0] = op_single(RMEM_OP_READ, 8 * i, 8, i);
		ck_assert_int_eq(rmem_submit(queue, ops, 1), 1);
		ck_assert_int_eq(rmem_cancel(queue, NULL), 1);
		ck_assert_int_eq(rmem_poll(queue, done + i, 1), 1);
	}
	ck_assert_str_eq(rmem_completion_error(queue, &done[0]),
			 strerrordesc_np(ECANCELED));
	for (unsigned i = 1; i < 3; i++)
		ck_assert_ptr_nonnull(
			strstr(rmem_completion_error(queue, &done[i]), "offset"));
}
END_TEST

START_TEST(fence__splits_a_batch)
{
	struct rmem_queue *queue = stage_queue(MANY, 2);
	struct fabric_channel *first = stage_channel(queue, 0);

	writes_fill(9);
	ops[4].flags = RMEM_OP_FENCE;
	ck_assert_int_eq(rmem_submit(queue, ops, 9), 9);
	ck_assert_uint_eq(stage_posted(queue), 4);
	for (unsigned i = 0; i < 3; i++)
		fake_complete(first, 0);
	ck_assert_int_eq(rmem_poll(queue, done, 8), 3);
	ck_assert_uint_eq(stage_posted(queue), 1);
	/* later operations wait behind it, too */
	ops[9] = write_single(72, 9);
	ck_assert_int_eq(rmem_submit(queue, &ops[9], 1), 1);
	ck_assert_uint_eq(stage_posted(queue), 1);
	complete_and_expect(queue, 3);
	ck_assert_uint_eq(stage_posted(queue), 6);
	complete_and_poll(queue, 6);
}
END_TEST

START_TEST(queue_free__with_a_batch_outstanding)
{
	struct rmem_queue *queue = stage_queue(MANY, 2);

	writes_submit(queue, 20);
	ck_assert_int_eq(rmem_buffer_free(buffer), -EBUSY);
	rmem_queue_free(queue);
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("batch", single_verbs, single_close);

	tcase_add_test(tcase, batch__takes_one_doorbell);
	tcase_add_test(tcase, batch__of_several_kinds_takes_one_doorbell);
	tcase_add_test(tcase, batch__wraps_around_the_rings);
	tcase_add_test(tcase, batch__is_spread_over_the_channels);
	tcase_add_test(tcase, batch__may_alternate_between_leases);
	tcase_add_loop_test(tcase, batch__checks_every_operation, 0,
			    sizeof(places) / sizeof(places[0]));
	tcase_add_test(tcase, batch__needs_the_right_and_a_live_lease);
	tcase_add_test(tcase, poll__with_a_small_capacity_is_fair);
	tcase_add_test(tcase, batch__is_spread_by_bytes);
	tcase_add_test(tcase, partial_post__sends_the_rest_on_another_channel);
	tcase_add_test(tcase, batch__on_a_dead_channel_moves_to_another);
	tcase_add_test(tcase, dead_channel__fails_one_operation_and_retries_the_others);
	tcase_add_loop_test(tcase, refused_operation__follows_the_servers_answer, 0, 3);
	tcase_add_test(tcase, timeout__is_per_operation);
	tcase_add_test(tcase, timeout__is_noticed_while_other_channels_complete);
	tcase_add_test(tcase, cancel__ends_only_operations_of_the_lease);
	tcase_add_test(tcase, cancel__ends_only_operations_with_the_cookie);
	tcase_add_test(tcase, completion_error__is_that_of_the_completion);
	tcase_add_test(tcase,
		       completion_error__of_long_ago_is_the_meaning_of_the_status);
	tcase_add_test(tcase, fence__splits_a_batch);
	tcase_add_test(tcase, queue_free__with_a_batch_outstanding);
	return unit_main();
}

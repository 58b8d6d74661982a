/* SPDX-License-Identifier: BSD-3-Clause */
/* Large operations over a fabric that limits their bytes on a channel: a small one that comes later
 * waits for few of them, and none is lost. */
#include <errno.h>
#include <string.h>

#include "unit/librmem/librmem-case.h"

#define LARGE_MAX 524288u
#define PIECE (LARGE_MAX / 4)
#define SIZE UINT64_C(1048576) /* of a large operation */
#define MANY 16

static struct fabric_client_ops ops;
static struct rmem_lease *far_lease;
static unsigned char far[SIZE], near[SIZE];

static void open_with(uint32_t large_max)
{
	ops = fabric_tcp_client;
	ops.max_bytes = 2 * SIZE;
	ops.large_max = large_max;
	stage_open(&ops, 1);
	fake.max_bytes = ops.max_bytes;
	far_lease = case_lease_over(6, far, sizeof(far), 31);
	for (size_t i = 0; i < sizeof(near); i++) {
		near[i] = (unsigned char)(i * 7 + i / 251);
		far[i] = 0;
	}
}

static void setup(void)
{
	open_with(LARGE_MAX);
}

static void setup_unlimited(void)
{
	open_with(0);
}

static struct rmem_op write_of(uint64_t bytes, uint64_t cookie)
{
	struct rmem_op op = op_of(RMEM_OP_WRITE, 0, near, bytes, cookie);

	op.lease = far_lease;
	return op;
}

static void submit_many(struct rmem_queue *queue)
{
	for (unsigned i = 0; i < MANY; i++)
		submit(queue, write_of(SIZE, i));
}

/* Bytes posted on a channel; none of its operations is cut to more than a piece. */
static uint64_t posted_bytes(const struct rmem_queue *queue, unsigned number)
{
	const struct fabric_channel *channel = stage_channel(queue, number);
	uint64_t bytes = 0;

	for (unsigned i = 0; i < channel->n; i++) {
		ck_assert_uint_le(channel->posted[i].bytes, PIECE);
		bytes += channel->posted[i].bytes;
	}
	return bytes;
}

/* All n complete, and the limit is kept meanwhile. */
static void run_until_done(struct rmem_queue *queue, unsigned n)
{
	while (n > 0) {
		int got = rmem_poll(queue, done, 64);

		for (int i = 0; i < got; i++)
			ck_assert_int_eq(done[i].status, 0);
		n -= (unsigned)got;
		for (unsigned i = 0; i < queue->channels.n; i++) {
			ck_assert_uint_lt(posted_bytes(queue, i), LARGE_MAX + PIECE);
			ck_assert(n == 0 || posted_bytes(queue, i) > 0 ||
				  queue->channels.n > 1);
			if (stage_channel(queue, i)->n > 0)
				fake_complete(stage_channel(queue, i), 0);
		}
	}
	ck_assert_uint_eq(rmem_queue_outstanding(queue), 0);
	ck_assert_mem_eq(far, near, sizeof(far));
	for (unsigned i = 0; i < queue->channels.n; i++)
		ck_assert_uint_eq(queue->channels.sides[i].large_bytes, 0);
}

START_TEST(large__ones_keep_a_channel_busy_and_no_more)
{
	struct rmem_queue *queue = stage_queue(64, (unsigned)_i);

	submit_many(queue);
	for (int i = 0; i < _i; i++)
		ck_assert_uint_eq(posted_bytes(queue, (unsigned)i), LARGE_MAX);
	run_until_done(queue, MANY);
	rmem_queue_free(queue);
}
END_TEST

START_TEST(small__waits_for_few_large_ones)
{
	struct rmem_queue *queue = stage_queue(64, 1);
	unsigned before;

	submit_many(queue);
	before = stage_channel(queue, 0)->n;
	ck_assert_uint_eq(before, LARGE_MAX / PIECE);
	submit(queue, write_of(8, 100));
	ck_assert_uint_eq(stage_channel(queue, 0)->n, before + 1);
	for (unsigned i = 0; i <= before; i++)
		fake_complete(stage_channel(queue, 0), 0);
	expect(queue, 100, 0);
	run_until_done(queue, MANY);
	rmem_queue_free(queue);
}
END_TEST

/* Of many small ones each gets its turn beside the pieces of the large ones. */
START_TEST(small__and_large_ones_take_turns)
{
	struct rmem_queue *queue = stage_queue(64, 1);
	unsigned depth = queue->channels.depth;

	queue->channels.depth = 4;
	submit_many(queue);
	for (unsigned i = 0; i < 8; i++)
		submit(queue, write_of(8, 100 + i));
	/* each piece of the first operation but those that were there lets one pass */
	for (unsigned i = 0; i < 4 + 2 * 8; i++) {
		fake_complete(stage_channel(queue, 0), 0);
		(void)rmem_poll(queue, done, 64);
	}
	ck_assert_uint_le(rmem_queue_outstanding(queue), MANY);
	run_until_done(queue, rmem_queue_outstanding(queue));
	queue->channels.depth = depth;
	rmem_queue_free(queue);
}
END_TEST

START_TEST(lost__pieces_are_posted_again)
{
	struct rmem_queue *queue = stage_queue(64, 1);

	submit_many(queue);
	fake_complete(stage_channel(queue, 0), 0);
	expect_none(queue);
	stage_abort(queue, 0);
	peer_closes(queue, 0);
	reconnect(queue);
	expect_none(queue);
	ck_assert_uint_ge(posted_bytes(queue, 0), LARGE_MAX);
	run_until_done(queue, MANY);
	rmem_queue_free(queue);
}
END_TEST

START_TEST(large__ones_have_no_limit_over_a_device)
{
	struct rmem_queue *queue = stage_queue(64, 1);

	submit_many(queue);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, MANY);
	complete_and_poll(queue, MANY);
	ck_assert_mem_eq(far, near, sizeof(far));
	rmem_queue_free(queue);
}
END_TEST

int main(void)
{
	TCase *limited = unit_case("limited", setup, stage_close),
	      *unlimited = unit_case("unlimited", setup_unlimited, stage_close);

	tcase_add_loop_test(limited, large__ones_keep_a_channel_busy_and_no_more, 1, 4);
	tcase_add_test(limited, small__waits_for_few_large_ones);
	tcase_add_test(limited, small__and_large_ones_take_turns);
	tcase_add_test(limited, lost__pieces_are_posted_again);
	tcase_add_test(unlimited, large__ones_have_no_limit_over_a_device);
	return unit_main();
}

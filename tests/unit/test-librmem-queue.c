/* SPDX-License-Identifier: BSD-3-Clause */
/* Queues over a scripted fabric: cutting, credits, fences, errors, time-outs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "librmem-stage.h"
#include "librmem/buffer.h"
#include "unit.h"

#define SEG 20000

static unsigned char seg_a[SEG], seg_b[SEG], local[2 * SEG];
static unsigned char *const segments[] = { seg_a, seg_b };
static const uint64_t seg_bytes[] = { SEG, SEG };
static const uint64_t keys[] = { 11, 12 };
static struct rmem_lease *lease;
static struct rmem_completion done[64];

static void setup_on(const struct fabric_client_ops *ops)
{
	stage_open(ops);
	memset(seg_a, 0, sizeof(seg_a));
	memset(seg_b, 0, sizeof(seg_b));
	for (unsigned i = 0; i < sizeof(local); i++)
		local[i] = (unsigned char)(i * 7 + i / 256);
	memset(done, 0, sizeof(done));
	lease = stage_lease(5, RMEM_READ | RMEM_WRITE, 2, segments, seg_bytes, keys);
}

static void setup(void)
{
	setup_on(&fabric_tcp_client);
}

static void setup_verbs(void)
{
	setup_on(&fabric_verbs_client);
}

static struct rmem_op op_of(enum rmem_opcode opcode, uint64_t offset, void *addr,
			    uint64_t bytes, uint64_t cookie)
{
	return (struct rmem_op){
		.opcode = opcode,
		.lease = lease,
		.offset = offset,
		.addr = addr,
		.bytes = bytes,
		.cookie = cookie,
	};
}

static void submit(struct rmem_queue *queue, struct rmem_op op)
{
	ck_assert_int_eq(rmem_submit(queue, &op, 1), 1);
}

/* Exactly one completion is there. */
static void expect(struct rmem_queue *queue, uint64_t cookie, int status)
{
	ck_assert_int_eq(rmem_poll(queue, done, 1), 1);
	ck_assert_uint_eq(done[0].cookie, cookie);
	ck_assert_msg(done[0].status == status, "status %d, not %d: %s", done[0].status,
		      status, rmem_completion_error(queue));
}

static void expect_none(struct rmem_queue *queue)
{
	ck_assert_int_eq(rmem_poll(queue, done, 1), 0);
}

/* ---- moving bytes ---- */

START_TEST(write_and_read__across_segments_in_any_order)
{
	struct rmem_queue *queue = stage_queue(8, 2);

	submit(queue, op_of(RMEM_OP_WRITE, 1, local, 2 * SEG - 2, 1));
	expect_none(queue);
	fake_complete_all(true);
	expect(queue, 1, 0);
	ck_assert_uint_eq(done[0].bytes, 2 * SEG - 2);
	ck_assert_mem_eq(seg_a + 1, local, SEG - 1);
	ck_assert_mem_eq(seg_b, local + SEG - 1, SEG - 1);
	ck_assert_uint_eq(seg_a[0], 0);
	ck_assert_uint_eq(seg_b[SEG - 1], 0);

	memset(local, 0xee, sizeof(local));
	submit(queue, op_of(RMEM_OP_READ, SEG - 3, local, 6, 2));
	fake_complete_all(false);
	expect(queue, 2, 0);
	ck_assert_mem_eq(local, seg_a + SEG - 3, 3);
	ck_assert_mem_eq(local + 3, seg_b, 3);
	ck_assert_uint_eq(local[6], 0xee);
	ck_assert_uint_eq(rmem_queue_outstanding(queue), 0);
	stage_close();
}
END_TEST

START_TEST(pieces__stay_within_segments_and_the_fabrics_limit)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	const struct fabric_channel *channel = stage_channel(queue, 0);
	uint64_t total = 0;

	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 2 * SEG, 1));
	/* 8192 + 8192 + 3616, twice */
	ck_assert_uint_eq(channel->n, 6);
	for (unsigned i = 0; i < channel->n; i++) {
		const struct fabric_wr *wr = &channel->posted[i];
		uintptr_t base = (uintptr_t)(wr->rkey == 11 ? seg_a : seg_b);

		ck_assert_uint_le(wr->bytes, FAKE_MAX_BYTES);
		ck_assert_uint_ge(wr->remote_addr, base);
		ck_assert_uint_le(wr->remote_addr + wr->bytes, base + SEG);
		total += wr->bytes;
	}
	ck_assert_uint_eq(total, 2 * SEG);
	/* the operation completes with its last piece, not before */
	for (unsigned i = 0; i < 5; i++) {
		fake_complete(stage_channel(queue, 0), 0, 0);
		expect_none(queue);
	}
	fake_complete(stage_channel(queue, 0), 0, 0);
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
		fake_complete(stage_channel(queue, 1), 0, 0);
	ck_assert_int_eq(rmem_poll(queue, done, 64), 4);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 8);
	ck_assert_uint_eq(stage_channel(queue, 1)->n, 8);
	for (unsigned i = 0; i < 4; i++) {
		fake_complete_all(false);
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
	fake_complete_all(true);
	expect(queue, 1, 0);
	ck_assert_mem_eq(op.addr, big, sizeof(big));
	free(op.addr);
	stage_close();
}
END_TEST

START_TEST(post__that_takes_part_keeps_the_rest)
{
	struct rmem_queue *queue = stage_queue(64, 1);
	unsigned got = 0;
	struct rmem_op ops[40];

	fake.post_max = 3;
	for (unsigned i = 0; i < 40; i++)
		ops[i] = op_of(RMEM_OP_WRITE, i, local + i, 1, i);
	ck_assert_int_eq(rmem_submit(queue, ops, 40), 40);
	while (got < 40) {
		ck_assert_uint_gt(stage_channel(queue, 0)->n, 0);
		fake_complete_all(false);
		got += (unsigned)rmem_poll(queue, done, 64);
	}
	ck_assert_mem_eq(seg_a, local, 40);
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
	fake_complete_all(false);
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
	fake_complete_all(false);
	expect(queue, 1, 0);
	ck_assert_int_eq(rmem_free(lease), -EBUSY);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "rmem_free of lease 5 at stage:1: 1 "));
	expect(queue, 2, 0);
	ck_assert_uint_eq(atomic_load(&lease->outstanding), 0);
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
	fake_complete(stage_channel(queue, 1), 0, 0);
	expect(queue, 2, 0);
	ck_assert_uint_eq(stage_channel(queue, 0)->n + stage_channel(queue, 1)->n, 1);
	fake_complete(stage_channel(queue, 0), 0, 0);
	expect(queue, 1, 0);
	/* both go now, the one behind the fence beside it */
	ck_assert_uint_eq(stage_channel(queue, 0)->n + stage_channel(queue, 1)->n, 2);
	fake_complete_all(false);
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
	fake_complete_all(false);
	expect(queue, 1, 0);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 1);
	fake_complete_all(false);
	expect(queue, 3, 0);

	/* the same with one behind it already */
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 4));
	submit(queue, fenced);
	submit(queue, op_of(RMEM_OP_WRITE, 2, local, 1, 5));
	stage_advance_ms(20);
	expect(queue, 2, -ETIMEDOUT);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 1);
	fake_complete_all(false);
	expect(queue, 4, 0);
	fake_complete_all(false);
	expect(queue, 5, 0);
	stage_close();
}
END_TEST

/* ---- dead channels ---- */

START_TEST(dead_channel__costs_its_own_operations_only)
{
	struct rmem_queue *queue = stage_queue(8, 2);

	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	submit(queue, op_of(RMEM_OP_WRITE, 1, local, 1, 2));
	submit(queue, op_of(RMEM_OP_WRITE, 2, local, 1, 3));
	/* 1 and 3 are on channel 0 */
	fake_complete(stage_channel(queue, 0), 0, -EIO);
	expect(queue, 1, -EIO);
	ck_assert_uint_eq(done[0].vendor, 0x99);
	ck_assert_str_eq(rmem_completion_error(queue),
			 "write of 1 bytes at offset 0 of lease 5 at stage:1: fake status "
			 "(vendor error 0x99): EIO");
	expect(queue, 3, -ECONNRESET);
	/* the dead one is freed, the other works on */
	ck_assert_ptr_null(stage_channel(queue, 0));
	submit(queue, op_of(RMEM_OP_WRITE, 3, local, 1, 4));
	ck_assert_uint_eq(stage_channel(queue, 1)->n, 2);
	fake_complete_all(false);
	ck_assert_int_eq(rmem_poll(queue, done, 4), 2);
	/* and its replacement takes its turn again */
	ck_assert_uint_eq(stage_reconnect(queue), 1);
	expect_none(queue);
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 5));
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 6));
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 1);
	ck_assert_uint_eq(stage_channel(queue, 1)->n, 1);
	stage_close();
}
END_TEST

START_TEST(dead_channel__found_when_posting_loses_nothing)
{
	struct rmem_queue *queue = stage_queue(8, 2);

	fake.hold_flush = true;
	stage_channel(queue, 0)->aborted = true;
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 3, 1));
	submit(queue, op_of(RMEM_OP_WRITE, 9, local, 3, 2));
	ck_assert_uint_eq(stage_channel(queue, 1)->n, 2);
	fake_complete_all(false);
	expect(queue, 1, 0);
	expect(queue, 2, 0);
	stage_close();
}
END_TEST

START_TEST(no_channel__operations_wait_for_one)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	stage_channel(queue, 0)->aborted = true;
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 3, 1));
	expect_none(queue);
	ck_assert_ptr_null(stage_channel(queue, 0));
	ck_assert_uint_eq(stage_reconnect(queue), 1);
	expect_none(queue);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 1);
	fake_complete_all(false);
	expect(queue, 1, 0);
	ck_assert_mem_eq(seg_a, local, 3);
	/* one that does not come in time */
	stage_channel(queue, 0)->aborted = true;
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 3, 2));
	stage_advance_ms(STAGE_TIMEOUT_MS - 1);
	expect_none(queue);
	stage_advance_ms(1);
	expect(queue, 2, -ETIMEDOUT);
	stage_close();
}
END_TEST

START_TEST(doomed_channel__is_not_posted_to)
{
	struct rmem_queue *queue = stage_queue(8, 2);

	(void)pthread_mutex_lock(&stage.session.lock);
	queue->channels.slots[0].doomed = true;
	queue_news(queue);
	(void)pthread_mutex_unlock(&stage.session.lock);
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 2));
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 0);
	ck_assert_uint_eq(stage_channel(queue, 1)->n, 2);
	expect_none(queue);
	ck_assert_int_eq(queue->channels.slots[0].stage, SLOT_WANTED);
	ck_assert(!queue->channels.slots[0].doomed);
	stage_close();
}
END_TEST

START_TEST(channel_that_takes_nothing__is_replaced)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	fake.post_none = true;
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	expect_none(queue);
	ck_assert_ptr_null(stage_channel(queue, 0));
	fake.post_none = false;
	ck_assert_uint_eq(stage_reconnect(queue), 1);
	expect_none(queue);
	fake_complete_all(false);
	expect(queue, 1, 0);
	stage_close();
}
END_TEST

START_TEST(broken_cq__ends_everything_on_it)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 2));
	fake.poll_err = -EIO;
	expect(queue, 1, -EIO);
	expect(queue, 2, -EIO);
	fake.poll_err = 0;
	ck_assert_uint_eq(stage_reconnect(queue), 1);
	expect_none(queue);
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 3));
	fake_complete_all(false);
	expect(queue, 3, 0);
	stage_close();
}
END_TEST

/* ---- refused by the server ---- */

START_TEST(refused__of_an_ended_lease_is_stale)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	fake_complete(stage_channel(queue, 0), 0, -EACCES);
	/* the server is asked first */
	expect_none(queue);
	ck_assert(atomic_load(&lease->verify));
	(void)pthread_mutex_lock(&stage.session.lock);
	lease_end(lease);
	(void)pthread_mutex_unlock(&stage.session.lock);
	expect(queue, 1, -ESTALE);
	stage_close();
}
END_TEST

START_TEST(refused__with_an_old_key_goes_again_with_the_new_one)
{
	static const uint64_t other[] = { 21, 22 };
	struct rmem_queue *queue = stage_queue(8, 1);

	submit(queue, op_of(RMEM_OP_WRITE, SEG - 2, local, 4, 1));
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 2);
	fake_complete(stage_channel(queue, 0), 1, -EACCES);
	fake_complete(stage_channel(queue, 0), 0, 0);
	expect_none(queue);
	stage_rekey(lease, 2, segments, seg_bytes, other);
	expect_none(queue);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 1);
	ck_assert_uint_eq(stage_channel(queue, 0)->posted[0].rkey, 22);
	fake_complete_all(false);
	expect(queue, 1, 0);
	ck_assert_mem_eq(seg_b, local + 2, 2);
	stage_close();
}
END_TEST

START_TEST(refused__with_the_key_the_server_confirms)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	fake_complete(stage_channel(queue, 0), 0, -EACCES);
	expect_none(queue);
	stage_rekey(lease, 2, segments, seg_bytes, keys);
	expect(queue, 1, -EACCES);
	stage_close();
}
END_TEST

START_TEST(refused__with_ever_new_keys_ends_at_last)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	uint64_t other[] = { 100, 100 };
	unsigned rounds = 0;

	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	while (rmem_poll(queue, done, 1) == 0) {
		ck_assert_uint_lt(rounds++, 10);
		fake_complete(stage_channel(queue, 0), 0, -EACCES);
		expect_none(queue);
		other[0]++;
		stage_rekey(lease, 2, segments, seg_bytes, other);
	}
	ck_assert_int_eq(done[0].status, -EACCES);
	stage_close();
}
END_TEST

START_TEST(key__that_is_missing_is_asked_for)
{
	static const uint64_t none[] = { 0, 0 };
	struct rmem_lease *bare = stage_lease(6, 3, 2, segments, seg_bytes, none);
	struct rmem_queue *queue = stage_queue(8, 2);
	struct rmem_op op = op_of(RMEM_OP_WRITE, 0, local, 5, 1);

	op.lease = bare;
	submit(queue, op);
	expect_none(queue);
	ck_assert_uint_eq(fake.posts, 0);
	ck_assert(atomic_load(&bare->verify));
	/* others are not held up */
	submit(queue, op_of(RMEM_OP_WRITE, 9, local, 1, 2));
	fake_complete_all(false);
	expect(queue, 2, 0);
	stage_rekey(bare, 2, segments, seg_bytes, keys);
	expect_none(queue);
	fake_complete_all(false);
	expect(queue, 1, 0);
	ck_assert_mem_eq(seg_a, local, 5);
	stage_close();
}
END_TEST

START_TEST(lease__made_shorter_under_an_operation)
{
	static const uint64_t shorter[] = { 100 };
	static const uint64_t other[] = { 21 };
	struct rmem_queue *queue = stage_queue(8, 1);

	submit(queue, op_of(RMEM_OP_WRITE, 1000, local, 4, 1));
	fake_complete(stage_channel(queue, 0), 0, -EACCES);
	expect_none(queue);
	stage_rekey(lease, 1, segments, shorter, other);
	expect(queue, 1, -ESTALE);
	stage_close();
}
END_TEST

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
	expect(queue, 3, -ECONNRESET);
	fake_complete_all(false);
	expect(queue, 2, 0);
	stage_close();
}
END_TEST

START_TEST(timeout__of_the_session_runs_from_the_last_progress)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = op_of(RMEM_OP_READ, 0, local, 2 * SEG, 1);

	/* six pieces, each just in time */
	submit(queue, op);
	for (unsigned i = 0; i < 5; i++) {
		stage_advance_ms(STAGE_TIMEOUT_MS - 1);
		fake_complete(stage_channel(queue, 0), 0, 0);
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
	fake_complete(stage_channel(queue, 0), 0, 0);
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
	fake_complete(stage_channel(queue, 0), 0, 0);
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
	fake_complete_all(false);
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
	fake_complete(stage_channel(queue, 0), 0, 0);
	rmem_queue_free(queue);
	ck_assert_uint_eq(atomic_load(&lease->outstanding), 0);
	stage_close();
}
END_TEST

/* ---- the session ---- */

START_TEST(session__that_is_down_takes_no_operations)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	/* the lease clock has run out, though nobody has noticed yet */
	atomic_store(&stage.session.until_ns, stage.now_ns);
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	expect(queue, 1, -ECONNRESET);
	atomic_store(&stage.session.until_ns, UINT64_MAX);
	atomic_store(&stage.session.status, -ECONNRESET);
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 2));
	expect(queue, 2, -ECONNRESET);
	atomic_store(&stage.session.status, -ESTALE);
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 3));
	expect(queue, 3, -ESTALE);
	ck_assert_int_eq(rmem_lease_status(lease), -ESTALE);
	atomic_store(&stage.session.status, 0);
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 4));
	fake_complete_all(false);
	expect(queue, 4, 0);
	ck_assert_uint_eq(fake.posts, 1);
	stage_close();
}
END_TEST

START_TEST(session__that_goes_down_ends_what_waits)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op fenced = op_of(RMEM_OP_WRITE, 1, local, 1, 2);

	fenced.flags = RMEM_OP_FENCE;
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	submit(queue, fenced);
	atomic_store(&stage.session.status, -ECONNRESET);
	expect(queue, 2, -ECONNRESET);
	expect_none(queue);
	fake_flush(stage_channel(queue, 0));
	expect(queue, 1, -ECONNRESET);
	stage_close();
}
END_TEST

/* ---- memory ---- */

START_TEST(bounce__copies_unregistered_memory)
{
	struct rmem_queue *queue = stage_queue(8, 2);
	unsigned rounds = 0;

	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 2 * SEG, 1));
	/* the source is copied when it is posted; what does not fit yet is not */
	for (struct fabric_channel *ch = fake.channels; ch; ch = ch->next)
		for (unsigned i = 0; i < ch->n; i++) {
			const struct fabric_region *region = ch->posted[i].region;
			unsigned char *addr = ch->posted[i].addr;

			ck_assert_ptr_nonnull(region);
			ck_assert(addr >= region->addr &&
				  addr + ch->posted[i].bytes <=
					  region->addr + region->bytes);
		}
	while (rmem_poll(queue, done, 1) == 0) {
		ck_assert_uint_lt(rounds++, 100);
		fake_complete_all(true);
	}
	ck_assert_int_eq(done[0].status, 0);
	ck_assert_mem_eq(seg_a, local, SEG);
	ck_assert_mem_eq(seg_b, local + SEG, SEG);
	memset(local, 0, sizeof(local));
	submit(queue, op_of(RMEM_OP_READ, 0, local, 2 * SEG, 2));
	while (rmem_poll(queue, done, 1) == 0)
		fake_complete_all(true);
	ck_assert_mem_eq(local, seg_a, SEG);
	ck_assert_mem_eq(local + SEG, seg_b, SEG);
	stage_close();
}
END_TEST

START_TEST(bounce__holds_back_more_than_it_has)
{
	static unsigned char sink[1 << 20];
	static unsigned char big[1 << 20];
	unsigned char *const one[] = { big };
	const uint64_t bytes = sizeof(big);
	struct rmem_lease *large = stage_lease(6, 3, 1, one, &bytes, keys);
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = op_of(RMEM_OP_READ, 0, sink, sizeof(sink), 1);

	for (unsigned i = 0; i < sizeof(big); i++)
		big[i] = (unsigned char)(i ^ i >> 8);
	op.lease = large;
	submit(queue, op);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 16);
	ck_assert_uint_eq(queue->bounce.n_free, 0);
	while (rmem_poll(queue, done, 1) == 0)
		fake_complete_all(true);
	ck_assert_mem_eq(sink, big, sizeof(big));
	ck_assert_uint_eq(queue->bounce.n_free, 16);
	stage_close();
}
END_TEST

START_TEST(buffer__is_used_without_a_copy)
{
	struct rmem_buffer_params params = RMEM_BUFFER_INIT;
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_buffer *buffer = NULL;
	struct rmem_op op;

	params.addr = local + 100;
	params.bytes = 1000;
	ck_assert_int_eq(rmem_buffer_create(&stage.session, &params, &buffer), 0);
	ck_assert_ptr_eq(rmem_buffer_addr(buffer), local + 100);
	ck_assert_uint_eq(rmem_buffer_bytes(buffer), 1000);
	op = op_of(RMEM_OP_WRITE, 0, local + 100, 1000, 1);
	op.buffer = buffer;
	submit(queue, op);
	ck_assert_ptr_eq(stage_channel(queue, 0)->posted[0].addr, local + 100);
	ck_assert_ptr_eq(stage_channel(queue, 0)->posted[0].region, buffer->regions[0]);
	ck_assert_int_eq(rmem_buffer_free(buffer), -EBUSY);
	fake_complete_all(false);
	expect(queue, 1, 0);
	op.bytes = 1001;
	submit(queue, op);
	expect(queue, 1, -EINVAL);
	op.addr = local + 99;
	op.bytes = 1;
	submit(queue, op);
	expect(queue, 1, -EINVAL);
	ck_assert_int_eq(rmem_buffer_free(buffer), 0);
	ck_assert_int_eq(rmem_buffer_free(NULL), 0);
	stage_close();
}
END_TEST

START_TEST(buffer__errors)
{
	struct rmem_buffer_params params = RMEM_BUFFER_INIT;
	struct rmem_buffer *buffer = NULL;

	ck_assert_int_eq(rmem_buffer_create(&stage.session, &params, &buffer), -EINVAL);
	params.bytes = 4096;
	fake.region_err = -ENOMEM;
	ck_assert_int_eq(rmem_buffer_create(&stage.session, &params, &buffer), -ENOMEM);
	fake.region_err = 0;
	params.dmabuf_fd = 1;
	ck_assert_int_eq(rmem_buffer_create(&stage.session, &params, &buffer), -ENOTSUP);
	params.dmabuf_fd = -1;
	params.size = 3;
	ck_assert_int_eq(rmem_buffer_create(&stage.session, &params, &buffer), -EINVAL);
	params.size = sizeof(params);
	ck_assert_int_eq(rmem_buffer_create(&stage.session, &params, &buffer), 0);
	ck_assert_uint_eq(*(unsigned char *)rmem_buffer_addr(buffer), 0);
	ck_assert_int_eq(rmem_buffer_free(buffer), 0);
	stage_close();
}
END_TEST

START_TEST(buffer__that_is_not_mapped)
{
	struct rmem_buffer_params params = RMEM_BUFFER_INIT;
	struct rmem_buffer *buffer = NULL;

	params.addr = (void *)(uintptr_t)4096;
	params.bytes = 4096;
	ck_assert_int_eq(rmem_buffer_create(&stage.session, &params, &buffer), -EFAULT);
	stage_close();
}
END_TEST

/* ---- descriptors and waiting ---- */

START_TEST(wait__gives_what_is_there)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	ck_assert_int_eq(rmem_wait(queue, done, 4, 1, -1), 0);
	fake.automatic = true;
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 2));
	ck_assert_int_eq(rmem_wait(queue, done, 4, 4, -1), 2);
	fake.automatic = false;
	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 3));
	ck_assert_int_eq(rmem_wait(queue, done, 4, 1, 0), 0);
	stage_close();
}
END_TEST

static void *complete_later(void *arg)
{
	struct timespec ms = { .tv_nsec = 20000000 };

	(void)arg;
	(void)nanosleep(&ms, NULL);
	fake_complete_all(false);
	return NULL;
}

START_TEST(wait__sleeps_until_a_completion)
{
	struct rmem_queue *queue = stage_queue(8, 2);
	pthread_t thread;

	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	ck_assert_int_eq(pthread_create(&thread, NULL, complete_later, NULL), 0);
	ck_assert_int_eq(rmem_wait(queue, done, 4, 1, -1), 1);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	stage_close();
}
END_TEST

START_TEST(arm__says_what_waits_already)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	submit(queue, op_of(RMEM_OP_WRITE, 0, local, 1, 1));
	ck_assert_int_eq(rmem_queue_arm(queue), 0);
	ck_assert_int_ge(rmem_queue_fd(queue), 0);
	fake_complete_all(false);
	ck_assert_int_eq(rmem_queue_arm(queue), 1);
	expect(queue, 1, 0);
	stage_close();
}
END_TEST

/* ---- at random ---- */

#define CELL 512
#define CELLS (2 * SEG / CELL)

/* Disjoint cells are written and read; completions come in any order, channels die. */
START_TEST(random__every_byte_is_right)
{
	unsigned seed = (unsigned)time(NULL) ^ (unsigned)_i << 16;
	struct rmem_queue *queue = stage_queue(16, 3);
	static unsigned char model[2 * SEG], cells[CELLS][CELL];
	bool busy[CELLS] = { false }, writing[CELLS] = { false }, unknown[CELLS] = { false };
	unsigned cut[CELLS], submitted = 0, taken = 0, failed = 0;

	printf("# seed %u\n", seed);
	srand(seed);
	memset(model, 0, sizeof(model));
	while (taken < 4000) {
		unsigned cell = (unsigned)rand() % CELLS;
		int n;

		if (!busy[cell] && submitted < 4000) {
			struct rmem_op op = op_of(RMEM_OP_READ, cell * CELL, cells[cell], 0,
						  cell);

			op.bytes = cut[cell] = 1 + (unsigned)rand() % CELL;
			if (rand() % 8 == 0)
				op.flags = RMEM_OP_FENCE;
			writing[cell] = rand() % 2;
			if (writing[cell]) {
				op.opcode = RMEM_OP_WRITE;
				for (unsigned i = 0; i < cut[cell]; i++)
					cells[cell][i] = (unsigned char)rand();
			}
			if (rmem_submit(queue, &op, 1) == 1) {
				busy[cell] = true;
				submitted++;
			}
		}
		for (struct fabric_channel *ch = fake.channels; ch; ch = ch->next)
			if (ch->n > 0 && rand() % 3 == 0)
				fake_complete(ch, (unsigned)rand() % ch->n,
					      rand() % 200 == 0 ? -EIO : 0);
		if (rand() % 16 == 0)
			(void)stage_reconnect(queue);
		n = rmem_poll(queue, done, 4);
		for (int i = 0; i < n; i++) {
			cell = (unsigned)done[i].cookie;
			busy[cell] = false;
			taken++;
			if (done[i].status) {
				failed++;
				unknown[cell] |= writing[cell];
			} else if (writing[cell]) {
				memcpy(model + cell * CELL, cells[cell], cut[cell]);
			} else if (!unknown[cell]) {
				ck_assert_mem_eq(cells[cell], model + cell * CELL,
						 cut[cell]);
			}
		}
	}
	ck_assert_uint_gt(failed, 0);
	ck_assert_uint_lt(failed, 2000);
	stage_close();
}
END_TEST

static TCase *data_cases(const char *name, void (*before)(void))
{
	TCase *tc = tcase_create(name);

	tcase_add_checked_fixture(tc, before, NULL);
	tcase_add_test(tc, write_and_read__across_segments_in_any_order);
	tcase_add_test(tc, post__that_takes_part_keeps_the_rest);
	tcase_add_test(tc, operation__at_fault_completes_with_its_error);
	tcase_add_test(tc, dead_channel__costs_its_own_operations_only);
	tcase_add_test(tc, refused__with_an_old_key_goes_again_with_the_new_one);
	tcase_add_test(tc, timeout__on_the_wire_is_told_after_the_flush);
	tcase_add_test(tc, queue_free__with_operations_outstanding);
	tcase_add_loop_test(tc, random__every_byte_is_right, 0, 3);
	return tc;
}

int main(void)
{
	Suite *suite = suite_create("librmem-queue");
	TCase *tc = data_cases("tcp", setup), *verbs = data_cases("verbs", setup_verbs);

	tcase_add_test(tc, pieces__stay_within_segments_and_the_fabrics_limit);
	tcase_add_test(tc, channels__take_turns_and_have_credits);
	tcase_add_test(tc, large_operation__is_spread_over_all_channels);
	tcase_add_test(tc, batch__is_posted_at_once);
	tcase_add_test(tc, lease__without_bytes);
	tcase_add_test(tc, submit__refuses_what_makes_no_sense);
	tcase_add_test(tc, lease__is_busy_until_completions_are_taken);
	tcase_add_test(tc, fence__holds_itself_and_all_behind);
	tcase_add_test(tc, fence__outlives_the_operation_that_brought_it);
	tcase_add_test(tc, dead_channel__found_when_posting_loses_nothing);
	tcase_add_test(tc, no_channel__operations_wait_for_one);
	tcase_add_test(tc, doomed_channel__is_not_posted_to);
	tcase_add_test(tc, channel_that_takes_nothing__is_replaced);
	tcase_add_test(tc, broken_cq__ends_everything_on_it);
	tcase_add_test(tc, refused__of_an_ended_lease_is_stale);
	tcase_add_test(tc, refused__with_the_key_the_server_confirms);
	tcase_add_test(tc, refused__with_ever_new_keys_ends_at_last);
	tcase_add_test(tc, key__that_is_missing_is_asked_for);
	tcase_add_test(tc, lease__made_shorter_under_an_operation);
	tcase_add_test(tc, timeout__of_the_session_runs_from_the_last_progress);
	tcase_add_test(tc, timeout__loses_against_the_result);
	tcase_add_test(tc, cancel__one_lease_or_all);
	tcase_add_test(tc, cancel__leaves_results_that_came_first);
	tcase_add_test(tc, session__that_is_down_takes_no_operations);
	tcase_add_test(tc, session__that_goes_down_ends_what_waits);
	tcase_add_test(tc, buffer__that_is_not_mapped);
	tcase_add_test(tc, wait__gives_what_is_there);
	tcase_add_test(tc, wait__sleeps_until_a_completion);
	tcase_add_test(tc, arm__says_what_waits_already);
	tcase_add_test(verbs, bounce__copies_unregistered_memory);
	tcase_add_test(verbs, bounce__holds_back_more_than_it_has);
	tcase_add_test(verbs, buffer__is_used_without_a_copy);
	tcase_add_test(verbs, buffer__errors);
	suite_add_tcase(suite, tc);
	suite_add_tcase(suite, verbs);
	return unit_main(suite);
}

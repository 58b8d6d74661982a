/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations that wait in a queue, over a fabric that the test drives: they delay no operation that
 * does not have to wait, except one with a fence, and each of them gets its turn. */
#include <errno.h>
#include <string.h>

#include "unit/librmem/librmem-case.h"
#include "librmem/lease/buffer.h"

#define MANY 4096

static struct rmem_lease *single; /* over seg_a: of one segment */
static struct rmem_lease *words;  /* for atomics: its atomic device is not known yet */
static struct rmem_lease *near;   /* lent only through the first endpoint */
static struct rmem_lease *far;    /* lent only through the second endpoint */
static _Alignas(8) unsigned char word[64];
static const struct rmem_atomic one = { .operand = 1 };
static uint64_t old;

/* A lease over seg_a and seg_b, lent through these endpoints. */
static struct rmem_lease *bound_lease(uint64_t id, unsigned through_a,
				      unsigned through_b)
{
	struct rmem_lease *bound;

	stage.through[0] = through_a;
	stage.through[1] = through_b;
	bound = stage_lease(id, RMEM_READ | RMEM_WRITE, 2, segments, seg_bytes, keys);
	stage.through[0] = stage.through[1] = UINT8_MAX;
	return bound;
}

static void leases_new(void)
{
	memset(word, 0, sizeof(word));
	single = case_lease_over(6, seg_a, SEG, keys[0]);
	words = case_lease_over(7, word, sizeof(word), 31);
	near = bound_lease(8, 1, 1);
	far = bound_lease(9, 2, 2);
}

static void atomic_device_set(struct rmem_lease *of, unsigned endpoints)
{
	of->atomic_device.endpoints = endpoints;
	atomic_store(&of->atomic_device.state, ATOMIC_DEVICE_KNOWN);
}

static struct rmem_op add_of(struct rmem_lease *to, uint64_t cookie)
{
	struct rmem_op op = op_of(RMEM_OP_FETCH_ADD, 0, &old, 8, cookie);

	op.lease = to;
	op.atomic = &one;
	return op;
}

static struct rmem_op write_of(struct rmem_lease *to, uint64_t cookie)
{
	struct rmem_op op = op_of(RMEM_OP_WRITE, 0, local, 8, cookie);

	op.lease = to;
	return op;
}

static struct rmem_op fill_of(struct rmem_lease *to, uint64_t cookie)
{
	struct rmem_op op = op_of(RMEM_OP_FILL, 0, NULL, 8, cookie);

	op.lease = to;
	return op;
}

static void submit_fills(struct rmem_queue *queue, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		submit(queue, op_of(RMEM_OP_FILL, i * 8ull, NULL, 8, i));
}

static unsigned posted_in(const struct rmem_queue *queue, unsigned channel)
{
	return stage_channel(queue, channel)->n;
}

/* Poll n completions of status 0, and complete what is posted, again and again. */
static void run_until_done(struct rmem_queue *queue, unsigned n)
{
	for (unsigned rounds = 0; n > 0; rounds++) {
		int got = rmem_poll(queue, done, 64);

		ck_assert_uint_lt(rounds, 2 * MANY);
		for (int i = 0; i < got; i++)
			ck_assert_msg(done[i].status == 0, "%s",
				      rmem_completion_error(queue, NULL));
		n -= (unsigned)got;
		fake_complete_all();
	}
	ck_assert_uint_eq(rmem_queue_outstanding(queue), 0);
}

/* ---- operations that wait do not delay others ---- */

START_TEST(requests__do_not_delay_writes)
{
	struct rmem_queue *queue = stage_queue(64, 2);

	submit_fills(queue, 10);
	ck_assert_uint_eq(stage_posted(queue), 2 * FAKE_REQUESTS);
	submit(queue, write_of(_i ? single : lease, 100));
	ck_assert_uint_eq(stage_posted(queue), 2 * FAKE_REQUESTS + 1);
	run_until_done(queue, 11);
}
END_TEST

START_TEST(atomics__without_a_device_do_not_delay_others)
{
	static _Alignas(8) unsigned char other[8];
	struct rmem_lease *known = case_lease_over(10, other, sizeof(other), 32);
	struct rmem_queue *queue = stage_queue(64, 2);

	atomic_device_set(known, 3);
	submit(queue, add_of(words, 1));
	submit(queue, add_of(known, 2));
	submit(queue, write_of(_i ? single : lease, 3));
	ck_assert_uint_eq(stage_posted(queue), 2);
	complete_and_poll(queue, 2);
	atomic_device_set(words, 3);
	queue_wake(queue);
	expect_none(queue);
	ck_assert_uint_eq(stage_posted(queue), 1);
	run_until_done(queue, 1);
	ck_assert_uint_eq(word[0], 1);
}
END_TEST

static struct rmem_queue *asking;
static unsigned checks;

/* The server's reply arrives during rmem_submit(), after the first of three operations. */
static void answer_at_fourth_check(void)
{
	if (++checks != 4)
		return;
	queue_wake(asking);
	atomic_device_set(words, 1);
}

START_TEST(atomics__are_posted_in_order_once_their_device_is_known)
{
	struct rmem_queue *queue = asking = stage_queue(8, 1);
	uint64_t olds[3];
	struct rmem_op ops[3];

	for (unsigned i = 0; i < 3; i++) {
		ops[i] = add_of(words, i);
		ops[i].addr = &olds[i];
	}
	fake.at_able = answer_at_fourth_check;
	ck_assert_int_eq(rmem_submit(queue, ops, 3), 3);
	ck_assert_uint_ge(checks, 4);
	expect_none(queue);
	ck_assert_uint_eq(stage_posted(queue), 3);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_ptr_eq(stage_channel(queue, 0)->posted[i].addr, &olds[i]);
	run_until_done(queue, 3);
}
END_TEST

START_TEST(atomics__without_a_credit_do_not_delay_others)
{
	struct rmem_queue *queue = stage_queue(64, 2);
	unsigned depth = queue->channels.depth;

	queue->channels.depth = 8;
	atomic_device_set(words, 1);
	for (unsigned i = 0; i < 10; i++)
		submit(queue, add_of(words, i));
	ck_assert_uint_eq(posted_in(queue, 0), 8);
	submit(queue, write_of(_i ? single : lease, 10));
	ck_assert_uint_eq(posted_in(queue, 1), 1);
	run_until_done(queue, 11);
	ck_assert_uint_eq(word[0], 10);
	queue->channels.depth = depth;
}
END_TEST

START_TEST(bounce_chunks__in_use_do_not_delay_buffers)
{
	struct rmem_queue *queue = stage_queue(64, 2);
	struct rmem_op op = write_of(_i ? single : lease, 100);
	unsigned chunks = queue->bounce.n_free;

	op.buffer = case_buffer(local, sizeof(local));
	for (unsigned i = 0; i < chunks + 3; i++)
		submit(queue, write_of(lease, i));
	ck_assert_uint_eq(stage_posted(queue), chunks);
	submit(queue, op);
	ck_assert_uint_eq(stage_posted(queue), chunks + 1);
	run_until_done(queue, chunks + 4);
	ck_assert_int_eq(rmem_buffer_free(op.buffer), 0);
}
END_TEST

/* A large operation holds all fragments while it waits for keys. */
START_TEST(fragments__in_use_do_not_delay_other_operations)
{
	static unsigned char remote[64 * FAKE_MAX_BYTES], copy[sizeof(remote)];
	static unsigned char *const at[1] = { remote };
	const uint64_t bytes = sizeof(remote), other_key = 34;
	struct rmem_lease *large = case_lease_over(10, remote, bytes, 33);
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = op_of(RMEM_OP_READ, 0, copy, sizeof(copy), 1);

	memset(remote, 7, sizeof(remote));
	op.lease = large;
	submit(queue, op);
	while (stage_posted(queue) > 0) {
		complete_quietly(queue, 0, -EACCES);
	}
	ck_assert(list_empty(&queue->table.free_fragments));
	submit(queue, write_of(single, 2));
	ck_assert_uint_eq(stage_posted(queue), 1);
	complete_and_expect(queue, 2);
	stage_rekey(large, 1, at, &bytes, &other_key);
	run_until_done(queue, 1);
	ck_assert_mem_eq(copy, remote, sizeof(remote));
}
END_TEST

/* The requests of a dead channel, for which the other channel has no credits. */
START_TEST(requests__of_a_dead_channel_do_not_delay_writes)
{
	struct rmem_queue *queue = stage_queue(64, 2);

	submit_fills(queue, 2 * FAKE_REQUESTS);
	submit(queue, write_of(lease, 100));
	submit(queue, write_of(lease, 101));
	ck_assert_uint_eq(posted_in(queue, 0), FAKE_REQUESTS + 1);
	for (unsigned i = 0; i <= FAKE_REQUESTS; i++)
		fake_complete(stage_channel(queue, 0), -ECONNRESET);
	expect_none(queue);
	stage_peer_end(queue, 0, PEER_END_CLOSED);
	expect_none(queue);
	ck_assert_uint_eq(posted_in(queue, 1), FAKE_REQUESTS + 2);
	run_until_done(queue, 2 * FAKE_REQUESTS + 2);
}
END_TEST

/* ---- fences ---- */

START_TEST(fence__waits_for_waiting_operations)
{
	struct rmem_queue *queue = stage_queue(64, 2);
	struct rmem_op fenced = write_of(_i ? single : lease, 100);

	fenced.flags = RMEM_OP_FENCE;
	submit_fills(queue, 2 * FAKE_REQUESTS + 1);
	submit(queue, add_of(words, 99));
	submit(queue, fenced);
	submit(queue, write_of(single, 101));
	ck_assert_uint_eq(stage_posted(queue), 2 * FAKE_REQUESTS);
	complete_and_poll(queue, 2 * FAKE_REQUESTS);
	/* the last fill */
	ck_assert_uint_eq(stage_posted(queue), 1);
	complete_and_poll(queue, 1);
	ck_assert_uint_eq(stage_posted(queue), 0);
	atomic_device_set(words, 1);
	queue_wake(queue);
	expect_none(queue);
	ck_assert_uint_eq(stage_posted(queue), 1);
	complete_and_expect(queue, 99);
	/* the fenced write and the write behind it */
	ck_assert_uint_eq(stage_posted(queue), 2);
	run_until_done(queue, 2);
}
END_TEST

/* The operation before the fence ends without having been posted. */
START_TEST(fence__passes_when_the_waiting_operation_ends)
{
	struct rmem_queue *queue = stage_queue(64, 2);
	struct rmem_op fenced = write_of(single, 2), op = add_of(words, 1);
	static const int statuses[] = { -ETIMEDOUT, -ECANCELED, -ESTALE };

	fenced.flags = RMEM_OP_FENCE;
	op.timeout_ms = 10;
	submit(queue, op);
	submit(queue, fenced);
	ck_assert_uint_eq(stage_posted(queue), 0);
	if (_i == 0)
		stage_advance_ms(20);
	else if (_i == 1)
		ck_assert_int_eq(rmem_cancel(queue, words), 1);
	else
		lease_end(words, RMEM_REASON_FREED);
	expect(queue, 1, statuses[_i]);
	expect_none(queue);
	ck_assert_uint_eq(stage_posted(queue), 1);
	run_until_done(queue, 1);
}
END_TEST

/* ---- time-outs and cancelling ---- */

START_TEST(deadline__ends_a_waiting_operation)
{
	struct rmem_queue *queue = stage_queue(64, 1);
	struct rmem_op op = fill_of(lease, 50);

	submit_fills(queue, FAKE_REQUESTS);
	op.timeout_ms = 10;
	submit(queue, op);
	op.timeout_ms = 0;
	op.cookie = 51;
	submit(queue, op);
	submit(queue, write_of(single, 100));
	stage_advance_ms(20);
	expect(queue, 50, -ETIMEDOUT);
	/* it was never posted, and the others go on */
	ck_assert_uint_eq(stage_posted(queue), FAKE_REQUESTS + 1);
	ck_assert_uint_eq(fake.aborts, 0);
	run_until_done(queue, FAKE_REQUESTS + 2);
}
END_TEST

START_TEST(cancel__ends_waiting_operations)
{
	struct rmem_queue *queue = stage_queue(MANY, 1);

	submit(queue, write_of(single, 100));
	for (unsigned i = 0; i < MANY - 1; i++)
		submit(queue, add_of(words, i));
	ck_assert_int_eq(rmem_cancel(queue, words), MANY - 1);
	for (unsigned got = 0; got < MANY - 1; got++) {
		ck_assert_int_eq(rmem_poll(queue, done, 1), 1);
		ck_assert_int_eq(done[0].status, -ECANCELED);
	}
	ck_assert_uint_eq(lease_inflight(words), 0);
	ck_assert_uint_eq(fake.aborts, 0);
	run_until_done(queue, 1);
}
END_TEST

/* ---- turns ---- */

/* On a channel that is always full, complete one operation a round and submit another one, until
 * the operation with the cookie 100 completes; then complete the others. */
static void run_until_100(struct rmem_queue *queue, struct rmem_op another,
			  unsigned max_rounds)
{
	unsigned rounds = 0;

	for (done[0].cookie = 0; done[0].cookie != 100; rounds++) {
		ck_assert_uint_lt(rounds, max_rounds);
		fake_complete(stage_channel(queue, 0), 0);
		ck_assert_int_eq(rmem_poll(queue, done, 1), 1);
		submit(queue, another);
	}
	run_until_done(queue, rmem_queue_outstanding(queue));
}

static struct rmem_op op_of_kind(enum rmem_opcode kind, uint64_t cookie)
{
	return kind == RMEM_OP_FETCH_ADD ? add_of(words, cookie)
					 : op_of(kind, 0, local, 8, cookie);
}

/* 40 operations of one kind, then one of another kind. */
START_TEST(waiting__operation_gets_its_turn)
{
	static const enum rmem_opcode kinds[3] = { RMEM_OP_FILL, RMEM_OP_FETCH_ADD,
						   RMEM_OP_WRITE };
	enum rmem_opcode many = kinds[_i / 3], few = kinds[_i % 3];
	struct rmem_queue *queue = stage_queue(64, 1);
	unsigned depth = queue->channels.depth;

	queue->channels.depth = 8;
	atomic_device_set(words, 1);
	for (unsigned i = 0; i < 40; i++)
		submit(queue, op_of_kind(many, i));
	/* use all credits */
	for (unsigned i = 0; many == RMEM_OP_FILL && i < 8; i++)
		submit(queue, write_of(single, i));
	ck_assert_uint_eq(stage_posted(queue), 8);
	submit(queue, op_of_kind(few, 100));
	run_until_100(queue, op_of_kind(many, 1), many == few ? 60 : 24);
	queue->channels.depth = depth;
}
END_TEST

/* Notifications wait for the credits of requests, too. */
START_TEST(notifications__take_turns_with_requests)
{
	struct rmem_queue *queue = stage_queue(64, 1);
	const struct rmem_op notify = op_of(RMEM_OP_WRITE_NOTIFY, 0, NULL, 0, 1);

	for (unsigned i = 0; i < 2 * FAKE_REQUESTS; i++)
		submit(queue, notify);
	submit(queue, fill_of(lease, 100));
	run_until_100(queue, notify, 2 * FAKE_REQUESTS);
}
END_TEST

START_TEST(thousands__wait_and_complete)
{
	struct rmem_queue *queue = stage_queue(MANY, 2);

	atomic_device_set(words, 1);
	for (unsigned i = 0; i < MANY; i++) {
		if (i % 3 == 0)
			submit(queue, op_of(RMEM_OP_FILL, 8, NULL, 8, i));
		else
			submit(queue,
			       i % 3 == 1 ? add_of(words, i) : write_of(lease, i));
	}
	run_until_done(queue, MANY);
	ck_assert_uint_eq(word[0] + 256u * word[1], MANY / 3);
}
END_TEST

/* ---- memory that is lent only through some endpoints ---- */

START_TEST(bound__full_channel_does_not_delay_others)
{
	struct rmem_queue *queue = stage_queue(512, 2);
	unsigned depth = queue->channels.depth;

	for (unsigned i = 0; i < depth + 5; i++)
		submit(queue, write_of(near, i));
	ck_assert_uint_eq(posted_in(queue, 0), depth);
	ck_assert_uint_eq(posted_in(queue, 1), 0);
	submit(queue, write_of(far, 1000));
	submit(queue, write_of(lease, 1001));
	ck_assert_uint_eq(posted_in(queue, 1), 2);
	run_until_done(queue, depth + 7);
}
END_TEST

START_TEST(bound__requests_do_not_delay_others)
{
	struct rmem_queue *queue = stage_queue(64, 2);

	for (unsigned i = 0; i < FAKE_REQUESTS + 2; i++)
		submit(queue, fill_of(near, 1));
	submit(queue, fill_of(far, 1));
	submit(queue, write_of(near, 2));
	ck_assert_uint_eq(posted_in(queue, 0), FAKE_REQUESTS + 1);
	ck_assert_uint_eq(posted_in(queue, 1), 1);
	run_until_done(queue, FAKE_REQUESTS + 4);
}
END_TEST

/* A lease of two endpoints does not wait for a lease of one of them. */
START_TEST(bound__two_endpoints_do_not_wait_for_one)
{
	static const enum rmem_opcode opcodes[] = { RMEM_OP_WRITE, RMEM_OP_FILL,
						    RMEM_OP_FETCH_ADD };
	struct rmem_lease *both = bound_lease(10, 3, 3);
	struct rmem_op op = op_of(opcodes[_i], 0, &old, 8, 1);
	struct rmem_queue *queue = stage_queue(512, 3);
	unsigned credits =
		opcodes[_i] == RMEM_OP_FILL ? FAKE_REQUESTS : queue->channels.depth;

	if (opcodes[_i] == RMEM_OP_FILL)
		op.addr = NULL;
	op.atomic = &one;
	atomic_device_set(near, 3);
	atomic_device_set(both, 3);
	op.lease = near;
	for (unsigned i = 0; i < credits + 5; i++)
		submit(queue, op);
	ck_assert_uint_eq(posted_in(queue, 0), credits);
	op.lease = both;
	submit(queue, op);
	ck_assert_uint_eq(posted_in(queue, 1), 1);
	ck_assert_uint_eq(posted_in(queue, 2), 0);
	run_until_done(queue, credits + 6);
}
END_TEST

#define SIX_SETS 63

static struct rmem_lease *sets[SIX_SETS + 1]; /* lent through these endpoints */

/* A queue of six full channels, and a write at offset 8 * SET to the lease of each set of
 * endpoints, which waits. */
static struct rmem_queue *queue_of_sets(unsigned *ret_n)
{
	struct rmem_queue *queue = stage_queue(MANY, 6);
	struct rmem_op op;
	unsigned n = 0;

	for (unsigned i = 1; i <= SIX_SETS; i++)
		sets[i] = bound_lease(20 + i, i, i);
	for (unsigned i = 1; i <= SIX_SETS; i *= 2)
		for (unsigned k = 0; k < queue->channels.depth; k++, n++)
			submit(queue, write_of(sets[i], 0));
	ck_assert_uint_eq(stage_posted(queue), n);
	for (unsigned i = 1; i <= SIX_SETS; i++, n++) {
		op = write_of(sets[i], i);
		op.offset = 8ull * i;
		submit(queue, op);
	}
	ck_assert_uint_eq(queue->table.n_sets, WAIT_SETS_MAX);
	*ret_n = n;
	return queue;
}

/* What was posted on the channel is lent through its endpoint. */
static void expect_reached(const struct rmem_queue *queue, unsigned channel)
{
	const struct fabric_channel *posted = stage_channel(queue, channel);

	for (unsigned i = 0; i < posted->n; i++) {
		uint64_t set = (posted->posted[i].remote_addr - (uintptr_t)seg_a) / 8;

		ck_assert(!set || set & 1u << queue->channels.all[channel].endpoint);
	}
}

/* While one channel is full, all goes on that does not need it, also where sets share a wait
 * list. */
START_TEST(bound__sets_of_endpoints_may_be_more_than_wait_lists)
{
	unsigned n, end = 0;
	struct rmem_queue *queue = queue_of_sets(&n);
	int got;

	do {
		for (unsigned i = 1; i < 6; i++) {
			expect_reached(queue, i);
			while (posted_in(queue, i) > 0)
				fake_complete(stage_channel(queue, i), 0);
		}
		got = rmem_poll(queue, done, 64);
		for (int i = 0; i < got; i++)
			ck_assert_int_eq(done[i].status, 0);
		end += (unsigned)got;
	} while (got > 0);
	ck_assert_uint_eq(end, n - queue->channels.depth - 1);
	run_until_done(queue, n - end);
}
END_TEST

/* Where sets share a wait list, progress on any channel counts, as that of the last one alone
 * here. */
START_TEST(bound__sets_that_share_a_wait_list_wait_while_there_is_progress)
{
	unsigned n, failed = 0;
	struct rmem_queue *queue = queue_of_sets(&n);
	int got;

	for (unsigned rounds = 0; rounds < 3; rounds++) {
		stage_advance_ms(STAGE_TIMEOUT_MS * 2 / 3);
		fake_complete(stage_channel(queue, 5), 0);
		while ((got = rmem_poll(queue, done, 64)) > 0)
			for (int i = 0; i < got; i++) {
				ck_assert(!done[i].status || done[i].cookie < 32);
				failed += done[i].status != 0;
			}
	}
	ck_assert_uint_gt(failed, 0);
}
END_TEST

/* Fragments whose device is away release their bounce chunks for other operations. */
START_TEST(bound__lost_fragments_hold_no_bounce_chunks)
{
	struct rmem_queue *queue = stage_queue(64, 2);
	struct rmem_op op = op_of(_i ? RMEM_OP_READ : RMEM_OP_WRITE, 0, local, 8, 1);
	static unsigned char got[32][8];
	unsigned chunks = queue->bounce.n_free;

	ck_assert_uint_lt(chunks, 32);
	for (unsigned i = 0; i < SEG; i++)
		seg_a[i] = _i ? (unsigned char)(i * 3) : 0;
	op.lease = near;
	for (unsigned i = 0; i < chunks; i++) {
		op.offset = i * 8ull;
		op.addr = _i ? got[i] : local + i * 8ull;
		submit(queue, op);
	}
	ck_assert_uint_eq(posted_in(queue, 0), chunks);
	for (unsigned i = 0; i < chunks; i++)
		fake_complete(stage_channel(queue, 0), -ECONNRESET);
	expect_none(queue);
	for (unsigned i = 0; i < chunks; i++)
		submit(queue, write_of(far, 1000));
	ck_assert_uint_eq(posted_in(queue, 1), chunks);
	/* also once the lost fragments may be posted again */
	stage_peer_end(queue, 0, PEER_END_CLOSED);
	expect_none(queue);
	for (unsigned i = 0; i < chunks; i++) {
		fake_complete(stage_channel(queue, 1), 0);
		ck_assert_int_eq(rmem_poll(queue, done, 1), 1);
		ck_assert_uint_eq(done[0].cookie, 1000);
		submit(queue, write_of(far, 1000));
	}
	ck_assert_uint_eq(posted_in(queue, 1), chunks);
	ck_assert_uint_eq(stage_reconnect(queue), 1);
	fake_complete_all();
	run_until_done(queue, 2 * chunks);
	if (_i)
		ck_assert_mem_eq(got[1], seg_a + 8, (chunks - 1) * 8ull);
	else
		ck_assert_mem_eq(seg_a + 8, local + 8, (chunks - 1) * 8ull);
}
END_TEST

START_TEST(bound__copy_moves_to_the_wait_list_of_its_next_source)
{
	const struct rmem_source source = { bound_lease(10, 1, 2), SEG - 8 };
	struct rmem_queue *queue = stage_queue(64, 2);
	struct rmem_op copy = op_of(RMEM_OP_COPY, 0, NULL, 16, 1);

	for (unsigned i = 0; i < FAKE_REQUESTS; i++)
		submit(queue, fill_of(far, 2));
	copy.lease = words;
	copy.source = &source;
	submit(queue, copy);
	ck_assert_uint_eq(posted_in(queue, 0), 1);
	submit(queue, fill_of(near, 2));
	ck_assert_uint_eq(posted_in(queue, 0), 2);
	run_until_done(queue, FAKE_REQUESTS + 2);
}
END_TEST

/* One operation over two segments that are lent through one endpoint each. */
START_TEST(bound__segments_use_their_own_endpoints)
{
	struct rmem_queue *queue = stage_queue(64, 4);
	struct rmem_op op = op_of(RMEM_OP_WRITE, 100, local, 2 * SEG - 200, 1);

	op.lease = bound_lease(10, 1, 2);
	submit(queue, op);
	ck_assert_uint_gt(posted_in(queue, 0), 0);
	ck_assert_uint_gt(posted_in(queue, 1), 0);
	for (unsigned i = 0; i < 4; i++)
		for (unsigned k = 0; k < posted_in(queue, i); k++)
			ck_assert_uint_eq(stage_channel(queue, i)->posted[k].rkey,
					  keys[queue->channels.all[i].endpoint]);
	run_until_done(queue, 1);
	ck_assert_mem_eq(seg_a + 100, local, SEG - 100);
	ck_assert_mem_eq(seg_b, local + SEG - 100, SEG - 100);
	/* the channels to the second endpoint die: fragments wait for new channels to it */
	op.opcode = RMEM_OP_READ;
	submit(queue, op);
	for (unsigned i = 0; i < 4; i++)
		if (queue->channels.all[i].endpoint == 1)
			fake_complete(stage_channel(queue, i), -ECONNRESET);
	expect_none(queue);
	expect_none(queue);
	ck_assert_uint_eq(stage_reconnect(queue), 2);
	fake_complete_all();
	expect_none(queue);
	run_until_done(queue, 1);
}
END_TEST

START_TEST(bound__queue_of_one_channel_also_reaches_sole_endpoints)
{
	struct rmem_queue *queue = stage_queue(64, 1);

	ck_assert_uint_eq(queue->channels.n, 1);
	submit(queue, write_of(near, 1));
	submit(queue, write_of(far, 2));
	expect_error(queue, 2, -ENOTSUP, "lent through other RDMA devices");
	run_until_done(queue, 1);
	for (unsigned i = 0; i < STAGE_ENDPOINTS; i++)
		stage.session.domains->domains[i].endpoint.flags |= WIRE_ENDPOINT_SOLE;
	queue = stage_queue(64, 1);
	ck_assert_uint_eq(queue->channels.n, 2);
	submit(queue, write_of(near, 1));
	submit(queue, write_of(far, 2));
	run_until_done(queue, 2);
	/* a queue with more channels reaches all endpoints already */
	queue = stage_queue(64, 3);
	ck_assert_uint_eq(queue->channels.n, 3);
}
END_TEST

START_TEST(bound__segment_without_an_endpoint_is_refused)
{
	struct rmem_lease *half = bound_lease(10, 1, 0);
	struct rmem_queue *queue = stage_queue(64, 2);
	struct rmem_op op = op_of(RMEM_OP_WRITE, SEG + 8, local, 8, 1);

	op.lease = half;
	submit(queue, op);
	expect(queue, 1, -ENOTSUP);
	op = add_of(half, 2);
	op.offset = SEG;
	submit(queue, op);
	expect(queue, 2, -ENOTSUP);
	submit(queue, write_of(half, 3));
	run_until_done(queue, 1);
}
END_TEST

/* No endpoint reaches source and target of a copy, or word and atomic device. */
START_TEST(bound__operation_without_a_common_endpoint_is_refused)
{
	struct rmem_lease *striped = bound_lease(10, 2, 1);
	struct rmem_queue *queue = stage_queue(64, 2);
	const struct rmem_source source = { .lease = far };
	struct rmem_op op = op_of(RMEM_OP_COPY, 0, NULL, 8, 1);

	op.lease = near;
	op.source = &source;
	submit(queue, op);
	expect_error(queue, 1, -ENOTSUP, "reaches both");
	/* a copy within one lease works */
	op.lease = far;
	op.offset = 8;
	submit(queue, op);
	run_until_done(queue, 1);
	/* the first segment is at the atomic device, the second is not */
	op = add_of(striped, 2);
	submit(queue, op);
	ck_assert_uint_eq(atomic_load(&striped->atomic_device.wanted), 1 + 1);
	atomic_device_set(striped, 2);
	queue_wake(queue);
	expect_none(queue);
	op.offset = SEG;
	op.cookie = 3;
	submit(queue, op);
	expect_error(queue, 3, -ENOTSUP, "atomic device");
	run_until_done(queue, 1);
}
END_TEST

int main(void)
{
	TCase *tcp = tcp_case(leases_new), *verbs = verbs_case(leases_new);
	TCase *three = three_case(leases_new), *six = six_case(leases_new);

	tcase_add_loop_test(tcp, requests__do_not_delay_writes, 0, 2);
	tcase_add_loop_test(verbs, requests__do_not_delay_writes, 0, 2);
	tcase_add_loop_test(tcp, atomics__without_a_device_do_not_delay_others, 0, 2);
	tcase_add_loop_test(verbs, atomics__without_a_device_do_not_delay_others, 0, 2);
	tcase_add_test(tcp, atomics__are_posted_in_order_once_their_device_is_known);
	tcase_add_loop_test(tcp, atomics__without_a_credit_do_not_delay_others, 0, 2);
	tcase_add_loop_test(verbs, bounce_chunks__in_use_do_not_delay_buffers, 0, 2);
	tcase_add_test(tcp, fragments__in_use_do_not_delay_other_operations);
	tcase_add_test(tcp, requests__of_a_dead_channel_do_not_delay_writes);
	tcase_add_loop_test(tcp, fence__waits_for_waiting_operations, 0, 2);
	tcase_add_loop_test(tcp, fence__passes_when_the_waiting_operation_ends, 0, 3);
	tcase_add_test(tcp, deadline__ends_a_waiting_operation);
	tcase_add_test(tcp, cancel__ends_waiting_operations);
	tcase_add_loop_test(tcp, waiting__operation_gets_its_turn, 0, 9);
	tcase_add_test(tcp, notifications__take_turns_with_requests);
	tcase_add_test(tcp, thousands__wait_and_complete);
	tcase_add_test(tcp, bound__full_channel_does_not_delay_others);
	tcase_add_test(tcp, bound__requests_do_not_delay_others);
	tcase_add_loop_test(three, bound__two_endpoints_do_not_wait_for_one, 0, 3);
	tcase_add_test(six, bound__sets_of_endpoints_may_be_more_than_wait_lists);
	tcase_add_test(six,
		       bound__sets_that_share_a_wait_list_wait_while_there_is_progress);
	tcase_add_loop_test(verbs, bound__lost_fragments_hold_no_bounce_chunks, 0, 2);
	tcase_add_test(tcp, bound__copy_moves_to_the_wait_list_of_its_next_source);
	tcase_add_test(tcp, bound__segments_use_their_own_endpoints);
	tcase_add_test(tcp, bound__queue_of_one_channel_also_reaches_sole_endpoints);
	tcase_add_test(tcp, bound__segment_without_an_endpoint_is_refused);
	tcase_add_test(tcp, bound__operation_without_a_common_endpoint_is_refused);
	return unit_main();
}

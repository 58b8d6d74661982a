/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs of operations on a channel, and fragments between them: what happens to one of them leaves
 * the others as they are. */
#include <errno.h>
#include <string.h>

#include "librmem/queue/deadlines.h"
#include "unit/librmem/librmem-single.h"

#define N 60      /* operations on one channel */
#define PLACES 64 /* of its rings */
#define EARLY 4   /* of N: complete before something happens */
#define CHOSEN 31

static unsigned char plain[8 * N]; /* in no buffer */
static bool ended[N];

/* Operation i is of the bytes at 8 * i. */
static bool is_fragment(unsigned i)
{
	return i % 7 == 5;
}

static struct rmem_op mixed(unsigned i)
{
	struct rmem_op op = write_single(8 * i, i);

	/* runs of three */
	op.timeout_ms = i / 3 % 2 ? 10 * STAGE_TIMEOUT_MS : 20 * STAGE_TIMEOUT_MS;
	if (is_fragment(i)) {
		op.opcode = RMEM_OP_READ;
		op.addr = &plain[8 * i];
		op.buffer = NULL;
	}
	return op;
}

/* Submit all; the first on the channel is in the place `first`. */
static void mixed_submit(struct rmem_queue *queue, unsigned first)
{
	struct rmem_op ops[N];
	unsigned n;

	for (unsigned i = 0; i < first; i++) {
		submit(queue, write_single(0, i));
		complete_and_expect(queue, i);
	}
	for (unsigned i = 0; i < N; i++)
		ops[i] = mixed(i);
	/* a fragment behind others in one call would make all after it wait */
	for (unsigned i = 0; i < N; i += n) {
		n = 1;
		while (!is_fragment(i) && i + n < N && !is_fragment(i + n))
			n++;
		ck_assert_int_eq(rmem_submit(queue, &ops[i], n), (int)n);
	}
	ck_assert_uint_eq(stage_channel(queue, 0)->n, N);
	memset(ended, 0, sizeof(ended));
}

/* n operations have ended, each once, and all with this status. */
static void take(struct rmem_queue *queue, unsigned n, int status)
{
	ck_assert_int_eq(rmem_poll(queue, done, N), (int)n);
	for (unsigned i = 0; i < n; i++) {
		ck_assert_uint_lt(done[i].cookie, N);
		ck_assert(!ended[done[i].cookie]);
		ended[done[i].cookie] = true;
		ck_assert_int_eq(done[i].status, status);
		ck_assert_ptr_eq(done[i].lease, single);
		ck_assert_uint_eq(done[i].bytes, 8);
		ck_assert_uint_eq(done[i].opcode,
				  mixed((unsigned)done[i].cookie).opcode);
	}
}

/* All others are posted again on the next connection, and succeed. */
static void others_succeed(struct rmem_queue *queue)
{
	unsigned left = 0;

	for (unsigned i = 0; i < N; i++)
		left += !ended[i];
	reconnect(queue);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, left);
	fake_complete_all();
	take(queue, left, 0);
	expect_none(queue);
	ck_assert_uint_eq(rmem_queue_outstanding(queue), 0);
	for (unsigned i = 0; i < N; i++)
		if (i != CHOSEN)
			ck_assert_mem_eq(seg_a + 8 * i,
					 is_fragment(i) ? plain + 8 * i : local + 8 * i,
					 8);
}

static void early_complete(struct rmem_queue *queue)
{
	for (unsigned i = 0; i < EARLY; i++)
		fake_complete(stage_channel(queue, 0), 0);
}

/* _i: the place of the first. */
START_TEST(cancelled__leaves_the_others)
{
	struct rmem_queue *queue = stage_queue(PLACES, 1);

	mixed_submit(queue, (unsigned)_i);
	early_complete(queue);
	ck_assert_int_eq(rmem_cancel_cookie(queue, CHOSEN), 1);
	take(queue, EARLY, 0);
	peer_closes(queue, 0);
	take(queue, 1, -ECANCELED);
	ck_assert(ended[CHOSEN]);
	others_succeed(queue);
}
END_TEST

START_TEST(failed__leaves_the_others)
{
	struct rmem_queue *queue = stage_queue(PLACES, 1);

	mixed_submit(queue, (unsigned)_i);
	for (unsigned i = 0; i < CHOSEN; i++)
		fake_complete(stage_channel(queue, 0), 0);
	fake_complete(stage_channel(queue, 0), -EIO);
	take(queue, CHOSEN, 0);
	peer_closes(queue, 0);
	take(queue, 1, -EIO);
	ck_assert(ended[CHOSEN]);
	others_succeed(queue);
}
END_TEST

/* Completions that are found while nobody takes any. */
START_TEST(completed_early__are_taken_later)
{
	struct rmem_queue *queue = stage_queue(PLACES, 1);

	mixed_submit(queue, (unsigned)_i);
	early_complete(queue);
	ck_assert_int_eq(rmem_queue_arm(queue), 1);
	take(queue, EARLY, 0);
	fake_complete_all();
	/* a short array takes a part of a run */
	for (unsigned left = N - EARLY; left > 0; left--) {
		ck_assert_int_eq(rmem_poll(queue, done, 1), 1);
		ck_assert(!ended[done[0].cookie]);
		ended[done[0].cookie] = true;
	}
	expect_none(queue);
}
END_TEST

/* As a synchronous call's that has waited for those of other threads. */
START_TEST(limit__holds_for_a_run)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	submit(queue, write_single(0, 1));
	deadlines_limit(queue, stage.now_ns + 20 * NS_PER_MS);
	idle_ms(queue, 19);
	ck_assert_uint_eq(fake.aborts, 0);
	stage_advance_ms(1);
	expect_none(queue);
	ck_assert_uint_eq(fake.aborts, 1);
	peer_closes(queue, 0);
	expect(queue, 1, -ETIMEDOUT);
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("runs", single_verbs, single_close);

	tcase_add_loop_test(tcase, cancelled__leaves_the_others, 0, PLACES);
	tcase_add_loop_test(tcase, failed__leaves_the_others, 0, PLACES);
	tcase_add_loop_test(tcase, completed_early__are_taken_later, 0, PLACES);
	tcase_add_test(tcase, limit__holds_for_a_run);
	return unit_main();
}

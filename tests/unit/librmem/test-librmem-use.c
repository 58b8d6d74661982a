/* SPDX-License-Identifier: BSD-3-Clause */
/* Who uses leases and buffers: each operation counts, wherever it is counted, and a lease's old
 * tables go once nobody can read them. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "unit/librmem/librmem-single.h"

#define BUFFERS 200u /* more than a queue counts */
#define PIECE 16u
#define CHANGES 300u

static struct rmem_buffer *buffers[BUFFERS];

static void setup(void)
{
	case_verbs();
	single_make();
}

static struct rmem_op op_on(struct rmem_lease *on, struct rmem_buffer *to, uint64_t at)
{
	struct rmem_op op = op_single(RMEM_OP_WRITE, at, 8, at);

	op.lease = on;
	op.buffer = to;
	return op;
}

static void buffers_make(void)
{
	struct rmem_buffer_params params = RMEM_BUFFER_INIT;

	params.bytes = PIECE;
	for (unsigned i = 0; i < BUFFERS; i++) {
		params.addr = local + i * PIECE;
		ck_assert_int_eq(
			rmem_buffer_create(&stage.session, &params, &buffers[i]), 0);
	}
}

/* All are taken at once, by the short way for those that are whole. */
static void complete(struct rmem_queue *queue, unsigned n)
{
	struct rmem_completion taken[BUFFERS];

	fake_complete_all();
	ck_assert_int_eq(rmem_poll(queue, taken, BUFFERS), (int)n);
	for (unsigned i = 0; i < n; i++)
		ck_assert_int_eq(taken[i].status, 0);
	expect_none(queue);
}

static void submit_all(struct rmem_queue *queue, struct rmem_op *ops, unsigned n,
		       bool together)
{
	if (together) {
		ck_assert_int_eq(rmem_submit(queue, ops, n), (int)n);
		return;
	}
	for (unsigned i = 0; i < n; i++)
		ck_assert_int_eq(rmem_submit(queue, &ops[i], 1), 1);
}

/* One by one and together, through the short way and not. */
START_TEST(pairs__that_find_no_room_count_too)
{
	struct rmem_queue *queue = stage_queue(BUFFERS, 1);
	struct rmem_op ops[BUFFERS];

	buffers_make();
	for (unsigned i = 0; i < BUFFERS; i++)
		ops[i] = op_on(i % 3 ? single : lease, buffers[i], i * PIECE);
	submit_all(queue, ops, BUFFERS, _i);
	/* all of the table is in use, and the rest counts elsewhere */
	ck_assert_uint_gt(atomic_load(&single->outstanding), 0);
	ck_assert_uint_lt(atomic_load(&single->outstanding) +
				  atomic_load(&lease->outstanding),
			  BUFFERS - INFLIGHT_MAX / 2);
	ck_assert_uint_eq(lease_inflight(lease), (BUFFERS + 2) / 3);
	ck_assert_uint_eq(lease_inflight(lease) + lease_inflight(single), BUFFERS);
	for (unsigned i = 0; i < BUFFERS; i++) {
		ck_assert_uint_eq(buffer_inflight(buffers[i]), 1);
		ck_assert_int_eq(rmem_buffer_free(buffers[i]), -EBUSY);
	}
	complete(queue, BUFFERS);
	for (unsigned i = 0; i < BUFFERS; i++) {
		ck_assert_uint_eq(buffer_inflight(buffers[i]), 0);
		ck_assert_int_eq(rmem_buffer_free(buffers[i]), 0);
	}
	single_end();
}
END_TEST

/* A place in the table goes from pair to pair. */
START_TEST(pairs__come_and_go)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	buffers_make();
	for (unsigned round = 0; round < 2000; round++) {
		unsigned at = round * 37 % BUFFERS;
		struct rmem_lease *on = round % 2 ? single : lease;

		submit(queue, op_on(on, buffers[at], at * PIECE));
		ck_assert_uint_eq(lease_inflight(on), 1);
		ck_assert_uint_eq(buffer_inflight(buffers[at]), 1);
		complete(queue, 1);
		ck_assert_uint_eq(lease_inflight(on), 0);
		ck_assert_uint_eq(buffer_inflight(buffers[at]), 0);
	}
	ck_assert_uint_eq(atomic_load(&single->outstanding), 0);
	for (unsigned i = 0; i < BUFFERS; i++)
		ck_assert_int_eq(rmem_buffer_free(buffers[i]), 0);
	single_end();
}
END_TEST

START_TEST(queues__add_up)
{
	struct rmem_queue *a = stage_queue(8, 1), *b = stage_queue(8, 1);

	for (unsigned i = 0; i < 3; i++)
		submit(a, op_on(single, buffer, i * 8));
	submit(b, op_on(single, buffer, 64));
	submit(b, op_on(lease, buffer, 72));
	ck_assert_uint_eq(lease_inflight(single), 4);
	ck_assert_uint_eq(lease_inflight(lease), 1);
	ck_assert_uint_eq(buffer_inflight(buffer), 5);
	complete(a, 3);
	ck_assert_uint_eq(lease_inflight(single), 1);
	ck_assert_uint_eq(buffer_inflight(buffer), 2);
	/* what a queue takes with it counts no more */
	rmem_queue_free(b);
	ck_assert_uint_eq(lease_inflight(single), 0);
	ck_assert_uint_eq(buffer_inflight(buffer), 0);
	single_end();
}
END_TEST

/* ---- tables ---- */

/* Another table of `single`: as long as its segment, or shorter. */
static int change(unsigned i)
{
	struct wire_lease *answer = calloc(1, sizeof(*answer));
	int err;

	answer->n_segments = 1;
	answer->bytes = answer->segments[0].bytes = seg_bytes[0] - i % 2 * 8;
	answer->segments[0].endpoints = (1u << STAGE_ENDPOINTS) - 1;
	for (unsigned k = 0; k < STAGE_ENDPOINTS; k++)
		answer->keys[answer->n_keys++] = (struct wire_key){
			.endpoint = (uint8_t)k,
			.addr = (uintptr_t)seg_a,
			.rkey = keys[0],
		};
	(void)pthread_mutex_lock(&stage.session.lock);
	err = lease_publish(single, answer);
	(void)pthread_mutex_unlock(&stage.session.lock);
	free(answer);
	return err;
}

/* Free what can be. */
static void tidy(void)
{
	(void)pthread_mutex_lock(&stage.session.lock);
	lease_observer.work(&stage.session, 0);
	(void)pthread_mutex_unlock(&stage.session.lock);
}

static bool has_older(void)
{
	return atomic_load(&single->attachment)->older != NULL;
}

START_TEST(table__stays_while_it_is_used)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	/* nobody uses it */
	ck_assert_int_eq(change(1), 0);
	ck_assert(!has_older());
	/* somebody does, by the queue's table; or by none */
	submit(queue, op_on(_i ? lease : single, buffer, 0));
	if (_i)
		inflight_begin_shared(single, NULL, 1);
	ck_assert_uint_eq(lease_inflight(single), 1);
	ck_assert_int_eq(change(2), 0);
	ck_assert(has_older());
	tidy();
	ck_assert(has_older());
	complete(queue, 1);
	if (_i)
		inflight_end_shared(single, NULL, 1);
	tidy();
	ck_assert(!has_older());
	single_end();
}
END_TEST

static void *changer(void *arg)
{
	for (unsigned i = 0; i < CHANGES; i++) {
		ck_assert_int_eq(change(i), 0);
		tidy();
	}
	atomic_store((atomic_bool *)arg, true);
	return NULL;
}

/* What is read is never one that was freed, whatever a place in the queue's table was of; for
 * the sanitizers. */
START_TEST(table__changes_under_way)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	static atomic_bool over;
	struct rmem_op ops[4];
	pthread_t thread;

	buffers_make();
	fake.automatic = true;
	ck_assert_int_eq(pthread_create(&thread, NULL, changer, &over), 0);
	for (unsigned round = 0; !atomic_load(&over); round++) {
		unsigned n = round % 2 ? 4 : 1;

		for (unsigned i = 0; i < n; i++)
			ops[i] = op_on(round % 3 ? single : lease,
				       buffers[(round + i) * 37 % BUFFERS],
				       (round + i) * 37 % BUFFERS * PIECE);
		ck_assert_int_eq(rmem_submit(queue, ops, n), (int)n);
		for (unsigned got = 0; got < n;)
			got += (unsigned)rmem_poll(queue, done, 8);
	}
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	tidy();
	ck_assert(!has_older());
	for (unsigned i = 0; i < BUFFERS; i++)
		ck_assert_int_eq(rmem_buffer_free(buffers[i]), 0);
	single_end();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("librmem-use");
	TCase *tcase = tcase_create("use");

	tcase_add_checked_fixture(tcase, setup, NULL);
	tcase_add_loop_test(tcase, pairs__that_find_no_room_count_too, 0, 2);
	tcase_add_test(tcase, pairs__come_and_go);
	tcase_add_test(tcase, queues__add_up);
	tcase_add_loop_test(tcase, table__stays_while_it_is_used, 0, 2);
	tcase_add_test(tcase, table__changes_under_way);
	suite_add_tcase(suite, tcase);
	return unit_main(suite);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The counts of operations that use leases and buffers (inflight.h), and the attachments of a
 * lease, which are freed when no call of a queue can read them. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "unit/librmem/librmem-single.h"

#define BUFFERS 200u /* more than INFLIGHT_MAX */
#define BUFFER_BYTES 16u
#define CHANGES 300u

static struct rmem_buffer *buffers[BUFFERS];

static struct rmem_op op_on(struct rmem_lease *on, struct rmem_buffer *to, uint64_t at)
{
	struct rmem_op op = write_single(at, at);

	op.lease = on;
	op.buffer = to;
	return op;
}

static void buffers_create(void)
{
	for (unsigned i = 0; i < BUFFERS; i++)
		buffers[i] = case_buffer(local + i * BUFFER_BYTES, BUFFER_BYTES);
}

/* Everything posted completes; these are n operations, without error. */
static void complete(struct rmem_queue *queue, unsigned n)
{
	struct rmem_completion polled[BUFFERS];

	fake_complete_all();
	ck_assert_int_eq(rmem_poll(queue, polled, BUFFERS), (int)n);
	for (unsigned i = 0; i < n; i++)
		ck_assert_int_eq(polled[i].status, 0);
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

/* _i: submitted one by one, or as a batch. */
START_TEST(pairs__beyond_the_table_are_counted)
{
	struct rmem_queue *queue = stage_queue(BUFFERS, 1);
	struct rmem_op ops[BUFFERS];

	buffers_create();
	for (unsigned i = 0; i < BUFFERS; i++)
		ops[i] = op_on(i % 3 ? single : lease, buffers[i], i * BUFFER_BYTES);
	submit_all(queue, ops, BUFFERS, _i);
	/* the table is full, and the other pairs are counted in lease and buffer */
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
}
END_TEST

START_TEST(queue_free__ends_uses_beyond_the_table)
{
	struct rmem_queue *queue = stage_queue(BUFFERS, 1);
	struct rmem_op ops[BUFFERS];

	buffers_create();
	for (unsigned i = 0; i < BUFFERS; i++)
		ops[i] = op_on(single, buffers[i], i * BUFFER_BYTES);
	submit_all(queue, ops, BUFFERS, true);
	ck_assert_uint_gt(atomic_load(&single->outstanding), 0);
	rmem_queue_free(queue);
	ck_assert_uint_eq(lease_inflight(single), 0);
	for (unsigned i = 0; i < BUFFERS; i++)
		ck_assert_int_eq(rmem_buffer_free(buffers[i]), 0);
}
END_TEST

START_TEST(table_entries__are_reused_by_other_pairs)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	buffers_create();
	for (unsigned round = 0; round < 2000; round++) {
		unsigned at = round * 37 % BUFFERS;
		struct rmem_lease *on = round % 2 ? single : lease;

		submit(queue, op_on(on, buffers[at], at * BUFFER_BYTES));
		ck_assert_uint_eq(lease_inflight(on), 1);
		ck_assert_uint_eq(buffer_inflight(buffers[at]), 1);
		complete(queue, 1);
		ck_assert_uint_eq(lease_inflight(on), 0);
		ck_assert_uint_eq(buffer_inflight(buffers[at]), 0);
	}
	ck_assert_uint_eq(atomic_load(&single->outstanding), 0);
	for (unsigned i = 0; i < BUFFERS; i++)
		ck_assert_int_eq(rmem_buffer_free(buffers[i]), 0);
}
END_TEST

START_TEST(counts__of_all_queues_add_up)
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
	/* operations of a freed queue do not count */
	rmem_queue_free(b);
	ck_assert_uint_eq(lease_inflight(single), 0);
	ck_assert_uint_eq(buffer_inflight(buffer), 0);
}
END_TEST

/* ---- attachments ---- */

/* Publish another attachment of `single`: i odd: of fewer bytes. */
static int attachment_change(unsigned i)
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

/* Free the attachments that no call can read. */
static void attachments_free(void)
{
	(void)pthread_mutex_lock(&stage.session.lock);
	/* when the driver looks again */
	lease_observer.work(&stage.session, clock_now_ns() + NS_PER_MS);
	(void)pthread_mutex_unlock(&stage.session.lock);
}

static bool has_older(void)
{
	return atomic_load(&single->attachment)->older != NULL;
}

START_TEST(attachment__is_kept_while_a_call_may_read_it)
{
	struct rmem_queue *queue = stage_queue(8, 1), *other = stage_queue(8, 1);

	ck_assert_int_eq(attachment_change(1), 0);
	ck_assert(!has_older());
	attachments_enter(&queue->inflights);
	ck_assert_int_eq(attachment_change(2), 0);
	ck_assert(has_older());
	/* a call that begins after the change reads the new one alone */
	attachments_enter(&other->inflights);
	attachments_free();
	ck_assert(has_older());
	attachments_leave(&queue->inflights);
	/* the driver looks again, though nothing happens */
	ck_assert_uint_le(lease_observer.due(&stage.session),
			  clock_now_ns() + NS_PER_MS);
	attachments_free();
	ck_assert(!has_older());
	attachments_leave(&other->inflights);
	attachments_free();
	ck_assert_uint_eq(lease_observer.due(&stage.session), UINT64_MAX);
}
END_TEST

/* An operation may be outstanding for long. */
START_TEST(attachment__is_not_kept_for_an_operation)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	submit(queue, op_on(single, buffer, 0));
	submit(queue, op_on(single, buffer, 64));
	for (unsigned i = 0; i < 10; i++) {
		ck_assert_int_eq(attachment_change(i), 0);
		ck_assert(!has_older());
	}
	complete(queue, 2);
}
END_TEST

static void *attachments_change(void *arg)
{
	for (unsigned i = 0; i < CHANGES; i++) {
		ck_assert_int_eq(attachment_change(i), 0);
		attachments_free();
	}
	atomic_store((atomic_bool *)arg, true);
	return NULL;
}

/* No operation reads a freed attachment, also when its entry in the queue's table is reused; for
 * the sanitizers. */
START_TEST(attachment__changes_during_operations)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	static atomic_bool over;
	struct rmem_op ops[4];
	pthread_t thread;

	buffers_create();
	fake.automatic = true;
	ck_assert_int_eq(pthread_create(&thread, NULL, attachments_change, &over), 0);
	for (unsigned round = 0; !atomic_load(&over); round++) {
		unsigned n = round % 2 ? 4 : 1;

		for (unsigned i = 0; i < n; i++)
			ops[i] = op_on(round % 3 ? single : lease,
				       buffers[(round + i) * 37 % BUFFERS],
				       (round + i) * 37 % BUFFERS * BUFFER_BYTES);
		ck_assert_int_eq(rmem_submit(queue, ops, n), (int)n);
		for (unsigned got = 0; got < n;)
			got += (unsigned)rmem_poll(queue, done, 8);
	}
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	attachments_free();
	ck_assert(!has_older());
	for (unsigned i = 0; i < BUFFERS; i++)
		ck_assert_int_eq(rmem_buffer_free(buffers[i]), 0);
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("inflight", single_verbs, single_close);

	tcase_add_loop_test(tcase, pairs__beyond_the_table_are_counted, 0, 2);
	tcase_add_test(tcase, queue_free__ends_uses_beyond_the_table);
	tcase_add_test(tcase, table_entries__are_reused_by_other_pairs);
	tcase_add_test(tcase, counts__of_all_queues_add_up);
	tcase_add_test(tcase, attachment__is_kept_while_a_call_may_read_it);
	tcase_add_test(tcase, attachment__is_not_kept_for_an_operation);
	tcase_add_test(tcase, attachment__changes_during_operations);
	return unit_main();
}

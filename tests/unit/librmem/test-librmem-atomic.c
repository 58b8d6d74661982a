/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomics of queues over the fake fabric: the choice of the channel, refused operations, and
 * the error when the channel dies. */
#include <errno.h>
#include <string.h>

#include "unit/librmem/librmem-case.h"

static _Alignas(8) unsigned char words[2][64]; /* the segments of `pair` */
static unsigned char *const word_segments[2] = { words[0], words[1] };
static struct rmem_lease *pair;
static const struct rmem_atomic one = { .operand = 1 };
static uint64_t old;

/* The server has answered: these endpoints are on the atomic device of `pair`. */
static void atomic_device_set(unsigned endpoints, const char *text)
{
	pair->atomic_device.endpoints = endpoints;
	(void)strcpy(pair->atomic_device.text, text);
	atomic_store(&pair->atomic_device.state, ATOMIC_DEVICE_KNOWN);
}

/* Replace `pair`. */
static void pair_create(unsigned rights, uint64_t first_bytes)
{
	const uint64_t bytes[2] = { first_bytes, 64 };

	pair = stage_lease(8, rights, 2, word_segments, bytes, keys);
	atomic_device_set(3, "not here");
}

static void words_setup(void)
{
	memset(words, 0, sizeof(words));
	old = 77;
	pair_create(RMEM_READ | RMEM_WRITE, 64);
}

static struct rmem_op atomic_of(enum rmem_opcode opcode, uint64_t offset,
				const struct rmem_atomic *atomic, uint64_t cookie)
{
	struct rmem_op op = op_of(opcode, offset, &old, 8, cookie);

	op.lease = pair;
	op.atomic = atomic;
	return op;
}

static struct rmem_op add_of(uint64_t offset, uint64_t cookie)
{
	return atomic_of(RMEM_OP_FETCH_ADD, offset, &one, cookie);
}

static uint64_t word_at(unsigned segment, unsigned offset)
{
	uint64_t word;

	memcpy(&word, words[segment] + offset, sizeof(word));
	return word;
}

/* On RDMA they use the bounce buffer; the operands need not outlive the call. */
START_TEST(atomics__change_the_word_and_return_the_old_value)
{
	struct rmem_queue *queue = stage_queue(8, 2);
	struct rmem_atomic atomic = { .operand = 5 };

	submit(queue, atomic_of(RMEM_OP_FETCH_ADD, 8, &atomic, 1));
	memset(&atomic, 0xee, sizeof(atomic));
	ck_assert_uint_eq(old, 77);
	complete_and_expect(queue, 1);
	ck_assert_uint_eq(done[0].bytes, 8);
	ck_assert_uint_eq(old, 0);
	ck_assert_uint_eq(word_at(0, 8), 5);

	/* the last word of the second segment */
	atomic = (struct rmem_atomic){ .compare = 0, .operand = 9 };
	submit(queue, atomic_of(RMEM_OP_CAS, 120, &atomic, 2));
	complete_and_expect(queue, 2);
	ck_assert_uint_eq(word_at(1, 56), 9);
	submit(queue, atomic_of(RMEM_OP_CAS, 120, &atomic, 3));
	complete_and_expect(queue, 3);
	ck_assert_uint_eq(old, 9);
	ck_assert_uint_eq(word_at(1, 56), 9);
}
END_TEST

START_TEST(batch__on_one_channel_is_executed_in_order)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	uint64_t in = 40, out = 0;
	struct rmem_op ops[3] = {
		op_of(RMEM_OP_WRITE, 0, &in, 8, 1),
		add_of(0, 2),
		op_of(RMEM_OP_READ, 0, &out, 8, 3),
	};

	ops[0].lease = ops[2].lease = pair;
	ck_assert_int_eq(rmem_submit(queue, ops, 3), 3);
	complete_and_poll(queue, 3);
	ck_assert_uint_eq(old, 40);
	ck_assert_uint_eq(out, 41);
}
END_TEST

START_TEST(invalid_atomic__completes_with_an_error)
{
	static const struct {
		uint64_t offset, bytes;
		const char *text;
	} bad[] = {
		{ 4, 8, "multiple of 8" }, { 0, 4, "of 8 bytes" },
		{ 0, 16, "of 8 bytes" },   { 128, 8, "beyond the lease" },
		{ 16, 8, "two segments" },
	};
	struct rmem_queue *queue = stage_queue(8, 1);

	if (bad[_i].offset == 16)
		pair_create(RMEM_READ | RMEM_WRITE, 20);
	for (unsigned opcode = RMEM_OP_CAS; opcode <= RMEM_OP_FETCH_ADD; opcode++) {
		struct rmem_op op =
			atomic_of((enum rmem_opcode)opcode, bad[_i].offset, &one, 1);

		op.bytes = bad[_i].bytes;
		submit(queue, op);
		expect(queue, 1, -EINVAL);
		ck_assert_msg(
			strstr(rmem_completion_error(queue, NULL), bad[_i].text) &&
				strstr(rmem_completion_error(queue, NULL),
				       opcode == RMEM_OP_CAS ? "compare-and-swap"
							     : "fetch-and-add"),
			"%s", rmem_completion_error(queue, NULL));
	}
	ck_assert_uint_eq(fake.posts, 0);
}
END_TEST

/* The second segment starts at offset 20: an offset that is a multiple of 8 is not aligned in
 * memory. */
START_TEST(atomic__misaligned_at_the_server_completes_with_an_error)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	pair_create(RMEM_READ | RMEM_WRITE, 20);
	submit(queue, add_of(24, 1));
	expect_error(queue, 1, -EINVAL, "not a multiple of 8");
	/* the channel still works */
	submit(queue, add_of(8, 2));
	complete_and_expect(queue, 2);
}
END_TEST

START_TEST(atomic__needs_both_rights)
{
	struct rmem_queue *queue = stage_queue(8, 1);

	pair_create(_i ? RMEM_READ : RMEM_WRITE, 64);
	submit(queue, atomic_of(RMEM_OP_CAS, 0, &one, 1));
	expect(queue, 1, -EACCES);
}
END_TEST

START_TEST(submit__refuses_unsupported_atomics)
{
	struct rmem_queue *queue = stage_queue(8, 2);
	struct rmem_op ops[2] = { op_of(RMEM_OP_READ, 0, local, 8, 1),
				  atomic_of(RMEM_OP_CAS, 0, NULL, 2) };

	ck_assert_int_eq(rmem_submit(queue, &ops[1], 1), -EINVAL);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "operands"));
	ops[1].atomic = &one;
	/* the device of both domains */
	fake.no_atomics[0] = '\0';
	ck_assert_int_eq(rmem_submit(queue, &ops[1], 1), -ENOTSUP);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "has no atomics"));
	/* the operation before it is accepted */
	ck_assert_int_eq(rmem_submit(queue, ops, 2), 1);
	complete_and_expect(queue, 1);
}
END_TEST

START_TEST(atomics__use_only_the_atomic_device)
{
	struct rmem_queue *queue = stage_queue(16, 2);

	pair->atomic_device.endpoints = 1u << _i;
	for (unsigned i = 0; i < 6; i++)
		submit(queue, add_of(0, i));
	ck_assert_uint_eq(stage_channel(queue, (unsigned)_i)->n, 6);
	ck_assert_uint_eq(stage_channel(queue, 1 - (unsigned)_i)->n, 0);
	complete_and_poll(queue, 6);
	ck_assert_uint_eq(word_at(0, 0), 6);
}
END_TEST

START_TEST(atomic__without_a_channel_to_its_device_names_the_device)
{
	struct rmem_queue *queue = stage_queue(8, 1); /* to endpoint 0 */

	atomic_device_set(1u << 1, "the device is fake9");
	submit(queue, add_of(0, 1));
	expect_error(queue, 1, -ENOTSUP, "the device is fake9: ENOTSUP");
	ck_assert_ptr_null(strstr(rmem_completion_error(queue, NULL), "unknown"));
}
END_TEST

START_TEST(atomic__waits_until_its_device_is_known)
{
	struct rmem_queue *queue = stage_queue(8, 2);
	struct rmem_op short_one = add_of(0, 2);

	atomic_store(&pair->atomic_device.state, ATOMIC_DEVICE_UNKNOWN);
	short_one.timeout_ms = 10;
	submit(queue, add_of(0, 1));
	submit(queue, short_one);
	ck_assert_uint_eq(fake.posts, 0);
	/* endpoint 0 */
	ck_assert_uint_eq(atomic_load(&pair->atomic_device.wanted), 1);
	/* it timed out before it was posted: the outcome is known */
	stage_advance_ms(20);
	expect(queue, 2, -ETIMEDOUT);
	ck_assert_ptr_null(strstr(rmem_completion_error(queue, NULL), "unknown"));
	atomic_device_set(3, "");
	queue_wake(queue);
	expect_none(queue);
	complete_and_expect(queue, 1);
	ck_assert_uint_eq(word_at(0, 0), 1);
}
END_TEST

START_TEST(atomic__fails_when_the_server_refuses_a_device)
{
	struct rmem_queue *queue = stage_queue(8, 2);

	atomic_device_set(0, "its devices have no atomics");
	pair->atomic_device.err = -ENOTSUP;
	atomic_store(&pair->atomic_device.state, ATOMIC_DEVICE_REFUSED);
	submit(queue, atomic_of(RMEM_OP_CAS, 0, &one, 1));
	expect_error(queue, 1, -ENOTSUP, "its devices have no atomics");
}
END_TEST

/* It ends while it is on the wire: it is not posted again. */
START_TEST(interrupted_atomic__reports_an_unknown_outcome)
{
	static const int statuses[] = { -ECONNRESET, -ETIMEDOUT, -ETIMEDOUT,
					-ECANCELED };
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = add_of(0, 1);

	op.timeout_ms = 10;
	submit(queue, op);
	if (_i < 2) {
		fake_complete(stage_channel(queue, 0), statuses[_i]);
	} else if (_i == 2) {
		stage_advance_ms(20);
		/* the time-out aborts the channel first */
		expect_none(queue);
	} else {
		ck_assert_int_eq(rmem_cancel(queue, NULL), 1);
	}
	peer_closes(queue, 0);
	expect_error(queue, 1, statuses[_i], "whether it was done is unknown");
	/* nothing is posted on the next connection */
	reconnect(queue);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 0);
	ck_assert_uint_eq(word_at(0, 0), 0);
}
END_TEST

/* The device reports success, but has not stored the number found. */
START_TEST(unanswered_atomic__reports_an_unknown_outcome)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	struct rmem_op op = add_of(0, 1);
	rmem_buffer *buffer = case_buffer(NULL, sizeof(old));

	if (_i) {
		op.buffer = buffer;
		op.addr = rmem_buffer_addr(buffer);
	}
	fake.lose_answers = true;
	for (unsigned i = 0; i < 3; i++) {
		submit(queue, op);
		fake_complete_all();
		expect_error(queue, 1, -ECONNRESET, "whether it was done is unknown");
	}
	ck_assert_uint_eq(word_at(0, 0), 3);
	/* what the program's memory holds is not the number found */
	ck_assert_uint_eq(old, 77);
	fake.lose_answers = false;
	submit(queue, op);
	complete_and_expect(queue, 1);
	ck_assert_uint_eq(*(uint64_t *)op.addr, 3);
	/* the channel stays */
	ck_assert_uint_eq(fake.aborts, 0);
	ck_assert_int_eq(rmem_buffer_free(buffer), 0);
}
END_TEST

/* It was certainly not executed. */
START_TEST(refused_atomic__is_posted_again_with_new_rkeys)
{
	const uint64_t bytes[2] = { 64, 64 }, new_keys[2] = { 21, 22 };
	struct rmem_queue *queue = stage_queue(8, 2);

	pair->atomic_device.endpoints = 1;
	submit(queue, add_of(0, 1));
	complete_quietly(queue, 0, -EACCES);
	stage_rekey(pair, 2, word_segments, bytes, new_keys);
	expect_none(queue);
	ck_assert_uint_eq(stage_channel(queue, 1)->n, 0);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 1);
	ck_assert_uint_eq(stage_channel(queue, 0)->posted[0].rkey, 21);
	complete_and_expect(queue, 1);
	ck_assert_uint_eq(word_at(0, 0), 1);
}
END_TEST

int main(void)
{
	TCase *tcp = tcp_case(words_setup), *verbs = verbs_case(words_setup);

	tcase_add_test(tcp, atomics__change_the_word_and_return_the_old_value);
	tcase_add_test(verbs, atomics__change_the_word_and_return_the_old_value);
	tcase_add_test(tcp, batch__on_one_channel_is_executed_in_order);
	tcase_add_test(verbs, batch__on_one_channel_is_executed_in_order);
	tcase_add_loop_test(tcp, invalid_atomic__completes_with_an_error, 0, 5);
	tcase_add_test(tcp, atomic__misaligned_at_the_server_completes_with_an_error);
	tcase_add_loop_test(tcp, atomic__needs_both_rights, 0, 2);
	tcase_add_test(tcp, submit__refuses_unsupported_atomics);
	tcase_add_loop_test(tcp, atomics__use_only_the_atomic_device, 0, 2);
	tcase_add_test(tcp, atomic__without_a_channel_to_its_device_names_the_device);
	tcase_add_test(tcp, atomic__waits_until_its_device_is_known);
	tcase_add_test(tcp, atomic__fails_when_the_server_refuses_a_device);
	tcase_add_loop_test(tcp, interrupted_atomic__reports_an_unknown_outcome, 0, 4);
	tcase_add_loop_test(verbs, interrupted_atomic__reports_an_unknown_outcome, 0,
			    4);
	tcase_add_loop_test(verbs, unanswered_atomic__reports_an_unknown_outcome, 0, 2);
	tcase_add_test(tcp, refused_atomic__is_posted_again_with_new_rkeys);
	return unit_main();
}

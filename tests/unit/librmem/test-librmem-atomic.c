/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomics of queues over a scripted fabric: where they go, what is refused here, and what is
 * said when a channel dies under one. */
#include <errno.h>
#include <string.h>

#include "unit/librmem/librmem-case.h"

static _Alignas(8) unsigned char words[2][64]; /* the segments of `pair` */
static struct rmem_lease *pair;
static uint64_t old;

/* What the server has answered: atomics go through these endpoints. */
static void atomic_device_at(struct rmem_lease *of, unsigned endpoints,
			     const char *text)
{
	of->atomic_device.endpoints = endpoints;
	(void)strcpy(of->atomic_device.text, text);
	atomic_store(&of->atomic_device.state, HOME_KNOWN);
}

static struct rmem_lease *pair_new(unsigned rights, uint64_t first_bytes)
{
	static unsigned char *const at[2] = { words[0], words[1] };
	const uint64_t bytes[2] = { first_bytes, 64 };

	return stage_lease(8, rights, 2, at, bytes, keys);
}

static void pair_tcp(void)
{
	case_tcp();
	memset(words, 0, sizeof(words));
	old = 77;
	pair = pair_new(RMEM_READ | RMEM_WRITE, 64);
	atomic_device_at(pair, 3, "not here");
}

static void pair_verbs(void)
{
	case_verbs();
	memset(words, 0, sizeof(words));
	old = 77;
	pair = pair_new(RMEM_READ | RMEM_WRITE, 64);
	atomic_device_at(pair, 3, "not here");
}

static struct rmem_op atomic_of(enum rmem_opcode opcode, uint64_t offset,
				const struct rmem_atomic *atomic, uint64_t cookie)
{
	struct rmem_op op = op_of(opcode, offset, &old, 8, cookie);

	op.lease = pair;
	op.atomic = atomic;
	return op;
}

static uint64_t word_at(unsigned segment, unsigned offset)
{
	uint64_t word;

	memcpy(&word, words[segment] + offset, sizeof(word));
	return word;
}

/* Through a bounce buffer on RDMA; the operands need not outlive the call. */
START_TEST(atomics__change_the_word_and_bring_the_old_value)
{
	struct rmem_queue *queue = stage_queue(8, 2);
	struct rmem_atomic atomic = { .operand = 5 };

	submit(queue, atomic_of(RMEM_OP_FETCH_ADD, 8, &atomic, 1));
	memset(&atomic, 0xee, sizeof(atomic));
	ck_assert_uint_eq(old, 77);
	fake_complete_all();
	expect(queue, 1, 0);
	ck_assert_uint_eq(done[0].bytes, 8);
	ck_assert_uint_eq(old, 0);
	ck_assert_uint_eq(word_at(0, 8), 5);

	/* the last word of the second segment */
	atomic = (struct rmem_atomic){ .compare = 0, .operand = 9 };
	submit(queue, atomic_of(RMEM_OP_CAS, 120, &atomic, 2));
	fake_complete_all();
	expect(queue, 2, 0);
	ck_assert_uint_eq(word_at(1, 56), 9);
	submit(queue, atomic_of(RMEM_OP_CAS, 120, &atomic, 3));
	fake_complete_all();
	expect(queue, 3, 0);
	ck_assert_uint_eq(old, 9);
	ck_assert_uint_eq(word_at(1, 56), 9);
	stage_close();
}
END_TEST

START_TEST(batch__of_everything_is_done_in_its_order_on_one_channel)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	const struct rmem_atomic one = { .operand = 1 };
	uint64_t in = 40, out = 0;
	struct rmem_op ops[3] = {
		op_of(RMEM_OP_WRITE, 0, &in, 8, 1),
		atomic_of(RMEM_OP_FETCH_ADD, 0, &one, 2),
		op_of(RMEM_OP_READ, 0, &out, 8, 3),
	};

	ops[0].lease = ops[2].lease = pair;
	ck_assert_int_eq(rmem_submit(queue, ops, 3), 3);
	fake_complete_all();
	ck_assert_int_eq(rmem_poll(queue, done, 64), 3);
	ck_assert_uint_eq(old, 40);
	ck_assert_uint_eq(out, 41);
	stage_close();
}
END_TEST

START_TEST(atomic__at_fault_completes_with_its_error)
{
	static const struct {
		uint64_t offset, bytes;
		const char *text;
	} bad[] = {
		{ 4, 8, "multiple of 8" }, { 0, 4, "of 8 bytes" },
		{ 0, 16, "of 8 bytes" },   { 128, 8, "beyond the lease" },
		{ 16, 8, "two segments" },
	};
	const struct rmem_atomic one = { .operand = 1 };
	struct rmem_queue *queue = stage_queue(8, 1);

	if (bad[_i].offset == 16)
		pair = pair_new(RMEM_READ | RMEM_WRITE, 20);
	atomic_device_at(pair, 3, "");
	for (unsigned opcode = RMEM_OP_CAS; opcode <= RMEM_OP_FETCH_ADD; opcode++) {
		struct rmem_op op =
			atomic_of((enum rmem_opcode)opcode, bad[_i].offset, &one, 1);

		op.bytes = bad[_i].bytes;
		submit(queue, op);
		expect(queue, 1, -EINVAL);
		ck_assert_msg(strstr(rmem_completion_error(queue), bad[_i].text) &&
				      strstr(rmem_completion_error(queue),
					     opcode == RMEM_OP_CAS ? "compare-and-swap"
								   : "fetch-and-add"),
			      "%s", rmem_completion_error(queue));
	}
	ck_assert_uint_eq(fake.posts, 0);
	stage_close();
}
END_TEST

/* The second segment lies at a multiple of 4 in the lease: its words are aligned in the
 * lease and not in memory. */
START_TEST(atomic__not_aligned_at_the_server_completes_with_its_error)
{
	const struct rmem_atomic one = { .operand = 1 };
	struct rmem_queue *queue = stage_queue(8, 1);

	pair = pair_new(RMEM_READ | RMEM_WRITE, 20);
	atomic_device_at(pair, 3, "");
	submit(queue, atomic_of(RMEM_OP_FETCH_ADD, 24, &one, 1));
	expect(queue, 1, -EINVAL);
	ck_assert_ptr_nonnull(
		strstr(rmem_completion_error(queue), "not a multiple of 8"));
	/* the channel is as good as before */
	submit(queue, atomic_of(RMEM_OP_FETCH_ADD, 8, &one, 2));
	fake_complete_all();
	expect(queue, 2, 0);
	stage_close();
}
END_TEST

START_TEST(atomic__needs_both_rights)
{
	const struct rmem_atomic one = { .operand = 1 };
	struct rmem_queue *queue = stage_queue(8, 1);

	pair = pair_new(_i ? RMEM_READ : RMEM_WRITE, 64);
	atomic_device_at(pair, 3, "");
	submit(queue, atomic_of(RMEM_OP_CAS, 0, &one, 1));
	expect(queue, 1, -EACCES);
	stage_close();
}
END_TEST

START_TEST(submit__refuses_what_no_device_can_do)
{
	const struct rmem_atomic one = { .operand = 1 };
	struct rmem_queue *queue = stage_queue(8, 2);
	struct rmem_op ops[2] = { op_of(RMEM_OP_READ, 0, local, 8, 1),
				  atomic_of(RMEM_OP_CAS, 0, NULL, 2) };

	ck_assert_int_eq(rmem_submit(queue, &ops[1], 1), -EINVAL);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "operands"));
	ops[1].atomic = &one;
	/* both domains are on this one */
	fake.no_atomics[0] = '\0';
	ck_assert_int_eq(rmem_submit(queue, &ops[1], 1), -ENOTSUP);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "has no atomics"));
	/* what comes before it is taken */
	ck_assert_int_eq(rmem_submit(queue, ops, 2), 1);
	fake_complete_all();
	expect(queue, 1, 0);
	stage_close();
}
END_TEST

START_TEST(atomics__go_to_their_home_alone)
{
	struct rmem_queue *queue = stage_queue(16, 2);
	const struct rmem_atomic one = { .operand = 1 };

	pair->atomic_device.endpoints = 1u << _i;
	for (unsigned i = 0; i < 6; i++)
		submit(queue, atomic_of(RMEM_OP_FETCH_ADD, 0, &one, i));
	ck_assert_uint_eq(stage_channel(queue, (unsigned)_i)->n, 6);
	ck_assert_uint_eq(stage_channel(queue, 1 - (unsigned)_i)->n, 0);
	fake_complete_all();
	ck_assert_int_eq(rmem_poll(queue, done, 64), 6);
	ck_assert_uint_eq(word_at(0, 0), 6);
	stage_close();
}
END_TEST

START_TEST(atomic__whose_home_is_elsewhere_is_told_where)
{
	struct rmem_queue *queue = stage_queue(8, 1); /* to endpoint 0 */
	const struct rmem_atomic one = { .operand = 1 };

	atomic_device_at(pair, 1u << 1, "the home is fake9");
	submit(queue, atomic_of(RMEM_OP_FETCH_ADD, 0, &one, 1));
	expect(queue, 1, -ENOTSUP);
	ck_assert_ptr_nonnull(
		strstr(rmem_completion_error(queue), "the home is fake9: ENOTSUP"));
	ck_assert_ptr_null(strstr(rmem_completion_error(queue), "unknown"));
	stage_close();
}
END_TEST

START_TEST(atomic__waits_until_its_home_is_known)
{
	struct rmem_queue *queue = stage_queue(8, 2);
	const struct rmem_atomic one = { .operand = 1 };
	struct rmem_op short_one = atomic_of(RMEM_OP_FETCH_ADD, 0, &one, 2);

	atomic_store(&pair->atomic_device.state, HOME_UNKNOWN);
	short_one.timeout_ms = 10;
	submit(queue, atomic_of(RMEM_OP_FETCH_ADD, 0, &one, 1));
	submit(queue, short_one);
	ck_assert_uint_eq(fake.posts, 0);
	/* endpoint 0, and asked for once */
	ck_assert_uint_eq(atomic_load(&pair->atomic_device.wanted), 1);
	/* its time is over before it was posted: it was certainly not done */
	stage_advance_ms(20);
	expect(queue, 2, -ETIMEDOUT);
	ck_assert_ptr_null(strstr(rmem_completion_error(queue), "unknown"));
	atomic_device_at(pair, 3, "");
	queue_wake(queue);
	expect_none(queue);
	fake_complete_all();
	expect(queue, 1, 0);
	ck_assert_uint_eq(word_at(0, 0), 1);
	stage_close();
}
END_TEST

START_TEST(atomic__that_the_server_refuses_a_home)
{
	struct rmem_queue *queue = stage_queue(8, 2);
	const struct rmem_atomic one = { .operand = 1 };

	atomic_device_at(pair, 0, "no device of its has any");
	pair->atomic_device.err = -ENOTSUP;
	atomic_store(&pair->atomic_device.state, HOME_REFUSED);
	submit(queue, atomic_of(RMEM_OP_CAS, 0, &one, 1));
	expect(queue, 1, -ENOTSUP);
	ck_assert_ptr_nonnull(
		strstr(rmem_completion_error(queue), "no device of its has any"));
	stage_close();
}
END_TEST

/* The channel dies while it is on the wire: never posted again, and told so. */
START_TEST(atomic__cut_off_is_of_unknown_outcome)
{
	struct rmem_queue *queue = stage_queue(8, 1);
	const struct rmem_atomic one = { .operand = 1 };
	struct rmem_op op = atomic_of(RMEM_OP_FETCH_ADD, 0, &one, 1);

	op.timeout_ms = 10;
	submit(queue, op);
	if (_i == 0)
		fake_complete(stage_channel(queue, 0), -ECONNRESET);
	else if (_i == 1)
		fake_complete(stage_channel(queue, 0), -ETIMEDOUT);
	else if (_i == 2)
		stage_advance_ms(20);
	else
		ck_assert_int_eq(rmem_cancel(queue, NULL), 1);
	/* the channel gives it back after the verdict */
	if (_i == 2)
		expect_none(queue);
	ck_assert_int_eq(rmem_poll(queue, done, 64), 1);
	ck_assert_int_eq(done[0].status, _i == 0   ? -ECONNRESET
					 : _i == 3 ? -ECANCELED
						   : -ETIMEDOUT);
	ck_assert_msg(
		strstr(rmem_completion_error(queue), "whether it was done is unknown"),
		"%s", rmem_completion_error(queue));
	/* another channel comes: nothing is posted on it */
	ck_assert_uint_eq(stage_reconnect(queue), 1);
	expect_none(queue);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 0);
	ck_assert_uint_eq(word_at(0, 0), 0);
	stage_close();
}
END_TEST

/* What was certainly not done goes with other keys, or to another channel. */
START_TEST(atomic__not_done_goes_again)
{
	static unsigned char *const at[2] = { words[0], words[1] };
	const uint64_t bytes[2] = { 64, 64 }, others[2] = { 21, 22 };
	struct rmem_queue *queue = stage_queue(8, 2);
	const struct rmem_atomic one = { .operand = 1 };

	pair->atomic_device.endpoints = 1;
	submit(queue, atomic_of(RMEM_OP_FETCH_ADD, 0, &one, 1));
	fake_complete(stage_channel(queue, 0), -EACCES);
	expect_none(queue);
	stage_rekey(pair, 2, at, bytes, others);
	expect_none(queue);
	ck_assert_uint_eq(stage_channel(queue, 1)->n, 0);
	ck_assert_uint_eq(stage_channel(queue, 0)->n, 1);
	ck_assert_uint_eq(stage_channel(queue, 0)->posted[0].rkey, 21);
	fake_complete_all();
	expect(queue, 1, 0);
	ck_assert_uint_eq(word_at(0, 0), 1);
	stage_close();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("librmem-atomic");
	TCase *tcp = tcase_create("tcp"), *verbs = tcase_create("verbs");

	tcase_set_timeout(tcp, 60);
	tcase_set_timeout(verbs, 60);
	tcase_add_checked_fixture(tcp, pair_tcp, NULL);
	tcase_add_checked_fixture(verbs, pair_verbs, NULL);
	tcase_add_test(tcp, atomics__change_the_word_and_bring_the_old_value);
	tcase_add_test(verbs, atomics__change_the_word_and_bring_the_old_value);
	tcase_add_test(tcp, batch__of_everything_is_done_in_its_order_on_one_channel);
	tcase_add_test(verbs, batch__of_everything_is_done_in_its_order_on_one_channel);
	tcase_add_loop_test(tcp, atomic__at_fault_completes_with_its_error, 0, 5);
	tcase_add_test(tcp, atomic__not_aligned_at_the_server_completes_with_its_error);
	tcase_add_loop_test(tcp, atomic__needs_both_rights, 0, 2);
	tcase_add_test(tcp, submit__refuses_what_no_device_can_do);
	tcase_add_loop_test(tcp, atomics__go_to_their_home_alone, 0, 2);
	tcase_add_test(tcp, atomic__whose_home_is_elsewhere_is_told_where);
	tcase_add_test(tcp, atomic__waits_until_its_home_is_known);
	tcase_add_test(tcp, atomic__that_the_server_refuses_a_home);
	tcase_add_loop_test(tcp, atomic__cut_off_is_of_unknown_outcome, 0, 4);
	tcase_add_loop_test(verbs, atomic__cut_off_is_of_unknown_outcome, 0, 4);
	tcase_add_test(tcp, atomic__not_done_goes_again);
	suite_add_tcase(suite, tcp);
	suite_add_tcase(suite, verbs);
	return unit_main(suite);
}

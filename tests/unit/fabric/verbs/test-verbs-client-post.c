/* SPDX-License-Identifier: BSD-3-Clause */
/* What a client posts, and what it is told of it. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "unit/unit.h"
#include "unit/fabric/verbs/verbs-client-stage.h"

/* ---- operations ---- */

START_TEST(post__is_one_doorbell_and_few_entries)
{
	struct fake_send sends[FAKE_SENDS];

	setup();
	ck_assert_int_eq(post(FABRIC_READ, 0, 2 * DEPTH), DEPTH);
	ck_assert_int_eq(post(FABRIC_READ, 0, 1), 0);
	ck_assert_uint_eq(fake_posts(), 1);
	ck_assert_uint_eq(fake_sends(sends), DEPTH);
	for (unsigned i = 0; i < DEPTH; i++) {
		ck_assert_int_eq(sends[i].opcode, IBV_WR_RDMA_READ);
		ck_assert_uint_eq(sends[i].remote_addr, 0x1000 + i);
		ck_assert_uint_eq(sends[i].bytes, 100);
		ck_assert_int_eq((sends[i].flags & IBV_SEND_SIGNALED) != 0,
				 i == 31 || i == DEPTH - 1);
	}
	fake_complete(31);
	expect_nothing();
	fake_complete(1);
	expect(0, 32, 0);
	expect_nothing();
	ck_assert_int_eq(post(FABRIC_READ, DEPTH, DEPTH), 32);
	fake_complete(DEPTH);
	expect(32, DEPTH, 0);
	expect_nothing();
	teardown();
}
END_TEST

START_TEST(post__carries_small_writes_inline_where_it_can)
{
	struct fake_send sends[FAKE_SENDS];
	struct wr wrs[3];

	fake.max_inline = _i ? 64 : 0;
	setup();
	wrs[0] = wr_make(FABRIC_WRITE, 0, 64);
	wrs[1] = wr_make(FABRIC_WRITE, 1, 65);
	wrs[2] = wr_make(FABRIC_READ, 2, 8);
	ck_assert_int_eq(wr_post(CLIENT, channel, wrs, 3), 3);
	ck_assert_uint_eq(fake_sends(sends), 3);
	ck_assert_int_eq((sends[0].flags & IBV_SEND_INLINE) != 0, _i);
	ck_assert_uint_eq(sends[1].flags & IBV_SEND_INLINE, 0);
	ck_assert_uint_eq(sends[2].flags & IBV_SEND_INLINE, 0);
	teardown();
}
END_TEST

/* It lies between batches in the ring, again and again at its end, too. */
START_TEST(post__of_one_goes_with_batches)
{
	struct fake_send sends[FAKE_SENDS];
	unsigned posts = 0;

	fake.max_inline = 64;
	setup();
	for (unsigned round = 0; round < 3 * DEPTH; round++) {
		struct wr wr = wr_make(round % 2 ? FABRIC_WRITE : FABRIC_READ, 0, 64);

		ck_assert_int_eq(post(FABRIC_READ, 0, 2), 2);
		wr.cookie = 2;
		ck_assert_int_eq(wr_post(CLIENT, channel, &wr, 1), 1);
		ck_assert_int_eq(post(FABRIC_WRITE, 3, 4), 4);
		posts += 3;
		ck_assert_uint_eq(fake_posts(), posts);
		ck_assert_uint_eq(fake_sends(sends), 7);
		for (unsigned i = 0; i < 7; i++)
			ck_assert_int_eq((sends[i].flags & IBV_SEND_SIGNALED) != 0,
					 i == 1 || i == 2 || i == 6);
		ck_assert_int_eq(sends[2].opcode,
				 round % 2 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ);
		ck_assert_int_eq((sends[2].flags & IBV_SEND_INLINE) != 0, round % 2);
		ck_assert_uint_eq(sends[2].bytes, 64);
		fake_complete(3);
		expect(0, 3, 0);
		fake_complete(4);
		expect(3, 4, 0);
		expect_nothing();
	}
	teardown();
}
END_TEST

START_TEST(post__of_one_takes_a_credit)
{
	fake.iwarp = _i;
	setup();
	for (unsigned i = 0; i < DEPTH; i++)
		ck_assert_int_eq(post(FABRIC_READ, i, 1), 1);
	ck_assert_int_eq(post(FABRIC_READ, 0, 1), 0);
	ck_assert_uint_eq(fake_posts(), DEPTH);
	fake_complete(3);
	expect(0, 3, 0);
	ck_assert_int_eq(post(FABRIC_READ, DEPTH, 2), 2);
	ck_assert_int_eq(post(FABRIC_READ, DEPTH + 2, 1), 1);
	ck_assert_int_eq(post(FABRIC_READ, 0, 1), 0);
	fake_complete(DEPTH);
	expect(3, DEPTH, 0);
	expect_nothing();
	teardown();
}
END_TEST

START_TEST(post__of_one_that_is_refused_kills_the_channel)
{
	fake.iwarp = _i;
	setup();
	ck_assert_int_eq(post(FABRIC_READ, 0, 3), 3);
	fake_post_limit(0);
	ck_assert_int_eq(post(FABRIC_WRITE, 3, 1), -ECONNRESET);
	ck_assert(!CLIENT->alive(channel));
	ck_assert_int_eq(post(FABRIC_WRITE, 3, 1), -ECONNRESET);
	/* it is forgotten */
	expect(0, 3, -ECONNRESET);
	expect_nothing();
	teardown();
}
END_TEST

START_TEST(post__of_one_that_fails_may_be_done)
{
	fake.iwarp = _i;
	setup();
	fake_post_nameless();
	ck_assert_int_eq(post(FABRIC_WRITE, 0, 1), 1);
	expect(0, 1, -ECONNRESET);
	expect_nothing();
	ck_assert_int_eq(post(FABRIC_WRITE, 0, 1), -ECONNRESET);
	teardown();
}
END_TEST

/* ---- several slices ---- */

START_TEST(slices__keep_to_the_device)
{
	fake.iwarp = _i;
	setup_cq();
	ck_assert_uint_eq(CLIENT->sge_max(domain, FABRIC_WRITE), 8);
	ck_assert_uint_eq(CLIENT->sge_max(domain, FABRIC_READ), _i ? 1 : 3);
	teardown_cq();
}
END_TEST

START_TEST(slices__are_of_one_request_only)
{
	const struct fabric_sge slices[3] = { { memory, 10, NULL },
					      { memory + 50, 20, NULL },
					      { memory + 100, 30, NULL } };
	struct fabric_sge with_region[3];
	struct fake_send sends[FAKE_SENDS];
	struct wr wrs[3];

	setup();
	for (unsigned i = 0; i < 3; i++) {
		with_region[i] = slices[i];
		with_region[i].region = region;
	}
	wrs[0] = wr_make(FABRIC_WRITE, 0, 60);
	wrs[1] = wr_make(FABRIC_READ, 1, 60);
	wrs[2] = wr_make(FABRIC_WRITE, 2, 8);
	wrs[0].slices = wrs[1].slices = with_region;
	wrs[0].n_slices = 3;
	wrs[1].n_slices = 2;
	/* each place in the ring gets all kinds, in turn; some batches are refused */
	for (unsigned round = 0; round < 2 * DEPTH; round++) {
		ck_assert_int_eq(wr_post(CLIENT, channel, wrs, 3), 3);
		ck_assert_uint_eq(fake_sends(sends), 3);
		ck_assert_int_eq(sends[0].opcode, IBV_WR_RDMA_WRITE);
		ck_assert_int_eq(sends[0].slices, 3);
		ck_assert_uint_eq(sends[0].flags & IBV_SEND_INLINE, 0);
		ck_assert_int_eq(sends[1].opcode, IBV_WR_RDMA_READ);
		ck_assert_int_eq(sends[1].slices, 2);
		ck_assert_int_eq(sends[2].slices, 1);
		ck_assert_uint_eq(sends[2].bytes, 8);
		fake_complete(3);
		expect(0, 3, 0);
	}
	teardown();
}
END_TEST

/* ---- atomics ---- */

START_TEST(atomics__need_both_devices)
{
	struct fabric_endpoint able = endpoint;

	able.flags = _i == 0 ? 0 : FABRIC_ENDPOINT_ATOMICS;
	fake.atomics = _i == 1 ? IBV_ATOMIC_NONE : IBV_ATOMIC_HCA;
	fake.iwarp = _i == 2;
	ck_assert_int_eq(CLIENT->domain_open(&able, NULL, 10000, &domain), 0);
	ck_assert_int_eq(CLIENT->domain_supports(domain, FABRIC_CAN_ATOMICS),
			 _i == 3 ? 0 : -ENOTSUP);
	if (_i < 3)
		ck_assert_msg(strstr(err_text(), _i == 0 ? "theirs0" : "fake0") &&
				      strstr(err_text(), "atomic_cap"),
			      "%s", err_text());
	ck_assert_int_eq(CLIENT->domain_supports(domain, (enum fabric_capability)99),
			 -ENOTSUP);
	CLIENT->domain_close(domain);
	ck_assert_uint_eq(fake_live(), 0);
}
END_TEST

static struct wr atomic_make(enum fabric_opcode opcode, uint64_t cookie)
{
	struct wr wr = wr_make(opcode, cookie, 8);

	wr.remote_addr = 0x1000 + 8 * cookie;
	wr.atomic = (struct fabric_atomic){ .compare = 100 + cookie,
					    .operand = 200 + cookie };
	return wr;
}

static void setup_atomics(void)
{
	endpoint.flags = FABRIC_ENDPOINT_ATOMICS;
	fake.atomics = IBV_ATOMIC_HCA;
	setup();
}

START_TEST(atomics__go_with_the_others_in_one_batch)
{
	struct fake_send sends[FAKE_SENDS];
	struct wr wrs[4];

	setup_atomics();
	wrs[0] = wr_make(FABRIC_WRITE, 0, 64);
	wrs[1] = atomic_make(FABRIC_CAS, 1);
	wrs[2] = atomic_make(FABRIC_FETCH_ADD, 2);
	wrs[3] = wr_make(FABRIC_READ, 3, 8);
	/* twice, so that each place in the ring is used for all kinds */
	for (unsigned round = 0; round < DEPTH; round++) {
		unsigned before = fake_posts();

		ck_assert_int_eq(wr_post(CLIENT, channel, wrs, 4), 4);
		ck_assert_uint_eq(fake_posts(), before + 1);
		ck_assert_uint_eq(fake_sends(sends), 4);
		ck_assert_int_eq(sends[0].opcode, IBV_WR_RDMA_WRITE);
		ck_assert_int_eq(sends[1].opcode, IBV_WR_ATOMIC_CMP_AND_SWP);
		ck_assert_int_eq(sends[2].opcode, IBV_WR_ATOMIC_FETCH_AND_ADD);
		ck_assert_int_eq(sends[3].opcode, IBV_WR_RDMA_READ);
		ck_assert_uint_eq(sends[1].compare_add, 101);
		ck_assert_uint_eq(sends[1].swap, 201);
		ck_assert_uint_eq(sends[2].compare_add, 202);
		for (unsigned i = 1; i < 3; i++) {
			ck_assert_uint_eq(sends[i].bytes, 8);
			ck_assert_uint_eq(sends[i].remote_addr, 0x1000 + 8 * i);
			ck_assert_uint_eq(sends[i].flags & IBV_SEND_INLINE, 0);
		}
		fake_complete(4);
		expect(0, 4, 0);
	}
	teardown();
}
END_TEST

START_TEST(atomics__take_credits_and_need_alignment)
{
	struct wr wrs[DEPTH + 1], odd = atomic_make(FABRIC_CAS, 0);

	setup_atomics();
	odd.remote_addr += 4;
	ck_assert_int_eq(wr_post(CLIENT, channel, &odd, 1), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err_text(), "not a multiple of 8"));
	for (unsigned i = 0; i <= DEPTH; i++)
		wrs[i] = atomic_make(FABRIC_FETCH_ADD, i);
	ck_assert_int_eq(wr_post(CLIENT, channel, wrs, DEPTH + 1), DEPTH);
	fake_complete(DEPTH);
	expect(0, DEPTH, 0);
	teardown();
}
END_TEST

START_TEST(atomics__are_refused_where_there_are_none)
{
	struct wr wr = atomic_make(FABRIC_CAS, 0);

	fake.iwarp = _i;
	setup();
	ck_assert_int_eq(wr_post(CLIENT, channel, &wr, 1), -ENOTSUP);
	ck_assert_ptr_nonnull(strstr(err_text(), "RDMA device fake0 has no atomics"));
	expect_nothing();
	teardown();
}
END_TEST

static const struct {
	enum ibv_wc_status status;
	int err;
} statuses[] = {
	{ IBV_WC_REM_ACCESS_ERR, -EACCES }, { IBV_WC_REM_INV_REQ_ERR, -EACCES },
	{ IBV_WC_REM_OP_ERR, -EACCES },     { IBV_WC_RETRY_EXC_ERR, -ETIMEDOUT },
	{ IBV_WC_LOC_PROT_ERR, -EFAULT },   { IBV_WC_LOC_QP_OP_ERR, -ECONNRESET },
	{ IBV_WC_LOC_LEN_ERR, -EFAULT },    { IBV_WC_GENERAL_ERR, -EIO },
	{ IBV_WC_RNR_RETRY_EXC_ERR, -EIO },
};

START_TEST(poll__tells_what_failed_and_what_is_in_doubt)
{
	struct wc wcs[8];

	setup();
	ck_assert_int_eq(post(FABRIC_WRITE, 0, 5), 5);
	fake_complete(2); /* asks for no entry */
	fake_fail(statuses[_i].status);
	ck_assert_int_eq(wr_poll(CLIENT, cq, wcs, 8), 5);
	for (unsigned i = 0; i < 5; i++) {
		ck_assert_uint_eq(wcs[i].cookie, i);
		ck_assert_int_eq(wcs[i].status, i < 2   ? 0
						: i > 2 ? -ECONNRESET
							: statuses[_i].err);
	}
	ck_assert_uint_eq(wcs[2].vendor, 5);
	ck_assert_str_eq(wcs[2].text, "failed");
	expect_nothing();
	ck_assert_int_eq(post(FABRIC_WRITE, 9, 1), -ECONNRESET);
	ck_assert(!CLIENT->alive(channel));
	teardown();
}
END_TEST

/* More entries than are read at a time. */
START_TEST(poll__reads_on)
{
	struct fabric_wc wcs[2 * DEPTH];

	setup();
	for (unsigned i = 0; i < DEPTH; i++)
		ck_assert_int_eq(post(FABRIC_READ, i, 1), 1);
	ck_assert_int_eq(CLIENT->poll(cq, wcs, COUNT(wcs)), 0);
	fake_complete(DEPTH);
	ck_assert_int_eq(CLIENT->poll(cq, wcs, COUNT(wcs)), DEPTH);
	for (unsigned i = 0; i < DEPTH; i++)
		ck_assert_uint_eq(wcs[i].n, 1);
	ck_assert_int_eq(CLIENT->poll(cq, wcs, COUNT(wcs)), 0);
	/* one that fails, read alone */
	ck_assert_int_eq(post(FABRIC_READ, 0, 1), 1);
	fake_fail(IBV_WC_REM_ACCESS_ERR);
	ck_assert_int_eq(CLIENT->poll(cq, wcs, COUNT(wcs)), 1);
	ck_assert_int_eq(wcs[0].status, -EACCES);
	teardown();
}
END_TEST

START_TEST(abort__completes_everything_once)
{
	fake.iwarp = _i;
	setup();
	ck_assert_int_eq(post(FABRIC_WRITE, 0, 30), 30);
	fake_complete(3);
	CLIENT->abort(channel);
	expect(0, 30, -ECONNRESET);
	expect_nothing();
	ck_assert_int_eq(post(FABRIC_WRITE, 0, 1), -ECONNRESET);
	CLIENT->abort(channel);
	expect_nothing();
	teardown();
}
END_TEST

START_TEST(post__that_the_device_cuts_short_kills_the_channel)
{
	fake.iwarp = _i;
	setup();
	fake_post_limit(3);
	ck_assert_int_eq(post(FABRIC_WRITE, 0, 10), 3);
	expect(0, 3, -ECONNRESET);
	expect_nothing();
	CLIENT->channel_free(channel);
	ck_assert_int_eq(connect_one(DEPTH, &channel), 0);
	fake_post_limit(0);
	ck_assert_int_eq(post(FABRIC_WRITE, 0, 10), -ECONNRESET);
	expect_nothing();
	teardown();
}
END_TEST

/* It may still do what it was given: that must not be done elsewhere yet. */
START_TEST(post__that_fails_with_all_taken_leaves_none)
{
	fake.iwarp = _i;
	setup();
	ck_assert_int_eq(post(FABRIC_READ, 0, 5), 5);
	fake_complete(5);
	expect(0, 5, 0);
	fake_post_nameless();
	ck_assert_int_eq(post(FABRIC_READ, 5, 10), 10);
	expect(5, 10, -ECONNRESET);
	expect_nothing();
	ck_assert_int_eq(post(FABRIC_READ, 0, 1), -ECONNRESET);
	teardown();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("verbs-client-post");
	TCase *tcase = tcase_create("client");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, post__is_one_doorbell_and_few_entries);
	tcase_add_loop_test(tcase, post__carries_small_writes_inline_where_it_can, 0,
			    2);
	tcase_add_test(tcase, post__of_one_goes_with_batches);
	tcase_add_loop_test(tcase, post__of_one_takes_a_credit, 0, 2);
	tcase_add_loop_test(tcase, post__of_one_that_is_refused_kills_the_channel, 0,
			    2);
	tcase_add_loop_test(tcase, post__of_one_that_fails_may_be_done, 0, 2);
	tcase_add_loop_test(tcase, slices__keep_to_the_device, 0, 2);
	tcase_add_test(tcase, slices__are_of_one_request_only);
	tcase_add_loop_test(tcase, atomics__need_both_devices, 0, 4);
	tcase_add_test(tcase, atomics__go_with_the_others_in_one_batch);
	tcase_add_test(tcase, atomics__take_credits_and_need_alignment);
	tcase_add_loop_test(tcase, atomics__are_refused_where_there_are_none, 0, 2);
	tcase_add_loop_test(tcase, poll__tells_what_failed_and_what_is_in_doubt, 0,
			    COUNT(statuses));
	tcase_add_test(tcase, poll__reads_on);
	tcase_add_loop_test(tcase, abort__completes_everything_once, 0, 2);
	tcase_add_loop_test(tcase, post__that_fails_with_all_taken_leaves_none, 0, 2);
	tcase_add_loop_test(tcase, post__that_the_device_cuts_short_kills_the_channel,
			    0, 2);
	suite_add_tcase(suite, tcase);
	return unit_main(suite);
}

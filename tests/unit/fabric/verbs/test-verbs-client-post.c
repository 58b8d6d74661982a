/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations that the verbs client posts, and their completions. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "unit/unit.h"
#include "unit/fabric/verbs/verbs-client-stage.h"

/* ---- operations ---- */

START_TEST(post__is_one_doorbell_and_few_completions)
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
	fake_complete_sends(31);
	expect_nothing();
	fake_complete_sends(1);
	expect_only(0, 32, 0);
	ck_assert_int_eq(post(FABRIC_READ, DEPTH, DEPTH), 32);
	fake_complete_sends(DEPTH);
	expect_only(32, DEPTH, 0);
}
END_TEST

START_TEST(post__sends_small_writes_inline)
{
	struct fake_send sends[FAKE_SENDS];
	struct wr wrs[3];

	verbs_fake.max_inline = _i ? 64 : 0;
	setup();
	wrs[0] = wr_make(FABRIC_WRITE, 0, 64);
	wrs[1] = wr_make(FABRIC_WRITE, 1, 65);
	wrs[2] = wr_make(FABRIC_READ, 2, 8);
	ck_assert_int_eq(wr_post(CLIENT, channel, wrs, 3), 3);
	ck_assert_uint_eq(fake_sends(sends), 3);
	ck_assert_int_eq((sends[0].flags & IBV_SEND_INLINE) != 0, _i);
	ck_assert_uint_eq(sends[1].flags & IBV_SEND_INLINE, 0);
	ck_assert_uint_eq(sends[2].flags & IBV_SEND_INLINE, 0);
}
END_TEST

/* The CPU reads inline data. */
START_TEST(post__sends_nothing_of_a_dmabuf_inline)
{
	struct fake_send sends[FAKE_SENDS];
	struct fabric_local_mr *dmabuf;
	struct wr wrs[2];

	verbs_fake.max_inline = 64;
	setup();
	ck_assert_int_eq(
		CLIENT->reg_dmabuf_mr(domain, 77, 0, memory, sizeof(memory), &dmabuf),
		0);
	wrs[0] = wr_make(FABRIC_WRITE, 0, 8);
	wrs[0].region = dmabuf;
	wrs[1] = wr_make(FABRIC_WRITE, 1, 8);
	ck_assert_int_eq(wr_post(CLIENT, channel, wrs, 2), 2);
	ck_assert_uint_eq(fake_sends(sends), 2);
	ck_assert_uint_eq(sends[0].flags & IBV_SEND_INLINE, 0);
	ck_assert_uint_ne(sends[1].flags & IBV_SEND_INLINE, 0);
	fake_complete_sends(2);
	expect_only(0, 2, 0);
	CLIENT->dereg_mr(dmabuf);
}
END_TEST

/* Single posts between batches, at each place of the send queue. */
START_TEST(post_one__mixes_with_batches)
{
	struct fake_send sends[FAKE_SENDS];
	unsigned posts = 0;

	verbs_fake.max_inline = 64;
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
		fake_complete_sends(3);
		expect(0, 3, 0);
		fake_complete_sends(4);
		expect_only(3, 4, 0);
	}
}
END_TEST

START_TEST(post_one__uses_a_credit)
{
	verbs_fake.iwarp = _i;
	setup();
	for (unsigned i = 0; i < DEPTH; i++)
		ck_assert_int_eq(post(FABRIC_READ, i, 1), 1);
	ck_assert_int_eq(post(FABRIC_READ, 0, 1), 0);
	ck_assert_uint_eq(fake_posts(), DEPTH);
	fake_complete_sends(3);
	expect(0, 3, 0);
	ck_assert_int_eq(post(FABRIC_READ, DEPTH, 2), 2);
	ck_assert_int_eq(post(FABRIC_READ, DEPTH + 2, 1), 1);
	ck_assert_int_eq(post(FABRIC_READ, 0, 1), 0);
	fake_complete_sends(DEPTH);
	expect_only(3, DEPTH, 0);
}
END_TEST

START_TEST(post_one__refused_kills_the_channel)
{
	verbs_fake.iwarp = _i;
	setup();
	ck_assert_int_eq(post(FABRIC_READ, 0, 3), 3);
	fake_post_limit(0);
	ck_assert_int_eq(post(FABRIC_WRITE, 3, 1), -ECONNRESET);
	ck_assert(!CLIENT->alive(channel));
	ck_assert_int_eq(post(FABRIC_WRITE, 3, 1), -ECONNRESET);
	/* the refused one was not posted and does not complete */
	expect_only(0, 3, -ECONNRESET);
}
END_TEST

START_TEST(post_one__that_fails_is_flushed)
{
	verbs_fake.iwarp = _i;
	setup();
	fake_post_fail_all();
	ck_assert_int_eq(post(FABRIC_WRITE, 0, 1), 1);
	expect_only(0, 1, -ECONNRESET);
	ck_assert_int_eq(post(FABRIC_WRITE, 0, 1), -ECONNRESET);
}
END_TEST

/* ---- scatter/gather elements ---- */

START_TEST(sges__keep_to_the_limits_of_the_device)
{
	verbs_fake.iwarp = _i;
	setup_cq();
	ck_assert_uint_eq(CLIENT->sge_max(domain, FABRIC_WRITE), 8);
	ck_assert_uint_eq(CLIENT->sge_max(domain, FABRIC_READ), _i ? 1 : 3);
}
END_TEST

START_TEST(sges__belong_to_one_request)
{
	struct fabric_sge sges[3] = { { memory, 10, NULL },
				      { memory + 50, 20, NULL },
				      { memory + 100, 30, NULL } };
	struct fake_send sends[FAKE_SENDS];
	struct wr wrs[3];

	setup();
	for (unsigned i = 0; i < 3; i++)
		sges[i].region = region;
	wrs[0] = wr_make(FABRIC_WRITE, 0, 60);
	wrs[1] = wr_make(FABRIC_READ, 1, 60);
	wrs[2] = wr_make(FABRIC_WRITE, 2, 8);
	wrs[0].slices = wrs[1].slices = sges;
	wrs[0].n_slices = 3;
	wrs[1].n_slices = 2;
	/* enough rounds that each place of the send queue has each kind */
	for (unsigned round = 0; round < 2 * DEPTH; round++) {
		ck_assert_int_eq(wr_post(CLIENT, channel, wrs, 3), 3);
		ck_assert_uint_eq(fake_sends(sends), 3);
		ck_assert_int_eq(sends[0].opcode, IBV_WR_RDMA_WRITE);
		ck_assert_int_eq(sends[0].n_sges, 3);
		ck_assert_uint_eq(sends[0].flags & IBV_SEND_INLINE, 0);
		ck_assert_int_eq(sends[1].opcode, IBV_WR_RDMA_READ);
		ck_assert_int_eq(sends[1].n_sges, 2);
		ck_assert_int_eq(sends[2].n_sges, 1);
		ck_assert_uint_eq(sends[2].bytes, 8);
		fake_complete_sends(3);
		expect(0, 3, 0);
	}
}
END_TEST

/* ---- atomics ---- */

START_TEST(atomics__need_both_devices)
{
	struct fabric_endpoint server = endpoint;

	server.flags = _i == 0 ? 0 : FABRIC_ENDPOINT_ATOMICS;
	verbs_fake.atomics = _i == 1 ? IBV_ATOMIC_NONE : IBV_ATOMIC_HCA;
	verbs_fake.iwarp = _i == 2;
	ck_assert_int_eq(CLIENT->domain_open(&server, NULL, WAIT_MS, &domain), 0);
	ck_assert_int_eq(CLIENT->domain_supports(domain, FABRIC_CAN_ATOMICS),
			 _i == 3 ? 0 : -ENOTSUP);
	if (_i < 3)
		ck_assert_msg(strstr(err_text(), _i == 0 ? "theirs0" : "fake0") &&
				      strstr(err_text(), "atomic_cap"),
			      "%s", err_text());
	ck_assert_int_eq(CLIENT->domain_supports(domain, (enum fabric_capability)99),
			 -ENOTSUP);
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
	verbs_fake.atomics = IBV_ATOMIC_HCA;
	setup();
}

START_TEST(atomics__share_a_batch_with_other_operations)
{
	struct fake_send sends[FAKE_SENDS];
	struct wr wrs[4];

	setup_atomics();
	wrs[0] = wr_make(FABRIC_WRITE, 0, 64);
	wrs[1] = atomic_make(FABRIC_CAS, 1);
	wrs[2] = atomic_make(FABRIC_FETCH_ADD, 2);
	wrs[3] = wr_make(FABRIC_READ, 3, 8);
	/* enough rounds that each place of the send queue has each kind */
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
		fake_complete_sends(4);
		expect(0, 4, 0);
	}
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
	fake_complete_sends(DEPTH);
	expect(0, DEPTH, 0);
}
END_TEST

START_TEST(atomics__unsupported_are_refused)
{
	struct wr wr = atomic_make(FABRIC_CAS, 0);

	verbs_fake.iwarp = _i;
	setup();
	ck_assert_int_eq(wr_post(CLIENT, channel, &wr, 1), -ENOTSUP);
	ck_assert_ptr_nonnull(strstr(err_text(), "RDMA device fake0 has no atomics"));
	expect_nothing();
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

START_TEST(poll__reports_failed_and_flushed_operations)
{
	struct wc wcs[8];

	setup();
	ck_assert_int_eq(post(FABRIC_WRITE, 0, 5), 5);
	fake_complete_sends(2); /* not signaled */
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
}
END_TEST

/* More completions than the client reads at a time. */
START_TEST(poll__reads_more_than_one_batch)
{
	struct fabric_wc wcs[2 * DEPTH];

	setup();
	for (unsigned i = 0; i < DEPTH; i++)
		ck_assert_int_eq(post(FABRIC_READ, i, 1), 1);
	ck_assert_int_eq(CLIENT->poll(cq, wcs, COUNT(wcs)), 0);
	fake_complete_sends(DEPTH);
	ck_assert_int_eq(CLIENT->poll(cq, wcs, COUNT(wcs)), DEPTH);
	for (unsigned i = 0; i < DEPTH; i++)
		ck_assert_uint_eq(wcs[i].n, 1);
	ck_assert_int_eq(CLIENT->poll(cq, wcs, COUNT(wcs)), 0);
	/* a failed operation completes alone */
	ck_assert_int_eq(post(FABRIC_READ, 0, 1), 1);
	fake_fail(IBV_WC_REM_ACCESS_ERR);
	ck_assert_int_eq(CLIENT->poll(cq, wcs, COUNT(wcs)), 1);
	ck_assert_int_eq(wcs[0].status, -EACCES);
}
END_TEST

START_TEST(abort__completes_everything_once)
{
	verbs_fake.iwarp = _i;
	setup();
	ck_assert_int_eq(post(FABRIC_WRITE, 0, 30), 30);
	fake_complete_sends(3);
	CLIENT->abort(channel);
	expect_only(0, 30, -ECONNRESET);
	ck_assert_int_eq(post(FABRIC_WRITE, 0, 1), -ECONNRESET);
	CLIENT->abort(channel);
	expect_nothing();
}
END_TEST

START_TEST(post__accepted_in_part_kills_the_channel)
{
	verbs_fake.iwarp = _i;
	setup();
	fake_post_limit(3);
	ck_assert_int_eq(post(FABRIC_WRITE, 0, 10), 3);
	expect_only(0, 3, -ECONNRESET);
	channel_close();
	ck_assert_int_eq(connect_one(DEPTH, &channel), 0);
	fake_post_limit(0);
	ck_assert_int_eq(post(FABRIC_WRITE, 0, 10), -ECONNRESET);
	expect_nothing();
}
END_TEST

/* The device may still execute the operations, so they must not be posted elsewhere
 * yet. */
START_TEST(post__that_fails_without_bad_wr_flushes_all)
{
	verbs_fake.iwarp = _i;
	setup();
	ck_assert_int_eq(post(FABRIC_READ, 0, 5), 5);
	fake_complete_sends(5);
	expect(0, 5, 0);
	fake_post_fail_all();
	ck_assert_int_eq(post(FABRIC_READ, 5, 10), 10);
	expect_only(5, 10, -ECONNRESET);
	ck_assert_int_eq(post(FABRIC_READ, 0, 1), -ECONNRESET);
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("post", NULL, teardown);

	tcase_add_test(tcase, post__is_one_doorbell_and_few_completions);
	tcase_add_loop_test(tcase, post__sends_small_writes_inline, 0, 2);
	tcase_add_test(tcase, post__sends_nothing_of_a_dmabuf_inline);
	tcase_add_test(tcase, post_one__mixes_with_batches);
	tcase_add_loop_test(tcase, post_one__uses_a_credit, 0, 2);
	tcase_add_loop_test(tcase, post_one__refused_kills_the_channel, 0, 2);
	tcase_add_loop_test(tcase, post_one__that_fails_is_flushed, 0, 2);
	tcase_add_loop_test(tcase, sges__keep_to_the_limits_of_the_device, 0, 2);
	tcase_add_test(tcase, sges__belong_to_one_request);
	tcase_add_loop_test(tcase, atomics__need_both_devices, 0, 4);
	tcase_add_test(tcase, atomics__share_a_batch_with_other_operations);
	tcase_add_test(tcase, atomics__take_credits_and_need_alignment);
	tcase_add_loop_test(tcase, atomics__unsupported_are_refused, 0, 2);
	tcase_add_loop_test(tcase, poll__reports_failed_and_flushed_operations, 0,
			    COUNT(statuses));
	tcase_add_test(tcase, poll__reads_more_than_one_batch);
	tcase_add_loop_test(tcase, abort__completes_everything_once, 0, 2);
	tcase_add_loop_test(tcase, post__that_fails_without_bad_wr_flushes_all, 0, 2);
	tcase_add_loop_test(tcase, post__accepted_in_part_kills_the_channel, 0, 2);
	return unit_main();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs client on iWARP. */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/err.h"
#include "unit/unit.h"
#include "unit/fabric/verbs/verbs-client-stage.h"

static void setup_iwarp(void)
{
	verbs_fake.iwarp = true;
	setup();
}

START_TEST(iwarp__writes_complete_with_the_read_after_them)
{
	struct fake_send sends[FAKE_SENDS];
	struct wr wrs[3];

	setup_iwarp();
	wrs[0] = wr_make(FABRIC_WRITE, 0, 100);
	wrs[1] = wr_make(FABRIC_WRITE, 1, 100);
	wrs[2] = wr_make(FABRIC_READ, 2, 100);
	ck_assert_int_eq(wr_post(CLIENT, channel, wrs, 3), 3);
	ck_assert_uint_eq(fake_sends(sends), 4);
	ck_assert_int_eq(sends[3].opcode, IBV_WR_RDMA_READ);
	ck_assert_uint_eq(sends[3].remote_addr, wrs[1].remote_addr);
	ck_assert_uint_eq(sends[3].bytes, 1);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq((sends[i].flags & IBV_SEND_SIGNALED) != 0, i == 3);
	fake_complete_sends(3);
	expect_nothing();
	fake_complete_sends(1);
	expect_only(0, 3, 0);
	/* reads need no further read */
	ck_assert_int_eq(post(FABRIC_READ, 5, 2), 2);
	ck_assert_uint_eq(fake_sends(sends), 2);
	fake_complete_sends(2);
	expect(5, 2, 0);
}
END_TEST

/* Also in a batch of full depth no completion before the last one completes writes. */
START_TEST(iwarp__long_batch_completes_with_its_last_read)
{
	setup_iwarp();
	ck_assert_int_eq(post(FABRIC_WRITE, 0, DEPTH), DEPTH);
	fake_complete_sends(DEPTH);
	expect_nothing();
	if (_i) {
		fake_complete_sends(1);
		expect(0, DEPTH, 0);
	} else {
		fake_fail(IBV_WC_WR_FLUSH_ERR);
		expect(0, DEPTH, -ECONNRESET);
	}
	expect_nothing();
}
END_TEST

START_TEST(iwarp__single_posts_reach_the_full_depth)
{
	verbs_fake.iwarp = true;
	setup_cq();
	ck_assert_int_eq(connect_one(20, &channel), 0);
	for (unsigned round = 0; round < 5; round++) {
		for (unsigned i = 0; i < 20; i++)
			ck_assert_int_eq(post(FABRIC_WRITE, i, 1), 1);
		ck_assert_int_eq(post(FABRIC_WRITE, 0, 1), 0);
		fake_complete_sends(40);
		expect_only(0, 20, 0);
	}
}
END_TEST

static const struct {
	unsigned done; /* completed locally before the failure */
	enum ibv_wc_status status;
	int before, at;
} refusals[] = {
	/* refused writes: the confirming read is flushed, or refused too */
	{ 2, IBV_WC_WR_FLUSH_ERR, -ECONNRESET, -ECONNRESET },
	{ 2, IBV_WC_REM_ACCESS_ERR, -EACCES, -EACCES },
	/* a local fault at the second: the result of the first one is unknown */
	{ 1, IBV_WC_LOC_PROT_ERR, -ECONNRESET, -EFAULT },
	/* the socket is closed */
	{ 1, IBV_WC_LOC_QP_OP_ERR, -ECONNRESET, -ECONNRESET },
};

START_TEST(iwarp__refused_writes_never_succeed)
{
	setup_iwarp();
	ck_assert_int_eq(post(FABRIC_WRITE, 0, 2), 2);
	fake_complete_sends(refusals[_i].done);
	expect_nothing();
	fake_fail(refusals[_i].status);
	expect(0, 1, refusals[_i].before);
	expect_only(1, 1, refusals[_i].at);
}
END_TEST

/* Errors of the confirming read alone, and the status of the writes that it does not confirm: the
 * device has sent them, and whether the peer has placed them is unknown. */
static const struct {
	enum ibv_wc_status status;
	int err;
} confirm_failures[] = {
	{ IBV_WC_WR_FLUSH_ERR, -ECONNRESET },
	{ IBV_WC_LOC_QP_OP_ERR, -ECONNRESET },
	{ IBV_WC_RETRY_EXC_ERR, -ETIMEDOUT },
	{ IBV_WC_REM_ACCESS_ERR, -EACCES },
	{ IBV_WC_REM_INV_REQ_ERR, -EACCES },
	{ IBV_WC_GENERAL_ERR, -EIO },
	/* of the byte that the read fills, which is not the program's memory */
	{ IBV_WC_LOC_PROT_ERR, -ECONNRESET },
	{ IBV_WC_LOC_LEN_ERR, -ECONNRESET },
};

static int post_vectored_write(void)
{
	const struct fabric_sge sges[] = {
		{ .addr = memory, .bytes = 50, .region = region },
		{ .addr = memory + 100, .bytes = 50, .region = region },
	};
	const struct fabric_key key = { .addr = 0x1000, .rkey = 9 };
	const struct fabric_batch batch = fabric_batch_of(FABRIC_WRITE, NULL, &key);
	const struct fabric_op op = { .bytes = 100 };

	ck_assert_int_eq(CLIENT->prepare_sges(channel, &batch, &op, sges, 2), 1);
	return CLIENT->post(channel);
}

/* The write completes at once, also when its channel is not polled in batches. */
START_TEST(iwarp__write_fails_with_its_confirming_read)
{
	struct wc wc;

	setup_iwarp();
	ck_assert_int_eq(post(FABRIC_WRITE, 0, 1), 1);
	ck_assert_int_eq(CLIENT->cq_arm(cq), 0);
	fake_complete_sends(1);
	expect_nothing();
	fake_fail(confirm_failures[_i].status);
	ck_assert(readable(CLIENT->cq_fd(cq), WAIT_MS));
	expect_only(0, 1, confirm_failures[_i].err);
	/* the channel is dead */
	ck_assert_int_eq(wr_poll(CLIENT, cq, &wc, 1), 0);
	ck_assert_int_eq(post(FABRIC_WRITE, 1, 1), -ECONNRESET);
}
END_TEST

/* An earlier batch is confirmed, a later one is flushed. */
START_TEST(iwarp__only_unconfirmed_writes_fail)
{
	setup_iwarp();
	ck_assert_int_eq(post(FABRIC_WRITE, 0, 2), 2);
	ck_assert_int_eq(post(FABRIC_READ, 2, 1), 1);
	ck_assert_int_eq(post(FABRIC_WRITE, 3, 2), 2);
	ck_assert_int_eq(post(FABRIC_WRITE, 5, 1), 1);
	fake_complete_sends(3);
	expect_only(0, 2, 0);
	fake_complete_sends(1);
	expect_only(2, 1, 0);
	fake_complete_sends(2);
	expect_nothing();
	fake_fail(confirm_failures[_i].status);
	expect(3, 2, confirm_failures[_i].err);
	expect_only(5, 1, -ECONNRESET);
}
END_TEST

START_TEST(iwarp__vectored_write_fails_with_its_confirming_read)
{
	struct fabric_wc wc;

	setup_iwarp();
	ck_assert_int_eq(post_vectored_write(), 1);
	fake_complete_sends(1);
	ck_assert_int_eq(CLIENT->poll(cq, &wc, 1), 0);
	fake_fail(confirm_failures[_i].status);
	ck_assert_int_eq(CLIENT->poll(cq, &wc, 1), 1);
	ck_assert_uint_eq(wc.n, 1);
	ck_assert_int_eq(wc.status, confirm_failures[_i].err);
}
END_TEST

/* siw answers a read of up to 32 bytes that crosses a page with bytes of the first page
 * only. */
START_TEST(iwarp__short_reads_stay_within_a_page)
{
	static const struct {
		uint64_t at;
		uint32_t bytes, head;
	} reads[] = {
		{ 0x1feb, 25, 21 }, { 0x1fff, 32, 1 }, { 0x1fff, 2, 1 },
		{ 0x1ffe, 2, 0 },   { 0x2000, 32, 0 }, { 0x1feb, 33, 0 },
	};
	struct fake_send sends[FAKE_SENDS];

	setup_iwarp();
	for (unsigned i = 0; i < (unsigned)COUNT(reads); i++) {
		struct wr wr = wr_make(FABRIC_READ, i, reads[i].bytes);
		unsigned n = reads[i].head ? 2 : 1;

		wr.remote_addr = reads[i].at;
		ck_assert_int_eq(wr_post(CLIENT, channel, &wr, 1), 1);
		ck_assert_uint_eq(fake_sends(sends), n);
		ck_assert_uint_eq(sends[0].remote_addr, reads[i].at);
		ck_assert_uint_eq(sends[n - 1].remote_addr,
				  reads[i].at + reads[i].head);
		ck_assert_uint_eq(sends[n - 1].bytes, reads[i].bytes - reads[i].head);
		fake_complete_sends(n);
		expect_only(i, 1, 0);
	}
}
END_TEST

/* siw drops requests that are posted to a queue pair in ERROR. */
START_TEST(iwarp__dropped_operations_complete)
{
	setup_iwarp();
	fake_break(fake_last_id());
	ck_assert_int_eq(post(FABRIC_WRITE, 0, 3), 3);
	ck_assert_int_eq(post(FABRIC_READ, 3, 1), 1);
	ck_assert_int_eq(CLIENT->cq_arm(cq), 0);
	expect_nothing();
	ck_assert(!readable(CLIENT->cq_fd(cq), 0));
	fake_drop_sends();
	fake_event(fake_last_id(), RDMA_CM_EVENT_DISCONNECTED);
	ck_assert(!CLIENT->alive(channel));
	ck_assert(readable(CLIENT->cq_fd(cq), WAIT_MS));
	expect_only(0, 4, -ECONNRESET);
	ck_assert_int_eq(CLIENT->cq_arm(cq), 0);
	ck_assert(!readable(CLIENT->cq_fd(cq), 0));
}
END_TEST

/* siw can leave an early message in its socket until another one arrives. */
START_TEST(iwarp__wakes_the_server_of_a_new_connection)
{
	struct fake_send sends[FAKE_SENDS];

	setup_iwarp();
	ck_assert(readable(CLIENT->alive_fd(channel), WAIT_MS));
	ck_assert(CLIENT->alive(channel));
	ck_assert_uint_eq(fake_sends(sends), 1);
	ck_assert_int_eq(sends[0].opcode, IBV_WR_RDMA_WRITE);
	ck_assert_uint_eq(sends[0].bytes, 0);
	/* no operation completes with it */
	CLIENT->abort(channel);
	expect_nothing();
}
END_TEST

/* The first completion with an error is enough; no call of alive() is needed. */
START_TEST(iwarp__an_error_flushes_later_operations)
{
	setup_iwarp();
	ck_assert_int_eq(post(FABRIC_READ, 0, 1), 1);
	fake_break(fake_last_id());
	ck_assert_int_eq(post(FABRIC_READ, 1, 2), 2);
	fake_drop_sends();
	expect_only(0, 3, -ECONNRESET);
}
END_TEST

/* Single reads and writes, the writes followed by a read, between batches and at each
 * place of the send queue. */
START_TEST(iwarp__single_posts_mix_with_batches)
{
	struct fake_send sends[FAKE_SENDS];
	unsigned posts = 0;

	setup_iwarp();
	for (unsigned round = 0; round < 3 * DEPTH; round++) {
		struct wr cut = wr_make(FABRIC_READ, 4, 20);

		cut.remote_addr = 0x1ff0;
		ck_assert_int_eq(post(FABRIC_READ, 0, 1), 1);
		ck_assert_int_eq(post(FABRIC_WRITE, 1, 1), 1);
		ck_assert_int_eq(post(FABRIC_READ, 2, 2), 2);
		ck_assert_int_eq(wr_post(CLIENT, channel, &cut, 1), 1);
		ck_assert_int_eq(post(FABRIC_READ, 5, 2), 2);
		posts += 5;
		ck_assert_uint_eq(fake_posts(), posts);
		ck_assert_uint_eq(fake_sends(sends), 9);
		for (unsigned i = 0; i < 9; i++)
			ck_assert_int_eq((sends[i].flags & IBV_SEND_SIGNALED) != 0,
					 i % 2 == 0);
		fake_complete_sends(2);
		expect_only(0, 1, 0);
		fake_complete_sends(1);
		expect(1, 1, 0);
		fake_complete_sends(6);
		expect_only(2, 5, 0);
	}
}
END_TEST

/* siw failed without bad_wr, so the operation may have been done: it completes as
 * flushed. */
START_TEST(iwarp__post_that_fails_without_bad_wr_is_flushed)
{
	setup_iwarp();
	ck_assert_int_eq(post(FABRIC_READ, 0, 1), 1);
	fake_post_fail_all();
	ck_assert_int_eq(post(_i ? FABRIC_WRITE : FABRIC_READ, 1, 1), 1);
	ck_assert_int_eq(post(FABRIC_READ, 2, 1), -ECONNRESET);
	expect_only(0, 2, -ECONNRESET);
}
END_TEST

static bool sigpipe_ignored;

static bool sigpipe_is_in(int (*get)(sigset_t *set))
{
	sigset_t set;

	ck_assert_int_eq(get(&set), 0);
	return sigismember(&set, SIGPIPE) == 1;
}

static int mask_get(sigset_t *set)
{
	return pthread_sigmask(SIG_BLOCK, NULL, set);
}

/* A post blocks SIGPIPE, unless the program ignores it; then it needs no system
 * call. */
START_TEST(iwarp__sigpipe_does_not_kill_the_program)
{
	verbs_fake.post_raises_sigpipe = true;
	setup_iwarp();
	for (unsigned n = 1; n < 3; n++) {
		ck_assert_int_eq(post(FABRIC_READ, 0, n), (int)n);
		ck_assert_int_eq(fake_post_blocked_sigpipe(), !sigpipe_ignored);
		ck_assert_int_eq(post(FABRIC_WRITE, n, n), (int)n);
		ck_assert_int_eq(fake_post_blocked_sigpipe(), !sigpipe_ignored);
		ck_assert(!sigpipe_is_in(sigpending) && !sigpipe_is_in(mask_get));
		fake_complete_sends(2 * n + 1);
		expect(0, 2 * n, 0);
	}
}
END_TEST

/* A SIGPIPE that the program blocked and that is pending stays so, and no other is
 * added. */
START_TEST(iwarp__keeps_a_pending_sigpipe)
{
	sigset_t set;

	ck_assert_int_eq(sigemptyset(&set) | sigaddset(&set, SIGPIPE), 0);
	ck_assert_int_eq(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	verbs_fake.post_raises_sigpipe = true;
	setup_iwarp();
	ck_assert_int_eq(post(FABRIC_READ, 0, 1), 1);
	ck_assert(!sigpipe_is_in(sigpending) && sigpipe_is_in(mask_get));
	fake_complete_sends(1);
	expect(0, 1, 0);
	ck_assert_int_eq(pthread_kill(pthread_self(), SIGPIPE), 0);
	ck_assert_int_eq(post(FABRIC_READ, 0, 1), 1);
	ck_assert(sigpipe_is_in(sigpending) && sigpipe_is_in(mask_get));
}
END_TEST

static void sigpipe_ignore(void)
{
	ck_assert(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
	sigpipe_ignored = true;
}

static TCase *case_make(const char *name, SFun setup_case)
{
	TCase *tcase = unit_case(name, setup_case, teardown);

	tcase_add_test(tcase, iwarp__writes_complete_with_the_read_after_them);
	tcase_add_loop_test(tcase, iwarp__long_batch_completes_with_its_last_read, 0,
			    2);
	tcase_add_test(tcase, iwarp__single_posts_reach_the_full_depth);
	tcase_add_loop_test(tcase, iwarp__refused_writes_never_succeed, 0,
			    COUNT(refusals));
	tcase_add_loop_test(tcase, iwarp__write_fails_with_its_confirming_read, 0,
			    COUNT(confirm_failures));
	tcase_add_loop_test(tcase, iwarp__only_unconfirmed_writes_fail, 0,
			    COUNT(confirm_failures));
	tcase_add_loop_test(tcase, iwarp__vectored_write_fails_with_its_confirming_read,
			    0, COUNT(confirm_failures));
	tcase_add_test(tcase, iwarp__short_reads_stay_within_a_page);
	tcase_add_test(tcase, iwarp__dropped_operations_complete);
	tcase_add_test(tcase, iwarp__wakes_the_server_of_a_new_connection);
	tcase_add_test(tcase, iwarp__an_error_flushes_later_operations);
	tcase_add_test(tcase, iwarp__single_posts_mix_with_batches);
	tcase_add_loop_test(tcase, iwarp__post_that_fails_without_bad_wr_is_flushed, 0,
			    2);
	tcase_add_test(tcase, iwarp__sigpipe_does_not_kill_the_program);
	return tcase;
}

int main(void)
{
	TCase *guarded = case_make("guarded", NULL);

	tcase_add_test(guarded, iwarp__keeps_a_pending_sigpipe);
	(void)case_make("plain", sigpipe_ignore);
	return unit_main();
}

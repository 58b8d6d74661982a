/* SPDX-License-Identifier: BSD-3-Clause */
/* What a client does for iWARP. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#include "base/err.h"
#include "unit/unit.h"
#include "unit/fabric/verbs/verbs-client-stage.h"

/* ---- iWARP ---- */

START_TEST(iwarp__writes_complete_with_the_read_behind_them)
{
	struct fake_send sends[FAKE_SENDS];
	struct wr wrs[3];

	fake.iwarp = true;
	setup();
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
	fake_complete(3);
	expect_nothing();
	fake_complete(1);
	expect(0, 3, 0);
	expect_nothing();
	/* reads speak for themselves */
	ck_assert_int_eq(post(FABRIC_READ, 5, 2), 2);
	ck_assert_uint_eq(fake_sends(sends), 2);
	fake_complete(2);
	expect(5, 2, 0);
	teardown();
}
END_TEST

/* In a batch as long as can be, too: no entry in the middle speaks for writes. */
START_TEST(iwarp__a_long_batch_completes_with_its_last_read)
{
	fake.iwarp = true;
	setup();
	ck_assert_int_eq(post(FABRIC_WRITE, 0, DEPTH), DEPTH);
	fake_complete(DEPTH);
	expect_nothing();
	if (_i) {
		fake_complete(1);
		expect(0, DEPTH, 0);
	} else {
		fake_fail(IBV_WC_WR_FLUSH_ERR);
		expect(0, DEPTH, -ECONNRESET);
	}
	expect_nothing();
	teardown();
}
END_TEST

START_TEST(iwarp__full_depth_one_by_one)
{
	fake.iwarp = true;
	setup_cq();
	ck_assert_int_eq(connect_one(20, &channel), 0);
	for (unsigned round = 0; round < 5; round++) {
		for (unsigned i = 0; i < 20; i++)
			ck_assert_int_eq(post(FABRIC_WRITE, i, 1), 1);
		ck_assert_int_eq(post(FABRIC_WRITE, 0, 1), 0);
		fake_complete(40);
		expect(0, 20, 0);
		expect_nothing();
	}
	teardown();
}
END_TEST

static const struct {
	unsigned done; /* locally, before the failure */
	enum ibv_wc_status status;
	int before, at;
} refusals[] = {
	/* refused writes: the confirming read is flushed, or refused too */
	{ 2, IBV_WC_WR_FLUSH_ERR, -ECONNRESET, -ECONNRESET },
	{ 2, IBV_WC_REM_ACCESS_ERR, -EACCES, -EACCES },
	/* a local fault at the second: the first one is in doubt */
	{ 1, IBV_WC_LOC_PROT_ERR, -ECONNRESET, -EFAULT },
	/* the socket is closed */
	{ 1, IBV_WC_LOC_QP_OP_ERR, -ECONNRESET, -ECONNRESET },
};

START_TEST(iwarp__refused_writes_are_never_done)
{
	fake.iwarp = true;
	setup();
	ck_assert_int_eq(post(FABRIC_WRITE, 0, 2), 2);
	fake_complete(refusals[_i].done);
	expect_nothing();
	fake_fail(refusals[_i].status);
	expect(0, 1, refusals[_i].before);
	expect(1, 1, refusals[_i].at);
	expect_nothing();
	teardown();
}
END_TEST

/* siw answers a read of up to 32 bytes across pages with bytes of the first alone. */
START_TEST(iwarp__short_reads_keep_to_a_page)
{
	static const struct {
		uint64_t at;
		uint32_t bytes, head;
	} reads[] = {
		{ 0x1feb, 25, 21 }, { 0x1fff, 32, 1 }, { 0x1fff, 2, 1 },
		{ 0x1ffe, 2, 0 },   { 0x2000, 32, 0 }, { 0x1feb, 33, 0 },
	};
	struct fake_send sends[FAKE_SENDS];

	fake.iwarp = true;
	setup();
	for (unsigned i = 0; i < sizeof(reads) / sizeof(reads[0]); i++) {
		struct wr wr = wr_make(FABRIC_READ, i, reads[i].bytes);
		unsigned n = reads[i].head ? 2 : 1;

		wr.remote_addr = reads[i].at;
		ck_assert_int_eq(wr_post(CLIENT, channel, &wr, 1), 1);
		ck_assert_uint_eq(fake_sends(sends), n);
		ck_assert_uint_eq(sends[0].remote_addr, reads[i].at);
		ck_assert_uint_eq(sends[n - 1].remote_addr,
				  reads[i].at + reads[i].head);
		ck_assert_uint_eq(sends[n - 1].bytes, reads[i].bytes - reads[i].head);
		fake_complete(n);
		expect(i, 1, 0);
		expect_nothing();
	}
	teardown();
}
END_TEST

/* siw forgets what is posted to a queue pair that it has moved to ERROR. */
START_TEST(iwarp__what_the_device_forgets_completes_all_the_same)
{
	struct pollfd fd = { .events = POLLIN };

	fake.iwarp = true;
	setup();
	fd.fd = CLIENT->cq_fd(cq);
	fake_break(fake_last_id());
	ck_assert_int_eq(post(FABRIC_WRITE, 0, 3), 3);
	ck_assert_int_eq(post(FABRIC_READ, 3, 1), 1);
	ck_assert_int_eq(CLIENT->cq_arm(cq), 0);
	expect_nothing();
	ck_assert_int_eq(poll(&fd, 1, 0), 0);
	fake_forget();
	fake_event(fake_last_id(), RDMA_CM_EVENT_DISCONNECTED);
	ck_assert(!CLIENT->alive(channel));
	ck_assert_int_eq(poll(&fd, 1, 10000), 1);
	expect(0, 4, -ECONNRESET);
	expect_nothing();
	ck_assert_int_eq(CLIENT->cq_arm(cq), 0);
	ck_assert_int_eq(poll(&fd, 1, 0), 0);
	teardown();
}
END_TEST

/* siw can leave what came too early in its socket until more comes. */
START_TEST(iwarp__pushes_a_new_connection)
{
	struct fake_send sends[FAKE_SENDS];
	struct pollfd fd = { .events = POLLIN };

	fake.iwarp = true;
	setup();
	fd.fd = CLIENT->alive_fd(channel);
	ck_assert_int_eq(poll(&fd, 1, 10000), 1);
	ck_assert(CLIENT->alive(channel));
	ck_assert_uint_eq(fake_sends(sends), 1);
	ck_assert_int_eq(sends[0].opcode, IBV_WR_RDMA_WRITE);
	ck_assert_uint_eq(sends[0].bytes, 0);
	/* its end is nobody's */
	CLIENT->abort(channel);
	expect_nothing();
	teardown();
}
END_TEST

/* The first entry that tells of it is enough; nobody need ask whether the peer lives. */
START_TEST(iwarp__an_error_brings_what_was_posted_behind_it)
{
	fake.iwarp = true;
	setup();
	ck_assert_int_eq(post(FABRIC_READ, 0, 1), 1);
	fake_break(fake_last_id());
	ck_assert_int_eq(post(FABRIC_READ, 1, 2), 2);
	fake_forget();
	expect(0, 3, -ECONNRESET);
	expect_nothing();
	teardown();
}
END_TEST

/* Reads go to the device alone, writes with the read behind them; between batches, and again
 * and again at the end of the ring. */
START_TEST(iwarp__of_one_goes_with_batches)
{
	struct fake_send sends[FAKE_SENDS];
	unsigned posts = 0;

	fake.iwarp = true;
	setup();
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
		fake_complete(2);
		expect(0, 1, 0);
		expect_nothing();
		fake_complete(1);
		expect(1, 1, 0);
		fake_complete(6);
		expect(2, 5, 0);
		expect_nothing();
	}
	teardown();
}
END_TEST

/* What siw took, and then named no request, may be done or not: it ends all the same. */
START_TEST(iwarp__a_post_that_fails_without_a_name_is_flushed)
{
	fake.iwarp = true;
	setup();
	ck_assert_int_eq(post(FABRIC_READ, 0, 1), 1);
	fake_post_nameless();
	ck_assert_int_eq(post(_i ? FABRIC_WRITE : FABRIC_READ, 1, 1), 1);
	ck_assert_int_eq(post(FABRIC_READ, 2, 1), -ECONNRESET);
	expect(0, 2, -ECONNRESET);
	expect_nothing();
	teardown();
}
END_TEST

static bool sigpipe_ignored;

static bool sigpipe_in(int (*get)(sigset_t *set))
{
	sigset_t set;

	ck_assert_int_eq(get(&set), 0);
	return sigismember(&set, SIGPIPE) == 1;
}

static int mask_get(sigset_t *set)
{
	return pthread_sigmask(SIG_BLOCK, NULL, set);
}

/* The program need not know that its posts write to a socket; one that ignores what comes of
 * that does without the system calls that keep it off. */
START_TEST(iwarp__a_cut_connection_does_not_kill_the_program)
{
	fake.iwarp = true;
	fake.post_raises = true;
	setup();
	for (unsigned n = 1; n < 3; n++) {
		ck_assert_int_eq(post(FABRIC_READ, 0, n), (int)n);
		ck_assert_int_eq(fake_post_guarded(), !sigpipe_ignored);
		ck_assert_int_eq(post(FABRIC_WRITE, n, n), (int)n);
		ck_assert_int_eq(fake_post_guarded(), !sigpipe_ignored);
		ck_assert(!sigpipe_in(sigpending) && !sigpipe_in(mask_get));
		fake_complete(2 * n + 1);
		expect(0, 2 * n, 0);
	}
	teardown();
}
END_TEST

/* One that the program has held back itself is still there, but none more. */
START_TEST(iwarp__leaves_the_programs_own_signals)
{
	sigset_t set;

	ck_assert_int_eq(sigemptyset(&set) | sigaddset(&set, SIGPIPE), 0);
	ck_assert_int_eq(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	fake.iwarp = true;
	fake.post_raises = true;
	setup();
	ck_assert_int_eq(post(FABRIC_READ, 0, 1), 1);
	ck_assert(!sigpipe_in(sigpending) && sigpipe_in(mask_get));
	fake_complete(1);
	expect(0, 1, 0);
	ck_assert_int_eq(pthread_kill(pthread_self(), SIGPIPE), 0);
	ck_assert_int_eq(post(FABRIC_READ, 0, 1), 1);
	ck_assert(sigpipe_in(sigpending) && sigpipe_in(mask_get));
	teardown();
}
END_TEST

static void sigpipe_ignore(void)
{
	ck_assert(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
	sigpipe_ignored = true;
}

static TCase *tcase_make(const char *name)
{
	TCase *tcase = tcase_create(name);

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, iwarp__writes_complete_with_the_read_behind_them);
	tcase_add_loop_test(tcase, iwarp__a_long_batch_completes_with_its_last_read, 0,
			    2);
	tcase_add_test(tcase, iwarp__full_depth_one_by_one);
	tcase_add_loop_test(tcase, iwarp__refused_writes_are_never_done, 0,
			    COUNT(refusals));
	tcase_add_test(tcase, iwarp__short_reads_keep_to_a_page);
	tcase_add_test(tcase, iwarp__what_the_device_forgets_completes_all_the_same);
	tcase_add_test(tcase, iwarp__pushes_a_new_connection);
	tcase_add_test(tcase, iwarp__an_error_brings_what_was_posted_behind_it);
	tcase_add_test(tcase, iwarp__of_one_goes_with_batches);
	tcase_add_loop_test(tcase, iwarp__a_post_that_fails_without_a_name_is_flushed,
			    0, 2);
	tcase_add_test(tcase, iwarp__a_cut_connection_does_not_kill_the_program);
	return tcase;
}

int main(void)
{
	Suite *suite = suite_create("verbs-client-iwarp");
	TCase *guarded = tcase_make("guarded"), *plain = tcase_make("plain");

	tcase_add_test(guarded, iwarp__leaves_the_programs_own_signals);
	tcase_add_checked_fixture(plain, sigpipe_ignore, NULL);
	suite_add_tcase(suite, guarded);
	suite_add_tcase(suite, plain);
	return unit_main(suite);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include <check.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "fabric-conformance-cases.h"
#include "fabric-conformance-stage.h"
#include "fabric-conformance-traffic.h"

START_TEST(withdraw__ends_the_key)
{
	struct party *party = party_new();
	struct fabric_channel *channel = party_connect(party, STAGE_DEPTH);
	struct lent *lent = lent_new(party, 4096, RW),
		    *stays = lent_new(party, 4096, RW);
	struct local *local = local_new(party, 4096);
	char *before;

	ck_assert_int_eq(
		op_run(party, channel, op_make(FABRIC_WRITE, local, 0, lent, 0, 4096)),
		0);
	lent_withdraw_start(lent);
	lent_await_withdrawn(lent);
	stage_fill(lent->addr, lent->bytes, 4);
	before = lent_snapshot(lent);
	memset(local->addr, 0, local->bytes);
	channel = op_run_refused(party, channel,
				 op_make(FABRIC_READ, local, 0, lent, 0, 4096));
	ck_assert(stage_all(local->addr, local->bytes, 0));
	channel = op_run_refused(party, channel,
				 op_make(FABRIC_WRITE, local, 0, lent, 0, 4096));
	ck_assert(lent_unchanged(lent, before));
	ck_assert_int_eq(
		op_run(party, channel, op_make(FABRIC_READ, local, 0, stays, 0, 4096)),
		0);
	free(before);
	local_free(local);
	channel_free(channel);
	lent_free(lent);
	lent_free(stays);
	party_free(party);
}
END_TEST

static void call_expose_and_withdraw(void *arg)
{
	struct lent *lent = arg;

	ck_assert_int_eq(SERVER->reg_mr(lent->party->session, lent->addr, lent->bytes,
					RW, lent, &lent->exposure),
			 0);
	SERVER->dereg_mr(lent->exposure);
}

START_TEST(withdraw__may_come_before_exposed)
{
	static char memory[4096];
	struct party *party = party_new();
	struct lent lent = { .party = party, .addr = memory, .bytes = sizeof(memory) };

	stage_call(call_expose_and_withdraw, &lent);
	lent_await_withdrawn(&lent);
	ck_assert(!lent.exposed);
	ck_assert_uint_eq(stage_stats().exposures, 0);
	ck_assert_uint_eq(stage_stats().exposed_bytes, 0);
	party_free(party);
}
END_TEST

/* siw hands the pages of an answer to TCP by reference and does not call them back when
 * they are deregistered: an answer under way may show what is there later.  That is the
 * kernel's; hardware waits. */
static bool answers_linger(void)
{
	return stage_confirms();
}

START_TEST(withdraw__stops_operations_in_flight)
{
	static const uint32_t sizes[] = { 8, 64, 4096, 262144 };
	struct traffic t = { 0 };
	struct lent *lent;
	char *before;

	traffic_start(&t, sizes[_i]);
	lent = t.lent;
	traffic_await(&t, 20);
	lent_withdraw_start(lent);
	lent_await_withdrawn(lent);
	/* from here on nobody but us touches it */
	memset(lent->addr, POISON, lent->bytes);
	before = lent_snapshot(lent);
	traffic_join(&t);
	ck_assert(lent_unchanged(lent, before));
	ck_assert(!t.poisoned || answers_linger());
	/* the stream may also end, when it was in the middle of an answer */
	ck_assert_msg(t.status == -EACCES || t.status == -ECONNRESET, "status %d",
		      t.status);
	free(before);
	traffic_free(&t);
}
END_TEST

START_TEST(session_close__ends_one_session_and_no_other)
{
	struct traffic ends = { 0 }, stays = { 0 };
	struct lent *lent;
	char *before;

	traffic_start(&ends, 65536);
	traffic_start(&stays, 65536);
	traffic_await(&ends, 20);
	traffic_await(&stays, 20);
	lent = ends.lent;
	party_close_session(ends.party);
	party_await_closed(ends.party);
	/* in this order */
	lent_await_withdrawn(lent);
	memset(lent->addr, POISON, lent->bytes);
	before = lent_snapshot(lent);
	traffic_join(&ends);
	ck_assert_int_ne(ends.status, 0);
	ck_assert(!ends.poisoned || answers_linger());
	ck_assert(lent_unchanged(lent, before));
	/* no news of channels that the server has ended */
	ck_assert_uint_eq(ends.party->downs, 0);
	traffic_await(&stays, 50);
	ck_assert_uint_eq(stage_stats().exposures, 1);
	atomic_store(&stays.stop, true);
	traffic_join(&stays);
	ck_assert_int_eq(stays.status, 0);
	free(before);
	traffic_free(&ends);
	traffic_free(&stays);
}
END_TEST

void withdrawal_cases(TCase *tcase)
{
	tcase_add_test(tcase, withdraw__ends_the_key);
	tcase_add_test(tcase, withdraw__may_come_before_exposed);
	tcase_add_loop_test(tcase, withdraw__stops_operations_in_flight, 0, 4);
	tcase_add_test(tcase, session_close__ends_one_session_and_no_other);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* A lease that hundreds of sessions have attached, or wait for: how much of its end, of a cut, and
 * of the end of a share is done at once, and how often requests are looked at.  The linker calls
 * the function here instead of the daemon's (-Wl,--wrap). */
#include <errno.h>
#include <stdlib.h>

#include "rmemd/lease/attachment.h"
#include "rmemd/state/ledger.h"
#include "unit/rmemd/lease-stage.h"
#include "unit/unit.h"

#define CROWD 300u
#define SLICE_MAX 65u   /* attachments, with a key each */
#define ANSWERS_MAX 64u /* in a slice */

static unsigned checks, removals;

int __real_attachment_check_keys(struct attachment *attachment);
int __wrap_attachment_check_keys(struct attachment *attachment);

int __wrap_attachment_check_keys(struct attachment *attachment)
{
	checks++;
	return __real_attachment_check_keys(attachment);
}

void __real_ledger_remove(struct ledger *ledger, const struct ledger_key *key);
void __wrap_ledger_remove(struct ledger *ledger, const struct ledger_key *key);

void __wrap_ledger_remove(struct ledger *ledger, const struct ledger_key *key)
{
	removals++;
	__real_ledger_remove(ledger, key);
}

static struct tenant other;
static struct lease_client crowd[CROWD];
static struct call calls[CROWD], one, two, three;
static uint64_t lease;

static void crowd_open(uint64_t bytes)
{
	const struct tenant_params params = {
		.name = "other",
		.limits = { .leases_max = 100,
			    .session_keys_max = 10000,
			    .keys_max = 10000 },
	};

	tenant_init(&other, &params);
	for (unsigned i = 0; i < CROWD; i++) {
		lease_client_init(&crowd[i], 100 + i, &other);
		stage_connect(&crowd[i], 0);
	}
	lease = new_lease(&one, &stage_a, bytes, "n");
	ck_assert_int_eq(lease_share(stage_leases, &stage_a, lease, "other", STAGE_RW,
				     call_begin(&one)),
			 0);
}

static void crowd_attach(unsigned first, unsigned n)
{
	const struct lease_owner owner = { "default", &stage_tenant };

	for (unsigned i = first; i < first + n; i++)
		ck_assert_int_eq(lease_attach(stage_leases, &crowd[i], &owner, "n",
					      STAGE_RW, call_begin(&calls[i])),
				 0);
}

static void setup(void)
{
	stage_setup_now();
	crowd_open(2 * FAKE_PAGE);
	crowd_attach(0, CROWD);
	ck_assert_uint_eq(fake_fabric_alive(), CROWD + 1);
}

static void setup_slow(void)
{
	stage_setup();
	crowd_open(1);
}

static void teardown(void)
{
	for (unsigned i = 0; i < CROWD; i++) {
		stage_fence(&crowd[i]);
		ck_assert(!lease_client_release(&crowd[i], CROWD));
	}
	fake_fabric_settle();
	for (unsigned i = 0; i < CROWD; i++)
		lease_client_destroy(&crowd[i]);
	stage_teardown();
	ck_assert_uint_eq(other.n_attachments + other.n_keys + other.n_sessions, 0);
	tenant_destroy(&other);
}

enum end { END_FREE, END_SHARE, END_SHARE_AND_FREE };
#define ENDS 3

static void unshare(struct call *call)
{
	ck_assert_int_eq(lease_share(stage_leases, &stage_a, lease, "other", 0,
				     call_begin(call)),
			 0);
}

static void end(enum end how)
{
	if (how != END_FREE)
		unshare(&one);
	if (how != END_SHARE)
		send_free(how == END_FREE ? &one : &two, &stage_a, lease);
}

/* The turn is over after it. */
static void run_slice(void)
{
	stage_turn = (struct turn){ .running = true, .first_ns = 1 };
	stage_wakes = 0;
	slices_run(&stage_slices);
}

/* In each slice a part; the request is answered when all keys are dead. */
START_TEST(end__of_a_crowd_is_in_slices)
{
	unsigned left, slices = 0;

	end((enum end)_i);
	ck_assert_uint_le(removals, 2 * SLICE_MAX);
	ck_assert_uint_ge(fake_fabric_alive(), CROWD - 2 * SLICE_MAX);
	while (stage_wakes > 0) {
		left = fake_fabric_alive();
		removals = 0;
		ck_assert_uint_eq(one.replies, 0);
		run_slice();
		ck_assert_uint_le(left - fake_fabric_alive(), SLICE_MAX);
		ck_assert_uint_le(removals, SLICE_MAX);
		slices++;
	}
	ck_assert_uint_ge(slices, 2);
	expect_reply(&one, 0);
	if (_i == END_SHARE_AND_FREE)
		expect_reply(&two, 0);
	ck_assert_uint_eq(stage_revoked.n, CROWD);
	ck_assert_uint_eq(fake_fabric_alive(), _i == END_SHARE ? 1 : 0);
	ck_assert_uint_eq(leases_count(stage_leases), _i == END_SHARE ? 1 : 0);
}
END_TEST

/* One more client of the lease's tenant, which comes behind the crowd. */
static struct lease_client last;

static void last_attach(void)
{
	lease_client_init(&last, 100 + CROWD, &stage_tenant);
	stage_connect(&last, 0);
	ck_assert_int_eq(call_attach(&two, &last, "n", STAGE_RW), 0);
}

static void last_leave(void)
{
	stage_fence(&last);
	ck_assert(!lease_client_release(&last, 1));
	fake_fabric_settle();
	lease_client_destroy(&last);
}

/* Alone, with the end of the share after or before it, or with the end of the lease after it. */
enum cut { CUT_ALONE, CUT_THEN_SHARE, SHARE_THEN_CUT, CUT_THEN_FREE };
#define CUTS 4

/* Memory is free, and the request is answered, when no key reaches it. */
START_TEST(cut__of_a_crowd_is_in_slices)
{
	unsigned left;

	last_attach();
	if (_i == SHARE_THEN_CUT)
		end(END_SHARE);
	send_resize(&three, &stage_a, lease, 1);
	ck_assert_uint_ge(fake_fabric_alive(), CROWD - 2 * SLICE_MAX);
	if (_i == CUT_THEN_SHARE || _i == CUT_THEN_FREE)
		end(_i == CUT_THEN_SHARE ? END_SHARE : END_FREE);
	while (stage_wakes > 0) {
		left = fake_fabric_alive();
		ck_assert_uint_eq(_i != CUT_THEN_FREE && three.replies, 0);
		ck_assert_uint_eq(fake_pools_lent(), 2);
		run_slice();
		ck_assert_uint_le(left - fake_fabric_alive(), SLICE_MAX);
	}
	expect_reply(&three, _i == CUT_THEN_FREE ? -ESTALE : 0);
	if (_i == CUT_ALONE) {
		ck_assert_uint_eq(stage_changed.n, CROWD + 1);
		ck_assert_uint_eq(stage_revoked.n, 0);
		/* now nothing is cut */
		end(END_SHARE);
		while (stage_wakes > 0)
			run_slice();
		ck_assert_uint_eq(stage_changed.n, CROWD + 1);
	}
	ck_assert_uint_eq(stage_revoked.n, _i == CUT_THEN_FREE ? CROWD + 1 : CROWD);
	ck_assert_uint_eq(fake_fabric_alive(), _i == CUT_THEN_FREE ? 0 : 1);
	ck_assert_uint_eq(fake_pools_lent(), _i == CUT_THEN_FREE ? 0 : 1);
	last_leave();
}
END_TEST

/* While a crowd's keys die the lease is no more, its name is free, and its memory is not. */
START_TEST(free__of_a_crowd_frees_the_name_at_once)
{
	send_free(&one, &stage_a, lease);
	ck_assert_int_eq(call_allocate(&two, &stage_b, 1, "n"), 0);
	ck_assert_uint_eq(fake_pools_lent(), 3);
	ck_assert_int_eq(call_rekey(&two, &crowd[CROWD - 1], lease), -ESTALE);
	slices_run(&stage_slices);
	expect_reply(&one, 0);
	ck_assert_uint_eq(fake_pools_lent(), 1);
}
END_TEST

/* Those whose turn has not come are fenced, and leave; or the daemon stops. */
START_TEST(free__of_a_crowd_that_leaves_meanwhile)
{
	send_free(&one, &stage_a, lease);
	for (unsigned i = 0; i < CROWD; i++) {
		stage_fence(&crowd[i]);
		if (_i > 0)
			ck_assert(!lease_client_release(&crowd[i], CROWD));
	}
	if (_i == 2)
		return;
	slices_run(&stage_slices);
	expect_reply(&one, 0);
	ck_assert_uint_eq(fake_pools_lent(), 0);
}
END_TEST

static unsigned crowd_replies(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < CROWD; i++)
		n += calls[i].replies;
	return n;
}

/* A few of the crowd are answered at once, and in each slice. */
static void expect_answers_in_slices(void)
{
	unsigned answered = crowd_replies(), before;

	ck_assert_uint_le(answered, ANSWERS_MAX);
	while (stage_wakes > 0) {
		before = answered;
		run_slice();
		answered = crowd_replies();
		ck_assert_uint_le(answered - before, ANSWERS_MAX);
	}
}

/* The requests that wait for keys fail, before or after the slice that ends the attachment. */
START_TEST(free__of_a_crowd_fails_its_requests_in_slices)
{
	crowd_attach(0, CROWD);
	send_free(&one, &stage_a, lease);
	/* or the daemon stops */
	if (_i == 1)
		return;
	expect_answers_in_slices();
	for (unsigned i = 0; i < CROWD; i++)
		expect_reply(&calls[i], -ESTALE);
	fake_fabric_settle();
	expect_reply(&one, 0);
}
END_TEST

/* A growth waits behind the crowd, and has not been told yet that the lease has ended. */
START_TEST(free__of_a_crowd_lets_it_grow_no_more)
{
	last_attach();
	send_allocate(&one, &stage_b, (FAKE_PAGES - 1) * FAKE_PAGE, "");
	fake_fabric_settle();
	ck_assert_int_eq(call_free(&stage_b, one.lease.lease), 0);
	crowd_attach(0, CROWD);
	send_resize(&two, &last, lease, 2 * FAKE_PAGE);
	ck_assert_int_eq(lease_remove(&stage_tenant, "n", call_begin(&three)), 0);
	ck_assert_uint_eq(two.replies, 0);
	stage_scrub();
	slices_run(&stage_slices);
	expect_reply(&two, -ESTALE);
	fake_fabric_settle();
	expect_reply(&three, 0);
	ck_assert_uint_eq(fake_pools_lent(), 0);
	last_leave();
}
END_TEST

/* As above, but it has its memory, and the client is lost. */
START_TEST(free__of_a_crowd_undoes_a_growth)
{
	last_attach();
	crowd_attach(0, CROWD);
	send_resize(&two, &last, lease, 2 * FAKE_PAGE);
	ck_assert_int_eq(lease_remove(&stage_tenant, "n", call_begin(&three)), 0);
	ck_assert_uint_eq(two.replies, 0);
	ck_assert(lease_waiter_cancel(&two.waiter));
	slices_run(&stage_slices);
	fake_fabric_settle();
	expect_reply(&three, 0);
	ck_assert_uint_eq(ledger_count(stage_ledger), 0);
	last_leave();
}
END_TEST

/* Half of the crowd waits for keys, and behind them are requests that all can be answered. */
START_TEST(changes__look_at_each_request_a_few_times)
{
	crowd_attach(0, 1);
	fake_fabric_settle();
	crowd_attach(1, CROWD / 2);
	ck_assert_int_eq(lease_detach(stage_leases, &crowd[0], lease, false,
				      call_begin(&calls[0])),
			 0);
	for (unsigned i = CROWD / 2 + 1; i < CROWD; i++)
		ck_assert_int_eq(lease_share(stage_leases, &stage_a, lease, "third",
					     STAGE_RW, call_begin(&calls[i])),
				 0);
	slices_run(&stage_slices);
	ck_assert_uint_eq(calls[0].replies + calls[CROWD - 1].replies, 0);
	/* the key that dies is the oldest */
	checks = 0;
	ck_assert(fake_fabric_step(0));
	expect_answers_in_slices();
	expect_reply(&calls[0], 0);
	expect_reply(&calls[CROWD - 1], 0);
	ck_assert_uint_eq(calls[1].replies, 0);
	ck_assert_uint_le(checks, 2 * CROWD);
	fake_fabric_settle();
	slices_run(&stage_slices);
	expect_reply(&calls[1], 0);
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("crowds", setup, teardown);

	tcase_add_loop_test(tcase, end__of_a_crowd_is_in_slices, 0, ENDS);
	tcase_add_loop_test(tcase, cut__of_a_crowd_is_in_slices, 0, CUTS);
	tcase_add_test(tcase, free__of_a_crowd_frees_the_name_at_once);
	tcase_add_loop_test(tcase, free__of_a_crowd_that_leaves_meanwhile, 0, 3);
	tcase = unit_case("requests", setup_slow, teardown);
	tcase_add_loop_test(tcase, free__of_a_crowd_fails_its_requests_in_slices, 0, 2);
	tcase_add_test(tcase, free__of_a_crowd_lets_it_grow_no_more);
	tcase_add_test(tcase, free__of_a_crowd_undoes_a_growth);
	tcase_add_test(tcase, changes__look_at_each_request_a_few_times);
	return unit_main();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* What a turn of the loop does is bounded, whatever clients hold or ask. */
#include <stdio.h>
#include <string.h>

#include "rmemd/control/control.h"
#include "rmemd/control/request.h"
#include "rmemd/state/ledger.h"
#include "unit/rmemd/control-stage.h"
#include "unit/unit.h"

#define MANY 250 /* leases, or requests that wait */

static struct client one, two, three;
static unsigned commits, tries;
static bool staged; /* since the last commit */

void __real_ledger_commit(struct ledger *ledger);
void __wrap_ledger_commit(struct ledger *ledger);
void __real_ledger_remove(struct ledger *ledger, const struct ledger_key *key);
void __wrap_ledger_remove(struct ledger *ledger, const struct ledger_key *key);
bool __real_pools_may_fit(const struct pools *pools, const struct pool_request *request,
			  unsigned max);
bool __wrap_pools_may_fit(const struct pools *pools, const struct pool_request *request,
			  unsigned max);

/* Commits of nothing do not count. */
void __wrap_ledger_commit(struct ledger *ledger)
{
	commits += staged;
	staged = false;
	__real_ledger_commit(ledger);
}

void __wrap_ledger_remove(struct ledger *ledger, const struct ledger_key *key)
{
	size_t before = ledger_count(ledger);

	__real_ledger_remove(ledger, key);
	staged |= ledger_count(ledger) != before;
}

bool __wrap_pools_may_fit(const struct pools *pools, const struct pool_request *request,
			  unsigned max)
{
	tries++;
	return __real_pools_may_fit(pools, request, max);
}

/* From here on no turn has time left: whatever is done in slices, is done by run_slice(). */
static void end_turn(void)
{
	turn_begin(&stage_control.turn, 0);
	stage_control.turn.first_ns = 1;
	commits = tries = 0;
}

static void run_slice(void)
{
	commits = tries = 0;
	slices_run(&stage_control.slices);
}

static void run_slices(void)
{
	stage_control.turn.running = false;
	slices_run(&stage_control.slices);
}

static void allocate_many(struct client *client)
{
	for (unsigned i = 0; i < MANY; i++)
		(void)client_allocate(client, i < 64 ? 1 : 0, "");
}

START_TEST(session__ends_in_slices)
{
	unsigned before, slices = 0;

	client_open_connected(&one);
	allocate_many(&one);
	client_open(&two);
	end_turn();
	client_send(&one, message(WIRE_TYPE_bye));
	ck_assert_uint_eq(leases_count(stage_control.leases), MANY);
	ck_assert_uint_eq(one.closed, 0);
	while (leases_count(stage_control.leases) > 0) {
		before = leases_count(stage_control.leases);
		run_slice();
		fake_fabric_settle();
		ck_assert_uint_le(before - leases_count(stage_control.leases), 64);
		ck_assert_uint_le(commits, 1);
		ck_assert_uint_le(++slices, 20);
		/* others are served meanwhile */
		client_ok(&two, message(WIRE_TYPE_ping));
	}
	run_slices();
	ck_assert_uint_eq(one.closed, 1);
}
END_TEST

START_TEST(keys__reach_nothing_before_they_end_in_slices)
{
	static uint64_t rkeys[64];

	client_open_connected(&one);
	for (unsigned i = 0; i < 64; i++) {
		(void)client_allocate(&one, 1, "");
		rkeys[i] = one.answer.lease.keys[0].rkey;
	}
	end_turn();
	client_lose(&one);
	for (unsigned i = 0; i < 64; i++)
		ck_assert(!fake_fabric_key_works(rkeys[i], 1));
	fake_fabric_settle();
	/* but their memory is not given back before they are deregistered */
	ck_assert_uint_eq(fake_fabric_alive(), 64);
	/* nor is the session resumed */
	client_resume_start(&two, &one);
	fake_fabric_settle();
	ck_assert_uint_eq(two.authenticated, 0);
	run_slice();
	fake_fabric_settle();
	ck_assert_uint_eq(fake_fabric_alive(), 0);
	ck_assert_uint_eq(two.authenticated, 1);
	run_slices();
}
END_TEST

/* Also if the client opens a channel there at once. */
START_TEST(keys__of_a_device_that_is_gone_end_in_slices)
{
	uint64_t lease;

	client_open_connected(&one);
	lease = client_allocate(&one, 1, "");
	for (unsigned i = 1; i < 100; i++)
		(void)client_allocate(&one, i < 64 ? 1 : 0, "");
	one.events = 0;
	end_turn();
	sessions_leave_endpoint(stage_control.sessions, 0);
	fake_fabric_settle();
	ck_assert_uint_eq(fake_fabric_alive(), 64);
	ck_assert_uint_eq(one.events, 0);
	if (_i == 0) {
		run_slice();
		fake_fabric_settle();
		ck_assert_uint_eq(fake_fabric_alive(), 0);
	}
	(void)client_open_channel(&one, 0);
	ck_assert_uint_eq(one.events, 0);
	sessions_tick(stage_control.sessions);
	(void)client_event(&one, 64, WIRE_TYPE_changed);
	(void)client_ask(&one, lease_message(WIRE_TYPE_attach, lease), WIRE_TYPE_lease);
	ck_assert_uint_eq(one.answer.lease.n_keys, 1);
	ck_assert(fake_fabric_key_works(one.answer.lease.keys[0].rkey, 1));
	ck_assert_uint_eq(fake_fabric_alive(), 1);
	run_slices();
	ck_assert(fake_fabric_key_works(one.answer.lease.keys[0].rkey, 1));
}
END_TEST

START_TEST(events__of_many_sessions_wait_when_the_turn_is_over)
{
	uint64_t lease;

	client_open_connected(&one);
	client_open(&two);
	client_open(&three);
	lease = client_allocate(&one, 1, "n");
	(void)client_ask(&two, to_attach("n"), WIRE_TYPE_lease);
	(void)client_ask(&three, to_attach("n"), WIRE_TYPE_lease);
	end_turn();
	client_ok(&one, lease_message(WIRE_TYPE_free, lease));
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_uint_eq(two.events + three.events, i);
		if (i < 2)
			ck_assert_uint_le(sessions_next_ms(stage_control.sessions),
					  stage_now_ms);
		sessions_tick(stage_control.sessions);
	}
	(void)client_event(&two, 1, WIRE_TYPE_revoked);
	(void)client_event(&three, 1, WIRE_TYPE_revoked);
	run_slices();
}
END_TEST

START_TEST(sessions__that_are_due_wait_when_the_turn_is_over)
{
	client_open(&one);
	client_open(&two);
	client_open(&three);
	end_turn();
	stage_now_ms += STAGE_FENCE_MS;
	for (unsigned i = 1; i <= 3; i++) {
		sessions_tick(stage_control.sessions);
		ck_assert_uint_eq(sessions_in(WIRE_SESSION_FENCED), i);
		if (i < 3)
			ck_assert_uint_le(sessions_next_ms(stage_control.sessions),
					  stage_now_ms);
	}
	run_slices();
}
END_TEST

START_TEST(waiting_requests__are_tried_in_slices_by_tenants_in_turn)
{
	uint64_t id;

	client_open_connected(&one);
	client_open_connected(&two);
	client_open_as(&three, "other");
	id = client_allocate(&one, FAKE_PAGES * FAKE_PAGE, "");
	client_ok(&one, lease_message(WIRE_TYPE_free, id));
	for (unsigned i = 0; i < MANY; i++)
		client_send(&two,
			    to_allocate(i < 100 ? FAKE_PAGES * FAKE_PAGE : 1, ""));
	client_send(&three, to_allocate(1, ""));
	three.answers = two.answers = 0;
	fake_pools_scrub();
	end_turn();
	leases_retry(stage_control.leases);
	ck_assert_uint_eq(tries, 0);
	run_slice();
	ck_assert_uint_eq(tries, 1);
	run_slice();
	ck_assert_uint_eq(tries, 1);
	fake_fabric_settle();
	/* the first of the one took all memory, so that of the other failed in its turn */
	ck_assert_uint_eq(three.answers, 1);
	run_slices();
	fake_fabric_settle();
	ck_assert_uint_eq(two.answers, MANY);
}
END_TEST

START_TEST(list__searches_in_slices)
{
	struct wire_msg *msg;
	char name[16];

	client_open(&one);
	client_open(&two);
	for (unsigned i = 0; i < 600; i++) {
		(void)snprintf(name, sizeof(name), "%c%u", i % 300 ? 'n' : 'm', i);
		(void)client_allocate(&one, 0, name);
	}
	end_turn();
	for (unsigned lost = 0; lost < 2; lost++) {
		msg = message(WIRE_TYPE_list);
		(void)strcpy(msg->list.prefix, "m");
		one.answers = 0;
		client_send(&one, msg);
		ck_assert_uint_eq(one.answers, 0);
		client_ok(&two, message(WIRE_TYPE_ping));
		if (lost)
			client_lose(&one);
		run_slice();
		ck_assert_uint_eq(one.answers, 0);
		run_slices();
		end_turn();
		ck_assert_uint_eq(one.answers, !lost);
	}
	ck_assert_uint_eq(one.answer.entries.n_entries, 2);
	ck_assert_uint_eq(one.answer.entries.more, 0);
	ck_assert_str_eq(one.answer.entries.entries[1].name, "m300");
	run_slices();
}
END_TEST

START_TEST(channels__that_are_connected_are_not_searched_for_unused_ones)
{
	const struct tenant *tenant;

	client_open(&one);
	tenant = sessions_lease_client(&stage_control, one.session)->tenant;
	(void)client_channel(&one, 0);
	ck_assert(list_empty(&tenant->granted));
	(void)client_open_channel(&one, 0);
	ck_assert(!list_empty(&tenant->granted));
	client_lose(&one);
	ck_assert(list_empty(&tenant->granted));
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("bounded", control_setup, control_teardown);

	tcase_add_test(tc, session__ends_in_slices);
	tcase_add_test(tc, keys__reach_nothing_before_they_end_in_slices);
	tcase_add_loop_test(tc, keys__of_a_device_that_is_gone_end_in_slices, 0, 2);
	tcase_add_test(tc, events__of_many_sessions_wait_when_the_turn_is_over);
	tcase_add_test(tc, sessions__that_are_due_wait_when_the_turn_is_over);
	tcase_add_test(tc, waiting_requests__are_tried_in_slices_by_tenants_in_turn);
	tcase_add_test(tc, list__searches_in_slices);
	tcase_add_test(tc,
		       channels__that_are_connected_are_not_searched_for_unused_ones);
	return unit_main();
}

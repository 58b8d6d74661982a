/* SPDX-License-Identifier: BSD-3-Clause */
/* Leases are granted, attached, renamed and ended. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "unit/rmemd/lease-stage.h"
#include "unit/unit.h"

static struct asked one, two;
static struct lease_status status;

START_TEST(allocate__answers_with_the_key)
{
	const struct lease_params params = { .bytes = 5000, .node = -1, .name = "" };

	ck_assert_int_eq(lease_allocate(stage_leases, &stage_a, &params, ask(&one)), 0);
	ck_assert_uint_eq(one.answers, 0);
	ck_assert(stage_status(7, &status) && !status.ready);
	fake_fabric_settle();
	ck_assert_uint_eq(one.answers, 1);
	ck_assert_int_eq(one.err, 0);
	ck_assert_uint_eq(one.lease.lease, 7);
	ck_assert_uint_eq(one.lease.bytes, 5000);
	ck_assert_uint_eq(one.lease.rights, STAGE_RW);
	ck_assert_uint_eq(one.lease.n_segments, 1);
	ck_assert_uint_eq(one.lease.segments[0].bytes, 5000);
	ck_assert_uint_eq(one.lease.n_keys, 1);
	ck_assert(fake_fabric_key_works(one.lease.keys[0].rkey, 5000));
	ck_assert(!fake_fabric_key_works(one.lease.keys[0].rkey, 5001));
	ck_assert(stage_status(7, &status));
	ck_assert(status.ready);
	ck_assert_uint_eq(status.owner, stage_a.id);
	ck_assert_uint_eq(status.lent, 2 * FAKE_PAGE);
	ck_assert_uint_eq(status.writers, 1);
	ck_assert_uint_eq(lease_client_lent_bytes(&stage_a), 5000);
}
END_TEST

START_TEST(allocate__gives_a_key_for_every_port_and_segment)
{
	fake_pools_reset(3);
	stage_connect(&stage_a, 5);
	ck_assert_int_eq(granted(&one, &stage_a, 5 * FAKE_PAGE, ""), 0);
	ck_assert_uint_eq(one.lease.n_segments, 3);
	ck_assert_uint_eq(one.lease.n_keys, 6);
	for (unsigned i = 0; i < 6; i++) {
		const struct wire_key *key = &one.lease.keys[i];

		ck_assert(key->endpoint == 0 || key->endpoint == 5);
		ck_assert(fake_fabric_key_works(
			key->rkey, one.lease.segments[key->segment].bytes));
	}
}
END_TEST

START_TEST(allocate__of_nothing_has_no_keys)
{
	ck_assert_int_eq(granted(&one, &stage_a, 0, ""), 0);
	ck_assert_uint_eq(one.lease.n_segments + one.lease.n_keys, 0);
	ck_assert_uint_eq(fake_pools_lent(), 0);
	ck_assert_int_eq(freed(&stage_a, one.lease.lease), 0);
}
END_TEST

START_TEST(allocate__is_undone_when_a_key_cannot_be_made)
{
	fake_pools_reset(3);
	if (_i < 3)
		fake_fabric_fail_call((unsigned)_i, -ENOMEM);
	else
		fake_fabric_fail_news((unsigned)_i - 3, -ENOMEM);
	ck_assert_int_eq(granted(&one, &stage_a, 5 * FAKE_PAGE, "n"), -ENOMEM);
	ck_assert_str_eq(one.text, _i < 3 ? "the fake was told to fail"
					  : "the fake was told to fail later");
	ck_assert_uint_eq(fake_fabric_alive(), 0);
	ck_assert_uint_eq(fake_pools_lent(), 0);
	ck_assert_uint_eq(stage_revoked.n, 0);
	ck_assert_uint_eq(stage_tenant.bytes, 0);
	ck_assert_int_eq(granted(&one, &stage_a, 1, "n"), 0);
}
END_TEST

START_TEST(allocate__refuses_what_makes_no_sense)
{
	const struct lease_params bad[] = {
		{ .bytes = 1, .align = 3, .node = -1, .name = "" },
		{ .bytes = 1, .align = UINT64_C(1) << 31, .node = -1, .name = "" },
		{ .bytes = 1, .node = -2, .name = "" },
		{ .bytes = 1, .node = -1, .ttl_ms = 1, .name = "" },
	};

	ck_assert_int_eq(lease_allocate(stage_leases, &stage_a, &bad[_i], ask(&one)),
			 -EINVAL);
	ck_assert_uint_eq(one.answers, 0);
}
END_TEST

START_TEST(allocate__keeps_names_apart)
{
	ck_assert_int_eq(granted(&one, &stage_a, 1, "n"), 0);
	ck_assert_int_eq(granted(&two, &stage_b, 1, "n"), -EEXIST);
	ck_assert_int_eq(granted(&two, &stage_b, UINT64_MAX, ""), -ENOSPC);
	ck_assert_int_eq(granted(&two, &stage_b, 1, "m"), 0);
	ck_assert_uint_gt(two.lease.lease, one.lease.lease);
	freed(&stage_a, one.lease.lease);
	freed(&stage_b, two.lease.lease);
}
END_TEST

/* A text that the wire would cut loses its end: the cause, or the remedy. */
static void expect_text(const char *end)
{
	size_t bytes = strlen(one.text), end_bytes = strlen(end);

	ck_assert_uint_lt(bytes, WIRE_NAME_MAX);
	ck_assert_uint_ge(bytes, end_bytes);
	ck_assert_str_eq(one.text + bytes - end_bytes, end);
}

START_TEST(texts__fit_the_wire_whatever_the_name)
{
	char name[WIRE_NAME_MAX + 1] = { 0 }, none[WIRE_NAME_MAX + 1] = { 0 };
	uint64_t id;

	memset(name, 'n', WIRE_NAME_MAX);
	/* characters of two bytes each, the last one cut */
	for (unsigned i = 0; i < WIRE_NAME_MAX; i++)
		none[i] = i % 2 ? '\xa9' : '\xc3';
	ck_assert_int_eq(attached(&one, &stage_a, none, WIRE_RIGHT_READ), -ENOENT);
	expect_text("\xc3\xa9\"...");
	ck_assert_int_eq(attached(&one, &stage_a, "few", WIRE_RIGHT_READ), -ENOENT);
	expect_text(" \"few\"");
	ck_assert_int_eq(granted(&one, &stage_a, 1, name), 0);
	ck_assert_int_eq(granted(&one, &stage_a, 1, name), -EEXIST);
	expect_text("n\"... already");
	ck_assert_int_eq(attached(&one, &stage_a, name, WIRE_RIGHT_READ), -EBUSY);
	expect_text("n\"... attached already");
	ck_assert_int_eq(granted(&one, &stage_a, 1, ""), 0);
	id = one.lease.lease;
	ck_assert_int_eq(
		lease_rename(stage_leases, &stage_a, id, name, false, ask(&one)),
		-EEXIST);
	(void)snprintf(one.text, sizeof(one.text), "%s", err_text());
	expect_text("n\"... already");
}
END_TEST

START_TEST(allocate__heeds_the_limits)
{
	stage_tenant.limits.leases_max = 2;
	stage_tenant.limits.lease_max = 3 * FAKE_PAGE;
	stage_tenant.limits.bytes_max = 4 * FAKE_PAGE;
	ck_assert_int_eq(granted(&one, &stage_a, 3 * FAKE_PAGE + 1, ""), -EDQUOT);
	ck_assert_int_eq(granted(&one, &stage_a, 3 * FAKE_PAGE, ""), 0);
	ck_assert_int_eq(granted(&two, &stage_a, FAKE_PAGE + 1, ""), -EDQUOT);
	ck_assert_uint_eq(fake_pools_lent(), 3);
	ck_assert_int_eq(granted(&two, &stage_a, FAKE_PAGE, ""), 0);
	ck_assert_int_eq(granted(&two, &stage_a, 0, ""), -EDQUOT);
	/* bytes count until their keys are dead */
	ck_assert_int_eq(lease_free(stage_leases, &stage_a, one.lease.lease, ask(&two)),
			 0);
	ck_assert_uint_eq(stage_tenant.bytes, 4 * FAKE_PAGE);
	fake_fabric_settle();
	ck_assert_uint_eq(stage_tenant.bytes, FAKE_PAGE);
}
END_TEST

START_TEST(attach__heeds_the_limit)
{
	stage_tenant.limits.leases_max = 1;
	ck_assert_int_eq(granted(&one, &stage_a, 1, "n"), 0);
	stage_tenant.n_attachments += 3;
	ck_assert_int_eq(attached(&two, &stage_b, "n", STAGE_RW), -EDQUOT);
	stage_tenant.n_attachments -= 3;
	ck_assert_int_eq(freed(&stage_a, one.lease.lease), 0);
}
END_TEST

START_TEST(attach__gives_keys_of_its_own)
{
	ck_assert_int_eq(granted(&one, &stage_a, 100, "n"), 0);
	ck_assert_int_eq(attached(&two, &stage_b, "n", WIRE_RIGHT_READ), 0);
	ck_assert_uint_eq(two.lease.lease, one.lease.lease);
	ck_assert_uint_eq(two.lease.rights, WIRE_RIGHT_READ);
	ck_assert_str_eq(two.lease.name, "n");
	ck_assert_uint_ne(two.lease.keys[0].rkey, one.lease.keys[0].rkey);
	ck_assert(stage_status(one.lease.lease, &status));
	ck_assert_uint_eq(status.sessions, 2);
	ck_assert_uint_eq(status.writers, 1);
	ck_assert_int_eq(attached(&two, &stage_b, "n", STAGE_RW), -EBUSY);
	ck_assert_int_eq(attached(&two, &stage_b, "m", STAGE_RW), -ENOENT);
	ck_assert_int_eq(attached(&two, &stage_b, "n", 0), -EINVAL);
	ck_assert_int_eq(attached(&two, &stage_b, "n", WIRE_RIGHT_WRITE), -EINVAL);
	ck_assert_int_eq(attached(&two, &stage_b, "n", 7), -EINVAL);
	ck_assert_int_eq(freed(&stage_a, one.lease.lease), 0);
}
END_TEST

START_TEST(attach__is_undone_when_a_key_cannot_be_made)
{
	ck_assert_int_eq(granted(&one, &stage_a, 100, "n"), 0);
	if (_i)
		fake_fabric_fail_call(0, -ENOMEM);
	else
		fake_fabric_fail_news(0, -ENOMEM);
	ck_assert_int_eq(attached(&two, &stage_b, "n", STAGE_RW), -ENOMEM);
	ck_assert_uint_eq(stage_b.n_attachments, 0);
	ck_assert(fake_fabric_key_works(one.lease.keys[0].rkey, 100));
	ck_assert_int_eq(attached(&two, &stage_b, "n", STAGE_RW), 0);
	ck_assert_int_eq(freed(&stage_a, one.lease.lease), 0);
}
END_TEST

START_TEST(read_only__may_change_nothing)
{
	uint64_t id;

	ck_assert_int_eq(granted(&one, &stage_a, 100, "n"), 0);
	id = one.lease.lease;
	ck_assert_int_eq(attached(&two, &stage_b, "n", WIRE_RIGHT_READ), 0);
	ck_assert_int_eq(freed(&stage_b, id), -EACCES);
	ck_assert_int_eq(renamed(&stage_b, id, "m", true), -EACCES);
	ck_assert_int_eq(resized(&two, &stage_b, id, 200), -EACCES);
	ck_assert_int_eq(resized(&two, &stage_b, id, 50), -EACCES);
	ck_assert_int_eq(lease_renew(stage_leases, &stage_b, id, 1), -EACCES);
	ck_assert_int_eq(freed(&stage_a, id), 0);
}
END_TEST

START_TEST(strangers__find_nothing_by_id)
{
	uint64_t id;

	ck_assert_int_eq(granted(&one, &stage_a, 100, "n"), 0);
	id = one.lease.lease + (uint64_t)_i;
	ck_assert_int_eq(freed(&stage_b, id), -ESTALE);
	ck_assert_int_eq(renamed(&stage_b, id, "m", true), -ESTALE);
	ck_assert_int_eq(resized(&two, &stage_b, id, 200), -ESTALE);
	ck_assert_int_eq(rekeyed(&two, &stage_b, id), -ESTALE);
	ck_assert_int_eq(lease_detach(stage_leases, &stage_b, id, ask(&two)), -ESTALE);
	ck_assert_int_eq(lease_renew(stage_leases, &stage_b, id, 1), -ESTALE);
	ck_assert_int_eq(freed(&stage_a, one.lease.lease), 0);
}
END_TEST

START_TEST(detach__ends_an_ephemeral_lease_alone)
{
	ck_assert_int_eq(granted(&one, &stage_a, 100, _i ? "n" : ""), 0);
	ck_assert_int_eq(
		lease_detach(stage_leases, &stage_a, one.lease.lease, ask(&two)), 0);
	ck_assert_uint_eq(two.answers, 0);
	fake_fabric_settle();
	ck_assert_uint_eq(two.answers, 1);
	ck_assert_uint_eq(fake_pools_lent(), (unsigned)_i);
	ck_assert_uint_eq(stage_revoked.n, 0);
	if (_i) {
		ck_assert_int_eq(attached(&two, &stage_b, "n", STAGE_RW), 0);
		ck_assert_int_eq(freed(&stage_b, two.lease.lease), 0);
	}
}
END_TEST

START_TEST(remove__ends_what_others_use)
{
	ck_assert_int_eq(granted(&one, &stage_a, 100, "n"), 0);
	ck_assert_int_eq(lease_remove(&stage_tenant, "m", ask(&two)), -ENOENT);
	ck_assert_int_eq(lease_remove(&stage_tenant, "n", ask(&two)), 0);
	ck_assert_ptr_eq(stage_revoked.client, &stage_a);
	fake_fabric_settle();
	ck_assert_uint_eq(two.answers, 1);
	ck_assert_uint_eq(fake_pools_lent(), 0);
}
END_TEST

START_TEST(rename__replaces_when_asked)
{
	uint64_t old, new;

	ck_assert_int_eq(granted(&one, &stage_a, 100, "n"), 0);
	old = one.lease.lease;
	ck_assert_int_eq(granted(&one, &stage_a, 200, ""), 0);
	new = one.lease.lease;
	ck_assert_int_eq(attached(&two, &stage_b, "n", WIRE_RIGHT_READ), 0);
	ck_assert_int_eq(renamed(&stage_a, new, "", false), -EINVAL);
	ck_assert_int_eq(renamed(&stage_a, new, "n", false), -EEXIST);
	ck_assert_uint_eq(stage_revoked.n, 0);
	ck_assert_int_eq(renamed(&stage_a, new, "n", true), 0);
	ck_assert_uint_eq(stage_revoked.n, 2);
	ck_assert_uint_eq(stage_revoked.lease, old);
	ck_assert_uint_eq(fake_pools_lent(), 1);
	ck_assert_int_eq(renamed(&stage_a, new, "n", false), 0);
	ck_assert_int_eq(lease_stat(&stage_tenant, "n", &status), 0);
	ck_assert_uint_eq(status.id, new);
	ck_assert_uint_eq(status.owner, 0);
	/* it does not end with its session any more */
	stage_fence(&stage_a);
	lease_client_release(&stage_a);
	fake_fabric_settle();
	ck_assert_int_eq(attached(&two, &stage_b, "n", STAGE_RW), 0);
	ck_assert_int_eq(renamed(&stage_b, new, "m", false), 0);
	ck_assert_int_eq(lease_stat(&stage_tenant, "n", &status), -ENOENT);
	ck_assert_int_eq(freed(&stage_b, new), 0);
}
END_TEST

START_TEST(time_to_live__ends_named_leases)
{
	const struct lease_params params = {
		.bytes = 1, .node = -1, .ttl_ms = 500, .name = "n"
	};

	ck_assert_int_eq(lease_allocate(stage_leases, &stage_a, &params, ask(&one)), 0);
	fake_fabric_settle();
	ck_assert_uint_eq(one.lease.ttl_ms, 500);
	stage_now_ms += 400;
	ck_assert_int_eq(lease_renew(stage_leases, &stage_a, one.lease.lease, 300), 0);
	stage_now_ms += 299;
	leases_tick(stage_leases);
	ck_assert_uint_eq(stage_expired, 0);
	ck_assert(stage_status(one.lease.lease, &status));
	ck_assert_uint_eq(status.ttl_ms, 1);
	ck_assert_uint_eq(leases_next_ms(stage_leases), stage_now_ms + 1);
	stage_now_ms++;
	leases_tick(stage_leases);
	ck_assert_uint_eq(stage_expired, 1);
	ck_assert_ptr_eq(stage_revoked.client, &stage_a);
	ck_assert_uint_eq(stage_revoked.reason, WIRE_REASON_EXPIRED);
	fake_fabric_settle();
	ck_assert_uint_eq(fake_pools_lent(), 0);
}
END_TEST

START_TEST(time_to_live__of_many_ends_in_several_turns)
{
	struct lease_params params = { .bytes = 0, .node = -1, .ttl_ms = 500 };
	unsigned turns = 0, before;
	char name[16];

	stage_tenant.limits.leases_max = 300;
	for (unsigned i = 0; i < 300; i++) {
		(void)snprintf(name, sizeof(name), "n%u", i);
		params.name = name;
		ck_assert_int_eq(
			lease_allocate(stage_leases, &stage_a, &params, ask(&one)), 0);
	}
	stage_now_ms += 500;
	do {
		before = stage_expired;
		leases_tick(stage_leases);
		ck_assert_uint_gt(stage_expired, before);
		ck_assert_uint_le(stage_expired, before + 64);
		/* what is left is due at once */
		ck_assert(stage_expired == 300 ||
			  leases_next_ms(stage_leases) <= stage_now_ms);
		turns++;
	} while (stage_expired < 300);
	ck_assert_uint_eq(turns, 5);
	ck_assert_uint_eq(leases_next_ms(stage_leases), UINT64_MAX);
}
END_TEST

START_TEST(time_to_live__may_be_for_ever)
{
	ck_assert_int_eq(granted(&one, &stage_a, 1, "n"), 0);
	ck_assert_int_eq(lease_renew(stage_leases, &stage_a, one.lease.lease, 5), 0);
	ck_assert_int_eq(
		lease_renew(stage_leases, &stage_a, one.lease.lease, UINT64_MAX), 0);
	stage_now_ms += 1000;
	leases_tick(stage_leases);
	ck_assert_int_eq(lease_renew(stage_leases, &stage_a, one.lease.lease, 0), 0);
	ck_assert_uint_eq(leases_next_ms(stage_leases), UINT64_MAX);
	ck_assert_int_eq(granted(&two, &stage_a, 1, ""), 0);
	ck_assert_int_eq(lease_renew(stage_leases, &stage_a, two.lease.lease, 5),
			 -EINVAL);
	ck_assert_int_eq(freed(&stage_a, one.lease.lease), 0);
}
END_TEST

/* ---- atomic home ---- */

static const struct fabric_endpoint tcp_place = { .kind = FABRIC_TCP,
						  .flags = FABRIC_ENDPOINT_ATOMICS };
static const struct fabric_endpoint able_place = { .kind = FABRIC_VERBS,
						   .flags = FABRIC_ENDPOINT_ATOMICS,
						   .device = "able0" };
static const struct fabric_endpoint poor_place = { .kind = FABRIC_VERBS,
						   .device = "poor0" };

START_TEST(home__is_where_the_first_one_asks)
{
	struct lease_atomic_device home = { .kind = 0 };
	uint64_t id;

	ck_assert_int_eq(granted(&one, &stage_a, 100, "n"), 0);
	id = one.lease.lease;
	ck_assert_int_eq(attached(&two, &stage_b, "n", STAGE_RW), 0);
	ck_assert_int_eq(
		lease_fix_atomic_device(stage_leases, &stage_a, id, &poor_place, &home),
		-ENOTSUP);
	ck_assert_ptr_nonnull(strstr(err_text(), "RDMA device poor0 has no atomics"));
	ck_assert_int_eq(home.kind, 0);
	ck_assert_int_eq(lease_fix_atomic_device(stage_leases, &stage_a, id,
						 _i ? &able_place : &tcp_place, &home),
			 0);
	ck_assert_int_eq(home.kind, _i ? FABRIC_VERBS : FABRIC_TCP);
	ck_assert_str_eq(home.name, _i ? "able0" : "");
	/* for everybody, through whatever they come */
	memset(&home, 0, sizeof(home));
	ck_assert_int_eq(lease_fix_atomic_device(stage_leases, &stage_b, id,
						 _i ? &tcp_place : &able_place, &home),
			 0);
	ck_assert_int_eq(home.kind, _i ? FABRIC_VERBS : FABRIC_TCP);
	ck_assert_int_eq(
		lease_fix_atomic_device(stage_leases, &stage_b, id, &poor_place, &home),
		0);
	ck_assert_str_eq(home.name, _i ? "able0" : "");
	/* and no longer than the lease lives */
	ck_assert_int_eq(freed(&stage_a, id), 0);
	ck_assert_int_eq(
		lease_fix_atomic_device(stage_leases, &stage_a, id, &tcp_place, &home),
		-ESTALE);
	ck_assert_int_eq(granted(&one, &stage_a, 100, "n"), 0);
	ck_assert_int_eq(lease_fix_atomic_device(stage_leases, &stage_a,
						 one.lease.lease,
						 _i ? &tcp_place : &able_place, &home),
			 0);
	ck_assert_int_eq(home.kind, _i ? FABRIC_TCP : FABRIC_VERBS);
	ck_assert_int_eq(freed(&stage_a, one.lease.lease), 0);
}
END_TEST

START_TEST(home__is_not_for_those_who_only_read)
{
	struct lease_atomic_device home;

	ck_assert_int_eq(granted(&one, &stage_a, 100, "n"), 0);
	ck_assert_int_eq(lease_fix_atomic_device(stage_leases, &stage_b,
						 one.lease.lease, &tcp_place, &home),
			 -ESTALE);
	ck_assert_int_eq(attached(&two, &stage_b, "n", WIRE_RIGHT_READ), 0);
	ck_assert_int_eq(lease_fix_atomic_device(stage_leases, &stage_b,
						 one.lease.lease, &tcp_place, &home),
			 -EACCES);
	ck_assert_int_eq(freed(&stage_a, one.lease.lease), 0);
}
END_TEST

/* What holds of any fabric. */
static void add_all(TCase *tc)
{
	tcase_add_test(tc, allocate__gives_a_key_for_every_port_and_segment);
	tcase_add_test(tc, allocate__of_nothing_has_no_keys);
	tcase_add_loop_test(tc, allocate__is_undone_when_a_key_cannot_be_made, 0, 6);
	tcase_add_test(tc, attach__gives_keys_of_its_own);
	tcase_add_loop_test(tc, attach__is_undone_when_a_key_cannot_be_made, 0, 2);
	tcase_add_test(tc, read_only__may_change_nothing);
	tcase_add_test(tc, remove__ends_what_others_use);
	tcase_add_test(tc, rename__replaces_when_asked);
	tcase_add_test(tc, time_to_live__ends_named_leases);
	tcase_add_test(tc, time_to_live__of_many_ends_in_several_turns);
	tcase_add_test(tc, time_to_live__may_be_for_ever);
	tcase_add_loop_test(tc, home__is_where_the_first_one_asks, 0, 2);
	tcase_add_test(tc, home__is_not_for_those_who_only_read);
}

int main(void)
{
	Suite *suite = suite_create("lease");
	TCase *tc = tcase_create("lease"), *now = tcase_create("now");

	tcase_add_checked_fixture(tc, stage_setup, stage_teardown);
	add_all(tc);
	tcase_add_test(tc, allocate__answers_with_the_key);
	tcase_add_loop_test(tc, allocate__refuses_what_makes_no_sense, 0, 4);
	tcase_add_test(tc, allocate__keeps_names_apart);
	tcase_add_test(tc, texts__fit_the_wire_whatever_the_name);
	tcase_add_test(tc, allocate__heeds_the_limits);
	tcase_add_test(tc, attach__heeds_the_limit);
	tcase_add_loop_test(tc, detach__ends_an_ephemeral_lease_alone, 0, 2);
	tcase_add_loop_test(tc, strangers__find_nothing_by_id, 0, 2);
	suite_add_tcase(suite, tc);
	tcase_add_checked_fixture(now, stage_setup_now, stage_teardown);
	add_all(now);
	suite_add_tcase(suite, now);
	return unit_main(suite);
}

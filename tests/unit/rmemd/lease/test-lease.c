/* SPDX-License-Identifier: BSD-3-Clause */
/* Leases are granted, attached, renamed and ended. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "rmemd/lease/origin.h"
#include "unit/rmemd/lease-stage.h"
#include "unit/unit.h"

static struct call one, two;
static struct lease_status status;

START_TEST(allocate__replies_with_the_key)
{
	send_allocate(&one, &stage_a, 5000, "");
	ck_assert_uint_eq(one.replies, 0);
	ck_assert(stage_status(7, &status) && !status.ready);
	fake_fabric_settle();
	expect_reply(&one, 0);
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
	ck_assert_uint_eq(stage_a.lent_bytes, 5000);
}
END_TEST

START_TEST(allocate__makes_a_key_per_port_and_segment)
{
	fake_pools_reset(3);
	stage_connect(&stage_a, 5);
	(void)new_lease(&one, &stage_a, 5 * FAKE_PAGE, "");
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

START_TEST(allocate__of_no_bytes_makes_no_keys)
{
	(void)new_lease(&one, &stage_a, 0, "");
	ck_assert_uint_eq(one.lease.n_segments + one.lease.n_keys, 0);
	ck_assert_uint_eq(fake_pools_lent(), 0);
	ck_assert_int_eq(call_free(&stage_a, one.lease.lease), 0);
}
END_TEST

START_TEST(allocate__is_undone_when_registration_fails)
{
	fake_pools_reset(3);
	if (_i < 3)
		fake_fabric_fail_reg((unsigned)_i, -ENOMEM);
	else
		fake_fabric_fail_event((unsigned)_i - 3, -ENOMEM);
	ck_assert_int_eq(call_allocate(&one, &stage_a, 5 * FAKE_PAGE, "n"), -ENOMEM);
	ck_assert_str_eq(one.text, _i < 3 ? "the fake fails the call"
					  : "the fake fails the event");
	ck_assert_uint_eq(fake_fabric_alive(), 0);
	ck_assert_uint_eq(fake_pools_lent(), 0);
	ck_assert_uint_eq(stage_revoked.n, 0);
	ck_assert_uint_eq(stage_tenant.bytes, 0);
	(void)new_lease(&one, &stage_a, 1, "n");
}
END_TEST

START_TEST(invalid_parameters__are_refused)
{
	const struct lease_params bad[] = {
		{ .bytes = 1, .align = 3, .node = -1, .name = "" },
		{ .bytes = 1, .align = UINT64_C(1) << 31, .node = -1, .name = "" },
		{ .bytes = 1, .node = -2, .name = "" },
	};

	ck_assert_int_eq(lease_check_params(&bad[_i]), -EINVAL);
}
END_TEST

START_TEST(allocate__refuses_a_name_in_use)
{
	(void)new_lease(&one, &stage_a, 1, "n");
	ck_assert_int_eq(call_allocate(&two, &stage_b, 1, "n"), -EEXIST);
	ck_assert_int_eq(call_allocate(&two, &stage_b, UINT64_MAX, ""), -ENOSPC);
	(void)new_lease(&two, &stage_b, 1, "m");
	ck_assert_uint_gt(two.lease.lease, one.lease.lease);
	ck_assert_int_eq(call_free(&stage_a, one.lease.lease), 0);
	ck_assert_int_eq(call_free(&stage_b, two.lease.lease), 0);
}
END_TEST

/* The wire cuts long texts, and the end of a text has the cause or the remedy. */
static void expect_text(const char *end)
{
	size_t bytes = strlen(one.text), end_bytes = strlen(end);

	ck_assert_uint_lt(bytes, WIRE_NAME_MAX);
	ck_assert_uint_ge(bytes, end_bytes);
	ck_assert_str_eq(one.text + bytes - end_bytes, end);
}

START_TEST(error_texts__fit_the_wire_with_any_name)
{
	char name[WIRE_NAME_MAX + 1] = { 0 }, none[WIRE_NAME_MAX + 1] = { 0 };
	uint64_t id;

	memset(name, 'n', WIRE_NAME_MAX);
	/* characters of two bytes, the last one incomplete */
	for (unsigned i = 0; i < WIRE_NAME_MAX; i++)
		none[i] = i % 2 ? '\xa9' : '\xc3';
	ck_assert_int_eq(call_attach(&one, &stage_a, none, WIRE_RIGHT_READ), -ENOENT);
	expect_text("\xc3\xa9\"...");
	ck_assert_int_eq(call_attach(&one, &stage_a, "few", WIRE_RIGHT_READ), -ENOENT);
	expect_text(" \"few\"");
	(void)new_lease(&one, &stage_a, 1, name);
	ck_assert_int_eq(call_allocate(&one, &stage_a, 1, name), -EEXIST);
	expect_text("n\"... already");
	ck_assert_int_eq(call_attach(&one, &stage_a, name, WIRE_RIGHT_READ), -EALREADY);
	expect_text("n\"... attached already");
	id = new_lease(&one, &stage_a, 1, "");
	ck_assert_int_eq(
		lease_rename(stage_leases, &stage_a, id, name, false, call_begin(&one)),
		-EEXIST);
	(void)snprintf(one.text, sizeof(one.text), "%s", err_text());
	expect_text("n\"... already");
}
END_TEST

START_TEST(allocate__refuses_to_exceed_limits)
{
	stage_tenant.limits.leases_max = 2;
	stage_tenant.limits.lease_max = 3 * FAKE_PAGE;
	stage_tenant.limits.bytes_max = 4 * FAKE_PAGE;
	ck_assert_int_eq(call_allocate(&one, &stage_a, 3 * FAKE_PAGE + 1, ""), -EDQUOT);
	(void)new_lease(&one, &stage_a, 3 * FAKE_PAGE, "");
	ck_assert_int_eq(call_allocate(&two, &stage_a, FAKE_PAGE + 1, ""), -EDQUOT);
	ck_assert_uint_eq(fake_pools_lent(), 3);
	(void)new_lease(&two, &stage_a, FAKE_PAGE, "");
	ck_assert_int_eq(call_allocate(&two, &stage_a, 0, ""), -EDQUOT);
	/* bytes count until their keys are dead */
	send_free(&two, &stage_a, one.lease.lease);
	ck_assert_uint_eq(stage_tenant.bytes, 4 * FAKE_PAGE);
	fake_fabric_settle();
	ck_assert_uint_eq(stage_tenant.bytes, FAKE_PAGE);
}
END_TEST

START_TEST(attach__refuses_to_exceed_the_limit)
{
	stage_tenant.limits.leases_max = 1;
	(void)new_lease(&one, &stage_a, 1, "n");
	stage_tenant.n_attachments += 3;
	ck_assert_int_eq(call_attach(&two, &stage_b, "n", STAGE_RW), -EDQUOT);
	stage_tenant.n_attachments -= 3;
	ck_assert_int_eq(call_free(&stage_a, one.lease.lease), 0);
}
END_TEST

START_TEST(attach__makes_its_own_keys)
{
	(void)new_lease(&one, &stage_a, 100, "n");
	ck_assert_int_eq(call_attach(&two, &stage_b, "n", WIRE_RIGHT_READ), 0);
	ck_assert_uint_eq(two.lease.lease, one.lease.lease);
	ck_assert_uint_eq(two.lease.rights, WIRE_RIGHT_READ);
	ck_assert_str_eq(two.lease.name, "n");
	ck_assert_uint_ne(two.lease.keys[0].rkey, one.lease.keys[0].rkey);
	ck_assert(stage_status(one.lease.lease, &status));
	ck_assert_uint_eq(status.sessions, 2);
	ck_assert_uint_eq(status.writers, 1);
	ck_assert_int_eq(call_attach(&two, &stage_b, "n", STAGE_RW), -EALREADY);
	ck_assert_int_eq(call_attach(&two, &stage_b, "m", STAGE_RW), -ENOENT);
	ck_assert_int_eq(lease_check_rights(0), -EINVAL);
	ck_assert_int_eq(lease_check_rights(WIRE_RIGHT_WRITE), -EINVAL);
	ck_assert_int_eq(lease_check_rights(7), -EINVAL);
	ck_assert_int_eq(lease_check_rights(WIRE_RIGHT_READ), 0);
	ck_assert_int_eq(call_free(&stage_a, one.lease.lease), 0);
}
END_TEST

static int count_holder(const struct lease_holder *holder, void *arg)
{
	unsigned *n = arg;

	(*n)++;
	if (holder->session == 1) {
		ck_assert_uint_eq(holder->rights, STAGE_RW);
		ck_assert(origin_is(holder->origin, "a's program", "192.0.2.1:33"));
	} else {
		ck_assert_uint_eq(holder->session, 2);
		ck_assert_uint_eq(holder->rights, WIRE_RIGHT_READ);
		ck_assert(origin_is(holder->origin, "b's program", "[2001:db8::2]:22"));
	}
	ck_assert_str_eq(holder->tenant, stage_tenant.name);
	return 0;
}

static unsigned holders_after(uint64_t session)
{
	unsigned n = 0;

	ck_assert(stage_status(one.lease.lease, &status));
	ck_assert_int_eq(lease_each_holder(&status, session, count_holder, &n), 0);
	return n;
}

START_TEST(lease__tells_its_creator_and_its_holders)
{
	(void)new_lease(&one, &stage_a, 100, "n");
	/* the client has another address now */
	lease_client_set_origin(&stage_a, "a's program", "192.0.2.1:33");
	ck_assert_int_eq(call_attach(&two, &stage_b, "n", WIRE_RIGHT_READ), 0);
	ck_assert_uint_eq(holders_after(0), 2);
	ck_assert_uint_eq(holders_after(1), 1);
	ck_assert_uint_eq(holders_after(2), 0);
	ck_assert(origin_is(status.creator, "a's program", "192.0.2.1:11"));
	ck_assert(lease_is_of(&status, 1) && lease_is_of(&status, 2));
	ck_assert(!lease_is_of(&status, 3));
	stage_fence(&stage_a);
	ck_assert(!lease_client_release(&stage_a, UINT_MAX));
	ck_assert_uint_eq(holders_after(0), 1);
	ck_assert_uint_eq(status.writers, 0);
	ck_assert(!lease_is_of(&status, 1));
	(void)new_lease(&two, &stage_b, 100, "");
	ck_assert(stage_status(two.lease.lease, &status));
	ck_assert(lease_is_of(&status, 2));
}
END_TEST

START_TEST(attach__is_undone_when_registration_fails)
{
	(void)new_lease(&one, &stage_a, 100, "n");
	if (_i)
		fake_fabric_fail_reg(0, -ENOMEM);
	else
		fake_fabric_fail_event(0, -ENOMEM);
	ck_assert_int_eq(call_attach(&two, &stage_b, "n", STAGE_RW), -ENOMEM);
	ck_assert_uint_eq(stage_b.n_attachments, 0);
	ck_assert(fake_fabric_key_works(one.lease.keys[0].rkey, 100));
	ck_assert_int_eq(call_attach(&two, &stage_b, "n", STAGE_RW), 0);
	ck_assert_int_eq(call_free(&stage_a, one.lease.lease), 0);
}
END_TEST

START_TEST(changes__need_the_right_to_write)
{
	uint64_t id = new_lease(&one, &stage_a, 100, "n");

	ck_assert_int_eq(call_attach(&two, &stage_b, "n", WIRE_RIGHT_READ), 0);
	ck_assert_int_eq(call_free(&stage_b, id), -EACCES);
	ck_assert_int_eq(call_rename(&stage_b, id, "m", true), -EACCES);
	ck_assert_int_eq(call_resize(&two, &stage_b, id, 200), -EACCES);
	ck_assert_int_eq(call_resize(&two, &stage_b, id, 50), -EACCES);
	ck_assert_int_eq(lease_renew(stage_leases, &stage_b, id, 1, false), -EACCES);
	ck_assert_int_eq(call_free(&stage_a, id), 0);
}
END_TEST

START_TEST(requests__need_an_attached_lease)
{
	uint64_t id;

	(void)new_lease(&one, &stage_a, 100, "n");
	id = one.lease.lease + (uint64_t)_i;
	ck_assert_int_eq(call_free(&stage_b, id), -ESTALE);
	ck_assert_int_eq(call_rename(&stage_b, id, "m", true), -ESTALE);
	ck_assert_int_eq(call_resize(&two, &stage_b, id, 200), -ESTALE);
	ck_assert_int_eq(call_rekey(&two, &stage_b, id), -ESTALE);
	ck_assert_int_eq(
		lease_detach(stage_leases, &stage_b, id, false, call_begin(&two)),
		-ESTALE);
	ck_assert_int_eq(lease_renew(stage_leases, &stage_b, id, 1, false), -ESTALE);
	ck_assert_int_eq(call_free(&stage_a, one.lease.lease), 0);
}
END_TEST

START_TEST(detach__ends_only_ephemeral_leases)
{
	(void)new_lease(&one, &stage_a, 100, _i ? "n" : "");
	send_detach(&two, &stage_a, one.lease.lease);
	ck_assert_uint_eq(two.replies, 0);
	fake_fabric_settle();
	ck_assert_uint_eq(two.replies, 1);
	ck_assert_uint_eq(fake_pools_lent(), (unsigned)_i);
	ck_assert_uint_eq(stage_revoked.n, 0);
	if (_i) {
		ck_assert_int_eq(call_attach(&two, &stage_b, "n", STAGE_RW), 0);
		ck_assert_int_eq(call_free(&stage_b, two.lease.lease), 0);
	}
}
END_TEST

START_TEST(remove__ends_an_attached_lease)
{
	(void)new_lease(&one, &stage_a, 100, "n");
	ck_assert_int_eq(lease_remove(&stage_tenant, "m", call_begin(&two)), -ENOENT);
	ck_assert_int_eq(lease_remove(&stage_tenant, "n", call_begin(&two)), 0);
	ck_assert_ptr_eq(stage_revoked.client, &stage_a);
	fake_fabric_settle();
	ck_assert_uint_eq(two.replies, 1);
	ck_assert_uint_eq(fake_pools_lent(), 0);
}
END_TEST

START_TEST(revoke__ends_a_lease_for_all)
{
	uint64_t id = new_lease(&one, &stage_a, 100, "a");

	ck_assert_int_eq(call_attach(&two, &stage_b, "a", WIRE_RIGHT_READ), 0);
	ck_assert_int_eq(leases_revoke(stage_leases, id), 0);
	ck_assert_uint_eq(stage_revoked.n, 2);
	ck_assert_uint_eq(stage_revoked.lease, id);
	ck_assert_uint_eq(stage_revoked.reason, WIRE_REASON_REVOKED);
	ck_assert_int_eq(leases_revoke(stage_leases, id), -ENOENT);
	ck_assert_int_eq(leases_revoke(stage_leases, id + 1), -ENOENT);
}
END_TEST

START_TEST(rename__replaces_on_request)
{
	uint64_t old, new;

	old = new_lease(&one, &stage_a, 100, "n");
	new = new_lease(&one, &stage_a, 200, "");
	ck_assert_int_eq(call_attach(&two, &stage_b, "n", WIRE_RIGHT_READ), 0);
	ck_assert_int_eq(call_rename(&stage_a, new, "n", false), -EEXIST);
	ck_assert_uint_eq(stage_revoked.n, 0);
	ck_assert_int_eq(call_rename(&stage_a, new, "n", true), 0);
	ck_assert_uint_eq(stage_revoked.n, 2);
	ck_assert_uint_eq(stage_revoked.lease, old);
	ck_assert_uint_eq(stage_revoked.reason, WIRE_REASON_REPLACED);
	ck_assert_uint_eq(fake_pools_lent(), 1);
	ck_assert_int_eq(call_rename(&stage_a, new, "n", false), 0);
	ck_assert_int_eq(lease_stat(&stage_tenant, &stage_own, "n", &status), 0);
	ck_assert_uint_eq(status.id, new);
	ck_assert_uint_eq(status.owner, 0);
	/* a named lease does not end with its session */
	stage_fence(&stage_a);
	ck_assert(!lease_client_release(&stage_a, UINT_MAX));
	fake_fabric_settle();
	ck_assert_int_eq(call_attach(&two, &stage_b, "n", STAGE_RW), 0);
	ck_assert_int_eq(call_rename(&stage_b, new, "m", false), 0);
	ck_assert_int_eq(lease_stat(&stage_tenant, &stage_own, "n", &status), -ENOENT);
	ck_assert_int_eq(call_free(&stage_b, new), 0);
}
END_TEST

START_TEST(time_to_live__ends_named_leases)
{
	const struct lease_params params = {
		.bytes = 1, .node = -1, .ttl_ms = 500, .name = "n"
	};

	send_allocate_with(&one, &stage_a, &params);
	fake_fabric_settle();
	ck_assert_uint_eq(one.lease.ttl_ms, 500);
	stage_now_ms += 400;
	ck_assert_int_eq(
		lease_renew(stage_leases, &stage_a, one.lease.lease, 300, false), 0);
	stage_pass(299);
	ck_assert_uint_eq(stage_expired, 0);
	ck_assert(stage_status(one.lease.lease, &status));
	ck_assert_uint_eq(status.ttl_ms, 1);
	ck_assert_uint_eq(leases_next_ms(stage_leases), stage_now_ms + 1);
	stage_pass(1);
	ck_assert_uint_eq(stage_expired, 1);
	ck_assert_ptr_eq(stage_revoked.client, &stage_a);
	ck_assert_uint_eq(stage_revoked.reason, WIRE_REASON_EXPIRED);
	fake_fabric_settle();
	ck_assert_uint_eq(fake_pools_lent(), 0);
}
END_TEST

START_TEST(time_to_live__starts_again_at_its_length)
{
	const struct lease_params params = {
		.bytes = 1, .node = -1, .ttl_ms = 500, .name = "n"
	};

	send_allocate_with(&one, &stage_a, &params);
	fake_fabric_settle();
	stage_pass(400);
	ck_assert_int_eq(lease_renew(stage_leases, &stage_a, one.lease.lease, 0, true),
			 0);
	ck_assert(stage_status(one.lease.lease, &status));
	ck_assert_uint_eq(status.ttl_ms, 500);
	ck_assert_int_eq(lease_renew(stage_leases, &stage_a, one.lease.lease, 0, false),
			 0);
	ck_assert_int_eq(lease_renew(stage_leases, &stage_a, one.lease.lease, 0, true),
			 0);
	ck_assert(stage_status(one.lease.lease, &status));
	ck_assert_uint_eq(status.ttl_ms, 0);
}
END_TEST

/* The time to live of a lease without a name begins with its name, however long that takes. */
START_TEST(time_to_live__begins_with_the_name)
{
	const struct lease_params params = {
		.bytes = 1, .node = -1, .ttl_ms = 500, .name = ""
	};

	send_allocate_with(&one, &stage_a, &params);
	fake_fabric_settle();
	ck_assert_uint_eq(one.lease.ttl_ms, 0);
	stage_pass(10000);
	ck_assert_uint_eq(stage_expired, 0);
	ck_assert_int_eq(call_rename(&stage_a, one.lease.lease, "n", false), 0);
	ck_assert(stage_status(one.lease.lease, &status));
	ck_assert_uint_eq(status.ttl_ms, 500);
	/* another name changes nothing */
	stage_pass(400);
	ck_assert_int_eq(call_rename(&stage_a, one.lease.lease, "m", false), 0);
	stage_pass(99);
	ck_assert_uint_eq(stage_expired, 0);
	stage_pass(1);
	ck_assert_uint_eq(stage_expired, 1);
}
END_TEST

START_TEST(time_to_live__ends_a_limited_number_per_tick)
{
	struct lease_params params = { .bytes = 0, .node = -1, .ttl_ms = 500 };
	unsigned ticks = 0, ended;
	char name[16];

	stage_tenant.limits.leases_max = 300;
	for (unsigned i = 0; i < 300; i++) {
		(void)snprintf(name, sizeof(name), "n%u", i);
		params.name = name;
		send_allocate_with(&one, &stage_a, &params);
	}
	stage_now_ms += 500;
	do {
		ended = stage_expired;
		leases_tick(stage_leases);
		ck_assert_uint_gt(stage_expired, ended);
		ck_assert_uint_le(stage_expired, ended + 64);
		/* the rest is due at once */
		ck_assert(stage_expired == 300 ||
			  leases_next_ms(stage_leases) <= stage_now_ms);
		ticks++;
	} while (stage_expired < 300);
	ck_assert_uint_eq(ticks, 5);
	ck_assert_uint_eq(leases_next_ms(stage_leases), UINT64_MAX);
}
END_TEST

START_TEST(time_to_live__may_be_unlimited)
{
	(void)new_lease(&one, &stage_a, 1, "n");
	ck_assert_int_eq(lease_renew(stage_leases, &stage_a, one.lease.lease, 5, false),
			 0);
	ck_assert_int_eq(
		lease_renew(stage_leases, &stage_a, one.lease.lease, UINT64_MAX, false),
		0);
	stage_pass(1000);
	ck_assert_int_eq(lease_renew(stage_leases, &stage_a, one.lease.lease, 0, false),
			 0);
	ck_assert_uint_eq(leases_next_ms(stage_leases), UINT64_MAX);
	(void)new_lease(&two, &stage_a, 1, "");
	ck_assert_int_eq(lease_renew(stage_leases, &stage_a, two.lease.lease, 5, false),
			 -EINVAL);
	ck_assert_int_eq(call_free(&stage_a, one.lease.lease), 0);
}
END_TEST

/* ---- the atomic device ---- */

static const struct fabric_endpoint tcp = { .kind = FABRIC_TCP,
					    .flags = FABRIC_ENDPOINT_ATOMICS };
static const struct fabric_endpoint able = { .kind = FABRIC_VERBS,
					     .flags = FABRIC_ENDPOINT_ATOMICS,
					     .device = "able0" };
/* It has no atomics. */
static const struct fabric_endpoint poor = { .kind = FABRIC_VERBS, .device = "poor0" };
static struct lease_atomic_device device;

static int fix_device(struct lease_client *client, uint64_t id,
		      const struct fabric_endpoint *endpoint)
{
	memset(&device, 0, sizeof(device));
	return lease_fix_atomic_device(stage_leases, client, id, endpoint, &device);
}

START_TEST(atomic_device__is_fixed_by_the_first_client)
{
	const struct fabric_endpoint *first = _i ? &able : &tcp;
	const struct fabric_endpoint *other = _i ? &tcp : &able;
	uint64_t id = new_lease(&one, &stage_a, 100, "n");

	ck_assert_int_eq(call_attach(&two, &stage_b, "n", STAGE_RW), 0);
	ck_assert_int_eq(fix_device(&stage_a, id, &poor), -ENOTSUP);
	ck_assert_ptr_nonnull(strstr(err_text(), "RDMA device poor0 has no atomics"));
	ck_assert_int_eq(device.kind, 0);
	ck_assert_int_eq(fix_device(&stage_a, id, first), 0);
	ck_assert_int_eq(device.kind, first->kind);
	ck_assert_str_eq(device.name, first->device);
	/* for all sessions, whatever their endpoints */
	ck_assert_int_eq(fix_device(&stage_b, id, other), 0);
	ck_assert_int_eq(device.kind, first->kind);
	ck_assert_int_eq(fix_device(&stage_b, id, &poor), 0);
	ck_assert_str_eq(device.name, first->device);
	/* until the lease ends */
	ck_assert_int_eq(call_free(&stage_a, id), 0);
	ck_assert_int_eq(fix_device(&stage_a, id, &tcp), -ESTALE);
	id = new_lease(&one, &stage_a, 100, "n");
	ck_assert_int_eq(fix_device(&stage_a, id, other), 0);
	ck_assert_int_eq(device.kind, other->kind);
	ck_assert_int_eq(call_free(&stage_a, id), 0);
}
END_TEST

START_TEST(atomic_device__needs_the_right_to_write)
{
	uint64_t id = new_lease(&one, &stage_a, 100, "n");

	ck_assert_int_eq(fix_device(&stage_b, id, &tcp), -ESTALE);
	ck_assert_int_eq(call_attach(&two, &stage_b, "n", WIRE_RIGHT_READ), 0);
	ck_assert_int_eq(fix_device(&stage_b, id, &tcp), -EACCES);
	ck_assert_int_eq(call_free(&stage_a, id), 0);
}
END_TEST

/* For both fabrics. */
static void add_common(TCase *tc)
{
	tcase_add_test(tc, allocate__makes_a_key_per_port_and_segment);
	tcase_add_test(tc, allocate__of_no_bytes_makes_no_keys);
	tcase_add_loop_test(tc, allocate__is_undone_when_registration_fails, 0, 6);
	tcase_add_test(tc, attach__makes_its_own_keys);
	tcase_add_loop_test(tc, attach__is_undone_when_registration_fails, 0, 2);
	tcase_add_test(tc, lease__tells_its_creator_and_its_holders);
	tcase_add_test(tc, changes__need_the_right_to_write);
	tcase_add_test(tc, remove__ends_an_attached_lease);
	tcase_add_test(tc, revoke__ends_a_lease_for_all);
	tcase_add_test(tc, rename__replaces_on_request);
	tcase_add_test(tc, time_to_live__ends_named_leases);
	tcase_add_test(tc, time_to_live__starts_again_at_its_length);
	tcase_add_test(tc, time_to_live__begins_with_the_name);
	tcase_add_test(tc, time_to_live__ends_a_limited_number_per_tick);
	tcase_add_test(tc, time_to_live__may_be_unlimited);
	tcase_add_loop_test(tc, atomic_device__is_fixed_by_the_first_client, 0, 2);
	tcase_add_test(tc, atomic_device__needs_the_right_to_write);
}

int main(void)
{
	TCase *tc = unit_case("lease", stage_setup, stage_teardown),
	      *now = unit_case("now", stage_setup_now, stage_teardown);

	add_common(tc);
	tcase_add_test(tc, allocate__replies_with_the_key);
	tcase_add_loop_test(tc, invalid_parameters__are_refused, 0, 3);
	tcase_add_test(tc, allocate__refuses_a_name_in_use);
	tcase_add_test(tc, error_texts__fit_the_wire_with_any_name);
	tcase_add_test(tc, allocate__refuses_to_exceed_limits);
	tcase_add_test(tc, attach__refuses_to_exceed_the_limit);
	tcase_add_loop_test(tc, detach__ends_only_ephemeral_leases, 0, 2);
	tcase_add_loop_test(tc, requests__need_an_attached_lease, 0, 2);
	add_common(now);
	return unit_main();
}

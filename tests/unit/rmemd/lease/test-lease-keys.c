/* SPDX-License-Identifier: BSD-3-Clause */
/* The keys of leases: limits, their end, new ones; with events and without. */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "unit/rmemd/lease-stage.h"
#include "unit/unit.h"

static struct call one, two;

/* A dying key counts until it is dead. */
START_TEST(keys__have_limits_per_session_and_tenant)
{
	uint64_t id;

	stage_tenant.limits.session_keys_max = 3;
	stage_tenant.limits.keys_max = 4;
	stage_connect(&stage_a, 1);
	id = new_lease(&one, &stage_a, 1, "n");
	ck_assert_uint_eq(stage_a.n_keys, 2);
	/* the second of its two keys is above the limit: the first is undone */
	ck_assert_int_eq(call_allocate(&one, &stage_a, 1, ""), -EDQUOT);
	ck_assert_ptr_nonnull(strstr(one.text, "session has 3 keys"));
	ck_assert_ptr_nonnull(strstr(one.text, "[tenant default] session_keys"));
	fake_fabric_settle();
	ck_assert_uint_eq(stage_a.n_keys, 2);
	ck_assert_uint_eq(stage_tenant.n_leases, 1);
	stage_connect(&stage_b, 1);
	ck_assert_int_eq(call_attach(&two, &stage_b, "n", STAGE_RW), 0);
	ck_assert_uint_eq(stage_tenant.n_keys, 4);
	stage_tenant.limits.session_keys_max = 100;
	ck_assert_int_eq(call_allocate(&one, &stage_a, 1, ""), -EDQUOT);
	ck_assert_ptr_nonnull(
		strstr(one.text, "tenant default has 4 keys and may have 4"));
	ck_assert_ptr_nonnull(strstr(one.text, "raise [tenant default] keys"));
	/* a dying key counts */
	send_detach(&two, &stage_b, id);
	ck_assert_int_eq(call_allocate(&one, &stage_a, 1, ""), -EDQUOT);
	fake_fabric_settle();
	(void)new_lease(&one, &stage_a, 1, "");
	ck_assert_uint_eq(stage_a.n_keys, 4);
	/* a key whose registration fails does not count */
	stage_tenant.limits.keys_max = 100;
	fake_fabric_fail_reg(1, -ENOMEM);
	ck_assert_int_ne(call_allocate(&two, &stage_b, 1, ""), 0);
	fake_fabric_settle();
	ck_assert_uint_eq(stage_b.n_keys, 0);
}
END_TEST

START_TEST(free__waits_until_all_keys_are_dead)
{
	uint64_t id = new_lease(&one, &stage_a, 100, "n");

	ck_assert_int_eq(call_attach(&two, &stage_b, "n", STAGE_RW), 0);
	send_free(&one, &stage_a, id);
	ck_assert_uint_eq(stage_revoked.n, 1);
	ck_assert_ptr_eq(stage_revoked.client, &stage_b);
	ck_assert_uint_eq(stage_revoked.reason, WIRE_REASON_FREED);
	ck_assert_uint_eq(fake_pools_lent(), 1);
	ck_assert(fake_fabric_step((unsigned)_i));
	ck_assert_uint_eq(one.replies, 0);
	ck_assert_uint_eq(fake_pools_lent(), 1);
	ck_assert(fake_fabric_step(0));
	expect_reply(&one, 0);
	ck_assert_uint_eq(fake_pools_lent(), 0);
	ck_assert_int_eq(call_attach(&two, &stage_b, "n", STAGE_RW), -ENOENT);
}
END_TEST

START_TEST(fence__ends_keys_but_not_leases)
{
	(void)new_lease(&one, &stage_a, 100, "");
	stage_fence(&stage_a);
	fake_fabric_settle();
	ck_assert_uint_eq(fake_fabric_alive(), 0);
	ck_assert_uint_eq(fake_pools_lent(), 1);
	stage_connect(&stage_a, 0);
	ck_assert_int_eq(call_rekey(&two, &stage_a, one.lease.lease), 0);
	ck_assert_uint_eq(two.lease.n_keys, 1);
	ck_assert_uint_ne(two.lease.keys[0].rkey, one.lease.keys[0].rkey);
}
END_TEST

/* An attach that is new does not change what the session has, also before it has new keys. */
START_TEST(attach__after_a_fence_finds_the_attachment)
{
	(void)new_lease(&one, &stage_a, 100, "n");
	ck_assert_int_eq(call_attach(&two, &stage_b, "n", STAGE_RW), 0);
	stage_fence(&stage_b);
	fake_fabric_settle();
	stage_connect(&stage_b, 0);
	ck_assert_int_eq(call_attach(&two, &stage_b, "n", WIRE_RIGHT_READ), -EALREADY);
	ck_assert_int_eq(call_rekey(&two, &stage_b, one.lease.lease), 0);
	ck_assert_uint_eq(two.lease.rights, STAGE_RW);
	ck_assert_uint_eq(two.lease.n_keys, 1);
	ck_assert_uint_eq(stage_b.n_attachments, 1);
	ck_assert_int_eq(call_attach(&two, &stage_b, "n", STAGE_RW), -EALREADY);
	ck_assert_int_eq(call_free(&stage_a, one.lease.lease), 0);
}
END_TEST

/* The memory of the far node is lent through port 31 only. */
START_TEST(keys__are_made_for_the_ports_of_the_memory)
{
	fake_pools_lend_through(UINT_MAX, 1u << 31);
	stage_connect(&stage_a, 31);
	/* then one page of each node is free */
	(void)new_lease(&two, &stage_b, (FAKE_NODE_PAGES - 1) * FAKE_PAGE, "");
	fake_pools_break(FAKE_NODE_PAGES);
	(void)new_lease(&two, &stage_b, (FAKE_PAGES - FAKE_NODE_PAGES - 1) * FAKE_PAGE,
			"");
	(void)new_lease(&one, &stage_a, 2 * FAKE_PAGE, "n");
	ck_assert_uint_eq(one.lease.n_segments, 2);
	ck_assert_uint_eq(one.lease.n_keys, 3);
	for (unsigned i = 0; i < 3; i++)
		ck_assert(one.lease.keys[i].endpoint == 31 ||
			  one.lease.segments[one.lease.keys[i].segment].node == 0);
	for (unsigned i = 0; i < 2; i++)
		ck_assert_uint_eq(one.lease.segments[i].endpoints,
				  one.lease.segments[i].node ? 1u << 31 : UINT_MAX);
	/* the client's channels, or its reach, determine the memory that it may get */
	ck_assert_uint_eq(fake_pools_wish()->endpoints, 1u << 31 | 1);
	stage_a.reach = 1u << 4;
	stage_a.nodes[0] = 3;
	stage_a.n_nodes = 1;
	ck_assert_int_eq(call_allocate(&two, &stage_a, FAKE_PAGE, ""), -ENOSPC);
	ck_assert_uint_eq(fake_pools_wish()->endpoints, 1u << 4);
	ck_assert_uint_eq(fake_pools_wish()->n_nodes, 1);
	ck_assert_int_eq(fake_pools_wish()->nodes[0], 3);
	/* a client must reach the whole lease to attach it */
	ck_assert_int_eq(call_attach(&two, &stage_b, "n", STAGE_RW), -ENOTSUP);
	ck_assert_str_eq(two.text,
			 "\"n\" lies in pool far, which is lent through other RDMA "
			 "devices than this session uses: use them, or TCP");
	stage_connect(&stage_b, 31);
	ck_assert_int_eq(call_attach(&two, &stage_b, "n", STAGE_RW), 0);
	ck_assert_uint_eq(two.lease.n_keys, 3);
	/* a lease stays when its devices are not served after a restart */
	fake_pools_lend_through(UINT_MAX, 0);
	ck_assert_int_eq(call_rekey(&two, &stage_b, two.lease.lease), 0);
	for (unsigned i = 0; i < 2; i++)
		ck_assert_uint_eq(two.lease.segments[i].endpoints,
				  two.lease.segments[i].node ? 0 : UINT_MAX);
}
END_TEST

START_TEST(rekey__adds_a_key_for_a_new_port)
{
	(void)new_lease(&one, &stage_a, 100, "");
	stage_connect(&stage_a, 1);
	fake_fabric_fail_event(0, -ENOMEM);
	ck_assert_int_eq(call_rekey(&two, &stage_a, one.lease.lease), -ENOMEM);
	ck_assert(fake_fabric_key_works(one.lease.keys[0].rkey, 100));
	ck_assert_int_eq(call_rekey(&two, &stage_a, one.lease.lease), 0);
	ck_assert_uint_eq(two.lease.n_keys, 2);
	ck_assert_uint_eq(two.lease.keys[0].rkey, one.lease.keys[0].rkey);
}
END_TEST

/* ---- a fabric without events ---- */

START_TEST(now__replies_before_the_request_returns)
{
	uint64_t id, rkey;

	fake_pools_reset(3);
	send_allocate(&one, &stage_a, 5000, "n");
	expect_reply(&one, 0);
	id = one.lease.lease;
	rkey = one.lease.keys[0].rkey;
	ck_assert(fake_fabric_key_works(rkey, one.lease.segments[0].bytes));
	send_attach(&two, &stage_b, "n");
	ck_assert_uint_eq(two.replies, 1);
	ck_assert_uint_eq(two.lease.n_keys, one.lease.n_keys);
	send_free(&one, &stage_a, id);
	expect_reply(&one, 0);
	ck_assert(!fake_fabric_key_works(rkey, 1));
	ck_assert_uint_eq(fake_fabric_alive(), 0);
	ck_assert_uint_eq(fake_pools_lent(), 0);
	ck_assert_uint_eq(stage_revoked.n, 1);
}
END_TEST

START_TEST(now__waits_for_a_key_in_use)
{
	uint64_t id = new_lease(&one, &stage_a, 100, "n");

	ck_assert_int_eq(call_attach(&two, &stage_b, "n", STAGE_RW), 0);
	fake_fabric_keep_keys(2);
	send_free(&one, &stage_a, id);
	ck_assert_uint_eq(one.replies, 0);
	ck_assert_uint_eq(fake_fabric_alive(), 1);
	ck_assert_uint_eq(fake_pools_lent(), 1);
	ck_assert(fake_fabric_step(0));
	ck_assert_uint_eq(one.replies, 1);
	ck_assert_uint_eq(fake_pools_lent(), 0);
}
END_TEST

START_TEST(now__fails_before_the_request_returns)
{
	fake_pools_reset(3);
	fake_fabric_fail_reg((unsigned)_i, -ENOMEM);
	send_allocate(&one, &stage_a, 5 * FAKE_PAGE, "");
	expect_reply(&one, -ENOMEM);
	ck_assert_str_eq(one.text, "the fake fails the call");
	ck_assert_uint_eq(fake_fabric_alive(), 0);
	ck_assert_uint_eq(leases_count(stage_leases), 0);
}
END_TEST

/* For both fabrics. */
static void add_common(TCase *tc)
{
	tcase_add_test(tc, fence__ends_keys_but_not_leases);
	tcase_add_test(tc, attach__after_a_fence_finds_the_attachment);
	tcase_add_test(tc, keys__are_made_for_the_ports_of_the_memory);
	tcase_add_test(tc, rekey__adds_a_key_for_a_new_port);
}

int main(void)
{
	TCase *tc = unit_case("keys", stage_setup, stage_teardown),
	      *now = unit_case("now", stage_setup_now, stage_teardown);

	add_common(tc);
	tcase_add_test(tc, keys__have_limits_per_session_and_tenant);
	tcase_add_loop_test(tc, free__waits_until_all_keys_are_dead, 0, 2);
	add_common(now);
	tcase_add_test(now, now__replies_before_the_request_returns);
	tcase_add_test(now, now__waits_for_a_key_in_use);
	tcase_add_loop_test(now, now__fails_before_the_request_returns, 0, 3);
	return unit_main();
}

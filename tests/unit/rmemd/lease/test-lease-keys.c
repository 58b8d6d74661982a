/* SPDX-License-Identifier: BSD-3-Clause */
/* The keys of leases come and die in any order. */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "unit/rmemd/lease-stage.h"
#include "unit/unit.h"

static struct asked one, two;

/* Each key costs a registration and memory: a session has so many, all have so many, and
 * what is dying counts until it is dead. */
START_TEST(keys__heed_the_limits)
{
	uint64_t id;

	stage_tenant.limits.session_keys_max = 3;
	stage_tenant.limits.keys_max = 4;
	stage_connect(&stage_a, 1);
	ck_assert_int_eq(granted(&one, &stage_a, 1, "n"), 0);
	id = one.lease.lease;
	ck_assert_uint_eq(stage_a.n_keys, 2);
	/* one of its two would be one too many: the first goes, too */
	ck_assert_int_eq(granted(&one, &stage_a, 1, ""), -EDQUOT);
	ck_assert_ptr_nonnull(strstr(one.text, "session has 3 keys"));
	ck_assert_ptr_nonnull(strstr(one.text, "[tenant default] session_keys"));
	fake_fabric_settle();
	ck_assert_uint_eq(stage_a.n_keys, 2);
	ck_assert_uint_eq(stage_tenant.n_leases, 1);
	stage_connect(&stage_b, 1);
	ck_assert_int_eq(attached(&two, &stage_b, "n", STAGE_RW), 0);
	ck_assert_uint_eq(stage_tenant.n_keys, 4);
	stage_tenant.limits.session_keys_max = 100;
	ck_assert_int_eq(granted(&one, &stage_a, 1, ""), -EDQUOT);
	ck_assert_ptr_nonnull(
		strstr(one.text, "tenant default has 4 keys and may have 4"));
	ck_assert_ptr_nonnull(strstr(one.text, "raise [tenant default] keys"));
	/* one that is dying still is one */
	ck_assert_int_eq(lease_detach(stage_leases, &stage_b, id, ask(&two)), 0);
	ck_assert_int_eq(granted(&one, &stage_a, 1, ""), -EDQUOT);
	fake_fabric_settle();
	ck_assert_int_eq(granted(&one, &stage_a, 1, ""), 0);
	ck_assert_uint_eq(stage_a.n_keys, 4);
	/* a key that a fabric does not make is none */
	stage_tenant.limits.keys_max = 100;
	fake_fabric_fail_call(1, -ENOMEM);
	ck_assert_int_ne(granted(&two, &stage_b, 1, ""), 0);
	fake_fabric_settle();
	ck_assert_uint_eq(stage_b.n_keys, 0);
}
END_TEST

START_TEST(free__waits_until_all_keys_are_dead)
{
	uint64_t id;

	ck_assert_int_eq(granted(&one, &stage_a, 100, "n"), 0);
	id = one.lease.lease;
	ck_assert_int_eq(attached(&two, &stage_b, "n", STAGE_RW), 0);
	ck_assert_int_eq(lease_free(stage_leases, &stage_a, id, ask(&one)), 0);
	ck_assert_uint_eq(stage_revoked.n, 1);
	ck_assert_ptr_eq(stage_revoked.client, &stage_b);
	ck_assert_uint_eq(stage_revoked.reason, WIRE_REASON_FREED);
	ck_assert_uint_eq(fake_pools_lent(), 1);
	ck_assert(fake_fabric_step((unsigned)_i));
	ck_assert_uint_eq(one.answers, 0);
	ck_assert_uint_eq(fake_pools_lent(), 1);
	ck_assert(fake_fabric_step(0));
	ck_assert_uint_eq(one.answers, 1);
	ck_assert_int_eq(one.err, 0);
	ck_assert_uint_eq(fake_pools_lent(), 0);
	ck_assert_int_eq(attached(&two, &stage_b, "n", STAGE_RW), -ENOENT);
}
END_TEST

START_TEST(fence__kills_keys_and_keeps_leases)
{
	ck_assert_int_eq(granted(&one, &stage_a, 100, ""), 0);
	stage_fence(&stage_a);
	fake_fabric_settle();
	ck_assert_uint_eq(fake_fabric_alive(), 0);
	ck_assert_uint_eq(fake_pools_lent(), 1);
	stage_connect(&stage_a, 0);
	ck_assert_int_eq(rekeyed(&two, &stage_a, one.lease.lease), 0);
	ck_assert_uint_eq(two.lease.n_keys, 1);
	ck_assert_uint_ne(two.lease.keys[0].rkey, one.lease.keys[0].rkey);
}
END_TEST

START_TEST(attach__may_be_repeated_after_a_fence)
{
	ck_assert_int_eq(granted(&one, &stage_a, 100, "n"), 0);
	ck_assert_int_eq(attached(&two, &stage_b, "n", STAGE_RW), 0);
	stage_fence(&stage_b);
	fake_fabric_settle();
	stage_connect(&stage_b, 0);
	ck_assert_int_eq(attached(&two, &stage_b, "n", WIRE_RIGHT_READ), 0);
	ck_assert_uint_eq(two.lease.rights, WIRE_RIGHT_READ);
	ck_assert_uint_eq(two.lease.n_keys, 1);
	ck_assert_uint_eq(stage_b.n_attachments, 1);
	ck_assert_int_eq(attached(&two, &stage_b, "n", STAGE_RW), -EBUSY);
	ck_assert_int_eq(freed(&stage_a, one.lease.lease), 0);
}
END_TEST

/* Memory of the far node through port 5 alone. */
START_TEST(keys__are_for_what_the_memory_is_lent_through)
{
	fake_pools_lend_through(UINT_MAX, 1u << 5);
	stage_connect(&stage_a, 5);
	/* all but the last page of both nodes */
	ck_assert_int_eq(granted(&two, &stage_b, (FAKE_NODE_PAGES - 1) * FAKE_PAGE, ""),
			 0);
	fake_pools_break(FAKE_NODE_PAGES);
	ck_assert_int_eq(granted(&two, &stage_b,
				 (FAKE_PAGES - FAKE_NODE_PAGES - 1) * FAKE_PAGE, ""),
			 0);
	ck_assert_int_eq(granted(&one, &stage_a, 2 * FAKE_PAGE, "n"), 0);
	ck_assert_uint_eq(one.lease.n_segments, 2);
	ck_assert_uint_eq(one.lease.n_keys, 3);
	for (unsigned i = 0; i < 3; i++)
		ck_assert(one.lease.keys[i].endpoint == 5 ||
			  one.lease.segments[one.lease.keys[i].segment].node == 0);
	for (unsigned i = 0; i < 2; i++)
		ck_assert_uint_eq(one.lease.segments[i].endpoints,
				  one.lease.segments[i].node ? 1u << 5 : UINT8_MAX);
	/* its channels, or what it says, decide what it may have */
	ck_assert_uint_eq(fake_pools_wish()->endpoints, 1u << 5 | 1);
	stage_a.reach = 1u << 4;
	stage_a.nodes[0] = 3;
	stage_a.n_nodes = 1;
	ck_assert_int_eq(granted(&two, &stage_a, FAKE_PAGE, ""), -ENOSPC);
	ck_assert_uint_eq(fake_pools_wish()->endpoints, 1u << 4);
	ck_assert_uint_eq(fake_pools_wish()->n_nodes, 1);
	ck_assert_int_eq(fake_pools_wish()->nodes[0], 3);
	/* one that reaches not all of it has nothing of it */
	ck_assert_int_eq(attached(&two, &stage_b, "n", STAGE_RW), -ENOTSUP);
	ck_assert_str_eq(two.text,
			 "\"n\" lies in pool far, which is lent through other RDMA "
			 "devices than this session uses: use them, or TCP");
	stage_connect(&stage_b, 5);
	ck_assert_int_eq(attached(&two, &stage_b, "n", STAGE_RW), 0);
	ck_assert_uint_eq(two.lease.n_keys, 3);
	/* as when its devices are not served after a restart */
	fake_pools_lend_through(UINT_MAX, 0);
	ck_assert_int_eq(rekeyed(&two, &stage_b, two.lease.lease), 0);
	for (unsigned i = 0; i < 2; i++)
		ck_assert_uint_eq(two.lease.segments[i].endpoints,
				  two.lease.segments[i].node ? 0 : UINT8_MAX);
}
END_TEST

START_TEST(rekey__adds_the_new_port)
{
	ck_assert_int_eq(granted(&one, &stage_a, 100, ""), 0);
	stage_connect(&stage_a, 1);
	fake_fabric_fail_news(0, -ENOMEM);
	ck_assert_int_eq(rekeyed(&two, &stage_a, one.lease.lease), -ENOMEM);
	ck_assert(fake_fabric_key_works(one.lease.keys[0].rkey, 100));
	ck_assert_int_eq(rekeyed(&two, &stage_a, one.lease.lease), 0);
	ck_assert_uint_eq(two.lease.n_keys, 2);
	ck_assert_uint_eq(two.lease.keys[0].rkey, one.lease.keys[0].rkey);
}
END_TEST

/* ---- a fabric that needs no news ---- */

START_TEST(now__is_answered_before_the_request_returns)
{
	const struct lease_params params = { .bytes = 5000, .node = -1, .name = "n" };
	uint64_t id, rkey;

	fake_pools_reset(3);
	ck_assert_int_eq(lease_allocate(stage_leases, &stage_a, &params, ask(&one)), 0);
	ck_assert_uint_eq(one.answers, 1);
	ck_assert_int_eq(one.err, 0);
	id = one.lease.lease;
	rkey = one.lease.keys[0].rkey;
	ck_assert(fake_fabric_key_works(rkey, one.lease.segments[0].bytes));
	ck_assert_int_eq(lease_attach(stage_leases, &stage_b, "n", STAGE_RW, ask(&two)),
			 0);
	ck_assert_uint_eq(two.answers, 1);
	ck_assert_uint_eq(two.lease.n_keys, one.lease.n_keys);
	ck_assert_int_eq(lease_free(stage_leases, &stage_a, id, ask(&one)), 0);
	ck_assert_uint_eq(one.answers, 1);
	ck_assert_int_eq(one.err, 0);
	ck_assert(!fake_fabric_key_works(rkey, 1));
	ck_assert_uint_eq(fake_fabric_alive(), 0);
	ck_assert_uint_eq(fake_pools_lent(), 0);
	ck_assert_uint_eq(stage_revoked.n, 1);
}
END_TEST

START_TEST(now__waits_for_a_key_in_use)
{
	uint64_t id;

	ck_assert_int_eq(granted(&one, &stage_a, 100, "n"), 0);
	id = one.lease.lease;
	ck_assert_int_eq(attached(&two, &stage_b, "n", STAGE_RW), 0);
	fake_fabric_use(2);
	ck_assert_int_eq(lease_free(stage_leases, &stage_a, id, ask(&one)), 0);
	ck_assert_uint_eq(one.answers, 0);
	ck_assert_uint_eq(fake_fabric_alive(), 1);
	ck_assert_uint_eq(fake_pools_lent(), 1);
	ck_assert(fake_fabric_step(0));
	ck_assert_uint_eq(one.answers, 1);
	ck_assert_uint_eq(fake_pools_lent(), 0);
}
END_TEST

START_TEST(now__fails_before_the_request_returns)
{
	const struct lease_params params = { .bytes = 5 * FAKE_PAGE,
					     .node = -1,
					     .name = "" };

	fake_pools_reset(3);
	fake_fabric_fail_call((unsigned)_i, -ENOMEM);
	ck_assert_int_eq(lease_allocate(stage_leases, &stage_a, &params, ask(&one)), 0);
	ck_assert_uint_eq(one.answers, 1);
	ck_assert_int_eq(one.err, -ENOMEM);
	ck_assert_str_eq(one.text, "the fake was told to fail");
	ck_assert_uint_eq(fake_fabric_alive(), 0);
	ck_assert_uint_eq(leases_count(stage_leases), 0);
}
END_TEST

/* What holds of any fabric. */
static void add_all(TCase *tc)
{
	tcase_add_test(tc, fence__kills_keys_and_keeps_leases);
	tcase_add_test(tc, attach__may_be_repeated_after_a_fence);
	tcase_add_test(tc, keys__are_for_what_the_memory_is_lent_through);
	tcase_add_test(tc, rekey__adds_the_new_port);
}

int main(void)
{
	Suite *suite = suite_create("lease-keys");
	TCase *tc = tcase_create("keys"), *now = tcase_create("now");

	tcase_add_checked_fixture(tc, stage_setup, stage_teardown);
	add_all(tc);
	tcase_add_test(tc, keys__heed_the_limits);
	tcase_add_loop_test(tc, free__waits_until_all_keys_are_dead, 0, 2);
	suite_add_tcase(suite, tc);
	tcase_add_checked_fixture(now, stage_setup_now, stage_teardown);
	add_all(now);
	tcase_add_test(now, now__is_answered_before_the_request_returns);
	tcase_add_test(now, now__waits_for_a_key_in_use);
	tcase_add_loop_test(now, now__fails_before_the_request_returns, 0, 3);
	suite_add_tcase(suite, now);
	return unit_main(suite);
}

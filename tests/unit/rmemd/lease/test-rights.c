/* SPDX-License-Identifier: BSD-3-Clause */
/* The rights of tenants: pools, access and names, and their change on reload. */
#include <errno.h>
#include <string.h>

#include "unit/rmemd/control-stage.h"
#include "unit/unit.h"

static struct client one, two;
static struct tenant_params params;
static struct tenant *tenant;

/* The rights of `params` take effect. */
static void configure(void)
{
	ck_assert_int_eq(tenants_set(&stage_tenants, &params, 1), 0);
}

static void setup(void)
{
	control_setup();
	params = (struct tenant_params){ .name = "default", .limits = stage_limits };
	tenant = tenants_find(&stage_tenants, "default");
	client_open(&one);
}

static void add_name(const char *pattern)
{
	(void)strcpy(params.rights.names[params.rights.n_names++], pattern);
	configure();
}

static void set_access(enum rights_access access)
{
	params.rights.access = (int)access;
	configure();
}

static struct wire_msg *attach_reading(const char *name)
{
	struct wire_msg *msg = to_attach(name);

	msg->attach.rights = WIRE_RIGHT_READ;
	return msg;
}

/* test-refusals has all requests that it refuses. */
START_TEST(read_only__changes_nothing)
{
	set_access(RIGHTS_READ_ONLY);
	client_fail(&one, to_allocate(100, ""), -EACCES);
	ck_assert_ptr_nonnull(strstr(
		one.answer.error.text,
		"tenant default may read leases and change nothing: [tenant default] "
		"access = read-only"));
	ck_assert_uint_eq(tenant->denied[RIGHTS_DENY_ACCESS], 1);
	ck_assert_uint_eq(tenant->refused, 0);
	set_access(RIGHTS_READ_WRITE);
	(void)client_allocate(&one, 100, "");
	ck_assert_uint_eq(tenant->denied[RIGHTS_DENY_ACCESS], 1);
}
END_TEST

START_TEST(read_only__reads)
{
	uint64_t lease = client_allocate(&one, 100, "n");

	set_access(RIGHTS_READ_ONLY);
	client_open_connected(&two);
	(void)client_ask(&two, attach_reading("n"), WIRE_TYPE_lease);
	ck_assert_uint_eq(two.answer.lease.rights, WIRE_RIGHT_READ);
	ck_assert_uint_eq(two.answer.lease.n_keys, 1);
	client_ok(&two, lease_message(WIRE_TYPE_watch, lease));
	(void)client_ask(&two, by_name(WIRE_TYPE_stat, "n"), WIRE_TYPE_entries);
	(void)client_ask(&two, message(WIRE_TYPE_list), WIRE_TYPE_entries);
	client_ok(&two, lease_message(WIRE_TYPE_detach, lease));
	ck_assert_uint_eq(tenant->denied[RIGHTS_DENY_ACCESS], 0);
}
END_TEST

/* What a session has attached for writing stays, also when it resumes. */
START_TEST(read_only__does_not_end_attachments)
{
	uint64_t lease = client_allocate(&one, 100, "n");

	set_access(RIGHTS_READ_ONLY);
	client_lose(&one);
	client_resume(&two, &one);
	(void)client_channel(&two, 0);
	(void)client_ask(&two, lease_message(WIRE_TYPE_attach, lease), WIRE_TYPE_lease);
	ck_assert_uint_eq(two.answer.lease.rights, WIRE_RIGHT_READ | WIRE_RIGHT_WRITE);
	client_ok(&two, lease_message(WIRE_TYPE_detach, lease));
}
END_TEST

static const struct {
	const char *name;
	bool good;
} names[] = { { "a", true },   { "ab", true }, { "b", true },
	      { "bc", false }, { "c", false }, { "A", false } };

START_TEST(names__limit_what_is_created_and_renamed)
{
	uint64_t lease = client_allocate(&one, 100, "");
	const char *name = names[_i].name;

	add_name("a*");
	add_name("b");
	if (names[_i].good) {
		client_ok(&one, to_rename(lease, name));
		client_ok(&one, by_name(WIRE_TYPE_remove, name));
		(void)client_allocate(&one, 100, name);
		ck_assert_uint_eq(tenant->denied[RIGHTS_DENY_NAMES], 0);
		return;
	}
	client_fail(&one, to_rename(lease, name), -EACCES);
	ck_assert_ptr_nonnull(strstr(one.answer.error.text,
				     "tenant default may not name a lease \""));
	ck_assert_ptr_nonnull(
		strstr(one.answer.error.text,
		       ": [tenant default] names allows other names alone"));
	client_fail(&one, to_allocate(100, name), -EACCES);
	ck_assert_uint_eq(tenant->denied[RIGHTS_DENY_NAMES], 2);
	/* without a name */
	(void)client_allocate(&one, 100, "");
}
END_TEST

START_TEST(names__do_not_touch_leases_that_have_others)
{
	uint64_t lease = client_allocate(&one, 100, "old"), other;
	struct wire_msg *msg;

	add_name("new*");
	other = client_allocate(&one, 100, "");
	msg = to_rename(other, "old");
	msg->rename.flags = WIRE_RENAME_REPLACE;
	client_fail(&one, msg, -EACCES);
	client_open(&two);
	(void)client_ask(&two, to_attach("old"), WIRE_TYPE_lease);
	(void)client_ask(&one, to_resize(lease, 200), WIRE_TYPE_lease);
	client_ok(&one, to_rename(lease, "new1"));
	client_ok(&one, by_name(WIRE_TYPE_remove, "new1"));
}
END_TEST

START_TEST(pools__are_asked_for_by_name)
{
	const struct pool_names *pools = &tenant->rights.pools;

	(void)strcpy(params.rights.pools.at[0], "slow");
	params.rights.pools.n = 1;
	configure();
	(void)client_allocate(&one, 100, "");
	ck_assert_ptr_eq(fake_pools_wish()->only, pools);
	ck_assert(pool_names_have(pools, "slow"));
	ck_assert(!pool_names_have(pools, "fast"));
	client_fail(&one, to_allocate((uint64_t)FAKE_PAGES * FAKE_PAGE, ""), -ENOSPC);
	ck_assert_str_eq(one.answer.error.text,
			 "the fake is full; [tenant default] pools allows no others");
	ck_assert_uint_eq(tenant->denied[RIGHTS_DENY_POOLS], 1);
	params.rights.pools.n = 0;
	configure();
	ck_assert(pool_names_have(pools, "fast"));
	client_fail(&one, to_allocate((uint64_t)FAKE_PAGES * FAKE_PAGE, ""), -ENOSPC);
	ck_assert_str_eq(one.answer.error.text, "the fake is full");
	ck_assert_uint_eq(tenant->denied[RIGHTS_DENY_POOLS], 1);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("rights", setup, control_teardown);

	tcase_add_test(tc, read_only__changes_nothing);
	tcase_add_test(tc, read_only__reads);
	tcase_add_test(tc, read_only__does_not_end_attachments);
	tcase_add_loop_test(tc, names__limit_what_is_created_and_renamed, 0,
			    sizeof(names) / sizeof(names[0]));
	tcase_add_test(tc, names__do_not_touch_leases_that_have_others);
	tcase_add_test(tc, pools__are_asked_for_by_name);
	return unit_main();
}

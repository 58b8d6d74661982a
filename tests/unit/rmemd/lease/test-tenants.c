/* SPDX-License-Identifier: BSD-3-Clause */
/* Tenants: the tenant of a session, separation, quotas, and tenants that are removed from
 * the configuration. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "unit/rmemd/control-stage.h"
#include "rmemd/lease/tenant.h"
#include "unit/borders.h"
#include "unit/unit.h"

static struct client one, two, three;
static struct tenant_params params[2];

static void setup(void)
{
	control_setup();
	params[0] = (struct tenant_params){ .name = "default", .limits = stage_limits };
	params[1] = (struct tenant_params){ .name = "other", .limits = stage_limits };
}

/* Configure the first n tenants. */
static void configure(unsigned n)
{
	ck_assert_int_eq(tenants_set(&stage_tenants, params, n), 0);
}

/* NULL: it does not exist, not even as one that is leaving. */
static const struct tenant *tenant_of(const char *name)
{
	list_for_each_entry(const struct tenant, tenant, &stage_tenants.all, link)
		if (strcmp(tenant->name, name) == 0)
			return tenant;
	return NULL;
}

static struct wire_msg *allocate_ttl(uint64_t bytes, const char *name, uint64_t ttl_ms)
{
	struct wire_msg *msg = to_allocate(bytes, name);

	msg->allocate.ttl_ms = ttl_ms;
	return msg;
}

static struct wire_msg *rename_to(uint64_t lease, const char *name)
{
	struct wire_msg *msg = to_rename(lease, name);

	msg->rename.flags = WIRE_RENAME_REPLACE;
	return msg;
}

static struct wire_msg *attach(const char *name)
{
	struct wire_msg *msg = to_attach(name);

	msg->attach.rights = WIRE_RIGHT_READ;
	return msg;
}

static struct wire_msg *renew(uint64_t lease, uint64_t ttl_ms)
{
	struct wire_msg *msg = message(WIRE_TYPE_renew);

	msg->renew.lease = lease;
	msg->renew.ttl_ms = ttl_ms;
	return msg;
}

static struct wire_msg *close_channel(uint32_t channel)
{
	struct wire_msg *msg = message(WIRE_TYPE_close_channel);

	msg->close_channel.channel = channel;
	return msg;
}

static struct wire_msg *resume(const struct client *lost, const char *tenant)
{
	struct wire_msg *msg = hello_of(tenant);

	msg->hello.resume = lost->session;
	memcpy(msg->hello.token, lost->token, WIRE_TOKEN_BYTES);
	return msg;
}

static void fail_with_text(struct client *client, struct wire_msg *msg, int err,
			   const char *text)
{
	client_fail(client, msg, err);
	ck_assert_str_eq(client->answer.error.text, text);
}

static void expect_ok(struct client *client, struct wire_msg *msg)
{
	(void)client_ask(client, msg, WIRE_TYPE_ok);
}

static void expect_lease(struct client *client, struct wire_msg *msg)
{
	(void)client_ask(client, msg, WIRE_TYPE_lease);
}

/* A hello of a new connection is refused with -EDQUOT. */
static void expect_no_session(struct client *client)
{
	client_init(client);
	client_fail(client, hello(), -EDQUOT);
}

static void end_session(struct client *client)
{
	expect_ok(client, message(WIRE_TYPE_bye));
}

/* ---- the tenant of a session ---- */

START_TEST(hello__with_an_unknown_tenant_fails)
{
	client_init(&one);
	fail_with_text(
		&one, hello_of("nobody"), -EACCES,
		"there is no tenant \"nobody\" on this server: it must be one that "
		"its configuration has a section for");
	ck_assert_uint_eq(one.closed, 1);
	client_open_as(&two, "other");
	ck_assert_uint_eq(tenant_of("other")->n_sessions, 1);
	ck_assert_uint_eq(tenant_of("default")->n_sessions, 0);
}
END_TEST

START_TEST(resume__needs_the_same_tenant)
{
	char text[128];

	client_open_as(&one, "other");
	client_lose(&one);
	(void)snprintf(text, sizeof(text),
		       "session %u is of tenant other, and only that can resume it",
		       (unsigned)one.session);
	client_init(&two);
	fail_with_text(&two, resume(&one, "default"), -EACCES, text);
	/* without the token the tenant of the session is not revealed */
	client_init(&two);
	one.token[0] ^= 1;
	client_fail(&two, resume(&one, "default"), -ESTALE);
	one.token[0] ^= 1;
	client_init(&two);
	(void)client_ask(&two, resume(&one, "other"), WIRE_TYPE_welcome);
	ck_assert_uint_eq(tenant_of("other")->n_sessions, 1);
	ck_assert_uint_eq(tenant_of("default")->n_sessions, 0);
}
END_TEST

/* ---- separation ---- */

static uint64_t foreign;

static struct wire_msg *by_id(enum wire_type type)
{
	struct wire_msg *msg = message(type);

	switch (type) {
	case WIRE_TYPE_rename:
		return to_rename(foreign, "mine");
	case WIRE_TYPE_resize:
		return to_resize(foreign, 1);
	case WIRE_TYPE_renew:
		return renew(foreign, 0);
	case WIRE_TYPE_attach:
		msg->attach.lease = foreign;
		return msg;
	case WIRE_TYPE_fix_atomic_device:
		msg->fix_atomic_device.lease = foreign;
		return msg;
	default:
		/* messages with this field only */
		msg->free.lease = foreign;
		return msg;
	}
}

static const enum wire_type by_ids[] = { WIRE_TYPE_attach,
					 WIRE_TYPE_rename,
					 WIRE_TYPE_resize,
					 WIRE_TYPE_renew,
					 WIRE_TYPE_fix_atomic_device,
					 WIRE_TYPE_free,
					 WIRE_TYPE_detach,
					 WIRE_TYPE_watch,
					 WIRE_TYPE_unwatch };

START_TEST(lease__of_another_tenant_is_not_found_by_id)
{
	client_open(&one);
	client_open_as(&two, "other");
	foreign = client_allocate(&one, 100, "n");
	client_fail(&two, by_id(by_ids[_i]), -ESTALE);
	expect_ok(&one, by_id(WIRE_TYPE_free));
}
END_TEST

START_TEST(lease__of_another_tenant_is_not_found_by_name)
{
	client_open(&one);
	client_open_as(&two, "other");
	(void)client_allocate(&one, 100, "n");
	client_fail(&two, attach("n"), -ENOENT);
	client_fail(&two, by_name(WIRE_TYPE_stat, "n"), -ENOENT);
	client_fail(&two, by_name(WIRE_TYPE_remove, "n"), -ENOENT);
	(void)client_ask(&two, message(WIRE_TYPE_list), WIRE_TYPE_entries);
	ck_assert_uint_eq(two.answer.entries.n_entries, 0);
	(void)client_ask(&one, message(WIRE_TYPE_list), WIRE_TYPE_entries);
	ck_assert_uint_eq(one.answer.entries.n_entries, 1);
}
END_TEST

START_TEST(name__of_another_tenant_may_be_used)
{
	uint64_t own;

	client_open(&one);
	client_open_as(&two, "other");
	foreign = client_allocate(&one, 100, "n");
	own = client_allocate(&two, 200, "");
	expect_ok(&two, rename_to(own, "n"));
	ck_assert_uint_eq(one.events, 0);
	expect_lease(&one, by_id(WIRE_TYPE_attach));
	ck_assert_uint_eq(one.answer.lease.bytes, 100);
	client_open_as(&three, "other");
	expect_lease(&three, attach("n"));
	ck_assert_uint_eq(three.answer.lease.bytes, 200);
}
END_TEST

/* Channel and session numbers can be guessed, the secret cannot. */
START_TEST(channel__of_another_tenant_is_refused)
{
	uint32_t channel;

	client_open(&one);
	client_open_as(&two, "other");
	channel = client_ask(&one, message(WIRE_TYPE_open_channel), WIRE_TYPE_channel)
			  ->channel.channel;
	three = one;
	memcpy(three.secret, two.secret, sizeof(three.secret));
	ck_assert(!client_admitted(&three, 0, channel));
	ck_assert(!client_admitted(&two, 0, channel));
	ck_assert(client_admitted(&one, 0, channel));
}
END_TEST

/* ---- quotas ---- */

static const struct {
	unsigned reserve, other_reserve;
	unsigned max; /* of 8 sessions or channels, that the first tenant may have */
} reserves[] = { { 0, 0, 6 }, { 0, 50, 4 }, { 50, 0, 6 }, { 50, 50, 4 }, { 1, 75, 2 } };

static void set_reserves(int i)
{
	params[0].limits.reserve = reserves[i].reserve;
	params[1].limits.reserve = reserves[i].other_reserve;
	configure(2);
}

/* A tenant may have what is not kept for others; what is kept for it, it gets. */
START_TEST(sessions__are_kept_for_other_tenants)
{
	static struct client clients[9];
	unsigned n, max = reserves[_i].max;

	set_reserves(_i);
	for (n = 0; n < max; n++)
		client_open(&clients[n]);
	client_init(&one);
	client_fail(&one, hello(), -EDQUOT);
	ck_assert_ptr_nonnull(strstr(one.answer.error.text, "kept for others"));
	ck_assert_uint_eq(tenant_of("default")->refused, 1);
	for (; n < 8; n++)
		client_open_as(&clients[n], "other");
	client_init(&one);
	client_fail(&one, hello_of("other"), -EDQUOT);
	/* a tenant that is alone may have all */
	configure(1);
	client_lose(&clients[7]);
	client_open(&clients[8]);
}
END_TEST

/* Two tenants are new, and what is left is less than what is kept for both. */
START_TEST(sessions__that_are_kept_are_for_the_first_that_asks)
{
	static struct client clients[7];
	const struct tenant_params three_tenants[] = {
		{ .name = "default", .limits = stage_limits },
		{ .name = "other", .limits = stage_limits },
		{ .name = "third", .limits = stage_limits }
	};

	configure(1);
	for (unsigned i = 0; i < 7; i++)
		client_open(&clients[i]);
	ck_assert_int_eq(tenants_set(&stage_tenants, three_tenants, 3), 0);
	client_init(&one);
	client_fail(&one, hello(), -EDQUOT);
	client_open_as(&two, "third");
	configure(2);
}
END_TEST

/* A channel that was granted and not connected makes room. */
START_TEST(channels__that_are_unused_make_room)
{
	set_reserves(0);
	stage_config.channels_max = 100;
	stage_control.endpoints.at[0].channels_max = 8;
	client_open(&one);
	for (unsigned n = 0; n < 6; n++)
		(void)client_open_channel(&one, 0);
	client_fail(&one, message(WIRE_TYPE_open_channel), -EDQUOT);
	stage_now_ms += 30000;
	for (unsigned n = 0; n < 6; n++)
		(void)client_channel(&one, 0);
	ck_assert_uint_eq(tenant_of("default")->n_channels_at[0], 6);
	ck_assert_uint_eq(tenant_of("default")->refused, 1);
}
END_TEST

/* The end of another tenant's session makes no room if its place is kept for that tenant. */
START_TEST(sessions__that_are_vacant_keep_their_tenants_place)
{
	static struct client clients[8];

	for (unsigned i = 0; i < 8; i++)
		client_open_as(&clients[i], i < 6 ? "default" : "other");
	client_lose(&clients[6]);
	client_lose(&clients[7]);
	client_init(&one);
	client_fail(&one, hello(), -EDQUOT);
	ck_assert_uint_eq(tenant_of("other")->n_sessions, 2);
	/* that of a tenant with more than that makes room */
	client_lose(&clients[0]);
	client_open_as(&one, "other");
	ck_assert_uint_eq(tenant_of("default")->n_sessions, 5);
	client_lose(&one);
}
END_TEST

START_TEST(channels__are_kept_for_other_tenants)
{
	unsigned max = reserves[_i].max;
	struct wire_msg *msg;

	set_reserves(_i);
	stage_config.channels_max = 100;
	stage_control.endpoints.at[0].channels_max = 8;
	client_open(&one);
	for (unsigned n = 0; n < max; n++)
		(void)client_channel(&one, 0);
	client_fail(&one, message(WIRE_TYPE_open_channel), -EDQUOT);
	ck_assert_ptr_nonnull(strstr(one.answer.error.text, "kept for others"));
	/* the other endpoint has no limit of its own */
	for (unsigned n = 0; n < 9; n++)
		(void)client_channel(&one, 1);
	client_open_as(&two, "other");
	for (unsigned n = max; n < 8; n++)
		(void)client_channel(&two, 0);
	client_fail(&two, message(WIRE_TYPE_open_channel), -EDQUOT);
	/* nor is one granted with the welcome */
	client_init(&three);
	msg = hello_of("other");
	msg->hello.channel = WIRE_FABRIC_TCP;
	ck_assert_uint_eq(client_ask(&three, msg, WIRE_TYPE_welcome)->welcome.channel,
			  0);
	client_lose(&one);
	fake_fabric_settle();
	ck_assert_uint_eq(tenant_of("default")->n_channels_at[0], 0);
	ck_assert_uint_eq(tenant_of("other")->n_channels_at[0], 8 - max);
}
END_TEST

START_TEST(sessions__without_leases_make_room_in_their_tenant)
{
	params[0].limits.sessions_max = 1;
	configure(2);
	client_open_as(&three, "other");
	client_lose(&three);
	client_open(&one);
	client_lose(&one);
	client_open(&two);
	ck_assert_uint_eq(tenant_of("default")->n_sessions, 1);
	ck_assert_uint_eq(tenant_of("default")->refused, 0);
	/* the other tenant's session needs no room here */
	ck_assert_uint_eq(tenant_of("other")->n_sessions, 1);
}
END_TEST

START_TEST(sessions__count_until_their_keys_are_dead)
{
	params[0].limits.sessions_max = 1;
	configure(2);
	client_open(&one);
	(void)client_channel(&one, 0);
	(void)client_allocate(&one, 1, "");
	client_init(&two);
	fail_with_text(
		&two, hello(), -EDQUOT,
		"tenant default has 1 sessions and may have 1, 1 more was asked for: "
		"end some, or raise [tenant default] sessions");
	ck_assert_uint_eq(tenant_of("default")->refused, 1);
	client_open_as(&three, "other");
	/* a session without connection counts */
	client_lose(&one);
	expect_no_session(&two);
	fake_fabric_settle();
	client_resume(&two, &one);
	ck_assert_uint_eq(tenant_of("default")->n_sessions, 1);
	expect_no_session(&one);
	/* so does an ended session whose keys are not dead yet */
	(void)client_channel(&two, 0);
	client_send(&two, message(WIRE_TYPE_bye));
	expect_no_session(&one);
	client_open(&one);
	ck_assert_uint_eq(tenant_of("default")->refused, 4);
}
END_TEST

START_TEST(channels__count_until_they_are_closed)
{
	const struct tenant *tenant = tenant_of("default");

	params[0].limits.channels_max = 3;
	configure(2);
	client_open(&one);
	client_open(&two);
	ck_assert_uint_eq(one.answer.welcome.channels_max, 3);
	(void)client_channel(&one, 0);
	(void)client_channel(&one, 1);
	(void)client_channel(&two, 0);
	fail_with_text(
		&two, message(WIRE_TYPE_open_channel), -EDQUOT,
		"tenant default has 3 channels and may have 3, 1 more was asked for: "
		"end some, or raise [tenant default] channels");
	ck_assert_uint_eq(tenant->refused, 1);
	expect_ok(&two, close_channel(1));
	ck_assert_uint_eq(tenant->n_channels, 2);
	(void)client_channel(&two, 1);
	/* the channels of a fenced session count until its ports are closed */
	client_lose(&one);
	ck_assert_uint_eq(tenant->n_channels, 3);
	client_send(&two, message(WIRE_TYPE_open_channel));
	ck_assert_int_eq((int)two.answer.type, WIRE_TYPE_error);
	fake_fabric_settle();
	ck_assert_uint_eq(tenant->n_channels, 1);
	(void)client_channel(&two, 0);
}
END_TEST

START_TEST(channels__count_before_they_are_connected)
{
	const struct tenant *tenant = tenant_of("default");
	struct wire_msg *msg;

	params[0].limits.channels_max = 2;
	configure(2);
	client_open(&one);
	(void)client_ask(&one, message(WIRE_TYPE_open_channel), WIRE_TYPE_channel);
	(void)client_ask(&one, message(WIRE_TYPE_open_channel), WIRE_TYPE_channel);
	/* the channel of a hello is not opened; the session is */
	client_init(&two);
	msg = hello();
	msg->hello.channel = WIRE_FABRIC_TCP;
	(void)client_ask(&two, msg, WIRE_TYPE_welcome);
	ck_assert_uint_eq(two.answer.welcome.channel, 0);
	ck_assert_uint_eq(tenant->refused, 0);
	client_fail(&two, message(WIRE_TYPE_open_channel), -EDQUOT);
	ck_assert_uint_eq(tenant->refused, 1);
	/* a channel that is never connected is closed after some time */
	for (unsigned i = 0; i < 31; i++) {
		pass(1000);
		expect_ok(&one, message(WIRE_TYPE_ping));
		expect_ok(&two, message(WIRE_TYPE_ping));
	}
	(void)client_channel(&two, 0);
	ck_assert_uint_eq(tenant->n_channels, 1);
	ck_assert(!client_admitted(&one, 0, 1));
}
END_TEST

START_TEST(channels__count_until_a_removed_endpoint_is_closed)
{
	const struct tenant *tenant = tenant_of("default");

	client_open(&one);
	(void)client_channel(&one, 1);
	/* the endpoint is removed with its channel; another is opened at once */
	sessions_leave_endpoint(stage_control.sessions, 1);
	ck_assert_uint_eq(tenant->n_channels, 1);
	(void)client_channel(&one, 0);
	ck_assert_uint_eq(tenant->n_channels, 1);
	end_session(&one);
	ck_assert_uint_eq(tenant->n_channels, 0);
}
END_TEST

START_TEST(channels__count_while_the_device_keeps_them)
{
	const struct tenant *tenant = tenant_of("default");

	client_open(&one);
	ck_assert_uint_eq(client_channel(&one, 0), 1);
	fake_fabric_keep_channels(-EIO);
	for (unsigned i = 0; i < 2; i++) {
		client_fail(&one, close_channel(1), -EIO);
		ck_assert_uint_eq(tenant->n_channels, 1);
	}
	fake_fabric_keep_channels(0);
	end_session(&one);
	ck_assert_uint_eq(tenant->n_channels, 0);
}
END_TEST

START_TEST(bytes__are_limited_in_every_request)
{
	const struct tenant *tenant = tenant_of("default");
	uint64_t lease, other;

	params[0].limits.bytes_max = 4 * FAKE_PAGE;
	configure(2);
	client_open(&one);
	(void)client_channel(&one, 0);
	lease = client_allocate(&one, 3 * FAKE_PAGE, "n");
	fail_with_text(
		&one, to_allocate(2 * FAKE_PAGE, ""), -EDQUOT,
		"tenant default has 12 KiB of memory and may have 16 KiB, 8 KiB more "
		"was asked for: free some, or raise [tenant default] bytes");
	/* the refused request made no work for the scrubber */
	ck_assert_uint_eq(fake_pools_lent() + fake_pools_dirty(), 3);
	client_fail(&one, to_resize(lease, 4 * FAKE_PAGE + 1), -EDQUOT);
	expect_lease(&one, to_resize(lease, 4 * FAKE_PAGE));
	client_fail(&one, to_allocate(1, ""), -EDQUOT);
	/* another session, and a replaced name */
	client_open(&two);
	(void)client_channel(&two, 0);
	expect_lease(&two, attach("n"));
	client_fail(&two, to_allocate(1, ""), -EDQUOT);
	other = client_allocate(&two, 0, "");
	expect_ok(&two, rename_to(other, "n"));
	expect_lease(&two, to_resize(other, 4 * FAKE_PAGE));
	/* another connection of the same session */
	client_lose(&two);
	fake_fabric_settle();
	client_resume(&three, &two);
	client_fail(&three, to_resize(other, 4 * FAKE_PAGE + 1), -EDQUOT);
	ck_assert_uint_eq(tenant->bytes, 4 * FAKE_PAGE);
	ck_assert_uint_eq(tenant->refused, 5);
	ck_assert_uint_eq(tenant_of("other")->bytes, 0);
	client_open_as(&two, "other");
	(void)client_allocate(&two, 5 * FAKE_PAGE, "");
}
END_TEST

START_TEST(leases__have_limits_of_number_and_size)
{
	uint64_t lease;

	params[0].limits.leases_max = 2;
	params[0].limits.lease_min = 1000;
	params[0].limits.lease_max = 5000;
	configure(2);
	client_open(&one);
	ck_assert_uint_eq(one.answer.welcome.lease_bytes_max, 5000);
	fail_with_text(
		&one, to_allocate(5001, ""), -EDQUOT,
		"a lease of 5001 B is longer than the 5000 B that tenant default may "
		"have in one: use several, or raise [tenant default] lease_max");
	fail_with_text(
		&one, to_allocate(999, ""), -EDQUOT,
		"a lease of 999 B is shorter than the 1000 B that tenant default must "
		"have in one: ask for more, or lower [tenant default] lease_min");
	/* no memory yet */
	lease = client_allocate(&one, 0, "");
	client_fail(&one, to_resize(lease, 999), -EDQUOT);
	expect_lease(&one, to_resize(lease, 5000));
	client_fail(&one, to_resize(lease, 5001), -EDQUOT);
	client_fail(&one, to_resize(lease, 999), -EDQUOT);
	(void)client_allocate(&one, 1000, "n");
	fail_with_text(
		&one, to_allocate(1000, ""), -EDQUOT,
		"tenant default has 2 leases and may have 2, 1 more was asked for: end "
		"some, or raise [tenant default] leases");
	ck_assert_uint_eq(tenant_of("default")->refused, 6);
	/* an existing lease stays, and may be trimmed to a size above the new limit */
	params[0].limits.lease_max = 2000;
	params[0].limits.leases_max = 1;
	configure(2);
	expect_lease(&one, to_resize(lease, 5000));
	expect_lease(&one, to_resize(lease, 3000));
	client_fail(&one, to_resize(lease, 3001), -EDQUOT);
	client_open(&two);
	expect_lease(&two, attach("n"));
}
END_TEST

START_TEST(ttl__defaults_to_the_maximum)
{
	uint64_t lease;

	params[0].limits.ttl_max_ms = 60000;
	configure(2);
	client_open(&one);
	expect_lease(&one, allocate_ttl(1, "a", 60000));
	ck_assert_uint_eq(one.answer.lease.ttl_ms, 60000);
	expect_lease(&one, to_allocate(1, "b"));
	ck_assert_uint_eq(one.answer.lease.ttl_ms, 60000);
	lease = one.answer.lease.lease;
	fail_with_text(
		&one, allocate_ttl(1, "c", 60001), -EDQUOT,
		"a time to live of 60001ms is longer than the 60000ms that a lease of "
		"tenant default may have: ask for less and renew, or raise [tenant "
		"default] ttl_max");
	client_fail(&one, renew(lease, 60001), -EDQUOT);
	ck_assert_uint_eq(tenant_of("default")->refused, 2);
	stage_now_ms += 1000;
	expect_ok(&one, renew(lease, 0));
	(void)client_ask(&one, by_name(WIRE_TYPE_stat, "b"), WIRE_TYPE_entries);
	ck_assert_uint_eq(one.answer.entries.entries[0].ttl_ms, 60000);
	/* ephemeral leases have none */
	expect_lease(&one, to_allocate(1, ""));
	ck_assert_uint_eq(one.answer.lease.ttl_ms, 0);
	/* too long a time is refused before there is a name */
	client_fail(&one, allocate_ttl(1, "", 60001), -EDQUOT);
}
END_TEST

/* A lease that is renamed cannot live longer than one that is allocated with a name. */
START_TEST(ttl__starts_when_a_lease_gets_a_name)
{
	uint64_t lease;

	params[0].limits.ttl_max_ms = 5000;
	configure(2);
	client_open(&one);
	lease = client_allocate(&one, 1, "");
	expect_ok(&one, rename_to(lease, "n"));
	end_session(&one);
	stage_now_ms += 4999;
	leases_tick(stage_control.leases);
	client_open(&two);
	(void)client_ask(&two, by_name(WIRE_TYPE_stat, "n"), WIRE_TYPE_entries);
	ck_assert_uint_eq(two.answer.entries.entries[0].ttl_ms, 1);
	/* an attached lease expires, too */
	expect_lease(&two, attach("n"));
	stage_now_ms += 1;
	leases_tick(stage_control.leases);
	fake_fabric_settle();
	ck_assert_uint_eq(tenant_of("default")->n_leases, 0);
}
END_TEST

/* ---- reload ---- */

START_TEST(tenant__may_be_added)
{
	params[0] = (struct tenant_params){ .name = "new", .limits = stage_limits };
	configure(2);
	ck_assert_ptr_null(tenant_of("default"));
	client_init(&one);
	client_fail(&one, hello(), -EACCES);
	client_open_as(&two, "new");
}
END_TEST

START_TEST(removed_tenant__keeps_its_leases_and_gets_no_more)
{
	uint64_t own, named;

	client_open_as(&one, "other");
	client_open_as(&two, "other");
	(void)client_channel(&one, 0);
	own = client_allocate(&one, FAKE_PAGE, "");
	named = client_allocate(&one, 2 * FAKE_PAGE, "n");
	configure(1);
	ck_assert(tenant_of("other")->leaving);
	client_init(&three);
	client_fail(&three, hello_of("other"), -EACCES);
	fail_with_text(
		&one, to_allocate(1, ""), -EACCES,
		"tenant other is not in the server's configuration any more: it keeps "
		"what it has, and gets nothing new");
	client_fail(&one, to_allocate(0, "m"), -EACCES);
	client_fail(&two, attach("n"), -EACCES);
	client_fail(&one, to_resize(own, FAKE_PAGE + 1), -EACCES);
	client_fail(&one, rename_to(own, "kept"), -EACCES);
	/* existing leases stay */
	expect_lease(&one, to_resize(named, FAKE_PAGE));
	expect_ok(&one, rename_to(named, "m"));
	client_lose(&one);
	fake_fabric_settle();
	client_init(&three);
	(void)client_ask(&three, resume(&one, "other"), WIRE_TYPE_welcome);
	three.next_id = one.next_id;
	(void)client_channel(&three, 0);
	foreign = own;
	expect_lease(&three, by_id(WIRE_TYPE_attach));
	expect_ok(&three, renew(named, 1000));
	end_session(&three);
	end_session(&two);
	ck_assert_uint_eq(tenant_of("other")->n_sessions, 0);
	ck_assert_uint_eq(tenant_of("other")->n_leases, 1);
	/* it ends with its last lease */
	pass(1000);
	ck_assert_ptr_null(tenant_of("other"));
}
END_TEST

START_TEST(removed_tenant__may_be_added_again)
{
	const struct tenant *tenant = tenant_of("other");

	client_open_as(&one, "other");
	(void)client_allocate(&one, 100, "n");
	configure(1);
	configure(1);
	end_session(&one);
	ck_assert_ptr_eq(tenant_of("other"), tenant);
	configure(2);
	ck_assert(!tenant->leaving);
	client_open_as(&two, "other");
	expect_lease(&two, attach("n"));
	ck_assert_uint_eq(two.answer.lease.bytes, 100);
}
END_TEST

START_TEST(removed_tenant__stops_waiting_for_memory)
{
	client_open(&one);
	client_open_as(&two, "other");
	(void)client_channel(&one, 0);
	foreign = client_allocate(&one, (uint64_t)FAKE_PAGES * FAKE_PAGE, "");
	client_send(&one, by_id(WIRE_TYPE_free));
	client_send(&two, to_allocate(FAKE_PAGE, ""));
	ck_assert_uint_eq(two.answers, 1);
	configure(1);
	fake_fabric_settle();
	fake_pools_scrub();
	leases_retry(stage_control.leases);
	ck_assert_uint_eq(two.answers, 2);
	ck_assert_int_eq((int)two.answer.error.code, WIRE_CODE_forbidden);
}
END_TEST

__extension__ typedef unsigned __int128 wide;

START_TEST(bytes__at_borders_count_or_are_refused)
{
	const struct tenant_params limited = { .name = "t",
					       .limits = { .bytes_max = 100000 } };
	const uint64_t lengths[] = { limited.limits.bytes_max };
	const struct borders borders = { lengths, 1 };
	struct tenant tenant;

	tenant_init(&tenant, &limited);
	tenant.bytes = 4096;
	for (unsigned i = 0; i < borders_count(&borders); i++) {
		uint64_t bytes = border_at(&borders, i);
		bool fits = (wide)bytes + tenant.bytes <= limited.limits.bytes_max;

		ck_assert_int_eq(tenant_check_bytes(&tenant, bytes),
				 fits ? 0 : -EDQUOT);
	}
	tenant_destroy(&tenant);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("tenants", setup, control_teardown);

	tcase_add_test(tc, hello__with_an_unknown_tenant_fails);
	tcase_add_test(tc, resume__needs_the_same_tenant);
	tcase_add_loop_test(tc, lease__of_another_tenant_is_not_found_by_id, 0,
			    sizeof(by_ids) / sizeof(by_ids[0]));
	tcase_add_test(tc, lease__of_another_tenant_is_not_found_by_name);
	tcase_add_test(tc, name__of_another_tenant_may_be_used);
	tcase_add_test(tc, channel__of_another_tenant_is_refused);
	tcase_add_loop_test(tc, sessions__are_kept_for_other_tenants, 0,
			    sizeof(reserves) / sizeof(reserves[0]));
	tcase_add_loop_test(tc, channels__are_kept_for_other_tenants, 0,
			    sizeof(reserves) / sizeof(reserves[0]));
	tcase_add_test(tc, sessions__that_are_kept_are_for_the_first_that_asks);
	tcase_add_test(tc, channels__that_are_unused_make_room);
	tcase_add_test(tc, sessions__that_are_vacant_keep_their_tenants_place);
	tcase_add_test(tc, sessions__without_leases_make_room_in_their_tenant);
	tcase_add_test(tc, sessions__count_until_their_keys_are_dead);
	tcase_add_test(tc, channels__count_until_they_are_closed);
	tcase_add_test(tc, channels__count_before_they_are_connected);
	tcase_add_test(tc, channels__count_until_a_removed_endpoint_is_closed);
	tcase_add_test(tc, channels__count_while_the_device_keeps_them);
	tcase_add_test(tc, bytes__are_limited_in_every_request);
	tcase_add_test(tc, bytes__at_borders_count_or_are_refused);
	tcase_add_test(tc, leases__have_limits_of_number_and_size);
	tcase_add_test(tc, ttl__defaults_to_the_maximum);
	tcase_add_test(tc, ttl__starts_when_a_lease_gets_a_name);
	tcase_add_test(tc, tenant__may_be_added);
	tcase_add_test(tc, removed_tenant__keeps_its_leases_and_gets_no_more);
	tcase_add_test(tc, removed_tenant__may_be_added_again);
	tcase_add_test(tc, removed_tenant__stops_waiting_for_memory);
	return unit_main();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Tenants: which one a client is, what keeps them apart, what each may have, and what
 * becomes of one that is not configured any more. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "unit/rmemd/control-stage.h"
#include "unit/unit.h"

static struct client one, two, three;
static struct tenant_params params[2];

static void setup(void)
{
	control_setup();
	params[0] = (struct tenant_params){ "default", stage_limits };
	params[1] = (struct tenant_params){ "other", stage_limits };
}

/* The first n of the two are what is configured from now on. */
static void configure(unsigned n)
{
	ck_assert_int_eq(tenants_set(&stage_tenants, params, n), 0);
}

struct search {
	const char *name;
	const struct tenant *found;
};

static int match(const struct tenant *tenant, void *arg)
{
	struct search *search = arg;

	if (strcmp(tenant->name, search->name) != 0)
		return 0;
	search->found = tenant;
	return 1;
}

/* Leaving or not; NULL: it has gone. */
static const struct tenant *tenant_of(const char *name)
{
	struct search search = { name, NULL };

	(void)tenants_each(&stage_tenants, match, &search);
	return search.found;
}

static void said(const struct client *client, const char *text)
{
	ck_assert_int_eq((int)client->answer.type, WIRE_TYPE_error);
	ck_assert_str_eq(client->answer.error.text, text);
}

static struct wire_msg *allocate(uint64_t bytes, const char *name, uint64_t ttl_ms)
{
	struct wire_msg *msg = message(WIRE_TYPE_allocate);

	msg->allocate.bytes = bytes;
	msg->allocate.node = -1;
	msg->allocate.ttl_ms = ttl_ms;
	(void)strcpy(msg->allocate.name, name);
	return msg;
}

static struct wire_msg *resize(uint64_t lease, uint64_t bytes)
{
	struct wire_msg *msg = message(WIRE_TYPE_resize);

	msg->resize.lease = lease;
	msg->resize.bytes = bytes;
	return msg;
}

static struct wire_msg *renaming(uint64_t lease, const char *name)
{
	struct wire_msg *msg = message(WIRE_TYPE_rename);

	msg->rename.lease = lease;
	msg->rename.flags = WIRE_RENAME_REPLACE;
	(void)strcpy(msg->rename.name, name);
	return msg;
}

static struct wire_msg *attach(const char *name)
{
	struct wire_msg *msg = message(WIRE_TYPE_attach);

	msg->attach.rights = WIRE_RIGHT_READ;
	(void)strcpy(msg->attach.name, name);
	return msg;
}

static struct wire_msg *resume(const struct client *lost, const char *tenant)
{
	struct wire_msg *msg = hello_of(tenant);

	msg->hello.resume = lost->session;
	memcpy(msg->hello.token, lost->token, WIRE_TOKEN_BYTES);
	return msg;
}

static void end(struct client *client)
{
	(void)client_ask(client, message(WIRE_TYPE_bye), WIRE_TYPE_ok);
}

/* ---- who it is ---- */

START_TEST(hello__of_an_unknown_tenant_is_refused)
{
	client_init(&one);
	client_fail(&one, hello_of("nobody"), -EACCES);
	said(&one, "there is no tenant \"nobody\" on this server: it must be one that "
		   "its configuration has a section for");
	ck_assert_uint_eq(one.closed, 1);
	client_open_as(&two, "other");
	ck_assert_uint_eq(tenant_of("other")->n_sessions, 1);
	ck_assert_uint_eq(tenant_of("default")->n_sessions, 0);
}
END_TEST

START_TEST(resume__keeps_the_tenant)
{
	char text[128];

	client_open_as(&one, "other");
	client_lose(&one);
	client_init(&two);
	client_fail(&two, resume(&one, "default"), -EACCES);
	(void)snprintf(text, sizeof(text),
		       "session %u is of tenant other, and only that can resume it",
		       (unsigned)one.session);
	said(&two, text);
	/* who does not have the token learns nothing of whose it is */
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

/* ---- apart ---- */

static uint64_t foreign;

static struct wire_msg *by_id(enum wire_type type)
{
	struct wire_msg *msg = message(type);

	switch (type) {
	case WIRE_TYPE_attach:
		msg->attach.lease = foreign;
		break;
	case WIRE_TYPE_rename:
		msg->rename.lease = foreign;
		(void)strcpy(msg->rename.name, "mine");
		break;
	case WIRE_TYPE_resize:
		msg->resize.lease = foreign;
		msg->resize.bytes = 1;
		break;
	case WIRE_TYPE_renew:
		msg->renew.lease = foreign;
		break;
	case WIRE_TYPE_fix_home:
		msg->fix_home.lease = foreign;
		break;
	default:
		/* the lease is all there is */
		msg->free.lease = foreign;
		break;
	}
	return msg;
}

static const enum wire_type by_ids[] = { WIRE_TYPE_attach,   WIRE_TYPE_rename,
					 WIRE_TYPE_resize,   WIRE_TYPE_renew,
					 WIRE_TYPE_fix_home, WIRE_TYPE_free,
					 WIRE_TYPE_detach,   WIRE_TYPE_watch,
					 WIRE_TYPE_unwatch };

START_TEST(lease__of_another_is_not_there_by_its_id)
{
	client_open(&one);
	client_open_as(&two, "other");
	foreign = client_allocate(&one, 100, "n");
	client_fail(&two, by_id(by_ids[_i]), -ESTALE);
	(void)client_ask(&one, by_id(WIRE_TYPE_free), WIRE_TYPE_ok);
}
END_TEST

START_TEST(lease__of_another_is_not_there_by_its_name)
{
	struct wire_msg *msg;

	client_open(&one);
	client_open_as(&two, "other");
	(void)client_allocate(&one, 100, "n");
	client_fail(&two, attach("n"), -ENOENT);
	msg = message(WIRE_TYPE_stat);
	(void)strcpy(msg->stat.name, "n");
	client_fail(&two, msg, -ENOENT);
	msg = message(WIRE_TYPE_remove);
	(void)strcpy(msg->remove.name, "n");
	client_fail(&two, msg, -ENOENT);
	(void)client_ask(&two, message(WIRE_TYPE_list), WIRE_TYPE_entries);
	ck_assert_uint_eq(two.answer.entries.n_entries, 0);
	(void)client_ask(&one, message(WIRE_TYPE_list), WIRE_TYPE_entries);
	ck_assert_uint_eq(one.answer.entries.n_entries, 1);
}
END_TEST

START_TEST(name__of_another_is_free)
{
	uint64_t own;

	client_open(&one);
	client_open_as(&two, "other");
	foreign = client_allocate(&one, 100, "n");
	own = client_allocate(&two, 200, "");
	(void)client_ask(&two, renaming(own, "n"), WIRE_TYPE_ok);
	ck_assert_uint_eq(one.events, 0);
	(void)client_ask(&one, by_id(WIRE_TYPE_attach), WIRE_TYPE_lease);
	ck_assert_uint_eq(one.answer.lease.bytes, 100);
	client_open_as(&three, "other");
	(void)client_ask(&three, attach("n"), WIRE_TYPE_lease);
	ck_assert_uint_eq(three.answer.lease.bytes, 200);
}
END_TEST

/* Clients get the same channel and session numbers, but not each other's
 * tokens: a channel of another tenant's session is not had by its number. */
START_TEST(channel__of_another_is_refused)
{
	struct wire_msg *msg;
	uint32_t channel;

	client_open(&one);
	client_open_as(&two, "other");
	msg = message(WIRE_TYPE_open_channel);
	channel = client_ask(&one, msg, WIRE_TYPE_channel)->channel.channel;
	three = one;
	memcpy(three.token, two.token, sizeof(three.token));
	ck_assert(!client_admitted(&three, 0, channel));
	ck_assert(!client_admitted(&two, 0, channel));
	ck_assert(client_admitted(&one, 0, channel));
}
END_TEST

/* ---- quotas ---- */

START_TEST(sessions__are_counted_until_nothing_of_them_is_left)
{
	params[0].limits.sessions_max = 1;
	configure(2);
	client_open(&one);
	(void)client_channel(&one, 0);
	(void)client_allocate(&one, 1, "");
	client_init(&two);
	client_fail(&two, hello(), -EDQUOT);
	said(&two,
	     "tenant default has 1 sessions and may have 1, 1 more was asked for: "
	     "end some, or raise [tenant default] sessions");
	ck_assert_uint_eq(tenant_of("default")->refused, 1);
	client_open_as(&three, "other");
	/* to come back is no way to have two */
	client_lose(&one);
	client_init(&two);
	client_fail(&two, hello(), -EDQUOT);
	fake_fabric_settle();
	client_resume(&two, &one);
	ck_assert_uint_eq(tenant_of("default")->n_sessions, 1);
	client_init(&one);
	client_fail(&one, hello(), -EDQUOT);
	/* its keys are not dead yet */
	(void)client_channel(&two, 0);
	client_send(&two, message(WIRE_TYPE_bye));
	client_init(&one);
	client_fail(&one, hello(), -EDQUOT);
	client_open(&one);
	ck_assert_uint_eq(tenant_of("default")->refused, 4);
}
END_TEST

START_TEST(channels__are_counted_until_they_are_dead)
{
	const struct tenant *tenant = tenant_of("default");
	struct wire_msg *msg;

	params[0].limits.channels_max = 3;
	configure(2);
	client_open(&one);
	client_open(&two);
	ck_assert_uint_eq(one.answer.welcome.channels_max, 3);
	(void)client_channel(&one, 0);
	(void)client_channel(&one, 1);
	(void)client_channel(&two, 0);
	client_fail(&two, message(WIRE_TYPE_open_channel), -EDQUOT);
	said(&two,
	     "tenant default has 3 channels and may have 3, 1 more was asked for: "
	     "end some, or raise [tenant default] channels");
	ck_assert_uint_eq(tenant->refused, 1);
	msg = message(WIRE_TYPE_close_channel);
	msg->close_channel.channel = 1;
	(void)client_ask(&two, msg, WIRE_TYPE_ok);
	ck_assert_uint_eq(tenant->n_channels, 2);
	(void)client_channel(&two, 1);
	/* those of a session that is fenced live until its ports are closed */
	client_lose(&one);
	ck_assert_uint_eq(tenant->n_channels, 3);
	client_send(&two, message(WIRE_TYPE_open_channel));
	ck_assert_int_eq((int)two.answer.type, WIRE_TYPE_error);
	fake_fabric_settle();
	ck_assert_uint_eq(tenant->n_channels, 1);
	(void)client_channel(&two, 0);
}
END_TEST

START_TEST(channels__that_are_half_made_count)
{
	const struct tenant *tenant = tenant_of("default");
	struct wire_msg *msg;

	params[0].limits.channels_max = 2;
	configure(2);
	client_open(&one);
	(void)client_ask(&one, message(WIRE_TYPE_open_channel), WIRE_TYPE_channel);
	(void)client_ask(&one, message(WIRE_TYPE_open_channel), WIRE_TYPE_channel);
	/* the one that comes with a hello, too: the session is there without it */
	client_init(&two);
	msg = hello();
	msg->hello.channel = WIRE_FABRIC_TCP;
	(void)client_ask(&two, msg, WIRE_TYPE_welcome);
	ck_assert_uint_eq(two.answer.welcome.channel, 0);
	ck_assert_uint_eq(tenant->refused, 0);
	client_fail(&two, message(WIRE_TYPE_open_channel), -EDQUOT);
	ck_assert_uint_eq(tenant->refused, 1);
	/* but a tenant that does not use its share keeps no other from its own */
	for (unsigned i = 0; i < 31; i++) {
		pass(1000);
		(void)client_ask(&one, message(WIRE_TYPE_ping), WIRE_TYPE_ok);
		(void)client_ask(&two, message(WIRE_TYPE_ping), WIRE_TYPE_ok);
	}
	(void)client_channel(&two, 0);
	ck_assert_uint_eq(tenant->n_channels, 1);
	ck_assert(!client_admitted(&one, 0, 1));
}
END_TEST

START_TEST(channels__of_an_endpoint_that_goes_count_until_it_is_closed)
{
	const struct tenant *tenant = tenant_of("default");

	client_open(&one);
	(void)client_channel(&one, 1);
	/* the endpoint goes, and with it its channels; one is opened there again at once */
	sessions_leave(stage_control.sessions, 1);
	ck_assert_uint_eq(tenant->n_channels, 1);
	(void)client_channel(&one, 0);
	ck_assert_uint_eq(tenant->n_channels, 1);
	end(&one);
	ck_assert_uint_eq(tenant->n_channels, 0);
}
END_TEST

START_TEST(channels__that_a_device_keeps_count)
{
	const struct tenant *tenant = tenant_of("default");
	struct wire_msg *msg;

	client_open(&one);
	ck_assert_uint_eq(client_channel(&one, 0), 1);
	fake_fabric_keep_channels(-EIO);
	for (unsigned i = 0; i < 2; i++) {
		msg = message(WIRE_TYPE_close_channel);
		msg->close_channel.channel = 1;
		client_fail(&one, msg, -EIO);
		ck_assert_uint_eq(tenant->n_channels, 1);
	}
	fake_fabric_keep_channels(0);
	end(&one);
	ck_assert_uint_eq(tenant->n_channels, 0);
}
END_TEST

START_TEST(bytes__cannot_be_got_round)
{
	const struct tenant *tenant = tenant_of("default");
	uint64_t lease, other;

	params[0].limits.bytes_max = 4 * FAKE_PAGE;
	configure(2);
	client_open(&one);
	(void)client_channel(&one, 0);
	lease = client_allocate(&one, 3 * FAKE_PAGE, "n");
	client_fail(&one, allocate(2 * FAKE_PAGE, "", 0), -EDQUOT);
	said(&one,
	     "tenant default has 12 KiB of memory and may have 16 KiB, 8 KiB more "
	     "was asked for: free some, or raise [tenant default] bytes");
	/* to ask for too much does not even make work for the scrubber */
	ck_assert_uint_eq(fake_pools_lent() + fake_pools_dirty(), 3);
	client_fail(&one, resize(lease, 4 * FAKE_PAGE + 1), -EDQUOT);
	(void)client_ask(&one, resize(lease, 4 * FAKE_PAGE), WIRE_TYPE_lease);
	client_fail(&one, allocate(1, "", 0), -EDQUOT);
	/* another session, and the same name again */
	client_open(&two);
	(void)client_channel(&two, 0);
	(void)client_ask(&two, attach("n"), WIRE_TYPE_lease);
	client_fail(&two, allocate(1, "", 0), -EDQUOT);
	other = client_allocate(&two, 0, "");
	(void)client_ask(&two, renaming(other, "n"), WIRE_TYPE_ok);
	(void)client_ask(&two, resize(other, 4 * FAKE_PAGE), WIRE_TYPE_lease);
	/* another connection of the same session */
	client_lose(&two);
	fake_fabric_settle();
	client_resume(&three, &two);
	client_fail(&three, resize(other, 4 * FAKE_PAGE + 1), -EDQUOT);
	ck_assert_uint_eq(tenant->bytes, 4 * FAKE_PAGE);
	ck_assert_uint_eq(tenant->refused, 5);
	ck_assert_uint_eq(tenant_of("other")->bytes, 0);
	client_open_as(&two, "other");
	(void)client_allocate(&two, 5 * FAKE_PAGE, "");
}
END_TEST

START_TEST(leases__are_so_many_and_so_long)
{
	uint64_t lease;

	params[0].limits.leases_max = 2;
	params[0].limits.lease_min = 1000;
	params[0].limits.lease_max = 5000;
	configure(2);
	client_open(&one);
	ck_assert_uint_eq(one.answer.welcome.lease_bytes_max, 5000);
	client_fail(&one, allocate(5001, "", 0), -EDQUOT);
	said(&one,
	     "a lease of 5001 B is longer than the 5000 B that tenant default may "
	     "have in one: use several, or raise [tenant default] lease_max");
	client_fail(&one, allocate(999, "", 0), -EDQUOT);
	said(&one,
	     "a lease of 999 B is shorter than the 1000 B that tenant default must "
	     "have in one: ask for more, or lower [tenant default] lease_min");
	/* no memory yet */
	lease = client_allocate(&one, 0, "");
	client_fail(&one, resize(lease, 999), -EDQUOT);
	(void)client_ask(&one, resize(lease, 5000), WIRE_TYPE_lease);
	client_fail(&one, resize(lease, 5001), -EDQUOT);
	client_fail(&one, resize(lease, 999), -EDQUOT);
	(void)client_allocate(&one, 1000, "n");
	client_fail(&one, allocate(1000, "", 0), -EDQUOT);
	said(&one,
	     "tenant default has 2 leases and may have 2, 1 more was asked for: end "
	     "some, or raise [tenant default] leases");
	ck_assert_uint_eq(tenant_of("default")->refused, 6);
	/* what is held stays, and may become shorter, though not yet short enough */
	params[0].limits.lease_max = 2000;
	params[0].limits.leases_max = 1;
	configure(2);
	(void)client_ask(&one, resize(lease, 5000), WIRE_TYPE_lease);
	(void)client_ask(&one, resize(lease, 3000), WIRE_TYPE_lease);
	client_fail(&one, resize(lease, 3001), -EDQUOT);
	client_open(&two);
	(void)client_ask(&two, attach("n"), WIRE_TYPE_lease);
}
END_TEST

START_TEST(ttl__is_given_where_none_is_asked_for)
{
	struct wire_msg *msg;
	uint64_t lease;

	params[0].limits.ttl_max_ms = 60000;
	configure(2);
	client_open(&one);
	(void)client_ask(&one, allocate(1, "a", 60000), WIRE_TYPE_lease);
	ck_assert_uint_eq(one.answer.lease.ttl_ms, 60000);
	(void)client_ask(&one, allocate(1, "b", 0), WIRE_TYPE_lease);
	ck_assert_uint_eq(one.answer.lease.ttl_ms, 60000);
	lease = one.answer.lease.lease;
	client_fail(&one, allocate(1, "c", 60001), -EDQUOT);
	said(&one,
	     "a time to live of 60001ms is longer than the 60000ms that a lease of "
	     "tenant default may have: ask for less and renew, or raise [tenant "
	     "default] ttl_max");
	msg = message(WIRE_TYPE_renew);
	msg->renew.lease = lease;
	msg->renew.ttl_ms = 60001;
	client_fail(&one, msg, -EDQUOT);
	ck_assert_uint_eq(tenant_of("default")->refused, 2);
	stage_now_ms += 1000;
	msg = message(WIRE_TYPE_renew);
	msg->renew.lease = lease;
	(void)client_ask(&one, msg, WIRE_TYPE_ok);
	msg = message(WIRE_TYPE_stat);
	(void)strcpy(msg->stat.name, "b");
	(void)client_ask(&one, msg, WIRE_TYPE_entries);
	ck_assert_uint_eq(one.answer.entries.entries[0].ttl_ms, 60000);
	/* ephemeral ones have none */
	(void)client_ask(&one, allocate(1, "", 0), WIRE_TYPE_lease);
	ck_assert_uint_eq(one.answer.lease.ttl_ms, 0);
}
END_TEST

/* A name is no way to a longer life than a lease may have that is made with it. */
START_TEST(ttl__comes_with_a_name)
{
	struct wire_msg *msg;
	uint64_t lease;

	params[0].limits.ttl_max_ms = 5000;
	configure(2);
	client_open(&one);
	lease = client_allocate(&one, 1, "");
	(void)client_ask(&one, renaming(lease, "n"), WIRE_TYPE_ok);
	end(&one);
	stage_now_ms += 4999;
	leases_tick(stage_control.leases);
	client_open(&two);
	msg = message(WIRE_TYPE_stat);
	(void)strcpy(msg->stat.name, "n");
	(void)client_ask(&two, msg, WIRE_TYPE_entries);
	ck_assert_uint_eq(two.answer.entries.entries[0].ttl_ms, 1);
	/* another name is no new life */
	(void)client_ask(&two, attach("n"), WIRE_TYPE_lease);
	stage_now_ms += 1;
	leases_tick(stage_control.leases);
	fake_fabric_settle();
	ck_assert_uint_eq(tenant_of("default")->n_leases, 0);
}
END_TEST

/* ---- configured anew ---- */

START_TEST(tenant__that_is_added_is_there)
{
	params[0] = (struct tenant_params){ "new", stage_limits };
	configure(2);
	ck_assert_ptr_null(tenant_of("default"));
	client_init(&one);
	client_fail(&one, hello(), -EACCES);
	client_open_as(&two, "new");
}
END_TEST

START_TEST(tenant__that_is_removed_leaves)
{
	struct wire_msg *msg;
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
	client_fail(&one, allocate(1, "", 0), -EACCES);
	said(&one,
	     "tenant other is not in the server's configuration any more: it keeps "
	     "what it has, and gets nothing new");
	client_fail(&one, allocate(0, "m", 0), -EACCES);
	client_fail(&two, attach("n"), -EACCES);
	client_fail(&one, resize(own, FAKE_PAGE + 1), -EACCES);
	client_fail(&one, renaming(own, "kept"), -EACCES);
	/* what is there stays */
	(void)client_ask(&one, resize(named, FAKE_PAGE), WIRE_TYPE_lease);
	(void)client_ask(&one, renaming(named, "m"), WIRE_TYPE_ok);
	client_lose(&one);
	fake_fabric_settle();
	client_init(&three);
	(void)client_ask(&three, resume(&one, "other"), WIRE_TYPE_welcome);
	three.next_id = one.next_id;
	(void)client_channel(&three, 0);
	foreign = own;
	(void)client_ask(&three, by_id(WIRE_TYPE_attach), WIRE_TYPE_lease);
	msg = message(WIRE_TYPE_renew);
	msg->renew.lease = named;
	msg->renew.ttl_ms = 1000;
	(void)client_ask(&three, msg, WIRE_TYPE_ok);
	end(&three);
	end(&two);
	ck_assert_uint_eq(tenant_of("other")->n_sessions, 0);
	ck_assert_uint_eq(tenant_of("other")->n_leases, 1);
	/* and it goes with the last of it */
	pass(1000);
	ck_assert_ptr_null(tenant_of("other"));
}
END_TEST

START_TEST(tenant__that_comes_back_has_what_it_had)
{
	const struct tenant *tenant = tenant_of("other");

	client_open_as(&one, "other");
	(void)client_allocate(&one, 100, "n");
	configure(1);
	configure(1);
	end(&one);
	ck_assert_ptr_eq(tenant_of("other"), tenant);
	configure(2);
	ck_assert(!tenant->leaving);
	client_open_as(&two, "other");
	(void)client_ask(&two, attach("n"), WIRE_TYPE_lease);
	ck_assert_uint_eq(two.answer.lease.bytes, 100);
}
END_TEST

START_TEST(memory__that_is_waited_for_does_not_come_to_who_leaves)
{
	client_open(&one);
	client_open_as(&two, "other");
	(void)client_channel(&one, 0);
	foreign = client_allocate(&one, (uint64_t)FAKE_PAGES * FAKE_PAGE, "");
	client_send(&one, by_id(WIRE_TYPE_free));
	client_send(&two, allocate(FAKE_PAGE, "", 0));
	ck_assert_uint_eq(two.answers, 1);
	configure(1);
	fake_fabric_settle();
	fake_pools_scrub();
	leases_retry(stage_control.leases);
	ck_assert_uint_eq(two.answers, 2);
	ck_assert_int_eq((int)two.answer.error.code, EACCES);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("tenants");
	TCase *tc = tcase_create("tenants");

	tcase_add_checked_fixture(tc, setup, control_teardown);
	tcase_add_test(tc, hello__of_an_unknown_tenant_is_refused);
	tcase_add_test(tc, resume__keeps_the_tenant);
	tcase_add_loop_test(tc, lease__of_another_is_not_there_by_its_id, 0,
			    sizeof(by_ids) / sizeof(by_ids[0]));
	tcase_add_test(tc, lease__of_another_is_not_there_by_its_name);
	tcase_add_test(tc, name__of_another_is_free);
	tcase_add_test(tc, channel__of_another_is_refused);
	tcase_add_test(tc, sessions__are_counted_until_nothing_of_them_is_left);
	tcase_add_test(tc, channels__are_counted_until_they_are_dead);
	tcase_add_test(tc, channels__that_are_half_made_count);
	tcase_add_test(tc, channels__of_an_endpoint_that_goes_count_until_it_is_closed);
	tcase_add_test(tc, channels__that_a_device_keeps_count);
	tcase_add_test(tc, bytes__cannot_be_got_round);
	tcase_add_test(tc, leases__are_so_many_and_so_long);
	tcase_add_test(tc, ttl__is_given_where_none_is_asked_for);
	tcase_add_test(tc, ttl__comes_with_a_name);
	tcase_add_test(tc, tenant__that_is_added_is_there);
	tcase_add_test(tc, tenant__that_is_removed_leaves);
	tcase_add_test(tc, tenant__that_comes_back_has_what_it_had);
	tcase_add_test(tc, memory__that_is_waited_for_does_not_come_to_who_leaves);
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}

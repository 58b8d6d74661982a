/* SPDX-License-Identifier: BSD-3-Clause */
/* Leases that are shared with another tenant. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "rmemd/lease/lease_table.h"
#include "rmemd/lease/ledger_record.h"
#include "rmemd/state/ledger_file.h"
#include "rmemd/state/ledger_value.h"
#include "unit/rmemd/control-stage.h"
#include "unit/unit.h"

#define READ WIRE_RIGHT_READ
#define BOTH (WIRE_RIGHT_READ | WIRE_RIGHT_WRITE)

static struct client owner, other, third;
static struct tenant_params params[2];
static uint64_t lease;

static void setup(void)
{
	control_setup();
	params[0] = (struct tenant_params){ .name = "default", .limits = stage_limits };
	params[1] = (struct tenant_params){ .name = "other", .limits = stage_limits };
	client_open_connected(&owner);
	lease = client_allocate(&owner, 100, "n");
	client_open_as(&other, "other");
	(void)client_channel(&other, 0);
}

static struct tenant *tenant(const char *name)
{
	return tenants_find(&stage_tenants, name);
}

static struct wire_msg *to_share(const char *with, unsigned rights)
{
	struct wire_msg *msg = lease_message(WIRE_TYPE_share, lease);

	msg->share.rights = (uint8_t)rights;
	(void)strcpy(msg->share.tenant, with);
	return msg;
}

static struct wire_msg *attach_of(const char *of, const char *name, unsigned rights)
{
	struct wire_msg *msg = to_attach(name);

	msg->attach.rights = (uint8_t)rights;
	(void)strcpy(msg->attach.tenant, of);
	return msg;
}

static struct wire_msg *resume_of(const char *name, const struct client *lost)
{
	struct wire_msg *msg = hello_of(name);

	msg->hello.resume = lost->session;
	memcpy(msg->hello.token, lost->token, WIRE_TOKEN_BYTES);
	return msg;
}

static struct wire_msg *stat_of(const char *of, const char *name)
{
	struct wire_msg *msg = by_name(WIRE_TYPE_stat, name);

	(void)strcpy(msg->stat.tenant, of);
	return msg;
}

static void fail_with(struct client *client, struct wire_msg *msg, int err,
		      const char *text)
{
	client_fail(client, msg, err);
	ck_assert_str_eq(client->answer.error.text, text);
}

static uint64_t denied(const char *name)
{
	return tenant(name)->denied[RIGHTS_DENY_SHARES];
}

START_TEST(share__lets_the_other_tenant_read)
{
	static const char none[] =
		"tenant default shares no lease named \"n\" with tenant other";

	fail_with(&other, attach_of("default", "n", READ), -ENOENT, none);
	fail_with(&other, stat_of("default", "n"), -ENOENT, none);
	client_ok(&owner, to_share("other", READ));
	(void)client_ask(&other, attach_of("default", "n", READ), WIRE_TYPE_lease);
	ck_assert_uint_eq(other.answer.lease.lease, lease);
	ck_assert_uint_eq(other.answer.lease.rights, READ);
	ck_assert_uint_eq(other.answer.lease.n_keys, 1);
	(void)client_ask(&other, stat_of("default", "n"), WIRE_TYPE_entries);
	ck_assert_uint_eq(other.answer.entries.entries[0].lease, lease);
	client_ok(&other, lease_message(WIRE_TYPE_watch, lease));
	client_ok(&other, lease_message(WIRE_TYPE_detach, lease));
	fail_with(&other, attach_of("default", "n", BOTH), -EACCES,
		  "tenant default shares \"n\" with tenant other for reading only");
	/* names stay apart */
	client_fail(&other, attach_of("", "n", READ), -ENOENT);
	client_fail(&other, attach_of("other", "n", READ), -ENOENT);
	(void)client_ask(&other, message(WIRE_TYPE_list), WIRE_TYPE_entries);
	ck_assert_uint_eq(other.answer.entries.n_entries, 0);
	/* unknown tenants and leases look alike */
	fail_with(&other, attach_of("nobody", "n", READ), -ENOENT,
		  "tenant nobody shares no lease named \"n\" with tenant other");
	ck_assert_uint_eq(denied("other"), 4);
	ck_assert_uint_eq(denied("default"), 0);
}
END_TEST

START_TEST(share__with_the_own_name_is_the_own_lease)
{
	client_open(&third);
	(void)client_ask(&third, attach_of("default", "n", BOTH), WIRE_TYPE_lease);
	ck_assert_uint_eq(denied("default"), 0);
}
END_TEST

/* test-refusals has all requests that it refuses. */
START_TEST(share__for_writing_gives_no_other_right)
{
	char text[128];

	client_ok(&owner, to_share("other", BOTH));
	(void)client_ask(&other, attach_of("default", "n", BOTH), WIRE_TYPE_lease);
	ck_assert_uint_eq(other.answer.lease.rights, BOTH);
	(void)snprintf(text, sizeof(text),
		       "lease %llu belongs to tenant default, which alone may end or "
		       "change it",
		       (unsigned long long)lease);
	fail_with(&other, to_rename(lease, "mine"), -EACCES, text);
	ck_assert_uint_eq(denied("other"), 1);
	client_fail(&other, by_name(WIRE_TYPE_remove, "n"), -ENOENT);
}
END_TEST

START_TEST(unshare__ends_attachments_before_the_reply)
{
	unsigned keys;

	client_ok(&owner, to_share("other", BOTH));
	(void)client_ask(&other, attach_of("default", "n", BOTH), WIRE_TYPE_lease);
	keys = tenant("other")->n_keys;
	ck_assert_uint_eq(keys, 1);
	client_send(&owner, to_share("other", 0));
	/* the key is dying, so there is no reply */
	ck_assert_uint_eq(tenant("other")->n_keys, 1);
	ck_assert_int_ne((int)owner.answer.id, (int)owner.last_id);
	ck_assert_uint_eq(client_event(&other, 1, WIRE_TYPE_revoked)->revoked.lease,
			  lease);
	ck_assert_uint_eq(other.event.revoked.reason, WIRE_REASON_UNSHARED);
	fake_fabric_settle();
	ck_assert_uint_eq(owner.answer.id, owner.last_id);
	ck_assert_int_eq((int)owner.answer.type, (int)WIRE_TYPE_ok);
	ck_assert_uint_eq(tenant("other")->n_keys, 0);
	ck_assert_uint_eq(tenant("other")->n_attachments, 0);
	client_fail(&other, lease_message(WIRE_TYPE_detach, lease), -ESTALE);
	client_fail(&other, attach_of("default", "n", READ), -ENOENT);
	ck_assert_uint_eq(denied("other"), 2);
	/* the owner goes on */
	ck_assert_uint_eq(owner.events, 0);
	client_ok(&owner, to_share("other", 0));
	client_ok(&owner, lease_message(WIRE_TYPE_free, lease));
}
END_TEST

START_TEST(unshare__goes_on_without_its_connection)
{
	struct client lost;
	uint64_t id;

	client_ok(&owner, to_share("other", BOTH));
	(void)client_ask(&other, attach_of("default", "n", BOTH), WIRE_TYPE_lease);
	client_send(&owner, to_share("other", 0));
	id = owner.last_id;
	lost = owner;
	client_lose(&owner);
	fake_fabric_settle();
	ck_assert_uint_eq(tenant("other")->n_keys, 0);
	client_resume(&owner, &lost);
	(void)client_ask_as(&owner, to_share("other", 0), id, WIRE_TYPE_ok);
	client_fail(&other, attach_of("default", "n", READ), -ENOENT);
}
END_TEST

/* A daemon that is killed then does not have the share any more, though no answer told of it. */
START_TEST(unshare__without_its_connection_is_committed)
{
	const struct ledger *ledger = stage_control.ledger;
	unsigned answers;

	client_ok(&owner, to_share("other", BOTH));
	(void)client_ask(&other, attach_of("default", "n", BOTH), WIRE_TYPE_lease);
	client_lose(&other);
	answers = owner.answers;
	client_send(&owner, to_share("other", 0));
	client_lose(&owner);
	ck_assert_uint_eq(ledger_committed(ledger), ledger->tail);
	fake_fabric_settle();
	ck_assert_uint_eq(owner.answers, answers);
	ck_assert_uint_eq(ledger_committed(ledger), ledger->tail);
}
END_TEST

START_TEST(share__with_fewer_rights_ends_writers_alone)
{
	client_ok(&owner, to_share("other", BOTH));
	(void)client_ask(&other, attach_of("default", "n", BOTH), WIRE_TYPE_lease);
	client_open_as(&third, "other");
	(void)client_ask(&third, attach_of("default", "n", READ), WIRE_TYPE_lease);
	client_ok(&owner, to_share("other", READ));
	(void)client_event(&other, 1, WIRE_TYPE_revoked);
	ck_assert_uint_eq(third.events, 0);
	(void)client_ask(&other, attach_of("default", "n", READ), WIRE_TYPE_lease);
	client_ok(&owner, to_share("other", BOTH));
	ck_assert_uint_eq(other.events, 1);
}
END_TEST

START_TEST(share__is_of_named_leases_and_known_tenants)
{
	fail_with(&owner, to_share("nobody", READ), -ENOENT,
		  "there is no tenant \"nobody\" on this server");
	client_ok(&owner, to_share("nobody", 0));
	client_fail(&owner, to_share("default", READ), -EINVAL);
	client_fail(&owner, to_share("", READ), -EINVAL);
	client_fail(&owner, to_share("other", WIRE_RIGHT_WRITE), -EINVAL);
	client_fail(&owner, to_share("other", 4), -EINVAL);
	lease = client_allocate(&owner, 100, "");
	client_fail(&owner, to_share("other", READ), -EINVAL);
	ck_assert_ptr_nonnull(
		strstr(owner.answer.error.text, "has no name: name it first"));
	client_fail(&other, to_share("other", READ), -ESTALE);
}
END_TEST

START_TEST(shares__have_a_limit)
{
	struct tenant_params many[SHARES_MAX + 2];
	struct lease *shared = leases_find_id(stage_control.leases, lease);

	for (unsigned i = 0; i < SHARES_MAX + 2; i++) {
		many[i] = params[0];
		(void)snprintf(many[i].name, sizeof(many[i].name), "t%u", i);
	}
	many[0] = params[0];
	ck_assert_int_eq(tenants_set(&stage_tenants, many, SHARES_MAX + 2), 0);
	for (unsigned i = 1; i <= SHARES_MAX; i++)
		client_ok(&owner, to_share(many[i].name, READ));
	client_fail(&owner, to_share(many[SHARES_MAX + 1].name, READ), -EDQUOT);
	client_ok(&owner, to_share(many[3].name, BOTH));
	client_ok(&owner, to_share(many[2].name, 0));
	client_ok(&owner, to_share(many[SHARES_MAX + 1].name, READ));
	ck_assert_uint_eq(share_rights(shared, many[3].name), BOTH);
	ck_assert_uint_eq(share_rights(shared, many[2].name), 0);
	ck_assert_uint_eq(share_rights(shared, many[SHARES_MAX].name), READ);
}
END_TEST

START_TEST(share__never_has_more_rights_than_its_owner)
{
	client_ok(&owner, to_share("other", BOTH));
	params[0].rights.access = RIGHTS_READ_ONLY;
	ck_assert_int_eq(tenants_set(&stage_tenants, params, 2), 0);
	client_fail(&other, attach_of("default", "n", BOTH), -EACCES);
	(void)client_ask(&other, attach_of("default", "n", READ), WIRE_TYPE_lease);
	client_fail(&owner, to_share("other", READ), -EACCES);
	params[0].rights.access = RIGHTS_READ_WRITE;
	params[1].rights.access = RIGHTS_READ_ONLY;
	ck_assert_int_eq(tenants_set(&stage_tenants, params, 2), 0);
	client_open_as(&third, "other");
	client_fail(&third, attach_of("default", "n", BOTH), -EACCES);
	ck_assert_ptr_nonnull(strstr(third.answer.error.text, "access = read-only"));
}
END_TEST

/* The owner pays for bytes, the user for attachments and keys. */
START_TEST(share__counts_at_owner_and_user)
{
	uint64_t bytes = tenant("default")->bytes;

	client_ok(&owner, to_share("other", READ));
	(void)client_ask(&other, attach_of("default", "n", READ), WIRE_TYPE_lease);
	ck_assert_uint_eq(tenant("default")->bytes, bytes);
	ck_assert_uint_eq(tenant("default")->n_attachments, 1);
	ck_assert_uint_eq(tenant("default")->n_keys, 1);
	ck_assert_uint_eq(tenant("other")->bytes, 0);
	ck_assert_uint_eq(tenant("other")->n_leases, 0);
	ck_assert_uint_eq(tenant("other")->n_attachments, 1);
	ck_assert_uint_eq(tenant("other")->n_keys, 1);
}
END_TEST

START_TEST(share__outlasts_a_restart)
{
	struct client lost, lost_other;

	client_ok(&owner, to_share("other", READ));
	client_ok(&owner, to_rename(lease, "renamed"));
	(void)client_ask(&other, attach_of("default", "renamed", READ),
			 WIRE_TYPE_lease);
	lost = owner;
	lost_other = other;
	client_lose(&owner);
	client_lose(&other);
	control_restart();
	client_init(&other);
	(void)client_ask(&other, resume_of("other", &lost_other), WIRE_TYPE_welcome);
	other.next_id = lost_other.next_id;
	(void)client_channel(&other, 0);
	(void)client_ask(&other, lease_message(WIRE_TYPE_attach, lease),
			 WIRE_TYPE_lease);
	ck_assert_uint_eq(other.answer.lease.rights, READ);
	client_open_as(&third, "other");
	client_fail(&third, attach_of("default", "renamed", BOTH), -EACCES);
	(void)client_ask(&third, attach_of("default", "renamed", READ),
			 WIRE_TYPE_lease);
	client_resume(&owner, &lost);
	client_ok(&owner, to_share("other", 0));
	client_lose(&owner);
	client_lose(&other);
	client_lose(&third);
	control_restart();
	client_open_as(&other, "other");
	client_fail(&other, attach_of("default", "renamed", READ), -ENOENT);
}
END_TEST

/* The daemon died when it had recorded the end of a share, and not yet that of each attachment. */
START_TEST(attachment__without_its_share_is_not_restored)
{
	const struct ledger_key key = { LEDGER_ATTACHMENT, other.session, lease };
	const struct attachment_head head = { .head_bytes = sizeof(head),
					      .rights = _i ? BOTH : READ };
	struct client lost = other;

	client_ok(&owner, to_share("other", BOTH));
	(void)client_ask(&other, attach_of("default", "n", BOTH), WIRE_TYPE_lease);
	client_ok(&owner, to_share("other", _i ? READ : 0));
	(void)client_event(&other, 1, WIRE_TYPE_revoked);
	ck_assert_int_eq(ledger_put(stage_control.ledger, &key, &head, sizeof(head)),
			 0);
	lost.next_id = other.next_id;
	client_lose(&owner);
	client_lose(&other);
	control_restart();
	client_init(&other);
	(void)client_ask(&other, resume_of("other", &lost), WIRE_TYPE_welcome);
	other.next_id = lost.next_id;
	(void)client_channel(&other, 0);
	client_fail(&other, lease_message(WIRE_TYPE_attach, lease), -ESTALE);
	ck_assert_uint_eq(tenant("other")->n_attachments, 0);
}
END_TEST

START_TEST(share__ends_with_its_lease)
{
	client_ok(&owner, to_share("other", READ));
	(void)client_ask(&other, attach_of("default", "n", READ), WIRE_TYPE_lease);
	client_ok(&owner, by_name(WIRE_TYPE_remove, "n"));
	ck_assert_uint_eq(client_event(&other, 1, WIRE_TYPE_revoked)->revoked.reason,
			  WIRE_REASON_FREED);
	(void)client_allocate(&owner, 100, "n");
	client_fail(&other, attach_of("default", "n", READ), -ENOENT);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("shares", setup, control_teardown);

	tcase_add_test(tc, share__lets_the_other_tenant_read);
	tcase_add_test(tc, share__with_the_own_name_is_the_own_lease);
	tcase_add_test(tc, share__for_writing_gives_no_other_right);
	tcase_add_test(tc, unshare__ends_attachments_before_the_reply);
	tcase_add_test(tc, unshare__goes_on_without_its_connection);
	tcase_add_test(tc, unshare__without_its_connection_is_committed);
	tcase_add_test(tc, share__with_fewer_rights_ends_writers_alone);
	tcase_add_test(tc, share__is_of_named_leases_and_known_tenants);
	tcase_add_test(tc, shares__have_a_limit);
	tcase_add_test(tc, share__never_has_more_rights_than_its_owner);
	tcase_add_test(tc, share__counts_at_owner_and_user);
	tcase_add_test(tc, share__outlasts_a_restart);
	tcase_add_loop_test(tc, attachment__without_its_share_is_not_restored, 0, 2);
	tcase_add_test(tc, share__ends_with_its_lease);
	return unit_main();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors of the table of answers that the requests of a client alone do not bring about.  The stage
 * refuses those that the table does not have. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "unit/rmemd/control-stage.h"
#include "rmemd/control/request.h"
#include "rmemd/control/session.h"
#include "rmemd/state/ledger.h"
#include "unit/unit.h"

static struct client one, two;
static uint64_t lease; /* named n, of `one` */
static bool ledger_full;

int __real_ledger_put(struct ledger *ledger, const struct ledger_key *key,
		      const void *value, size_t bytes);
int __wrap_ledger_put(struct ledger *ledger, const struct ledger_key *key,
		      const void *value, size_t bytes);
int __real_ledger_reserve(struct ledger *ledger, const struct ledger_key *key,
			  size_t bytes);
int __wrap_ledger_reserve(struct ledger *ledger, const struct ledger_key *key,
			  size_t bytes);

int __wrap_ledger_put(struct ledger *ledger, const struct ledger_key *key,
		      const void *value, size_t bytes)
{
	return ledger_full ? err_set(-ENOSPC, "the ledger is full")
			   : __real_ledger_put(ledger, key, value, bytes);
}

int __wrap_ledger_reserve(struct ledger *ledger, const struct ledger_key *key,
			  size_t bytes)
{
	return ledger_full ? err_set(-ENOSPC, "the ledger is full")
			   : __real_ledger_reserve(ledger, key, bytes);
}

static void setup(void)
{
	control_setup();
	stage_endpoint_info[0].flags = FABRIC_ENDPOINT_ATOMICS;
	client_open_connected(&one);
	lease = client_allocate(&one, 100, "n");
}

static void teardown(void)
{
	ledger_full = false;
	control_teardown();
}

/* A request about the lease that would be done. */
static struct wire_msg *request_of(enum wire_type type)
{
	struct wire_msg *msg = lease_message(type, lease);

	switch (type) {
	case WIRE_TYPE_hello:
		return hello();
	case WIRE_TYPE_open_channel:
		return message(type);
	case WIRE_TYPE_allocate:
		return to_allocate(1, "m");
	case WIRE_TYPE_attach:
		return to_attach("n");
	case WIRE_TYPE_rename:
		return to_rename(lease, "m");
	case WIRE_TYPE_resize:
		return to_resize(lease, 200);
	case WIRE_TYPE_remove:
	case WIRE_TYPE_stat:
		return by_name(type, "n");
	case WIRE_TYPE_share:
		msg->share.rights = WIRE_RIGHT_READ;
		(void)strcpy(msg->share.tenant, "other");
		return msg;
	default:
		return msg;
	}
}

static const enum wire_type recorded[] = {
	WIRE_TYPE_hello,
	WIRE_TYPE_open_channel,
	WIRE_TYPE_allocate,
	WIRE_TYPE_free,
	WIRE_TYPE_attach,
	WIRE_TYPE_detach,
	WIRE_TYPE_renew,
	WIRE_TYPE_rename,
	WIRE_TYPE_resize,
	WIRE_TYPE_remove,
	WIRE_TYPE_fix_atomic_device,
	WIRE_TYPE_watch,
	WIRE_TYPE_share,
	WIRE_TYPE_unwatch,
};

/* Each request that records something, or its reply. */
START_TEST(full_ledger__is_no_room)
{
	enum wire_type type = recorded[_i];

	client_init(&two);
	if (type == WIRE_TYPE_attach)
		client_open(&two);
	if (type == WIRE_TYPE_unwatch)
		client_ok(&one, request_of(WIRE_TYPE_watch));
	/* no numbers are reserved any more */
	one.connection.session->next_channel = one.connection.session->channels_end;
	ledger_full = true;
	client_fail(type == WIRE_TYPE_hello || type == WIRE_TYPE_attach ? &two : &one,
		    request_of(type), -ENOSPC);
}
END_TEST

static const enum wire_type waiting[] = {
	WIRE_TYPE_allocate, WIRE_TYPE_free,   WIRE_TYPE_attach,
	WIRE_TYPE_detach,   WIRE_TYPE_rename, WIRE_TYPE_resize,
	WIRE_TYPE_remove,   WIRE_TYPE_share,  WIRE_TYPE_list,
};

START_TEST(waiting_requests__beyond_the_limit_are_over_a_quota)
{
	unsigned *n = &one.connection.session->n_requests;

	*n = REQUESTS_MAX;
	for (unsigned i = 0; i < sizeof(waiting) / sizeof(waiting[0]); i++)
		client_fail(&one, request_of(waiting[i]), -EDQUOT);
	*n = 0;
}
END_TEST

/* ---- what a request needs, by its row ---- */

#define NEEDS(name, needs, flags) { WIRE_TYPE_##name, #needs },
static const struct needing {
	enum wire_type type;
	const char *needs;
} needing[] = { REQUEST_TYPES(NEEDS, NEEDS, NEEDS) };

static bool is_among(const char *needs, const char *all)
{
	return strstr(all, needs) != NULL;
}

/* The request fails with `err`, or not with any of these errors. */
static void needs_check(struct client *client, enum wire_type type, int err)
{
	client_send(client, request_of(type));
	fake_fabric_settle();
	if (err) {
		ck_assert_int_eq((int)client->answer.type, (int)WIRE_TYPE_error);
		ck_assert_uint_eq(client->answer.error.code, wire_code_of(err));
	} else if (client->answer.type == WIRE_TYPE_error) {
		ck_assert_uint_ne(client->answer.error.code, WIRE_CODE_stale);
		ck_assert_uint_ne(client->answer.error.code, WIRE_CODE_missing);
		ck_assert_uint_ne(client->answer.error.code, WIRE_CODE_forbidden);
	}
}

/* A session of another tenant, with which nothing is shared. */
START_TEST(request__of_a_stranger_needs_the_lease)
{
	const char *needs = needing[_i].needs;

	if (is_among(needs, "none, change"))
		return;
	client_open_as(&two, "other");
	needs_check(&two, needing[_i].type,
		    is_among(needs, "reach") ? -ENOENT : -ESTALE);
}
END_TEST

/* A session of another tenant, which shares the lease, for writing. */
START_TEST(request__of_a_borrower_needs_to_own_it)
{
	const char *needs = needing[_i].needs;
	struct wire_msg *msg = request_of(WIRE_TYPE_share);

	if (!is_among(needs, "hold, write, own"))
		return;
	msg->share.rights |= WIRE_RIGHT_WRITE;
	client_ok(&one, msg);
	client_open_as(&two, "other");
	msg = to_attach("n");
	(void)strcpy(msg->attach.tenant, "default");
	(void)client_ask(&two, msg, WIRE_TYPE_lease);
	needs_check(&two, needing[_i].type, is_among(needs, "own") ? -EACCES : 0);
}
END_TEST

/* The lease's own tenant, which may only read by now. */
START_TEST(request__of_a_reader_changes_nothing)
{
	const char *needs = needing[_i].needs;
	struct tenant *tenant = tenants_find(&stage_tenants, "default");
	bool attaches = needing[_i].type == WIRE_TYPE_attach;
	bool changes = attaches || is_among(needs, "write, own, change");

	if (is_among(needs, "none"))
		return;
	client_open(&two);
	tenant->rights.access = RIGHTS_READ_ONLY;
	needs_check(attaches ? &two : &one, needing[_i].type, changes ? -EACCES : 0);
	ck_assert_uint_eq(tenant->denied[RIGHTS_DENY_ACCESS], changes);
}
END_TEST

/* As the fabric tells when a device is removed meanwhile. */
START_TEST(device__that_is_gone_gives_no_keys)
{
	static const enum wire_type types[] = { WIRE_TYPE_allocate, WIRE_TYPE_attach,
						WIRE_TYPE_resize };
	struct client *client = types[_i] == WIRE_TYPE_attach ? &two : &one;

	client_open_connected(&two);
	fake_fabric_fail_event(0, -ENODEV);
	client_fail(client, request_of(types[_i]), -ENODEV);
}
END_TEST

START_TEST(device__that_is_gone_opens_no_channel)
{
	struct wire_msg *msg = message(WIRE_TYPE_open_channel);

	fake_fabric_fail_session(-ENODEV);
	msg->open_channel.endpoint = 1;
	client_fail(&one, msg, -ENODEV);
	fake_fabric_fail_session(0);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("refusals", setup, teardown);

	tcase_add_loop_test(tc, full_ledger__is_no_room, 0,
			    sizeof(recorded) / sizeof(recorded[0]));
	tcase_add_test(tc, waiting_requests__beyond_the_limit_are_over_a_quota);
	tcase_add_loop_test(tc, request__of_a_stranger_needs_the_lease, 0,
			    sizeof(needing) / sizeof(needing[0]));
	tcase_add_loop_test(tc, request__of_a_borrower_needs_to_own_it, 0,
			    sizeof(needing) / sizeof(needing[0]));
	tcase_add_loop_test(tc, request__of_a_reader_changes_nothing, 0,
			    sizeof(needing) / sizeof(needing[0]));
	tcase_add_loop_test(tc, device__that_is_gone_gives_no_keys, 0, 3);
	tcase_add_test(tc, device__that_is_gone_opens_no_channel);
	return unit_main();
}

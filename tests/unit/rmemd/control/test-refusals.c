/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors of the table of answers that the requests of a client alone do not bring about.  The stage
 * refuses those that the table does not have. */
#include <errno.h>
#include <stdio.h>
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
int __real_ledger_reserve(struct ledger *ledger, size_t bytes);
int __wrap_ledger_reserve(struct ledger *ledger, size_t bytes);

int __wrap_ledger_put(struct ledger *ledger, const struct ledger_key *key,
		      const void *value, size_t bytes)
{
	return ledger_full ? err_set(-ENOSPC, "the ledger is full")
			   : __real_ledger_put(ledger, key, value, bytes);
}

int __wrap_ledger_reserve(struct ledger *ledger, size_t bytes)
{
	return ledger_full ? err_set(-ENOSPC, "the ledger is full")
			   : __real_ledger_reserve(ledger, bytes);
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
	WIRE_TYPE_allocate, WIRE_TYPE_free,   WIRE_TYPE_attach, WIRE_TYPE_detach,
	WIRE_TYPE_rename,   WIRE_TYPE_resize, WIRE_TYPE_remove, WIRE_TYPE_share,
};

START_TEST(waiting_requests__beyond_the_limit_are_over_a_quota)
{
	unsigned *n = &one.connection.session->n_requests;
	struct wire_msg *list;
	char name[8];

	/* a list that is too long for one turn waits too */
	for (unsigned i = 0; i < 300; i++) {
		(void)snprintf(name, sizeof(name), "l%u", i);
		(void)client_allocate(&one, 0, name);
	}
	*n = REQUESTS_MAX;
	for (unsigned i = 0; i < sizeof(waiting) / sizeof(waiting[0]); i++)
		client_fail(&one, request_of(waiting[i]), -EDQUOT);
	list = message(WIRE_TYPE_list);
	(void)strcpy(list->list.prefix, "m");
	client_fail(&one, list, -EDQUOT);
	*n = 0;
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
	tcase_add_loop_test(tc, device__that_is_gone_gives_no_keys, 0, 3);
	tcase_add_test(tc, device__that_is_gone_opens_no_channel);
	return unit_main();
}

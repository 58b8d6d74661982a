/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests with valid and hostile values: each gets exactly one reply and does no harm. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/rmemd/control-stage.h"
#include "rmemd/control/request.h"
#include "rmemd/control/session.h"
#include "unit/unit.h"
#include "wire/codec.h"

static struct client one, two;

START_TEST(requests__need_a_hello_first)
{
	client_init(&one);
	client_fail(&one, message((enum wire_type)_i), -EPROTO);
	ck_assert_uint_eq(one.closed, 1);
}
END_TEST

START_TEST(second_hello__is_refused)
{
	client_open(&one);
	client_fail(&one, hello(), -EPROTO);
	ck_assert_uint_eq(one.closed, 1);
	client_lose(&one);
}
END_TEST

START_TEST(replies_and_events__are_not_requests)
{
	static const enum wire_type types[] = { WIRE_TYPE_ok, WIRE_TYPE_lease,
						WIRE_TYPE_error, WIRE_TYPE_closing };

	client_open(&one);
	client_fail(&one, message(types[_i]), -EPROTO);
	ck_assert_uint_eq(one.closed, 1);
	client_lose(&one);
}
END_TEST

/* The reply to a frame that cannot be decoded has its id. */
START_TEST(malformed_frame__closes_the_connection)
{
	uint8_t frame[64] = { 24, [4] = WIRE_TYPE_free, [8] = 9 };

	client_open(&one);
	one.next_id = 10;
	if (_i == 1)
		frame[4] = WIRE_TYPE_ok;
	if (_i == 2)
		frame[0] = 23;
	if (_i == 3)
		frame[6] = 1;
	client_send_frame(&one, frame, frame[0]);
	if (_i == 0) {
		ck_assert_int_eq((int)one.answer.error.code, WIRE_CODE_stale);
		ck_assert_uint_eq(one.closed, 0);
		return;
	}
	ck_assert_int_eq((int)one.answer.type, (int)WIRE_TYPE_error);
	ck_assert_uint_eq(one.answer.id, 9);
	ck_assert_int_eq((int)one.answer.error.code, WIRE_CODE_malformed);
	ck_assert_uint_eq(one.closed, 1);
	client_lose(&one);
}
END_TEST

/* So that a client can find out what a server knows. */
START_TEST(unknown_request__fails_alone)
{
	static const uint8_t unknown[] = { 0x00, 0x15, 0x3f };
	uint8_t frame[WIRE_HEADER_BYTES + 8] = { sizeof(frame), [8] = 9 };

	frame[4] = unknown[_i];
	/* the first message is a hello */
	client_init(&two);
	two.next_id = 10;
	client_send_frame(&two, frame, sizeof(frame));
	ck_assert_int_eq((int)two.answer.error.code, WIRE_CODE_malformed);
	ck_assert_uint_eq(two.closed, 1);
	client_lose(&two);
	client_open(&one);
	one.next_id = 10;
	client_send_frame(&one, frame, sizeof(frame));
	ck_assert_int_eq((int)one.answer.type, (int)WIRE_TYPE_error);
	ck_assert_uint_eq(one.answer.id, 9);
	ck_assert_int_eq((int)one.answer.error.code, WIRE_CODE_unknown);
	client_ok(&one, message(WIRE_TYPE_ping));
	ck_assert_uint_eq(one.closed, 0);
	/* it is a heartbeat */
	pass(STAGE_SILENCE_MS - 1);
	client_send_frame(&one, frame, sizeof(frame));
	pass(STAGE_SILENCE_MS - 1);
	ck_assert_uint_eq(sessions_in(WIRE_SESSION_ACTIVE), 1);
}
END_TEST

static const struct {
	struct wire_allocate allocate;
	int err;
} allocations[] = {
	{ { .bytes = UINT64_MAX, .node = -1 }, -ENOSPC },
	{ { .bytes = UINT64_MAX, .node = -1, .align = UINT64_MAX }, -EINVAL },
	{ { .bytes = UINT64_MAX, .node = INT32_MIN }, -EINVAL },
	{ { .bytes = 1, .node = -1, .placement = 3 }, -EINVAL },
	{ { .bytes = 1, .node = -1, .placement = 255 }, -EINVAL },
	{ { .bytes = 1, .node = -1, .placement = WIRE_PLACE_DEVICE }, -EINVAL },
	{ { .bytes = 1, .node = -1, .placement = WIRE_PLACE_DEVICE, .device = "none0" },
	  -ENODEV },
	{ { .bytes = 1,
	    .node = -1,
	    .placement = WIRE_PLACE_INTERLEAVE,
	    .device = "none0" },
	  -EINVAL },
	{ { .bytes = 1, .node = 0, .placement = WIRE_PLACE_INTERLEAVE }, -EINVAL },
};

START_TEST(hostile_values__are_ordinary_errors)
{
	struct wire_msg *msg;
	uint64_t lease;

	client_open(&one);
	client_open(&two);
	lease = client_allocate(&one, 100, "n");
	msg = lease_message(WIRE_TYPE_attach, lease);
	client_fail(&two, msg, -ESTALE);
	(void)strcpy(msg->attach.name, "n");
	client_fail(&two, msg, -EINVAL);
	client_fail(&two, message(WIRE_TYPE_attach), -EINVAL);
	msg = to_attach("n");
	msg->attach.rights = 0;
	client_fail(&two, msg, -EINVAL);
	msg->attach.rights = 255;
	client_fail(&two, msg, -EINVAL);
	msg->attach.rights = 1;
	(void)client_ask(&two, msg, WIRE_TYPE_lease);
	client_fail(&two, msg, -EALREADY);
	client_fail(&two, lease_message(WIRE_TYPE_free, lease), -EACCES);
	client_fail(&two, lease_message(WIRE_TYPE_resize, lease), -EACCES);
	client_fail(&two, lease_message(WIRE_TYPE_renew, lease), -EACCES);
	msg = lease_message(WIRE_TYPE_rename, lease);
	client_fail(&two, msg, -EINVAL);
	client_fail(&one, msg, -EINVAL);
	(void)strcpy(msg->rename.name, "m");
	msg->rename.flags = 2;
	client_fail(&one, msg, -EINVAL);
	for (unsigned i = 0; i < sizeof(allocations) / sizeof(allocations[0]); i++) {
		msg = message(WIRE_TYPE_allocate);
		msg->allocate = allocations[i].allocate;
		client_fail(&one, msg, allocations[i].err);
	}
	client_fail(&one, to_resize(lease, UINT64_MAX), -ENOSPC);
	client_fail(&one, message(WIRE_TYPE_stat), -ENOENT);
	client_fail(&one, message(WIRE_TYPE_remove), -ENOENT);
	for (unsigned i = 0; i < 3; i++) {
		static const uint64_t ids[] = { 0, 12345, UINT64_MAX };

		client_fail(&one, lease_message(WIRE_TYPE_free, ids[i]), -ESTALE);
		client_fail(&one, lease_message(WIRE_TYPE_detach, ids[i]), -ESTALE);
		client_fail(&one, lease_message(WIRE_TYPE_renew, ids[i]), -ESTALE);
		client_fail(&one, lease_message(WIRE_TYPE_resize, ids[i]), -ESTALE);
		client_fail(&one, lease_message(WIRE_TYPE_fix_atomic_device, ids[i]),
			    -ESTALE);
	}
	msg = lease_message(WIRE_TYPE_fix_atomic_device, lease);
	client_fail(&two, msg, -EACCES);
	client_fail(&one, msg, -ENOTSUP);
	msg->fix_atomic_device.endpoint = STAGE_ENDPOINTS;
	client_fail(&one, msg, -EINVAL);
	msg->fix_atomic_device.endpoint = 255;
	client_fail(&one, msg, -EINVAL);
	client_ok(&one, lease_message(WIRE_TYPE_free, lease));
	(void)client_event(&two, 1, WIRE_TYPE_revoked);
	ck_assert_uint_eq(two.event.revoked.lease, lease);
	ck_assert_uint_eq(two.event.revoked.reason, WIRE_REASON_FREED);
	ck_assert_uint_eq(one.events, 0);
	ck_assert_uint_eq(one.closed + two.closed, 0);
}
END_TEST

START_TEST(failed_requests__are_counted_by_their_reasons)
{
	const uint64_t *refused = stage_control.counters.requests_refused;
	struct wire_msg *msg;

	client_open(&one);
	client_fail(&one, lease_message(WIRE_TYPE_free, 12345), -ESTALE);
	client_fail(&one, message(WIRE_TYPE_stat), -ENOENT);
	client_fail(&one, message(WIRE_TYPE_stat), -ENOENT);
	msg = message(WIRE_TYPE_allocate);
	msg->allocate.bytes = UINT64_MAX;
	client_fail(&one, msg, -ENOSPC);
	ck_assert_uint_eq(refused[REQUEST_STALE], 1);
	ck_assert_uint_eq(refused[REQUEST_MISSING], 2);
	ck_assert_uint_eq(refused[REQUEST_FULL], 1);
	ck_assert_uint_eq(refused[REQUEST_DENIED], 0);
	ck_assert_uint_eq(stage_control.counters.requests_failed, 4);
}
END_TEST

START_TEST(lease__is_resized_renamed_renewed_and_expires)
{
	struct wire_msg *msg;
	uint64_t lease;

	client_open_connected(&one);
	lease = client_allocate(&one, 100, "");
	ck_assert_uint_eq(one.answer.lease.n_keys, 1);
	(void)client_ask(&one, to_resize(lease, 9000), WIRE_TYPE_lease);
	ck_assert_uint_eq(one.answer.lease.bytes, 9000);
	ck_assert_uint_eq(one.answer.lease.n_keys, 2);
	client_ok(&one, to_rename(lease, "n"));
	msg = lease_message(WIRE_TYPE_renew, lease);
	msg->renew.ttl_ms = 1500;
	client_ok(&one, msg);
	(void)client_ask(&one, by_name(WIRE_TYPE_stat, "n"), WIRE_TYPE_entries);
	ck_assert_uint_eq(one.answer.entries.n_entries, 1);
	ck_assert_uint_eq(one.answer.entries.entries[0].lease, lease);
	ck_assert_uint_eq(one.answer.entries.entries[0].bytes, 9000);
	ck_assert_uint_eq(one.answer.entries.entries[0].ttl_ms, 1500);
	ck_assert_uint_eq(one.answer.entries.entries[0].sessions, 1);
	pass(1500);
	ck_assert_uint_eq(client_event(&one, 1, WIRE_TYPE_revoked)->revoked.reason,
			  WIRE_REASON_EXPIRED);
	client_fail(&one, lease_message(WIRE_TYPE_free, lease), -ESTALE);
}
END_TEST

/* The pools were asked for memory of one node, or of any node (-1). */
static void check_node_asked(int node)
{
	const struct fake_wish *wish = fake_pools_wish();

	ck_assert_uint_eq(wish->n_nodes, node >= 0);
	if (node >= 0)
		ck_assert_int_eq(wish->nodes[0], node);
}

START_TEST(placement__is_passed_to_the_pools_and_reported)
{
	const struct fake_wish *wish = fake_pools_wish();
	struct wire_msg *msg;

	client_open(&one);
	msg = to_allocate(100, "");
	msg->allocate.node = 4;
	(void)client_ask(&one, msg, WIRE_TYPE_lease);
	check_node_asked(4);
	ck_assert_uint_eq(one.answer.lease.placement, WIRE_PLACE_NODE);
	ck_assert_int_eq(one.answer.lease.node, 4);
	ck_assert_int_eq(one.answer.lease.segments[0].node, 0);
	(void)strcpy(stage_endpoint_info[1].device, "able1");
	stage_endpoint_info[1].node = 6;
	msg->allocate.node = -1;
	msg->allocate.placement = WIRE_PLACE_DEVICE;
	(void)strcpy(msg->allocate.device, "able1");
	(void)client_ask(&one, msg, WIRE_TYPE_lease);
	check_node_asked(6);
	ck_assert_uint_eq(one.answer.lease.placement, WIRE_PLACE_DEVICE);
	ck_assert_int_eq(one.answer.lease.node, 6);
	msg->allocate.device[0] = '\0';
	msg->allocate.placement = WIRE_PLACE_NODE;
	/* any node: those of the devices to which the session has a channel */
	(void)client_ask(&one, msg, WIRE_TYPE_lease);
	check_node_asked(-1);
	ck_assert(!wish->interleave);
	ck_assert_int_eq(one.answer.lease.node, -1);
	(void)client_channel(&one, 1);
	msg = to_allocate(100, "");
	(void)client_ask(&one, msg, WIRE_TYPE_lease);
	check_node_asked(6);
	ck_assert_int_eq(one.answer.lease.node, -1);
	/* only those to which the client says that it will have a channel */
	stage_endpoint_info[0].node = 2;
	msg->allocate.reach = 0xfffffff1;
	(void)client_ask(&one, msg, WIRE_TYPE_lease);
	ck_assert_uint_eq(wish->endpoints, 1);
	check_node_asked(2);
	msg->allocate.reach = 3;
	msg->allocate.placement = WIRE_PLACE_INTERLEAVE;
	(void)client_ask(&one, msg, WIRE_TYPE_lease);
	ck_assert_uint_eq(wish->endpoints, 3);
	ck_assert_uint_eq(wish->n_nodes, 2);
	ck_assert(wish->interleave);
	ck_assert_uint_eq(one.answer.lease.placement, WIRE_PLACE_INTERLEAVE);
	/* memory that is added later is placed by this rule, too */
	msg = to_resize(one.answer.lease.lease, 9000);
	msg->resize.reach = 2;
	(void)client_ask(&one, msg, WIRE_TYPE_lease);
	ck_assert(wish->interleave);
	ck_assert_uint_eq(wish->endpoints, 2);
	check_node_asked(6);
	client_lose(&one);
}
END_TEST

START_TEST(atomic_device__is_the_same_for_all_sessions)
{
	struct wire_msg *msg;
	uint64_t lease;

	stage_endpoint_info[0].flags = FABRIC_ENDPOINT_ATOMICS;
	stage_endpoint_info[1] =
		(struct fabric_endpoint){ .kind = FABRIC_VERBS,
					  .flags = FABRIC_ENDPOINT_ATOMICS |
						   FABRIC_ENDPOINT_CONFIRM,
					  .device = "able0" };
	client_open(&one);
	ck_assert_uint_eq(one.answer.welcome.endpoints[0].flags, WIRE_ENDPOINT_ATOMICS);
	ck_assert_uint_eq(one.answer.welcome.endpoints[1].flags,
			  WIRE_ENDPOINT_ATOMICS | WIRE_ENDPOINT_CONFIRM);
	client_open(&two);
	lease = client_allocate(&one, 100, "n");
	(void)client_ask(&two, to_attach("n"), WIRE_TYPE_lease);
	for (unsigned i = 0; i < 2; i++) {
		const struct wire_msg *answer;

		msg = lease_message(WIRE_TYPE_fix_atomic_device, lease);
		msg->fix_atomic_device.endpoint = (uint8_t)(1 - i);
		answer = client_ask(i ? &two : &one, msg, WIRE_TYPE_atomic_device);
		ck_assert_uint_eq(answer->atomic_device.fabric, WIRE_FABRIC_VERBS);
		ck_assert_str_eq(answer->atomic_device.device, "able0");
	}
	lease = client_allocate(&one, 100, "");
	(void)client_ask(&one, lease_message(WIRE_TYPE_fix_atomic_device, lease),
			 WIRE_TYPE_atomic_device);
	ck_assert_uint_eq(one.answer.atomic_device.fabric, WIRE_FABRIC_TCP);
	ck_assert_str_eq(one.answer.atomic_device.device, "");
}
END_TEST

START_TEST(events__reach_other_sessions)
{
	uint64_t lease;

	client_open(&one);
	client_open(&two);
	lease = client_allocate(&one, 9000, "n");
	(void)client_ask(&two, to_attach("n"), WIRE_TYPE_lease);
	(void)client_ask(&one, to_resize(lease, 100), WIRE_TYPE_lease);
	ck_assert_uint_eq(client_event(&two, 1, WIRE_TYPE_changed)->changed.reason,
			  WIRE_REASON_TRIMMED);
	client_ok(&two, lease_message(WIRE_TYPE_detach, lease));
	client_ok(&one, lease_message(WIRE_TYPE_free, lease));
	ck_assert_uint_eq(two.events, 1);
}
END_TEST

/* A pool wants back its memory from this page on within 500 ms. */
static void reclaim_from(unsigned page, bool revoke)
{
	fake_pools_reclaim(FAKE_PAGES - page, stage_now_ms + 500, revoke);
	leases_reclaim(stage_control.leases);
	leases_tick(stage_control.leases);
}

START_TEST(shrinking__is_reported_to_the_client_of_the_lease)
{
	uint64_t lease;

	client_open(&one);
	lease = client_allocate(&one, (uint64_t)100 * FAKE_PAGE, "");
	reclaim_from(40, true);
	(void)client_event(&one, 1, WIRE_TYPE_shrinking);
	ck_assert_uint_eq(one.event.shrinking.lease, lease);
	ck_assert_uint_eq(one.event.shrinking.bytes, (uint64_t)60 * FAKE_PAGE);
	ck_assert_uint_eq(one.event.shrinking.wait_ms, 500);
	ck_assert_uint_eq(one.event.shrinking.revoke, 1);
	stage_now_ms += 500;
	leases_reclaim(stage_control.leases);
	leases_tick(stage_control.leases);
	ck_assert_uint_eq(client_event(&one, 2, WIRE_TYPE_revoked)->revoked.reason,
			  WIRE_REASON_REVOKED);
	fake_pools_reclaim(0, 0, false);
}
END_TEST

/* The client has received all messages. */
static void set_idle(struct client *client)
{
	client->busy = false;
	session_connection_idle(&client->connection);
}

START_TEST(shrinking__waits_for_a_busy_connection)
{
	uint64_t leases[2];

	client_open(&one);
	for (unsigned i = 0; i < 2; i++)
		leases[i] = client_allocate(&one, (uint64_t)50 * FAKE_PAGE, "");
	one.busy = true;
	for (unsigned i = 0; i < 3; i++)
		reclaim_from(i, false);
	ck_assert_uint_eq(one.events, 0);
	set_idle(&one);
	(void)client_event(&one, 2, WIRE_TYPE_shrinking);
	ck_assert_uint_eq(one.event.shrinking.lease, leases[1]);
	ck_assert_uint_eq(one.event.shrinking.bytes, (uint64_t)50 * FAKE_PAGE);
	fake_pools_reclaim(0, 0, false);
}
END_TEST

/* The number of such events has no limit. */
START_TEST(ends_and_changes__wait_for_a_busy_connection)
{
	static struct client back;
	uint64_t leases[2];

	client_open(&one);
	client_open(&two);
	for (unsigned i = 0; i < 2; i++) {
		const char *name = i ? "b" : "a";

		leases[i] = client_allocate(&one, 9000, name);
		(void)client_ask(&two, to_attach(name), WIRE_TYPE_lease);
	}
	two.busy = true;
	/* the lease was shorter for a time: this is a change */
	for (unsigned i = 0; i < 3; i++) {
		(void)client_ask(&one, to_resize(leases[0], i == 1 ? 100 : 9000 + i),
				 WIRE_TYPE_lease);
		fake_pools_scrub();
	}
	(void)client_ask(&one, to_resize(leases[1], 100), WIRE_TYPE_lease);
	client_ok(&one, lease_message(WIRE_TYPE_free, leases[1]));
	ck_assert_uint_eq(two.events, 0);
	set_idle(&two);
	/* of a lease that has ended, only the end is reported */
	(void)client_event(&two, 2, WIRE_TYPE_revoked);
	ck_assert_uint_eq(two.event.revoked.lease, leases[1]);
	ck_assert_uint_eq(two.event.revoked.reason, WIRE_REASON_FREED);
	two.busy = true;
	for (unsigned i = 0; i < 2; i++)
		(void)client_ask(&one, to_resize(leases[0], i ? 9000 : 100),
				 WIRE_TYPE_lease);
	set_idle(&two);
	ck_assert_uint_eq(client_event(&two, 3, WIRE_TYPE_changed)->changed.reason,
			  WIRE_REASON_TRIMMED);
	/* a client without a connection gets no events, also not after it resumes */
	two.busy = true;
	(void)client_ask(&one, to_resize(leases[0], 50), WIRE_TYPE_lease);
	client_lose(&two);
	(void)client_ask(&one, to_resize(leases[0], 20), WIRE_TYPE_lease);
	client_ok(&one, lease_message(WIRE_TYPE_free, leases[0]));
	client_resume(&back, &two);
	session_connection_idle(&back.connection);
	ck_assert_uint_eq(back.events, 0);
}
END_TEST

/* The memory for events that a client does not read is limited with its tenant's attachments. */
START_TEST(unsent_events__count_as_attachments)
{
	struct tenant *tenant = tenants_find(&stage_tenants, "default");
	const unsigned limit = tenant->limits.leases_max;

	tenant->limits.leases_max = 1;
	client_open(&one);
	one.busy = true;
	for (unsigned i = 0; i < TENANT_ATTACHMENTS_PER_LEASE; i++) {
		(void)client_allocate(&one, 0, "x");
		client_ok(&one, by_name(WIRE_TYPE_remove, "x"));
	}
	client_fail(&one, to_allocate(0, "x"), -EDQUOT);
	ck_assert_uint_eq(one.events, 0);
	set_idle(&one);
	ck_assert_uint_eq(one.events, TENANT_ATTACHMENTS_PER_LEASE);
	(void)client_allocate(&one, 0, "x");
	tenant->limits.leases_max = limit;
}
END_TEST

/* The daemon sends a limited number of events to a client, then serves other clients. */
START_TEST(events__are_sent_in_turns)
{
	const unsigned n_leases = 600;
	unsigned moves, before, turns = 0;
	char name[8];

	client_open(&one);
	for (unsigned i = 0; i < n_leases; i++) {
		(void)snprintf(name, sizeof(name), "%u", i);
		(void)client_allocate(&one, 0, name);
	}
	one.busy = true;
	client_open(&two);
	for (unsigned i = 0; i < n_leases; i++) {
		(void)snprintf(name, sizeof(name), "%u", i);
		client_ok(&two, by_name(WIRE_TYPE_remove, name));
	}
	ck_assert_uint_eq(one.events, 0);
	moves = stage_timer_moves;
	set_idle(&one);
	while (one.events < n_leases) {
		ck_assert_uint_gt(stage_timer_moves, moves);
		ck_assert_uint_eq(sessions_next_ms(stage_control.sessions),
				  stage_now_ms);
		moves = stage_timer_moves;
		before = one.events;
		/* a further event does not make the turn longer */
		session_client_event(
			NULL, sessions_lease_client(&stage_control, one.session));
		ck_assert_uint_eq(one.events, before);
		sessions_tick(stage_control.sessions);
		ck_assert_uint_gt(one.events, before);
		ck_assert_uint_le(one.events - before, 64);
		turns++;
	}
	ck_assert_uint_eq(turns, 9);
	ck_assert_uint_gt(sessions_next_ms(stage_control.sessions), stage_now_ms);
}
END_TEST

START_TEST(list__is_sent_in_pages)
{
	struct wire_msg *msg;
	uint64_t after = 0;
	unsigned seen = 0, pages = 0;
	char name[16];

	client_open(&one);
	for (unsigned i = 0; i < 150; i++) {
		(void)snprintf(name, sizeof(name), "%c%03u", i % 10 ? 'n' : 'm', i);
		(void)client_allocate(&one, 0, name);
	}
	(void)client_allocate(&one, 0, "");
	do {
		msg = message(WIRE_TYPE_list);
		msg->list.after = after;
		(void)strcpy(msg->list.prefix, "n");
		(void)client_ask(&one, msg, WIRE_TYPE_entries);
		for (unsigned i = 0; i < one.answer.entries.n_entries; i++) {
			ck_assert_uint_gt(one.answer.entries.entries[i].lease, after);
			after = one.answer.entries.entries[i].lease;
			ck_assert_int_eq(one.answer.entries.entries[i].name[0], 'n');
			seen++;
		}
		pages++;
		/* the last lease of a page may end before the next page is requested */
		if (pages == 1)
			client_ok(&one, lease_message(WIRE_TYPE_free, after));
	} while (one.answer.type == WIRE_TYPE_ok || one.answer.entries.more);
	ck_assert_uint_eq(seen, 135);
	ck_assert_uint_eq(pages, 3);
	msg = message(WIRE_TYPE_list);
	msg->list.after = UINT64_MAX;
	ck_assert_uint_eq(client_ask(&one, msg, WIRE_TYPE_entries)->entries.n_entries,
			  0);
}
END_TEST

/* The pages of a client that does not read them are not even made. */
START_TEST(list__waits_for_a_client_that_does_not_read)
{
	struct wire_msg *msg;
	char name[16];

	client_open(&one);
	for (unsigned i = 0; i < 300; i++) {
		(void)snprintf(name, sizeof(name), "%c%03u", i < 290 ? 'm' : 'n', i);
		(void)client_allocate(&one, 0, name);
	}
	one.answers = 0;
	one.stalled = true;
	for (unsigned i = 0; i < 3; i++) {
		msg = message(WIRE_TYPE_list);
		(void)strcpy(msg->list.prefix, "n");
		client_send(&one, msg);
		slices_run(&stage_control.slices);
	}
	ck_assert_uint_eq(one.answers, 0);
	one.stalled = false;
	session_connection_idle(&one.connection);
	slices_run(&stage_control.slices);
	ck_assert_uint_eq(one.answers, 3);
	ck_assert_uint_eq(one.answer.entries.n_entries, 10);
	/* those that wait end with the connection */
	one.stalled = true;
	client_send(&one, msg);
	client_lose(&one);
}
END_TEST

static const struct wire_msg malformed[] = {
	{ .type = WIRE_TYPE_allocate, .allocate = { .bytes = 1, .align = 3 } },
	{ .type = WIRE_TYPE_allocate, .allocate = { .bytes = 1, .node = -2 } },
	{ .type = WIRE_TYPE_allocate, .allocate = { .bytes = 1, .device = "none0" } },
	{ .type = WIRE_TYPE_attach },
	{ .type = WIRE_TYPE_attach, .attach = { .rights = 7, .name = "n" } },
	{ .type = WIRE_TYPE_rename, .rename = { .flags = 2, .name = "n" } },
	{ .type = WIRE_TYPE_rename },
};

START_TEST(waiting_requests__have_a_limit)
{
	client_open_connected(&one);
	/* the fabric delivers no events, so these leases wait for their keys */
	for (unsigned i = 0; i < REQUESTS_MAX; i++)
		client_send(&one,
			    i < 100 ? to_allocate(1, "") : message(WIRE_TYPE_ping));
	ck_assert_uint_eq(one.connection.session->n_requests, 100);
	one.connection.session->n_requests = REQUESTS_MAX;
	client_send(&one, to_allocate(1, ""));
	ck_assert_int_eq((int)one.answer.error.code, WIRE_CODE_quota);
	for (unsigned i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
		struct wire_msg msg = malformed[i];

		client_send(&one, &msg);
		ck_assert_int_eq((int)one.answer.error.code, WIRE_CODE_invalid);
	}
	client_send(&one, message(WIRE_TYPE_ping));
	ck_assert_int_eq((int)one.answer.type, (int)WIRE_TYPE_ok);
	one.connection.session->n_requests = 100;
	fake_fabric_settle();
	ck_assert_uint_eq(one.connection.session->n_requests, 0);
}
END_TEST

/* Well-formed requests with random values. */
START_TEST(random_requests__get_one_reply_each)
{
	static const enum wire_type types[] = {
		WIRE_TYPE_open_channel, WIRE_TYPE_close_channel, WIRE_TYPE_allocate,
		WIRE_TYPE_free,         WIRE_TYPE_attach,        WIRE_TYPE_detach,
		WIRE_TYPE_renew,        WIRE_TYPE_rename,        WIRE_TYPE_resize,
		WIRE_TYPE_remove,       WIRE_TYPE_stat,          WIRE_TYPE_list,
	};
	uint64_t first;
	unsigned asked;

	srand((unsigned)_i);
	client_open_connected(&one);
	first = client_allocate(&one, 1, "a");
	asked = one.answers;
	for (unsigned i = 0; i < 300; i++) {
		struct wire_msg *msg = message(types[rand() % 12]);
		uint64_t lease = first + (uint64_t)(rand() % 30);

		if (msg->type == WIRE_TYPE_allocate) {
			msg->allocate.bytes = (uint64_t)(rand() % 9000);
			msg->allocate.node = rand() % 3 - 2;
			msg->allocate.ttl_ms = (uint64_t)(rand() % 2);
			msg->allocate.name[0] =
				(char)(rand() % 2 ? 'a' + rand() % 5 : 0);
		} else if (msg->type == WIRE_TYPE_rename) {
			msg->rename.lease = lease;
			msg->rename.flags = (uint32_t)rand() % 2;
			msg->rename.name[0] = (char)('a' + rand() % 5);
		} else if (msg->type == WIRE_TYPE_resize) {
			msg->resize.lease = lease;
			msg->resize.bytes = (uint64_t)(rand() % 20000);
		} else if (msg->type == WIRE_TYPE_attach && rand() % 2) {
			msg->attach.rights = (uint8_t)(rand() % 4);
			msg->attach.name[0] = (char)('a' + rand() % 5);
		} else if (msg->type == WIRE_TYPE_open_channel) {
			msg->open_channel.endpoint = (uint8_t)(rand() % 3);
		} else {
			msg->free.lease = lease;
		}
		if (msg->type == WIRE_TYPE_remove || msg->type == WIRE_TYPE_stat ||
		    msg->type == WIRE_TYPE_list)
			msg = message(msg->type);
		client_send(&one, msg);
		asked++;
		if (rand() % 2)
			(void)fake_fabric_step((unsigned)rand());
		if (rand() % 8 == 0)
			fake_pools_scrub();
	}
	fake_fabric_settle();
	fake_pools_scrub();
	leases_retry(stage_control.leases);
	fake_fabric_settle();
	ck_assert_uint_eq(one.connection.session->n_requests, 0);
	ck_assert_uint_eq(one.answers, asked);
	ck_assert_uint_eq(one.closed, 0);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("request", control_setup, control_teardown);

	tcase_add_loop_test(tc, requests__need_a_hello_first, WIRE_TYPE_open_channel,
			    WIRE_TYPE_fix_atomic_device + 1);
	tcase_add_test(tc, second_hello__is_refused);
	tcase_add_loop_test(tc, replies_and_events__are_not_requests, 0, 4);
	tcase_add_loop_test(tc, malformed_frame__closes_the_connection, 0, 4);
	tcase_add_loop_test(tc, unknown_request__fails_alone, 0, 3);
	tcase_add_test(tc, hostile_values__are_ordinary_errors);
	tcase_add_test(tc, failed_requests__are_counted_by_their_reasons);
	tcase_add_test(tc, lease__is_resized_renamed_renewed_and_expires);
	tcase_add_test(tc, placement__is_passed_to_the_pools_and_reported);
	tcase_add_test(tc, atomic_device__is_the_same_for_all_sessions);
	tcase_add_test(tc, events__reach_other_sessions);
	tcase_add_test(tc, shrinking__is_reported_to_the_client_of_the_lease);
	tcase_add_test(tc, shrinking__waits_for_a_busy_connection);
	tcase_add_test(tc, ends_and_changes__wait_for_a_busy_connection);
	tcase_add_test(tc, unsent_events__count_as_attachments);
	tcase_add_test(tc, events__are_sent_in_turns);
	tcase_add_test(tc, list__is_sent_in_pages);
	tcase_add_test(tc, list__waits_for_a_client_that_does_not_read);
	tcase_add_test(tc, waiting_requests__have_a_limit);
	tcase_add_loop_test(tc, random_requests__get_one_reply_each, 0, 40);
	return unit_main();
}

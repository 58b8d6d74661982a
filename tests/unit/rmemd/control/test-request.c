/* SPDX-License-Identifier: BSD-3-Clause */
/* Every request with values good and hostile: exactly one answer each, and never harm. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/rmemd/control-stage.h"
#include "rmemd/control/dispatch.h"
#include "rmemd/control/session_requests.h"
#include "rmemd/control/session_table.h"
#include "unit/unit.h"
#include "wire/codec.h"

static struct client one, two;

static struct wire_msg *about(enum wire_type type, uint64_t lease)
{
	struct wire_msg *msg = message(type);

	/* the first field of all of these */
	msg->free.lease = lease;
	return msg;
}

START_TEST(requests__need_a_hello_first)
{
	client_init(&one);
	client_fail(&one, message((enum wire_type)_i), -EPROTO);
	ck_assert_uint_eq(one.closed, 1);
}
END_TEST

START_TEST(hello__comes_once)
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

/* A frame that does not decode is answered under its own id. */
START_TEST(garbage__is_answered_and_cut_off)
{
	uint8_t frame[64] = { 24, [4] = WIRE_TYPE_free, [8] = 9 };

	client_open(&one);
	one.next_id = 10;
	if (_i == 1)
		frame[4] = 0x3f;
	if (_i == 2)
		frame[0] = 23;
	if (_i == 3)
		frame[0] = 25;
	dispatch_frame(&one.connection, frame, frame[0]);
	if (_i == 0) {
		ck_assert_int_eq(-(int)one.answer.error.code, -ESTALE);
		ck_assert_uint_eq(one.closed, 0);
		return;
	}
	ck_assert_int_eq((int)one.answer.type, (int)WIRE_TYPE_error);
	ck_assert_uint_eq(one.answer.id, 9);
	ck_assert_int_eq(-(int)one.answer.error.code, -EPROTO);
	ck_assert_uint_eq(one.closed, 1);
	client_lose(&one);
}
END_TEST

START_TEST(hostile_values__are_ordinary_errors)
{
	struct wire_msg *msg;
	uint64_t lease;

	client_open(&one);
	client_open(&two);
	lease = client_allocate(&one, 100, "n");
	msg = about(WIRE_TYPE_attach, lease);
	client_fail(&two, msg, -ESTALE);
	(void)strcpy(msg->attach.name, "n");
	client_fail(&two, msg, -EINVAL);
	client_fail(&two, message(WIRE_TYPE_attach), -EINVAL);
	msg = message(WIRE_TYPE_attach);
	(void)strcpy(msg->attach.name, "n");
	client_fail(&two, msg, -EINVAL);
	msg->attach.rights = 255;
	client_fail(&two, msg, -EINVAL);
	msg->attach.rights = 1;
	(void)client_ask(&two, msg, WIRE_TYPE_lease);
	client_fail(&two, msg, -EBUSY);
	client_fail(&two, about(WIRE_TYPE_free, lease), -EACCES);
	client_fail(&two, about(WIRE_TYPE_resize, lease), -EACCES);
	client_fail(&two, about(WIRE_TYPE_renew, lease), -EACCES);
	msg = about(WIRE_TYPE_rename, lease);
	client_fail(&two, msg, -EINVAL);
	client_fail(&one, msg, -EINVAL);
	(void)strcpy(msg->rename.name, "m");
	msg->rename.flags = 2;
	client_fail(&one, msg, -EINVAL);
	msg = message(WIRE_TYPE_allocate);
	msg->allocate.node = -1;
	msg->allocate.bytes = UINT64_MAX;
	client_fail(&one, msg, -ENOSPC);
	msg->allocate.align = UINT64_MAX;
	client_fail(&one, msg, -EINVAL);
	msg->allocate.align = 0;
	msg->allocate.node = INT32_MIN;
	client_fail(&one, msg, -EINVAL);
	msg->allocate.node = -1;
	msg->allocate.bytes = 1;
	msg->allocate.placement = 3;
	client_fail(&one, msg, -EINVAL);
	msg->allocate.placement = 255;
	client_fail(&one, msg, -EINVAL);
	msg->allocate.placement = WIRE_PLACE_DEVICE;
	client_fail(&one, msg, -EINVAL);
	(void)strcpy(msg->allocate.device, "none0");
	client_fail(&one, msg, -ENODEV);
	msg->allocate.placement = WIRE_PLACE_INTERLEAVE;
	client_fail(&one, msg, -EINVAL);
	msg->allocate.device[0] = '\0';
	msg->allocate.node = 0;
	client_fail(&one, msg, -EINVAL);
	msg = about(WIRE_TYPE_resize, lease);
	msg->resize.bytes = UINT64_MAX;
	client_fail(&one, msg, -ENOSPC);
	client_fail(&one, message(WIRE_TYPE_stat), -ENOENT);
	client_fail(&one, message(WIRE_TYPE_remove), -ENOENT);
	for (unsigned i = 0; i < 3; i++) {
		static const uint64_t ids[] = { 0, 12345, UINT64_MAX };

		client_fail(&one, about(WIRE_TYPE_free, ids[i]), -ESTALE);
		client_fail(&one, about(WIRE_TYPE_detach, ids[i]), -ESTALE);
		client_fail(&one, about(WIRE_TYPE_renew, ids[i]), -ESTALE);
		client_fail(&one, about(WIRE_TYPE_resize, ids[i]), -ESTALE);
		client_fail(&one, about(WIRE_TYPE_fix_home, ids[i]), -ESTALE);
	}
	msg = about(WIRE_TYPE_fix_home, lease);
	client_fail(&two, msg, -EACCES);
	client_fail(&one, msg, -ENOTSUP);
	msg->fix_home.endpoint = STAGE_ENDPOINTS;
	client_fail(&one, msg, -EINVAL);
	msg->fix_home.endpoint = 255;
	client_fail(&one, msg, -EINVAL);
	(void)client_ask(&one, about(WIRE_TYPE_free, lease), WIRE_TYPE_ok);
	ck_assert_int_eq((int)two.event.type, (int)WIRE_TYPE_revoked);
	ck_assert_uint_eq(two.event.revoked.lease, lease);
	ck_assert_uint_eq(two.event.revoked.reason, WIRE_REASON_FREED);
	ck_assert_uint_eq(one.events, 0);
	ck_assert_uint_eq(one.closed + two.closed, 0);
}
END_TEST

START_TEST(leases__live_their_life)
{
	struct wire_msg *msg;
	uint64_t lease;

	client_open(&one);
	(void)client_channel(&one, 0);
	lease = client_allocate(&one, 100, "");
	ck_assert_uint_eq(one.answer.lease.n_keys, 1);
	msg = about(WIRE_TYPE_resize, lease);
	msg->resize.bytes = 9000;
	(void)client_ask(&one, msg, WIRE_TYPE_lease);
	ck_assert_uint_eq(one.answer.lease.bytes, 9000);
	ck_assert_uint_eq(one.answer.lease.n_keys, 2);
	msg = about(WIRE_TYPE_rename, lease);
	(void)strcpy(msg->rename.name, "n");
	(void)client_ask(&one, msg, WIRE_TYPE_ok);
	msg = about(WIRE_TYPE_renew, lease);
	msg->renew.ttl_ms = 1500;
	(void)client_ask(&one, msg, WIRE_TYPE_ok);
	msg = message(WIRE_TYPE_stat);
	(void)strcpy(msg->stat.name, "n");
	(void)client_ask(&one, msg, WIRE_TYPE_entries);
	ck_assert_uint_eq(one.answer.entries.n_entries, 1);
	ck_assert_uint_eq(one.answer.entries.entries[0].lease, lease);
	ck_assert_uint_eq(one.answer.entries.entries[0].bytes, 9000);
	ck_assert_uint_eq(one.answer.entries.entries[0].ttl_ms, 1500);
	ck_assert_uint_eq(one.answer.entries.entries[0].sessions, 1);
	pass(1500);
	ck_assert_int_eq((int)one.event.type, (int)WIRE_TYPE_revoked);
	ck_assert_uint_eq(one.event.revoked.reason, WIRE_REASON_EXPIRED);
	client_fail(&one, about(WIRE_TYPE_free, lease), -ESTALE);
}
END_TEST

/* What is asked of the pools, and what the answer says of it. */
START_TEST(placement__is_as_asked_and_told)
{
	const struct fake_wish *wish = fake_pools_wish();
	struct wire_msg *msg;

	client_open(&one);
	msg = message(WIRE_TYPE_allocate);
	msg->allocate.bytes = 100;
	msg->allocate.node = 4;
	(void)client_ask(&one, msg, WIRE_TYPE_lease);
	ck_assert_uint_eq(wish->n_nodes, 1);
	ck_assert_int_eq(wish->nodes[0], 4);
	ck_assert_uint_eq(one.answer.lease.placement, WIRE_PLACE_NODE);
	ck_assert_int_eq(one.answer.lease.node, 4);
	ck_assert_int_eq(one.answer.lease.segments[0].node, 0);
	(void)strcpy(stage_facts[1].device, "able1");
	stage_facts[1].node = 6;
	msg->allocate.node = -1;
	msg->allocate.placement = WIRE_PLACE_DEVICE;
	(void)strcpy(msg->allocate.device, "able1");
	(void)client_ask(&one, msg, WIRE_TYPE_lease);
	ck_assert_uint_eq(wish->n_nodes, 1);
	ck_assert_int_eq(wish->nodes[0], 6);
	ck_assert_uint_eq(one.answer.lease.placement, WIRE_PLACE_DEVICE);
	ck_assert_int_eq(one.answer.lease.node, 6);
	msg->allocate.device[0] = '\0';
	msg->allocate.placement = WIRE_PLACE_NODE;
	/* any: those of the devices to which it has a channel */
	(void)client_ask(&one, msg, WIRE_TYPE_lease);
	ck_assert_uint_eq(wish->n_nodes, 0);
	ck_assert(!wish->interleave);
	ck_assert_int_eq(one.answer.lease.node, -1);
	(void)client_channel(&one, 1);
	msg = message(WIRE_TYPE_allocate);
	msg->allocate.bytes = 100;
	msg->allocate.node = -1;
	(void)client_ask(&one, msg, WIRE_TYPE_lease);
	ck_assert_uint_eq(wish->n_nodes, 1);
	ck_assert_int_eq(wish->nodes[0], 6);
	ck_assert_int_eq(one.answer.lease.node, -1);
	/* those to which it says that it is going to have one, and no others */
	stage_facts[0].node = 2;
	msg->allocate.reach = 0xf1;
	(void)client_ask(&one, msg, WIRE_TYPE_lease);
	ck_assert_uint_eq(wish->endpoints, 1);
	ck_assert_uint_eq(wish->n_nodes, 1);
	ck_assert_int_eq(wish->nodes[0], 2);
	msg->allocate.reach = 3;
	msg->allocate.placement = WIRE_PLACE_INTERLEAVE;
	(void)client_ask(&one, msg, WIRE_TYPE_lease);
	ck_assert_uint_eq(wish->endpoints, 3);
	ck_assert_uint_eq(wish->n_nodes, 2);
	ck_assert(wish->interleave);
	ck_assert_uint_eq(one.answer.lease.placement, WIRE_PLACE_INTERLEAVE);
	/* what is added, too */
	msg = about(WIRE_TYPE_resize, one.answer.lease.lease);
	msg->resize.bytes = 9000;
	msg->resize.reach = 2;
	(void)client_ask(&one, msg, WIRE_TYPE_lease);
	ck_assert(wish->interleave);
	ck_assert_uint_eq(wish->endpoints, 2);
	ck_assert_uint_eq(wish->n_nodes, 1);
	ck_assert_int_eq(wish->nodes[0], 6);
	client_lose(&one);
}
END_TEST

START_TEST(home__is_told_to_all_who_ask)
{
	struct wire_msg *msg;
	uint64_t lease;

	stage_facts[0].flags = FABRIC_ENDPOINT_ATOMICS;
	stage_facts[1] = (struct fabric_endpoint){ .kind = FABRIC_VERBS,
						   .flags = FABRIC_ENDPOINT_ATOMICS |
							    FABRIC_ENDPOINT_CONFIRM,
						   .device = "able0" };
	client_open(&one);
	ck_assert_uint_eq(one.answer.welcome.endpoints[0].flags, WIRE_ENDPOINT_ATOMICS);
	ck_assert_uint_eq(one.answer.welcome.endpoints[1].flags,
			  WIRE_ENDPOINT_ATOMICS | WIRE_ENDPOINT_CONFIRM);
	client_open(&two);
	lease = client_allocate(&one, 100, "n");
	msg = message(WIRE_TYPE_attach);
	(void)strcpy(msg->attach.name, "n");
	msg->attach.rights = 3;
	(void)client_ask(&two, msg, WIRE_TYPE_lease);
	for (unsigned i = 0; i < 2; i++) {
		msg = about(WIRE_TYPE_fix_home, lease);
		msg->fix_home.endpoint = (uint8_t)(1 - i);
		(void)client_ask(i ? &two : &one, msg, WIRE_TYPE_home);
		ck_assert_uint_eq((i ? &two : &one)->answer.home.fabric,
				  WIRE_FABRIC_VERBS);
		ck_assert_str_eq((i ? &two : &one)->answer.home.device, "able0");
	}
	lease = client_allocate(&one, 100, "");
	(void)client_ask(&one, about(WIRE_TYPE_fix_home, lease), WIRE_TYPE_home);
	ck_assert_uint_eq(one.answer.home.fabric, WIRE_FABRIC_TCP);
	ck_assert_str_eq(one.answer.home.device, "");
}
END_TEST

START_TEST(events__reach_the_others)
{
	struct wire_msg *msg;
	uint64_t lease;

	client_open(&one);
	client_open(&two);
	lease = client_allocate(&one, 9000, "n");
	msg = message(WIRE_TYPE_attach);
	(void)strcpy(msg->attach.name, "n");
	msg->attach.rights = 3;
	(void)client_ask(&two, msg, WIRE_TYPE_lease);
	msg = about(WIRE_TYPE_resize, lease);
	msg->resize.bytes = 100;
	(void)client_ask(&one, msg, WIRE_TYPE_lease);
	ck_assert_int_eq((int)two.event.type, (int)WIRE_TYPE_changed);
	ck_assert_uint_eq(two.event.changed.reason, WIRE_REASON_TRIMMED);
	(void)client_ask(&two, about(WIRE_TYPE_detach, lease), WIRE_TYPE_ok);
	(void)client_ask(&one, about(WIRE_TYPE_free, lease), WIRE_TYPE_ok);
	ck_assert_uint_eq(two.events, 1);
}
END_TEST

/* Who has a lease in the way of a pool that becomes shorter. */
START_TEST(shrinking__is_told)
{
	uint64_t lease;

	client_open(&one);
	lease = client_allocate(&one, (uint64_t)100 * FAKE_PAGE, "");
	fake_pools_reclaim(128 - 40, stage_now_ms + 500, true);
	leases_reclaim(stage_control.leases);
	leases_tick(stage_control.leases);
	ck_assert_uint_eq(one.events, 1);
	ck_assert_int_eq((int)one.event.type, (int)WIRE_TYPE_shrinking);
	ck_assert_uint_eq(one.event.shrinking.lease, lease);
	ck_assert_uint_eq(one.event.shrinking.bytes, (uint64_t)60 * FAKE_PAGE);
	ck_assert_uint_eq(one.event.shrinking.wait_ms, 500);
	ck_assert_uint_eq(one.event.shrinking.revoke, 1);
	stage_now_ms += 500;
	leases_reclaim(stage_control.leases);
	leases_tick(stage_control.leases);
	ck_assert_uint_eq(one.events, 2);
	ck_assert_int_eq((int)one.event.type, (int)WIRE_TYPE_revoked);
	ck_assert_uint_eq(one.event.revoked.reason, WIRE_REASON_REVOKED);
	fake_pools_reclaim(0, 0, false);
}
END_TEST

/* Its connection takes no more: that is no reason to end it. */
START_TEST(shrinking__waits_for_a_busy_connection)
{
	uint64_t leases[2];

	client_open(&one);
	for (unsigned i = 0; i < 2; i++)
		leases[i] = client_allocate(&one, (uint64_t)50 * FAKE_PAGE, "");
	one.busy = true;
	for (unsigned i = 0; i < 3; i++) {
		fake_pools_reclaim(128 - i, stage_now_ms + 500, false);
		leases_reclaim(stage_control.leases);
		leases_tick(stage_control.leases);
	}
	ck_assert_uint_eq(one.events, 0);
	one.busy = false;
	session_connection_idle(&one.connection);
	ck_assert_uint_eq(one.events, 2);
	ck_assert_int_eq((int)one.event.type, (int)WIRE_TYPE_shrinking);
	ck_assert_uint_eq(one.event.shrinking.lease, leases[1]);
	ck_assert_uint_eq(one.event.shrinking.bytes, (uint64_t)50 * FAKE_PAGE);
	fake_pools_reclaim(0, 0, false);
}
END_TEST

/* So are ends and changes, of which there may be any number. */
START_TEST(news__wait_for_a_busy_connection)
{
	static struct client back;
	struct wire_msg *msg;
	uint64_t leases[2];

	client_open(&one);
	client_open(&two);
	for (unsigned i = 0; i < 2; i++) {
		const char *name = i ? "b" : "a";

		leases[i] = client_allocate(&one, 9000, name);
		msg = message(WIRE_TYPE_attach);
		(void)strcpy(msg->attach.name, name);
		msg->attach.rights = 3;
		(void)client_ask(&two, msg, WIRE_TYPE_lease);
	}
	two.busy = true;
	/* that it was shorter in between counts */
	for (unsigned i = 0; i < 3; i++) {
		msg = about(WIRE_TYPE_resize, leases[0]);
		msg->resize.bytes = i == 1 ? 100 : 9000 + i;
		(void)client_ask(&one, msg, WIRE_TYPE_lease);
		fake_pools_scrub();
	}
	msg = about(WIRE_TYPE_resize, leases[1]);
	msg->resize.bytes = 100;
	(void)client_ask(&one, msg, WIRE_TYPE_lease);
	(void)client_ask(&one, about(WIRE_TYPE_free, leases[1]), WIRE_TYPE_ok);
	ck_assert_uint_eq(two.events, 0);
	two.busy = false;
	session_connection_idle(&two.connection);
	/* of what has ended only that */
	ck_assert_uint_eq(two.events, 2);
	ck_assert_int_eq((int)two.event.type, (int)WIRE_TYPE_revoked);
	ck_assert_uint_eq(two.event.revoked.lease, leases[1]);
	ck_assert_uint_eq(two.event.revoked.reason, WIRE_REASON_FREED);
	two.busy = true;
	msg = about(WIRE_TYPE_resize, leases[0]);
	for (unsigned i = 0; i < 2; i++) {
		msg->resize.bytes = i ? 9000 : 100;
		(void)client_ask(&one, msg, WIRE_TYPE_lease);
	}
	two.busy = false;
	session_connection_idle(&two.connection);
	ck_assert_uint_eq(two.events, 3);
	ck_assert_int_eq((int)two.event.type, (int)WIRE_TYPE_changed);
	ck_assert_uint_eq(two.event.changed.reason, WIRE_REASON_TRIMMED);
	/* a client that is away is not told, and not when it comes back either */
	two.busy = true;
	msg->resize.bytes = 50;
	(void)client_ask(&one, msg, WIRE_TYPE_lease);
	client_lose(&two);
	msg->resize.bytes = 20;
	(void)client_ask(&one, msg, WIRE_TYPE_lease);
	(void)client_ask(&one, about(WIRE_TYPE_free, leases[0]), WIRE_TYPE_ok);
	client_resume(&back, &two);
	session_connection_idle(&back.connection);
	ck_assert_uint_eq(back.events, 0);
}
END_TEST

/* Events that a client does not read take no more memory than its tenant's attachments may. */
START_TEST(news__count_as_attachments_until_they_are_taken)
{
	struct tenant *tenant = tenants_find(&stage_tenants, "default");
	const unsigned limit = tenant->limits.leases_max;
	struct wire_msg *msg;

	tenant->limits.leases_max = 1;
	client_open(&one);
	one.busy = true;
	for (unsigned i = 0; i < TENANT_ATTACHMENTS_PER_LEASE; i++) {
		(void)client_allocate(&one, 0, "x");
		msg = message(WIRE_TYPE_remove);
		(void)strcpy(msg->remove.name, "x");
		(void)client_ask(&one, msg, WIRE_TYPE_ok);
	}
	msg = message(WIRE_TYPE_allocate);
	(void)strcpy(msg->allocate.name, "x");
	client_fail(&one, msg, -EDQUOT);
	ck_assert_uint_eq(one.events, 0);
	one.busy = false;
	session_connection_idle(&one.connection);
	ck_assert_uint_eq(one.events, TENANT_ATTACHMENTS_PER_LEASE);
	(void)client_allocate(&one, 0, "x");
	tenant->limits.leases_max = limit;
}
END_TEST

/* Others get their turn before one is told of all. */
START_TEST(news__come_in_turns)
{
	const unsigned n_leases = 600;
	unsigned moves, before, turns = 0;

	client_open(&one);
	for (unsigned i = 0; i < n_leases; i++) {
		char name[8];

		(void)snprintf(name, sizeof(name), "%u", i);
		(void)client_allocate(&one, 0, name);
	}
	one.busy = true;
	client_open(&two);
	for (unsigned i = 0; i < n_leases; i++) {
		struct wire_msg *msg = message(WIRE_TYPE_remove);

		(void)snprintf(msg->remove.name, sizeof(msg->remove.name), "%u", i);
		(void)client_ask(&two, msg, WIRE_TYPE_ok);
	}
	ck_assert_uint_eq(one.events, 0);
	one.busy = false;
	moves = stage_timer_moves;
	session_connection_idle(&one.connection);
	while (one.events < n_leases) {
		ck_assert_uint_gt(stage_timer_moves, moves);
		ck_assert_uint_eq(sessions_next_ms(stage_control.sessions),
				  stage_now_ms);
		moves = stage_timer_moves;
		before = one.events;
		/* what comes along in its turn does not lengthen that */
		session_news(sessions_holder(stage_control.sessions, one.session));
		ck_assert_uint_eq(one.events, before);
		sessions_tick(stage_control.sessions);
		ck_assert_uint_gt(one.events, before);
		ck_assert_uint_le(one.events - before, 256);
		turns++;
	}
	ck_assert_uint_eq(turns, 2);
	ck_assert_uint_gt(sessions_next_ms(stage_control.sessions), stage_now_ms);
}
END_TEST

START_TEST(list__goes_page_by_page)
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
		/* the page's last lease may be gone when the next page is asked for */
		if (pages == 1)
			(void)client_ask(&one, about(WIRE_TYPE_free, after),
					 WIRE_TYPE_ok);
	} while (one.answer.type == WIRE_TYPE_ok || one.answer.entries.more);
	ck_assert_uint_eq(seen, 135);
	ck_assert_uint_eq(pages, 3);
	msg = message(WIRE_TYPE_list);
	msg->list.after = UINT64_MAX;
	ck_assert_uint_eq(client_ask(&one, msg, WIRE_TYPE_entries)->entries.n_entries,
			  0);
}
END_TEST

START_TEST(waiting_requests__have_a_limit)
{
	struct wire_msg *msg;

	client_open(&one);
	(void)client_channel(&one, 0);
	for (unsigned i = 0; i < REQUESTS_MAX; i++) {
		msg = message(WIRE_TYPE_allocate);
		msg->allocate.bytes = i < 100 ? 1 : 0;
		msg->allocate.node = -1;
		/* nothing is delivered, so those with memory wait for their keys */
		if (i >= 100)
			msg->type = WIRE_TYPE_ping;
		client_send(&one, msg);
	}
	ck_assert_uint_eq(one.connection.session->n_requests, 100);
	one.connection.session->n_requests = REQUESTS_MAX;
	msg = message(WIRE_TYPE_allocate);
	client_send(&one, msg);
	ck_assert_int_eq(-(int)one.answer.error.code, -EDQUOT);
	client_send(&one, message(WIRE_TYPE_ping));
	ck_assert_int_eq((int)one.answer.type, (int)WIRE_TYPE_ok);
	one.connection.session->n_requests = 100;
	fake_fabric_settle();
	ck_assert_uint_eq(one.connection.session->n_requests, 0);
}
END_TEST

/* Frames of the right form with random contents: one answer each, whatever it says. */
START_TEST(noise__gets_one_answer_each)
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
	client_open(&one);
	(void)client_channel(&one, 0);
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
	Suite *suite = suite_create("request");
	TCase *tc = tcase_create("request");

	tcase_add_checked_fixture(tc, control_setup, control_teardown);
	tcase_add_loop_test(tc, requests__need_a_hello_first, WIRE_TYPE_open_channel,
			    WIRE_TYPE_fix_home + 1);
	tcase_add_test(tc, hello__comes_once);
	tcase_add_loop_test(tc, replies_and_events__are_not_requests, 0, 4);
	tcase_add_loop_test(tc, garbage__is_answered_and_cut_off, 0, 4);
	tcase_add_test(tc, hostile_values__are_ordinary_errors);
	tcase_add_test(tc, leases__live_their_life);
	tcase_add_test(tc, placement__is_as_asked_and_told);
	tcase_add_test(tc, home__is_told_to_all_who_ask);
	tcase_add_test(tc, events__reach_the_others);
	tcase_add_test(tc, shrinking__is_told);
	tcase_add_test(tc, shrinking__waits_for_a_busy_connection);
	tcase_add_test(tc, news__wait_for_a_busy_connection);
	tcase_add_test(tc, news__count_as_attachments_until_they_are_taken);
	tcase_add_test(tc, news__come_in_turns);
	tcase_add_test(tc, list__goes_page_by_page);
	tcase_add_test(tc, waiting_requests__have_a_limit);
	tcase_add_loop_test(tc, noise__gets_one_answer_each, 0, 40);
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}

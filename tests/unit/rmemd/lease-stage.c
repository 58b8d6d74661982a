/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/rmemd/lease-stage.h"

#include <check.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "rmemd/state/ledger.h"

const struct lease_owner stage_own = { "", NULL };
struct ledger *stage_ledger;
struct leases *stage_leases;
struct tenant stage_tenant;
struct lease_client stage_a, stage_b;
struct turn stage_turn;
struct slices stage_slices;
static const struct fabric_server_ops *const ops = &fake_tcp_server;
struct stage_event stage_revoked, stage_changed, stage_shrinking;
struct wire_shrinking stage_shrinking_last;
bool stage_hold_events;
unsigned stage_expired;

static uint64_t fake_clock(void)
{
	return stage_now_ms * 1000000;
}

static void record(struct stage_event *event, struct lease_client *client,
		   uint64_t lease, unsigned reason)
{
	*event = (struct stage_event){ event->n + 1, client, lease, reason };
}

static void take_events(void *ctx, struct lease_client *client)
{
	static struct wire_msg msg;

	(void)ctx;
	while (!stage_hold_events && lease_next_event(client, &msg)) {
		if (msg.type == WIRE_TYPE_revoked) {
			record(&stage_revoked, client, msg.revoked.lease,
			       msg.revoked.reason);
		} else if (msg.type == WIRE_TYPE_changed) {
			record(&stage_changed, client, msg.changed.lease,
			       msg.changed.reason);
		} else {
			ck_assert_int_eq((int)msg.type, (int)WIRE_TYPE_shrinking);
			stage_shrinking_last = msg.shrinking;
			record(&stage_shrinking, client, msg.shrinking.lease, 0);
		}
	}
}

void stage_take_events(struct lease_client *client)
{
	stage_hold_events = false;
	take_events(NULL, client);
}

static void on_granted(void *ctx, const struct lease_status *status)
{
	(void)ctx;
	ck_assert(status->ready);
}

static void on_ended(void *ctx, const struct lease_status *status,
		     enum wire_reason reason)
{
	(void)ctx;
	ck_assert(status->ready);
	stage_expired += reason == WIRE_REASON_EXPIRED;
}

static void on_timer_moved(void *ctx)
{
	(void)ctx;
}

static const struct leases_events events = {
	.client_event = take_events,
	.granted = on_granted,
	.ended = on_ended,
	.timer_moved = on_timer_moved,
};

void stage_connect(struct lease_client *client, unsigned port)
{
	client->ports[port].ops = ops;
	ck_assert_int_eq(ops->session_open(fake_fabric_server(), port, NULL,
					   &client->ports[port].session),
			 0);
}

void stage_fence(struct lease_client *client)
{
	struct lease_client_port ports[WIRE_ENDPOINTS_MAX];

	memcpy(ports, client->ports, sizeof(ports));
	memset(client->ports, 0, sizeof(client->ports));
	lease_client_begin_fence(client);
	for (unsigned i = 0; i < WIRE_ENDPOINTS_MAX; i++)
		if (ports[i].session)
			ops->session_close(ports[i].session);
	ck_assert(!lease_client_fence(client, UINT_MAX));
}

void stage_pass(uint64_t ms)
{
	stage_now_ms += ms;
	leases_tick(stage_leases);
}

void stage_scrub(void)
{
	fake_pools_scrub();
	leases_retry(stage_leases);
	fake_fabric_settle();
}

static void on_wake(void *ctx)
{
	(void)ctx;
	stage_wakes++;
}

static void setup(bool without_events)
{
	const struct tenant_params params = { .name = "default",
					      .limits = { .leases_max = 100,
							  .session_keys_max = 10000,
							  .keys_max = 10000 } };

	fake_fabric_begin(without_events);
	stage_now_ms = 1000;
	clock_set_source(fake_clock);
	stage_revoked = stage_changed = stage_shrinking = (struct stage_event){ 0 };
	stage_expired = 0;
	stage_hold_events = false;
	fake_pools_reset(0);
	stage_turn = (struct turn){ 0 };
	stage_wakes = 0;
	slices_init(&stage_slices, &stage_turn, on_wake, NULL);
	tenant_init(&stage_tenant, &params);
	stage_ledger = stage_ledger_new();
	ck_assert_int_eq(leases_open(NULL, stage_ledger, &stage_slices, &events, NULL,
				     7, &stage_leases),
			 0);
	lease_client_init(&stage_a, 1, &stage_tenant);
	lease_client_init(&stage_b, 2, &stage_tenant);
	lease_client_set_origin(&stage_a, "a's program", "192.0.2.1:11");
	lease_client_set_origin(&stage_b, "b's program", "[2001:db8::2]:22");
	stage_connect(&stage_a, 0);
	stage_connect(&stage_b, 0);
}

void stage_setup(void)
{
	setup(false);
}

void stage_setup_now(void)
{
	setup(true);
}

void stage_teardown(void)
{
	struct lease_client *clients[] = { &stage_a, &stage_b };

	for (unsigned i = 0; i < 2; i++) {
		stage_fence(clients[i]);
		ck_assert(!lease_client_release(clients[i], UINT_MAX));
		ck_assert_uint_eq(clients[i]->n_attachments, 0);
	}
	fake_fabric_settle();
	fake_fabric_check_empty();
	if (stage_leases)
		fake_pools_check(stage_leases);
	leases_close(stage_leases);
	ck_assert(!slices_wait(&stage_slices));
	ledger_close(stage_ledger);
	lease_client_destroy(&stage_a);
	lease_client_destroy(&stage_b);
	ck_assert_uint_eq(stage_tenant.refs, 1);
	ck_assert_uint_eq(stage_tenant.n_sessions, 0);
	ck_assert_uint_eq(stage_tenant.bytes, 0);
	ck_assert_uint_eq(stage_tenant.n_leases, 0);
	ck_assert_uint_eq(stage_tenant.n_attachments, 0);
	ck_assert_uint_eq(stage_tenant.n_keys, 0);
	tenant_destroy(&stage_tenant);
	clock_set_source(NULL);
}

static void on_done(struct lease_waiter *waiter, int err, const char *text)
{
	struct call *call = container_of(waiter, struct call, waiter);

	call->replies++;
	call->err = err;
	(void)snprintf(call->text, sizeof(call->text), "%s", text);
	if (!err && waiter->attachment)
		lease_describe(waiter->attachment, &call->lease);
}

struct lease_waiter *call_begin(struct call *call)
{
	memset(call, 0, sizeof(*call));
	call->waiter.done = on_done;
	return &call->waiter;
}

static int result(struct call *call, int err)
{
	if (err) {
		ck_assert_uint_eq(call->replies, 0);
		(void)snprintf(call->text, sizeof(call->text), "%s", err_text());
		return err;
	}
	fake_fabric_settle();
	ck_assert_uint_eq(call->replies, 1);
	return call->err;
}

void expect_reply(const struct call *call, int err)
{
	ck_assert_uint_eq(call->replies, 1);
	ck_assert_int_eq(call->err, err);
}

/* The function of a request has returned 0, so the request has a reply or will have
 * one. */
static void accepted(int err)
{
	ck_assert_msg(err == 0, "%s", err_text());
}

void send_allocate(struct call *call, struct lease_client *client, uint64_t bytes,
		   const char *name)
{
	const struct lease_params params = { .bytes = bytes, .node = -1, .name = name };

	send_allocate_with(call, client, &params);
}

void send_allocate_with(struct call *call, struct lease_client *client,
			const struct lease_params *params)
{
	accepted(lease_allocate(stage_leases, client, params, call_begin(call)));
}

void send_attach(struct call *call, struct lease_client *client, const char *name)
{
	accepted(lease_attach(stage_leases, client, &stage_own, name, STAGE_RW,
			      call_begin(call)));
}

void send_detach(struct call *call, struct lease_client *client, uint64_t id)
{
	accepted(lease_detach(stage_leases, client, id, false, call_begin(call)));
}

void send_resize(struct call *call, struct lease_client *client, uint64_t id,
		 uint64_t bytes)
{
	accepted(lease_resize(stage_leases, client, id, bytes, call_begin(call)));
}

void send_free(struct call *call, struct lease_client *client, uint64_t id)
{
	accepted(lease_free(stage_leases, client, id, call_begin(call)));
}

int call_allocate(struct call *call, struct lease_client *client, uint64_t bytes,
		  const char *name)
{
	const struct lease_params params = { .bytes = bytes, .node = -1, .name = name };

	return result(call,
		      lease_allocate(stage_leases, client, &params, call_begin(call)));
}

int call_attach(struct call *call, struct lease_client *client, const char *name,
		unsigned rights)
{
	return result(call, lease_attach(stage_leases, client, &stage_own, name, rights,
					 call_begin(call)));
}

int call_rekey(struct call *call, struct lease_client *client, uint64_t id)
{
	return result(call, lease_reattach(stage_leases, client, id, call_begin(call)));
}

int call_resize(struct call *call, struct lease_client *client, uint64_t id,
		uint64_t bytes)
{
	return result(call,
		      lease_resize(stage_leases, client, id, bytes, call_begin(call)));
}

int call_free(struct lease_client *client, uint64_t id)
{
	struct call call;

	return result(&call, lease_free(stage_leases, client, id, call_begin(&call)));
}

int call_rename(struct lease_client *client, uint64_t id, const char *name,
		bool replace)
{
	struct call call;

	return result(&call, lease_rename(stage_leases, client, id, name, replace,
					  call_begin(&call)));
}

uint64_t new_lease(struct call *call, struct lease_client *client, uint64_t bytes,
		   const char *name)
{
	ck_assert_msg(call_allocate(call, client, bytes, name) == 0, "%s", call->text);
	return call->lease.lease;
}

struct search {
	uint64_t id;
	struct lease_status *status;
};

static int find(const struct lease_status *status, void *arg)
{
	const struct search *search = arg;

	if (status->id != search->id)
		return 0;
	*search->status = *status;
	return 1;
}

bool stage_status(uint64_t id, struct lease_status *ret_status)
{
	struct search search = { id, ret_status };

	return leases_each(stage_leases, 0, find, &search) == 1;
}

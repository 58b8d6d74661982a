/* SPDX-License-Identifier: BSD-3-Clause */
/* The counters of tenants are exact: clients of several tenants send random requests,
 * events come in random order, tenants are removed and added, and after every step the
 * counters are compared with the objects that exist. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit/rmemd/control-stage.h"
#include "rmemd/control/session.h"
#include "rmemd/lease/attachment.h"
#include "rmemd/lease/lease_table.h"
#include "unit/unit.h"

#define CLIENTS 5
#define STEPS 1500
#define SEEDS 25
#define SEGMENTS_MAX 4096

static const char *const tenant_names[] = { "default", "other", "third" };
#define TENANTS 3

static struct client clients[CLIENTS];
static bool opened[CLIENTS]; /* has, or had, a session */
static struct tenant_params params[TENANTS];

/* ---- counting ---- */

static struct tenant count; /* of the tenant that is checked */
static const struct segment *seen[SEGMENTS_MAX];
static unsigned n_seen;
static unsigned
	n_shared; /* attachments of leases of other tenants, seen in all steps */

static void count_segment(const struct segment *segment)
{
	for (unsigned i = 0; i < n_seen; i++)
		if (seen[i] == segment)
			return;
	ck_assert_uint_lt(n_seen, SEGMENTS_MAX);
	seen[n_seen++] = segment;
	count.bytes += segment->extent.bytes;
}

/* A lease that is shared has keys of other tenants than its own. */
static void count_keys(const struct tenant *tenant, const struct lease *lease,
		       const struct list *mrs)
{
	list_for_each_entry(struct mr, mr, mrs, link) {
		count.n_keys += mr->client->tenant == tenant;
		if (lease->tenant == tenant)
			count_segment(mr->segment);
	}
}

static void count_leases(const struct tenant *tenant, const struct list *leases)
{
	list_for_each_entry(const struct lease, lease, leases, all) {
		bool own = lease->tenant == tenant;

		count.refs += own;
		count.n_leases += own && lease->state != WIRE_LEASE_ENDED;
		for (unsigned i = 0; own && i < lease->n_segments; i++)
			count_segment(lease->segments[i]);
		count_keys(tenant, lease, &lease->dying);
		list_for_each_entry(struct attachment, at, &lease->attachments,
				    in_lease) {
			count.n_attachments += at->client->tenant == tenant;
			n_shared += at->client->tenant != lease->tenant;
			count_keys(tenant, lease, &at->mrs);
		}
	}
}

static void count_sessions(const struct tenant *tenant, const struct list *sessions)
{
	list_for_each_entry(const struct session, session, sessions, all) {
		unsigned closing = 0;

		if (session->lease_client.tenant != tenant)
			continue;
		count.refs++;
		count.n_sessions++;
		list_for_each_safe(at, &session->channels)
			count.n_channels++;
		for (unsigned i = 0; i < WIRE_ENDPOINTS_MAX; i++) {
			const struct session_port *port = &session->ports[i];

			closing += port->n_closing;
			count.n_channels += port->n_dying;
			/* only a port that is closing has dying channels */
			ck_assert(port->n_closing || !port->n_dying);
		}
		ck_assert_uint_eq(closing, session->n_closing);
	}
}

static void check_tenant(const struct tenant *tenant)
{
	const struct tenant_limits *limits = &tenant->limits;

	n_seen = 0;
	count = (struct tenant){ .refs = !tenant->leaving };
	count_leases(tenant, &stage_control.leases->all);
	count_leases(tenant, &stage_control.leases->ended);
	count_sessions(tenant, &stage_control.sessions->all);
	count_sessions(tenant, &stage_control.sessions->ended);
	ck_assert_uint_eq(tenant->n_sessions, count.n_sessions);
	ck_assert_uint_eq(tenant->n_channels, count.n_channels);
	ck_assert_uint_eq(tenant->n_leases, count.n_leases);
	ck_assert_uint_eq(tenant->n_attachments, count.n_attachments);
	ck_assert_uint_eq(tenant->bytes, count.bytes);
	ck_assert_uint_eq(tenant->n_keys, count.n_keys);
	ck_assert_uint_eq(tenant->refs, count.refs);
	/* the limits do not change in this test */
	ck_assert_uint_le(tenant->n_sessions, limits->sessions_max);
	ck_assert_uint_le(tenant->n_channels, limits->channels_max);
	ck_assert_uint_le(tenant->n_leases, limits->leases_max);
	ck_assert_uint_le(tenant->bytes, limits->bytes_max);
	ck_assert_uint_le(tenant->n_keys, limits->keys_max);
}

static void check_tenants(void)
{
	list_for_each_entry(const struct tenant, tenant, &stage_tenants.all, link)
		check_tenant(tenant);
}

/* ---- random steps ---- */

static uint64_t random_id(void)
{
	return 1 + (uint64_t)rand() % stage_control.leases->next_id;
}

static void random_name(char *name)
{
	static const char *const names[] = { "a", "b", "c" };

	(void)strcpy(name, names[rand() % 3]);
}

static void random_tenant(char *name)
{
	(void)strcpy(name, tenant_names[rand() % TENANTS]);
}

/* Attach the oldest lease that is shared, if there is one. */
static void attach_shared(struct wire_attach *attach)
{
	list_for_each_entry(const struct lease, lease, &stage_control.leases->all,
			    all) {
		if (!lease->n_shares)
			continue;
		(void)strcpy(attach->tenant, lease->tenant->name);
		(void)strcpy(attach->name, lease->name);
		return;
	}
}

/* A named lease that the client has, if it has any. */
static uint64_t attached_id(const struct client *client)
{
	const struct list *all = &client->connection.session->lease_client.attachments;
	unsigned skip = (unsigned)rand() % 4;
	uint64_t id = random_id();

	list_for_each_entry(const struct attachment, attachment, all, in_client) {
		if (!attachment->lease->name)
			continue;
		id = attachment->lease->id;
		if (skip == 0)
			break;
		skip--;
	}
	return id;
}

static struct wire_msg *random_request(const struct client *client)
{
	static const enum wire_type types[] = {
		WIRE_TYPE_allocate,      WIRE_TYPE_allocate, WIRE_TYPE_free,
		WIRE_TYPE_attach,        WIRE_TYPE_attach,   WIRE_TYPE_detach,
		WIRE_TYPE_renew,         WIRE_TYPE_rename,   WIRE_TYPE_resize,
		WIRE_TYPE_remove,        WIRE_TYPE_ping,     WIRE_TYPE_open_channel,
		WIRE_TYPE_close_channel, WIRE_TYPE_resize,   WIRE_TYPE_open_channel,
		WIRE_TYPE_share,         WIRE_TYPE_share,
	};
	struct wire_msg *msg = message(types[(size_t)rand() % 17]);

	switch (msg->type) {
	case WIRE_TYPE_allocate:
		msg->allocate.bytes = (uint64_t)rand() % (5 * FAKE_PAGE);
		msg->allocate.node = -1;
		if (rand() % 2)
			random_name(msg->allocate.name);
		break;
	case WIRE_TYPE_attach:
		if (rand() % 3 == 0) {
			msg->attach.lease = random_id();
			break;
		}
		msg->attach.rights = WIRE_RIGHT_READ | WIRE_RIGHT_WRITE;
		random_name(msg->attach.name);
		if (rand() % 2)
			attach_shared(&msg->attach);
		break;
	case WIRE_TYPE_share:
		msg->share.lease = attached_id(client);
		msg->share.rights = (uint8_t)(rand() % 4 ? 3 : rand() % 2);
		random_tenant(msg->share.tenant);
		break;
	case WIRE_TYPE_rename:
		msg->rename.lease = random_id();
		msg->rename.flags = WIRE_RENAME_REPLACE;
		random_name(msg->rename.name);
		break;
	case WIRE_TYPE_resize:
		msg->resize.lease = random_id();
		msg->resize.bytes = (uint64_t)rand() % (6 * FAKE_PAGE);
		break;
	case WIRE_TYPE_renew:
		msg->renew.lease = random_id();
		msg->renew.ttl_ms = (uint64_t)rand() % 5000;
		break;
	case WIRE_TYPE_remove:
		random_name(msg->remove.name);
		break;
	case WIRE_TYPE_open_channel:
		msg->open_channel.endpoint = (uint8_t)(rand() % STAGE_ENDPOINTS);
		break;
	case WIRE_TYPE_close_channel:
		msg->close_channel.channel = 1 + (uint32_t)rand() % 8;
		break;
	default:
		msg->free.lease = random_id();
		break;
	}
	return msg;
}

static bool has_session(const struct client *client)
{
	return client->connection.session && !client->connection.closed &&
	       !client->connection.hello_pending;
}

/* Open a new session, or resume the old one. */
static void send_hello(unsigned i, bool again)
{
	const struct client before = clients[i];
	struct wire_msg *msg = hello_of(tenant_names[i % TENANTS]);

	msg->hello.channel = (uint8_t)(rand() % 2);
	client_init(&clients[i]);
	if (again) {
		msg->hello.resume = before.session;
		memcpy(msg->hello.token, before.token, WIRE_TOKEN_BYTES);
		/* the client keeps its session until the reply */
		clients[i].session = before.session;
		memcpy(clients[i].token, before.token, WIRE_TOKEN_BYTES);
		clients[i].next_id = before.next_id;
	}
	opened[i] = true;
	client_send(&clients[i], msg);
}

static void lose(unsigned i)
{
	if (opened[i] && clients[i].closed == 0)
		client_lose(&clients[i]);
}

static void channel_events(const struct client *client)
{
	uint32_t channel = 1 + (uint32_t)rand() % 8;

	if (!client_admitted(client, (unsigned)rand() % STAGE_ENDPOINTS, channel))
		return;
	for (unsigned i = 0; i < STAGE_ENDPOINTS; i++) {
		session_channel_up(NULL, &client->connection.session->ports[i],
				   channel);
		if (rand() % 2)
			session_channel_down(NULL,
					     &client->connection.session->ports[i],
					     channel, "by chance");
	}
}

/* Configure all tenants, or all but one. */
static void reconfigure(void)
{
	struct tenant_params some[TENANTS];
	unsigned n = 0, missing = (unsigned)rand() % (2 * TENANTS);

	for (unsigned i = 0; i < TENANTS; i++)
		if (i != missing)
			some[n++] = params[i];
	ck_assert_int_eq(tenants_set(&stage_tenants, some, n), 0);
}

static void random_step(void)
{
	unsigned i = (unsigned)rand() % CLIENTS;
	struct client *client = &clients[i];

	switch (rand() % 32) {
	case 0:
		lose(i);
		break;
	case 1:
		if (has_session(client))
			client_send(client, message(WIRE_TYPE_bye));
		break;
	case 2:
		pass((uint64_t)rand() % 700);
		break;
	case 3:
		pass(rand() % 16 ? 10 : STAGE_GRACE_MS);
		break;
	case 4:
		reconfigure();
		break;
	case 5:
		fake_pools_scrub();
		leases_retry(stage_control.leases);
		break;
	case 6:
		sessions_leave_endpoint(stage_control.sessions, (unsigned)rand() % 2);
		break;
	case 7:
		if (rand() % 4 == 0)
			fake_fabric_fail_event(0, -ENOMEM);
		break;
	default:
		if (!opened[i] || client->closed)
			send_hello(i, opened[i] && client->session && rand() % 2);
		else if (!has_session(client))
			break;
		else if (rand() % 4 == 0)
			channel_events(client);
		else
			client_send(client, random_request(client));
		break;
	}
	for (unsigned k = (unsigned)rand() % 4; k > 0; k--)
		(void)fake_fabric_step((unsigned)rand());
}

static void setup(void)
{
	const struct tenant_limits limits = { .bytes_max = 12 * FAKE_PAGE,
					      .leases_max = 5,
					      .sessions_max = 2,
					      .channels_max = 5,
					      .keys_max = 12,
					      .session_keys_max = 8,
					      .lease_min = 100,
					      .lease_max = 5 * FAKE_PAGE,
					      .ttl_max_ms = 4000 };

	control_setup();
	for (unsigned i = 0; i < TENANTS; i++) {
		params[i].limits = limits;
		(void)strcpy(params[i].name, tenant_names[i]);
	}
	memset(opened, 0, sizeof(opened));
	ck_assert_int_eq(tenants_set(&stage_tenants, params, TENANTS), 0);
}

START_TEST(counts__match_after_every_step)
{
	uint64_t refused = 0;

	srand((unsigned)_i);
	for (unsigned step = 0; step < STEPS; step++) {
		random_step();
		check_tenants();
	}
	list_for_each_entry(const struct tenant, tenant, &stage_tenants.all, link)
		refused += tenant->refused;
	ck_assert_uint_gt(refused, 0);
	ck_assert_uint_gt(stage_control.counters.sessions_opened, 5);
	ck_assert_uint_gt(leases_counters(stage_control.leases)->granted, 10);
	/* most seeds do */
	if (_i == 0)
		ck_assert_uint_gt(n_shared, 0);
	for (unsigned i = 0; i < CLIENTS; i++)
		lose(i);
	fake_fabric_settle();
	/* the leases expire and the sessions' grace ends: nothing is left */
	pass(STAGE_GRACE_MS);
	fake_fabric_settle();
	check_tenants();
	ck_assert_uint_eq(sessions_count(stage_control.sessions), 0);
	ck_assert_uint_eq(leases_count(stage_control.leases), 0);
	ck_assert_int_eq(tenants_set(&stage_tenants, params, 0), 0);
	ck_assert(list_empty(&stage_tenants.all));
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("counts", setup, control_teardown);

	tcase_add_loop_test(tc, counts__match_after_every_step, 0, SEEDS);
	return unit_main();
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/rmemd/control-stage.h"

#include <check.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "rmemd/control/request.h"
#include "rmemd/state/ledger.h"
#include "tls/admission.h"
#include "unit/rmemd/control-pools.h"
#include "wire/codec.h"
#include "wire/errors.h"
#include "wire/requests.h"

struct control stage_control;
struct config stage_config;
struct tenants stage_tenants;
const struct tenant_limits stage_limits = { .leases_max = 1000,
					    .session_keys_max = 10000,
					    .keys_max = 10000 };
unsigned stage_timer_moves;
struct fabric_endpoint stage_endpoint_info[STAGE_ENDPOINTS];

static struct wire_msg out;

static uint64_t fake_clock(void)
{
	return stage_now_ms * 1000000;
}

/* A line about a session is one of its tenant, whose lines have a limit of their own; but not if
 * the peer only says that it has the session. */
static void check_line(int, const char *event, const struct log_ctx *ctx,
		       const char *text)
{
	bool is_claim = strcmp(text, "no session with this id and token") == 0;

	ck_assert_str_ne(event, "");
	ck_assert_ptr_null(strchr(text, '\n'));
	if (ctx && ctx->session)
		ck_assert_msg(is_claim == !ctx->tenant, "%s: %s", event, text);
}

static void on_granted(void *, const struct lease_status *status)
{
	ck_assert(status->ready);
	drain_granted(&stage_control.drain);
}

static void on_ended(void *, const struct lease_status *status, enum wire_reason)
{
	ck_assert(status->ready);
}

static void on_none_left(void *)
{
	drain_none_left(&stage_control.drain);
}

static void on_timer_moved(void *)
{
	stage_timer_moves++;
}

static const struct leases_events lease_events = {
	.client_event = session_client_event,
	.client_notified = session_client_notified,
	.granted = on_granted,
	.ended = on_ended,
	.timer_moved = on_timer_moved,
	.none_left = on_none_left,
};

static void on_session_due(struct control *, uint64_t ms)
{
	ck_assert_uint_ne(ms, 0);
	stage_timer_moves++;
}

static void on_wake(void *)
{
	stage_wakes++;
}

static void open_tables(void)
{
	slices_init(&stage_control.slices, &stage_control.turn, on_wake, NULL);
	ck_assert_int_eq(leases_open(stage_control.pools, stage_control.ledger,
				     &stage_control.slices, &lease_events,
				     &stage_control, 1, &stage_control.leases),
			 0);
	stage_control.first_id = 1;
	ck_assert_int_eq(
		sessions_open(&stage_control, on_session_due, &stage_control.sessions),
		0);
}

void control_setup(void)
{
	const struct tenant_params params[] = {
		{ .name = "default", .limits = stage_limits },
		{ .name = "other", .limits = stage_limits }
	};

	stage_now_ms = 1000;
	clock_set_source(fake_clock);
	log_set_sink(check_line);
	stage_config = (struct config){
		.heartbeat_ms = 500,
		.fence_ms = STAGE_FENCE_MS,
		.grace_ms = STAGE_GRACE_MS,
		.sessions_max = 8,
		.channels_max = 4,
		.tcp_check_address = CONFIG_AUTO,
	};
	tenants_init(&stage_tenants);
	ck_assert_int_eq(tenants_set(&stage_tenants, params, 2), 0);
	memset(&stage_control, 0, sizeof(stage_control));
	stage_control.config = &stage_config;
	fake_fabric_begin(false);
	stage_control.endpoints.n = STAGE_ENDPOINTS;
	for (unsigned i = 0; i < STAGE_ENDPOINTS; i++) {
		stage_endpoint_info[i] = (struct fabric_endpoint){
			.kind = FABRIC_TCP, .address = { .family = 4 }, .node = -1
		};
		stage_control.endpoints.at[i] = (struct endpoint){
			.ops = &fake_tcp_server,
			.server = fake_fabric_server(),
			.local = i,
			.info = &stage_endpoint_info[i],
		};
	}
	stage_control.tenants = &stage_tenants;
	stage_control.pools = control_pools_open();
	for (unsigned i = 0; i < pools_count(stage_control.pools); i++)
		stage_control.memory_bytes +=
			pools_status(stage_control.pools, i).bytes;
	stage_control.ledger = stage_ledger_new();
	open_tables();
}

struct tenant *control_find_tenant(void *, const char *name)
{
	struct tenant_params params = { .limits = stage_limits };

	(void)snprintf(params.name, sizeof(params.name), "%s", name);
	return tenants_ensure(&stage_tenants, &params);
}

static void on_lease_lost(void *, uint64_t id, const char *name, const char *,
			  const char *why)
{
	ck_abort_msg("lease %" PRIu64 " \"%s\" was not restored: %s", id, name, why);
}

static void check_unused(void)
{
	list_for_each_entry(const struct tenant, tenant, &stage_tenants.all, link) {
		ck_assert_uint_eq(tenant->refs, !tenant->leaving);
		ck_assert_uint_eq(
			tenant->n_sessions + tenant->n_channels + tenant->n_leases, 0);
		ck_assert_uint_eq(
			tenant->n_attachments + tenant->bytes + tenant->n_keys, 0);
	}
}

static void on_detached(void *, uint64_t session, uint64_t lease)
{
	ck_abort_msg("session %" PRIu64 " has lost lease %" PRIu64, session, lease);
}

int control_restart_with(const struct leases_restore *with)
{
	int err;

	fake_fabric_close();
	leases_close(stage_control.leases);
	sessions_close(stage_control.sessions);
	check_unused();
	stage_control.pools = control_pools_open_again();
	stage_control.ledger = stage_ledger_again(stage_control.ledger);
	open_tables();
	err = sessions_restore(stage_control.sessions, with);
	if (!err)
		err = leases_restore(stage_control.leases, with);
	control_pools_restored();
	return err;
}

void control_restart(void)
{
	const struct leases_restore with = { control_find_tenant, sessions_lease_client,
					     on_lease_lost, on_detached,
					     &stage_control };

	ck_assert_int_eq(control_restart_with(&with), 0);
}

static int check_detached(const struct lease_status *status, void *)
{
	/* only named leases remain, and no session is attached */
	ck_assert_str_ne(status->name, "");
	ck_assert_uint_eq(status->sessions, 0);
	return 0;
}

void control_teardown(void)
{
	/* sessions are fenced, then their grace time ends */
	pass(STAGE_FENCE_MS);
	fake_fabric_settle();
	pass(STAGE_GRACE_MS);
	fake_fabric_settle();
	fake_fabric_check_empty();
	ck_assert_uint_eq(sessions_count(stage_control.sessions), 0);
	(void)leases_each(stage_control.leases, 0, check_detached, NULL);
	control_pools_check(stage_control.leases);
	control_close_tables();
}

void control_close_tables(void)
{
	leases_close(stage_control.leases);
	sessions_close(stage_control.sessions);
	control_pools_close();
	ledger_close(stage_control.ledger);
	check_unused();
	tenants_destroy(&stage_tenants);
	clock_set_source(NULL);
	log_set_sink(NULL);
}

static void check_type(const struct wire_msg *msg, enum wire_type expected)
{
	if (msg->type == WIRE_TYPE_error && expected != WIRE_TYPE_error)
		ck_abort_msg("%s", msg->error.text);
	ck_assert_int_eq((int)msg->type, (int)expected);
}

#define ERROR_CASE(name) case WIRE_CODE_##name:
#define ERROR_ROW(request, reply, errors)       \
	case WIRE_TYPE_##request:               \
		switch (code) {                 \
			WIRE_ERRORS(ERROR_CASE) \
			errors return true;     \
		default:                        \
			return false;           \
		}

/* Whether the request may be refused with this error. */
static bool may_fail(enum wire_type request, uint32_t code)
{
	switch (request) {
		WIRE_ANSWERS(ERROR_ROW, ERROR_CASE)
	default:
		return code == WIRE_CODE_malformed || code == WIRE_CODE_unknown;
	}
}

static void check_answer(enum wire_type request, const struct wire_msg *answer)
{
	if (answer->type != WIRE_TYPE_error) {
		check_type(answer, wire_reply_type(request));
		return;
	}
	ck_assert_msg(may_fail(request, answer->error.code),
		      "request %#x may not be refused with %" PRIu32 ": %s",
		      (unsigned)request, answer->error.code, answer->error.text);
	/* a text that fills the field was truncated */
	ck_assert_uint_lt(strlen(answer->error.text), WIRE_NAME_MAX);
}

static void op_send(struct connection *connection, const struct wire_msg *msg)
{
	struct client *client = container_of(connection, struct client, connection);
	static uint8_t frame[WIRE_FRAME_MAX];
	static struct wire_msg received;
	int bytes = wire_encode(msg, frame, sizeof(frame));

	ck_assert_msg(!client->closed, "a message is sent after close()");
	ck_assert_int_gt(bytes, 0);
	/* a client loses its connection over a message that it cannot decode */
	ck_assert_msg(wire_decode(frame, (size_t)bytes, &received) == 0, "%s",
		      err_text());
	if (msg->id == 0) {
		client->events++;
		client->event = *msg;
		return;
	}
	ck_assert(msg->id < client->next_id || msg->id == client->last_id);
	check_answer((enum wire_type)client->asked[msg->id % ASKED_MAX], msg);
	client->answers++;
	client->answer = *msg;
	if (msg->type == WIRE_TYPE_welcome) {
		client->session = msg->welcome.session;
		memcpy(client->token, msg->welcome.token, sizeof(client->token));
		memcpy(client->secret, msg->welcome.secret, sizeof(client->secret));
	}
}

static void op_close(struct connection *connection)
{
	container_of(connection, struct client, connection)->closed++;
}

static void op_authenticated(struct connection *connection)
{
	container_of(connection, struct client, connection)->authenticated++;
}

static const struct client *client_of(const struct connection *connection)
{
	return container_of((struct connection *)(uintptr_t)connection, struct client,
			    connection);
}

static bool op_busy(struct connection *connection)
{
	return client_of(connection)->busy;
}

static bool op_unread(struct connection *connection)
{
	return client_of(connection)->unread;
}

static bool op_stalled(struct connection *connection)
{
	return client_of(connection)->stalled;
}

static bool op_abandoned(struct connection *connection)
{
	return client_of(connection)->abandoned;
}

static int op_identify(struct connection *, const char *)
{
	return 0;
}

static const struct connection_ops client_ops = {
	.send = op_send,
	.close = op_close,
	.identify = op_identify,
	.authenticated = op_authenticated,
	.busy = op_busy,
	.unread = op_unread,
	.stalled = op_stalled,
	.abandoned = op_abandoned,
};

const struct fabric_address stage_address = { .family = 4,
					      .bytes = { 192, 0, 2, 1 },
					      .port = 1 };

void client_init(struct client *client)
{
	memset(client, 0, sizeof(*client));
	client->next_id = 1;
	connection_init(&client->connection, &client_ops, &stage_control,
			&stage_address);
}

void client_lose(struct client *client)
{
	session_connection_lost(&client->connection, "the test lost it");
	client->closed = 1;
}

void client_send(struct client *client, struct wire_msg *msg)
{
	client_send_as(client, msg, client->next_id++);
}

void client_send_frame(struct client *client, const uint8_t *frame, size_t bytes)
{
	client->asked[wire_frame_id(frame, bytes) % ASKED_MAX] =
		(uint16_t)wire_frame_type(frame);
	dispatch_frame(&client->connection, frame, bytes);
}

void client_send_as(struct client *client, struct wire_msg *msg, uint64_t id)
{
	static uint8_t frame[WIRE_FRAME_MAX];
	int bytes;

	ck_assert(!client->connection.closed);
	ck_assert(!client->connection.hello_pending);
	msg->id = id;
	client->last_id = id;
	bytes = wire_encode(msg, frame, sizeof(frame));
	ck_assert_int_gt(bytes, 0);
	client_send_frame(client, frame, (size_t)bytes);
}

/* Deliver all events of the fabric; the reply to the last request is the n-th one. */
static const struct wire_msg *await_reply(struct client *client, unsigned n,
					  enum wire_type expected)
{
	fake_fabric_settle();
	ck_assert_uint_eq(client->answers, n);
	ck_assert_uint_eq(client->answer.id, client->last_id);
	check_type(&client->answer, expected);
	return &client->answer;
}

const struct wire_msg *client_ask_as(struct client *client, struct wire_msg *msg,
				     uint64_t id, enum wire_type expected)
{
	unsigned before = client->answers;

	client_send_as(client, msg, id);
	return await_reply(client, before + 1, expected);
}

const struct wire_msg *client_ask(struct client *client, struct wire_msg *msg,
				  enum wire_type expected)
{
	return client_ask_as(client, msg, client->next_id++, expected);
}

void client_ok(struct client *client, struct wire_msg *msg)
{
	(void)client_ask(client, msg, WIRE_TYPE_ok);
}

void client_fail(struct client *client, struct wire_msg *msg, int err)
{
	const struct wire_msg *answer = client_ask(client, msg, WIRE_TYPE_error);

	ck_assert_int_eq((int)answer->error.code, (int)wire_code_of(err));
	ck_assert_str_ne(answer->error.text, "");
}

const struct wire_msg *client_event(const struct client *client, unsigned n,
				    enum wire_type type)
{
	ck_assert_uint_eq(client->events, n);
	check_type(&client->event, type);
	return &client->event;
}

struct wire_msg *message(enum wire_type type)
{
	memset(&out, 0, sizeof(out));
	out.type = type;
	return &out;
}

struct wire_msg *to_allocate(uint64_t bytes, const char *name)
{
	struct wire_msg *msg = message(WIRE_TYPE_allocate);

	msg->allocate.bytes = bytes;
	msg->allocate.node = -1;
	(void)strcpy(msg->allocate.name, name);
	return msg;
}

struct wire_msg *to_attach(const char *name)
{
	struct wire_msg *msg = message(WIRE_TYPE_attach);

	msg->attach.rights = WIRE_RIGHT_READ | WIRE_RIGHT_WRITE;
	(void)strcpy(msg->attach.name, name);
	return msg;
}

struct wire_msg *lease_message(enum wire_type type, uint64_t lease)
{
	struct wire_msg *msg = message(type);

	/* the id is the first field of all these types */
	msg->free.lease = lease;
	return msg;
}

struct wire_msg *to_rename(uint64_t lease, const char *name)
{
	struct wire_msg *msg = lease_message(WIRE_TYPE_rename, lease);

	(void)strcpy(msg->rename.name, name);
	return msg;
}

struct wire_msg *to_resize(uint64_t lease, uint64_t bytes)
{
	struct wire_msg *msg = lease_message(WIRE_TYPE_resize, lease);

	msg->resize.bytes = bytes;
	return msg;
}

struct wire_msg *by_name(enum wire_type type, const char *name)
{
	struct wire_msg *msg = message(type);

	(void)strcpy(msg->remove.name, name);
	return msg;
}

struct wire_msg *hello(void)
{
	return hello_of("default");
}

struct wire_msg *hello_of(const char *tenant)
{
	struct wire_msg *msg = message(WIRE_TYPE_hello);

	msg->hello.magic = WIRE_MAGIC;
	msg->hello.version_min = WIRE_VERSION_MIN;
	msg->hello.version_max = WIRE_VERSION_MAX;
	(void)strcpy(msg->hello.tenant, tenant);
	(void)strcpy(msg->hello.client, "test");
	return msg;
}

void client_open(struct client *client)
{
	client_open_as(client, "default");
}

void client_open_as(struct client *client, const char *tenant)
{
	client_init(client);
	(void)client_ask(client, hello_of(tenant), WIRE_TYPE_welcome);
	ck_assert_uint_eq(client->authenticated, 1);
}

struct wire_msg *hello_resume(const struct client *lost)
{
	struct wire_msg *msg = hello();

	msg->hello.resume = lost->session;
	memcpy(msg->hello.token, lost->token, WIRE_TOKEN_BYTES);
	return msg;
}

void client_open_connected(struct client *client)
{
	client_open(client);
	(void)client_channel(client, 0);
}

void client_resume_start(struct client *client, const struct client *lost)
{
	client_init(client);
	client->next_id = lost->next_id;
	client_send(client, hello_resume(lost));
}

void client_resume(struct client *client, const struct client *lost)
{
	client_resume_start(client, lost);
	(void)await_reply(client, 1, WIRE_TYPE_welcome);
	ck_assert_uint_eq(client->answer.welcome.resumed, 1);
}

bool client_admitted(const struct client *client, unsigned endpoint, uint32_t channel)
{
	struct fabric_hello asked = { .session = client->session,
				      .channel = channel,
				      .peer = stage_address };
	struct fabric_session *session;

	(void)admission_token(client->secret, asked.session, channel, asked.token);
	return !sessions_admit(stage_control.sessions, endpoint, &asked, &session);
}

uint32_t client_open_channel(struct client *client, uint8_t endpoint)
{
	struct wire_msg *msg = message(WIRE_TYPE_open_channel);

	msg->open_channel.endpoint = endpoint;
	return client_ask(client, msg, WIRE_TYPE_channel)->channel.channel;
}

uint32_t client_channel(struct client *client, uint8_t endpoint)
{
	uint32_t channel = client_open_channel(client, endpoint);

	ck_assert(client_admitted(client, endpoint, channel));
	return channel;
}

uint64_t client_allocate(struct client *client, uint64_t bytes, const char *name)
{
	return client_ask(client, to_allocate(bytes, name), WIRE_TYPE_lease)
		->lease.lease;
}

void pass(uint64_t ms)
{
	stage_now_ms += ms;
	sessions_tick(stage_control.sessions);
	leases_tick(stage_control.leases);
	slices_run(&stage_control.slices);
}

static int count(const struct session *session, void *arg)
{
	unsigned *counts = arg;

	counts[session->state]++;
	return 0;
}

unsigned sessions_in(enum wire_session_state state)
{
	unsigned counts[WIRE_SESSION_ENDED + 1] = { 0 };

	(void)sessions_each(stage_control.sessions, 0, count, counts);
	return counts[state];
}

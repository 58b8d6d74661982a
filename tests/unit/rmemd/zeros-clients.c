/* SPDX-License-Identifier: BSD-3-Clause */
/* Clients of several tenants over connections without sockets: their requests, the
 * replies, and what they know of their leases. */
#include <string.h>

#include "base/list.h"
#include "rmemd/control/request.h"
#include "rmemd/control/session.h"
#include "wire/codec.h"
#include "unit/rmemd/bare-connection.h"
#include "unit/rmemd/zeros.h"

#define PAGE UINT64_C(4096)

struct client_connection {
	struct bare_connection bare;
	bool up, has_session, silent;
	bool request_sent; /* the request of the client, which has no reply yet */
};

static struct client_connection connections[ZEROS_CLIENTS];
static const char *const names[ZEROS_NAMES] = { "a", "b", "c", "d", "e" };
static const char *const tenant_names[ZEROS_TENANTS] = { "red", "green", "blue" };

static uint64_t now_ms(void)
{
	return atomic_load(&world->now_ms);
}

/* ---- what the tenants know of their leases ---- */

static void lease_forget(struct zeros_lease *lease)
{
	*lease = (struct zeros_lease){ .id = 0 };
}

static struct zeros_lease *lease_by_id(uint64_t id)
{
	for (unsigned i = 0; i < ZEROS_LEASES; i++)
		if (id && world->leases[i].id == id)
			return &world->leases[i];
	return NULL;
}

/* A random lease that the client can use, or ZEROS_LEASES. */
static unsigned random_lease(unsigned client)
{
	unsigned tenant = world->clients[client].tenant, picked = ZEROS_LEASES;
	uint64_t n = 0;

	for (unsigned i = 0; i < ZEROS_LEASES; i++) {
		const struct zeros_lease *lease = &world->leases[i];

		if (lease->id && lease->tenant == tenant &&
		    (lease->named || lease->owner == client) && zeros_random(++n) == 0)
			picked = i;
	}
	return picked;
}

static void session_forget(unsigned client)
{
	struct zeros_client *it = &world->clients[client];

	for (unsigned i = 0; i < ZEROS_LEASES; i++)
		if (world->leases[i].id && !world->leases[i].named &&
		    world->leases[i].owner == client)
			lease_forget(&world->leases[i]);
	it->session = 0;
	it->request.type = (enum wire_type)0;
}

static bool lease_has_request(unsigned lease)
{
	for (unsigned i = 0; i < ZEROS_CLIENTS; i++)
		if (world->clients[i].request.type &&
		    world->clients[i].request.lease == lease)
			return true;
	return false;
}

/* NULL: the request is not about a lease. */
static struct zeros_lease *request_lease(const struct zeros_request *request)
{
	return request->lease < ZEROS_LEASES ? &world->leases[request->lease] : NULL;
}

void zeros_check_leases(void)
{
	for (unsigned i = 0; i < ZEROS_LEASES; i++) {
		struct zeros_lease *lease = &world->leases[i];
		uint64_t bytes;
		bool found;

		if (!lease->id || lease_has_request(i))
			continue;
		found = zeros_lease_find(lease->id, &bytes);
		if (lease->uncertain || !lease->named ||
		    (lease->due_ms && lease->due_ms <= now_ms())) {
			if (!found)
				lease_forget(lease);
			continue;
		}
		if (!found)
			zeros_fail("lease %llu has ended without a request",
				   (unsigned long long)lease->id);
		if (bytes != lease->bytes)
			zeros_fail("lease %llu has %llu bytes, and not %llu",
				   (unsigned long long)lease->id,
				   (unsigned long long)bytes,
				   (unsigned long long)lease->bytes);
	}
}

/* ---- replies ---- */

static void on_granted(unsigned client, const struct wire_lease *answer)
{
	const struct zeros_client *it = &world->clients[client];
	const struct zeros_request *request = &it->request;
	struct zeros_lease *lease = &world->leases[request->lease];

	if (!zeros_lease_zero(answer->lease, 0))
		zeros_fail("lease %llu of %llu bytes is not zero when it is granted",
			   (unsigned long long)answer->lease,
			   (unsigned long long)answer->bytes);
	world->grants++;
	world->waits += now_ms() > request->since_ms;
	*lease = (struct zeros_lease){
		.id = answer->lease,
		.tenant = it->tenant,
		.owner = client,
		.named = request->name < ZEROS_NAMES,
		.name = request->name,
		.bytes = answer->bytes,
		/* the grant is not earlier than the request, so it may end later */
		.due_ms = request->ttl_ms ? request->since_ms + request->ttl_ms : 0,
	};
}

static void on_resized(const struct zeros_request *request,
		       const struct wire_lease *answer)
{
	struct zeros_lease *lease = lease_by_id(answer->lease);

	if (request->old_bytes < answer->bytes &&
	    !zeros_lease_zero(answer->lease, request->old_bytes))
		zeros_fail("lease %llu is not zero after its old end at %llu bytes",
			   (unsigned long long)answer->lease,
			   (unsigned long long)request->old_bytes);
	world->grows += request->old_bytes < answer->bytes;
	world->trims += request->old_bytes > answer->bytes;
	if (!lease)
		return;
	lease->bytes = answer->bytes;
	lease->uncertain = false;
}

static void on_done(unsigned client, const struct wire_msg *msg)
{
	const struct zeros_request *request = &world->clients[client].request;
	struct zeros_lease *lease = request_lease(request);

	switch (request->type) {
	case WIRE_TYPE_allocate:
		on_granted(client, &msg->lease);
		break;
	case WIRE_TYPE_resize:
		on_resized(request, &msg->lease);
		break;
	case WIRE_TYPE_free:
	case WIRE_TYPE_remove:
		world->frees++;
		lease_forget(lease);
		break;
	case WIRE_TYPE_detach:
		if (lease->named)
			lease->uncertain = request->uncertain;
		else
			lease_forget(lease);
		break;
	case WIRE_TYPE_renew:
		lease->due_ms =
			request->ttl_ms ? request->since_ms + request->ttl_ms : 0;
		lease->uncertain = request->uncertain;
		break;
	default:
		break;
	}
}

/* The lease may have ended, by this request or by another. */
static void on_error(unsigned client)
{
	const struct zeros_request *request = &world->clients[client].request;
	struct zeros_lease *lease = request_lease(request);

	if (request->type != WIRE_TYPE_allocate && lease)
		lease->uncertain = true;
}

static void on_welcome(unsigned client, const struct wire_welcome *welcome)
{
	struct zeros_client *it = &world->clients[client];

	if (!welcome->resumed) {
		session_forget(client);
		it->session = welcome->session;
		memcpy(it->token, welcome->token, sizeof(it->token));
	} else {
		world->resumed++;
	}
	connections[client].has_session = true;
}

static void on_message(struct bare_connection *bare, const struct wire_msg *msg)
{
	const struct client_connection *own =
		container_of(bare, struct client_connection, bare);
	unsigned client = (unsigned)(own - connections);
	struct zeros_client *it = &world->clients[client];
	struct zeros_lease *lease;

	for (unsigned i = 0; msg->type == WIRE_TYPE_lease && i < msg->lease.n_keys; i++)
		zeros_key_sent(msg->lease.keys[i].rkey);
	if (msg->type == WIRE_TYPE_welcome) {
		on_welcome(client, &msg->welcome);
	} else if (msg->type == WIRE_TYPE_revoked) {
		lease = lease_by_id(msg->revoked.lease);
		if (lease)
			lease_forget(lease);
	} else if (msg->id && msg->id == it->request.id && it->request.type) {
		if (msg->type == WIRE_TYPE_error)
			on_error(client);
		else
			on_done(client, msg);
		it->request.type = (enum wire_type)0;
	} else if (msg->type == WIRE_TYPE_error && msg->id == 1 &&
		   !connections[client].has_session) {
		/* the session to resume has ended */
		session_forget(client);
	}
}

/* ---- requests ---- */

static void lose_connection(unsigned client)
{
	struct client_connection *own = &connections[client];

	if (own->up)
		session_connection_lost(&own->bare.connection, "lost");
	memset(own, 0, sizeof(*own));
}

static void send_frame(unsigned client, struct wire_msg *msg)
{
	static uint8_t frame[WIRE_FRAME_MAX];
	int bytes = wire_encode(msg, frame, sizeof(frame));

	if (bytes < 0)
		zeros_fail("a request cannot be encoded");
	dispatch_frame(&connections[client].bare.connection, frame, (size_t)bytes);
	if (connections[client].bare.ended)
		lose_connection(client);
}

static bool can_request(unsigned client)
{
	const struct client_connection *own = &connections[client];

	return own->up && own->has_session && !own->silent &&
	       !own->bare.connection.hello_pending;
}

static struct wire_msg *message(enum wire_type type)
{
	static struct wire_msg msg;

	memset(&msg, 0, sizeof(msg));
	msg.type = type;
	return &msg;
}

static struct wire_msg *request_message(const struct zeros_request *request)
{
	struct wire_msg *msg = message(request->type);
	const struct zeros_lease *lease = request_lease(request);
	uint64_t id = lease ? lease->id : 0;

	switch (request->type) {
	case WIRE_TYPE_allocate:
		msg->allocate.bytes = request->bytes;
		msg->allocate.node = -1;
		msg->allocate.ttl_ms = request->ttl_ms;
		if (request->name < ZEROS_NAMES)
			(void)strcpy(msg->allocate.name, names[request->name]);
		break;
	case WIRE_TYPE_resize:
		msg->resize.lease = id;
		msg->resize.bytes = request->bytes;
		break;
	case WIRE_TYPE_renew:
		msg->renew.lease = id;
		msg->renew.ttl_ms = request->ttl_ms;
		break;
	case WIRE_TYPE_attach:
		(void)strcpy(msg->attach.name, names[request->name]);
		msg->attach.rights = zeros_random(4)
					     ? WIRE_RIGHT_READ | WIRE_RIGHT_WRITE
					     : WIRE_RIGHT_READ;
		break;
	case WIRE_TYPE_detach:
		msg->detach.lease = id;
		break;
	case WIRE_TYPE_remove:
		(void)strcpy(msg->remove.name,
			     names[world->leases[request->lease].name]);
		break;
	default:
		msg->free.lease = id;
		break;
	}
	msg->id = request->id;
	return msg;
}

/* Send the request for the first time, or again on a new connection. */
static void send_request(unsigned client)
{
	const struct zeros_request *request = &world->clients[client].request;
	struct zeros_lease *lease = request_lease(request);

	/* the lease has ended */
	if (request->type != WIRE_TYPE_allocate && lease && !lease->id) {
		world->clients[client].request.type = (enum wire_type)0;
		return;
	}
	connections[client].request_sent = true;
	send_frame(client, request_message(request));
}

/* Where to record a new lease: a slot that no request has; ZEROS_LEASES: none. */
static unsigned find_slot(void)
{
	for (unsigned i = 0; i < ZEROS_LEASES; i++) {
		if (!world->leases[i].id && !lease_has_request(i))
			return i;
	}
	return ZEROS_LEASES;
}

static uint64_t random_size(void)
{
	switch (zeros_random(4)) {
	case 0:
		return zeros_random(PAGE) + 1;
	case 1:
		return zeros_random(64 * PAGE) + 1;
	default:
		return zeros_random(12 * PAGE) + 1;
	}
}

static uint64_t random_ttl_ms(void)
{
	return zeros_random(2) ? 0 : zeros_random(20 * 60000) + 1;
}

static bool draw_request(unsigned client, struct zeros_request *request)
{
	static const enum wire_type types[] = {
		WIRE_TYPE_allocate, WIRE_TYPE_allocate, WIRE_TYPE_allocate,
		WIRE_TYPE_resize,   WIRE_TYPE_resize,   WIRE_TYPE_free,
		WIRE_TYPE_free,     WIRE_TYPE_detach,   WIRE_TYPE_attach,
		WIRE_TYPE_renew,
	};
	const struct zeros_lease *lease;

	*request = (struct zeros_request){
		.type = types[zeros_random(sizeof(types) / sizeof(types[0]))],
		.lease = ZEROS_LEASES,
		.bytes = random_size(),
		.ttl_ms = random_ttl_ms(),
		.since_ms = now_ms(),
		.old_bytes = UINT64_MAX,
		.name = ZEROS_NAMES,
	};
	if (request->type == WIRE_TYPE_attach) {
		request->name = (unsigned)zeros_random(ZEROS_NAMES);
		return true;
	}
	if (request->type == WIRE_TYPE_allocate) {
		if (zeros_random(2))
			request->name = (unsigned)zeros_random(ZEROS_NAMES);
		else
			request->ttl_ms = 0;
		request->lease = find_slot();
		return request->lease < ZEROS_LEASES;
	}
	request->lease = random_lease(client);
	if (request->lease == ZEROS_LEASES || lease_has_request(request->lease))
		return false;
	lease = &world->leases[request->lease];
	/* by its name, which no other lease can have by now */
	if (lease->named && !lease->uncertain && !lease->due_ms &&
	    request->type == WIRE_TYPE_free && zeros_random(2))
		request->type = WIRE_TYPE_remove;
	return true;
}

static void client_request(unsigned client)
{
	struct zeros_client *it = &world->clients[client];
	struct zeros_lease *lease;
	struct zeros_request request;

	if (it->request.type || !draw_request(client, &request))
		return;
	request.id = it->next_id++;
	if (request.type != WIRE_TYPE_allocate && request.lease < ZEROS_LEASES) {
		lease = &world->leases[request.lease];
		request.uncertain = lease->uncertain;
		lease->uncertain = true;
		if (request.type == WIRE_TYPE_resize) {
			(void)zeros_lease_find(lease->id, &request.old_bytes);
			/* now, because the reply may be lost */
			if (request.bytes < lease->filled)
				lease->filled = request.bytes;
		}
	}
	it->request = request;
	send_request(client);
}

static void client_connect(unsigned client)
{
	struct zeros_client *it = &world->clients[client];
	struct wire_msg *msg = message(WIRE_TYPE_hello);
	struct client_connection *own = &connections[client];

	lose_connection(client);
	own->up = true;
	bare_connection_init(&own->bare, &zeros_control, on_message);
	msg->id = 1;
	msg->hello.magic = WIRE_MAGIC;
	msg->hello.version_min = WIRE_VERSION_MIN;
	msg->hello.version_max = WIRE_VERSION_MAX;
	(void)strcpy(msg->hello.tenant, tenant_names[it->tenant]);
	(void)strcpy(msg->hello.client, "test");
	msg->hello.resume = it->session;
	if (it->session)
		memcpy(msg->hello.token, it->token, WIRE_TOKEN_BYTES);
	else
		it->next_id = 2;
	send_frame(client, msg);
}

/* From then on its leases have keys. */
static void client_open_channel(unsigned client)
{
	struct wire_msg *msg = message(WIRE_TYPE_open_channel);

	if (world->clients[client].request.type)
		return;
	msg->id = world->clients[client].next_id++;
	msg->open_channel.endpoint = (uint8_t)zeros_random(ZEROS_ENDPOINTS);
	send_frame(client, msg);
}

/* Get new keys of a lease, which has none after a restart or a fence. */
static void client_rekey(unsigned client)
{
	struct wire_msg *msg = message(WIRE_TYPE_attach);
	unsigned lease = random_lease(client);

	if (world->clients[client].request.type || lease == ZEROS_LEASES)
		return;
	msg->id = world->clients[client].next_id++;
	msg->attach.lease = world->leases[lease].id;
	send_frame(client, msg);
}

static void client_fill(unsigned client)
{
	unsigned number = random_lease(client);
	struct zeros_lease *lease;
	uint64_t reached;

	if (number == ZEROS_LEASES || lease_has_request(number))
		return;
	lease = &world->leases[number];
	reached = zeros_fabric_fill(lease->id);
	if (reached > lease->bytes)
		reached = lease->bytes;
	if (reached > lease->filled)
		lease->filled = reached;
}

void zeros_client_step(unsigned client)
{
	struct zeros_client *it = &world->clients[client];

	if (!connections[client].up) {
		if (zeros_random(4) == 0)
			client_connect(client);
		return;
	}
	/* a busy connection gets no events; then it gets those that wait */
	connections[client].bare.busy = zeros_random(4) == 0;
	if (!connections[client].bare.busy)
		session_connection_idle(&connections[client].bare.connection);
	if (!can_request(client))
		return;
	/* on a new connection, first repeat the request */
	if (it->request.type && !connections[client].request_sent) {
		it->request.old_bytes = UINT64_MAX;
		send_request(client);
		return;
	}
	switch (zeros_random(32)) {
	case 0:
		lose_connection(client);
		break;
	case 1:
		connections[client].silent = true;
		break;
	case 2:
		client_open_channel(client);
		break;
	case 3:
	case 4:
		client_rekey(client);
		break;
	case 5:
	case 6:
	case 7:
	case 8:
		client_fill(client);
		break;
	default:
		client_request(client);
		break;
	}
}

void zeros_heartbeats(void)
{
	for (unsigned i = 0; i < ZEROS_CLIENTS; i++) {
		struct wire_msg *msg = message(WIRE_TYPE_ping);

		/* a repeated request comes first */
		if (!can_request(i) ||
		    (world->clients[i].request.type && !connections[i].request_sent))
			continue;
		msg->id = world->clients[i].next_id++;
		send_frame(i, msg);
	}
}

void zeros_hang_up(void)
{
	for (unsigned i = 0; i < ZEROS_CLIENTS; i++)
		if (connections[i].bare.ended)
			lose_connection(i);
}

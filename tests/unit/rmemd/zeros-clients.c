/* SPDX-License-Identifier: BSD-3-Clause */
/* Clients of several tenants over connections without sockets: what they know of their leases,
 * what they ask for, and what they make of the answers. */
#include <string.h>

#include "rmemd/control/dispatch.h"
#include "rmemd/control/connection.h"
#include "rmemd/control/session.h"
#include "wire/codec.h"
#include "unit/rmemd/zeros.h"

#define PAGE UINT64_C(4096)

/* The client's connection to this process. */
struct link {
	struct connection connection;
	bool up, welcome, dead, silent, busy;
	bool asked; /* through it, what is not answered yet */
};

static struct link links[ZEROS_CLIENTS];
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

/* One of the client's tenant at random, or ZEROS_LEASES. */
static unsigned lease_pick(unsigned client)
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
	it->asking.type = (enum wire_type)0;
}

/* Somebody else may change it at the same time. */
static bool lease_is_asked_about(unsigned lease)
{
	for (unsigned i = 0; i < ZEROS_CLIENTS; i++)
		if (world->clients[i].asking.type &&
		    world->clients[i].asking.lease == lease)
			return true;
	return false;
}

void zeros_leases_look(void)
{
	for (unsigned i = 0; i < ZEROS_LEASES; i++) {
		struct zeros_lease *lease = &world->leases[i];
		uint64_t bytes;
		bool found;

		if (!lease->id || lease_is_asked_about(i))
			continue;
		found = zeros_lease_find(lease->id, &bytes);
		if (lease->doubtful || !lease->named ||
		    (lease->due_ms && lease->due_ms <= now_ms())) {
			/* its place is another's */
			if (!found)
				lease_forget(lease);
			continue;
		}
		if (!found)
			zeros_fail("lease %llu is gone, and nobody has asked for it",
				   (unsigned long long)lease->id);
		if (bytes != lease->bytes)
			zeros_fail("lease %llu has %llu bytes, and not %llu",
				   (unsigned long long)lease->id,
				   (unsigned long long)bytes,
				   (unsigned long long)lease->bytes);
	}
}

/* ---- answers ---- */

static void on_granted(unsigned client, const struct wire_lease *answer)
{
	const struct zeros_client *it = &world->clients[client];
	const struct asking *asking = &it->asking;
	struct zeros_lease *lease = &world->leases[asking->lease];

	if (!zeros_lease_zero(answer->lease, 0))
		zeros_fail("lease %llu of %llu bytes is not zero as it is granted",
			   (unsigned long long)answer->lease,
			   (unsigned long long)answer->bytes);
	world->grants++;
	world->waits += now_ms() > asking->since_ms;
	/* nobody has more of them than there are places for */
	*lease = (struct zeros_lease){
		.id = answer->lease,
		.tenant = it->tenant,
		.owner = client,
		.named = asking->name < ZEROS_NAMES,
		.name = asking->name,
		.bytes = answer->bytes,
		/* counted from the grant on, which may have been before a restart */
		.due_ms = asking->ttl_ms ? asking->since_ms + asking->ttl_ms : 0,
	};
}

static void on_resized(const struct asking *asking, const struct wire_lease *answer)
{
	struct zeros_lease *lease = lease_by_id(answer->lease);

	if (asking->old_bytes < answer->bytes &&
	    !zeros_lease_zero(answer->lease, asking->old_bytes))
		zeros_fail("lease %llu is not zero where it is longer than %llu bytes",
			   (unsigned long long)answer->lease,
			   (unsigned long long)asking->old_bytes);
	world->grows += asking->old_bytes < answer->bytes;
	world->trims += asking->old_bytes > answer->bytes;
	if (!lease)
		return;
	lease->bytes = answer->bytes;
	lease->doubtful = false;
}

static void on_done(unsigned client, const struct wire_msg *msg)
{
	const struct asking *asking = &world->clients[client].asking;
	struct zeros_lease *lease =
		asking->lease < ZEROS_LEASES ? &world->leases[asking->lease] : NULL;

	switch (asking->type) {
	case WIRE_TYPE_allocate:
		on_granted(client, &msg->lease);
		break;
	case WIRE_TYPE_resize:
		on_resized(asking, &msg->lease);
		break;
	case WIRE_TYPE_free:
	case WIRE_TYPE_remove:
		world->frees++;
		lease_forget(lease);
		break;
	case WIRE_TYPE_detach:
		if (lease->named)
			lease->doubtful = asking->doubtful;
		else
			lease_forget(lease);
		break;
	case WIRE_TYPE_renew:
		lease->due_ms = asking->ttl_ms ? asking->since_ms + asking->ttl_ms : 0;
		lease->doubtful = asking->doubtful;
		break;
	default:
		break;
	}
}

/* It was not done; or what it was to be done to has ended, as it may have before. */
static void on_error(unsigned client, int err)
{
	const struct asking *asking = &world->clients[client].asking;
	struct zeros_lease *lease =
		asking->lease < ZEROS_LEASES ? &world->leases[asking->lease] : NULL;

	if (asking->type == WIRE_TYPE_allocate || !lease)
		return;
	/* others of the tenant have it, or another lease has come into its place */
	(void)err;
	lease->doubtful = true;
}

static struct link *link_of(struct connection *connection)
{
	return container_of(connection, struct link, connection);
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
	links[client].welcome = true;
}

static void op_send(struct connection *connection, const struct wire_msg *msg)
{
	unsigned client = (unsigned)(link_of(connection) - links);
	struct zeros_client *it = &world->clients[client];
	struct zeros_lease *lease;

	for (unsigned i = 0; msg->type == WIRE_TYPE_lease && i < msg->lease.n_keys; i++)
		zeros_fabric_told(msg->lease.keys[i].rkey);
	if (msg->type == WIRE_TYPE_welcome) {
		on_welcome(client, &msg->welcome);
	} else if (msg->type == WIRE_TYPE_revoked) {
		lease = lease_by_id(msg->revoked.lease);
		if (lease)
			lease_forget(lease);
	} else if (msg->id && msg->id == it->asking.id && it->asking.type) {
		if (msg->type == WIRE_TYPE_error)
			on_error(client, -(int)msg->error.code);
		else
			on_done(client, msg);
		it->asking.type = (enum wire_type)0;
	} else if (msg->type == WIRE_TYPE_error && msg->id == 1 &&
		   !links[client].welcome) {
		/* the session is no more */
		session_forget(client);
	}
}

static void op_close(struct connection *connection)
{
	link_of(connection)->dead = true;
}

static void op_authenticated(struct connection *connection)
{
	(void)connection;
}

static bool op_busy(const struct connection *connection)
{
	const unsigned client =
		(unsigned)(link_of((struct connection *)(uintptr_t)connection) - links);

	return links[client].busy;
}

static const struct connection_ops ops = {
	.send = op_send,
	.close = op_close,
	.authenticated = op_authenticated,
	.busy = op_busy,
};

/* ---- requests ---- */

static void link_lose(unsigned client)
{
	struct link *link = &links[client];

	if (link->up)
		session_connection_lost(&link->connection, "lost");
	memset(link, 0, sizeof(*link));
}

static void say(unsigned client, struct wire_msg *msg)
{
	static uint8_t frame[WIRE_FRAME_MAX];
	int bytes = wire_encode(msg, frame, sizeof(frame));

	if (bytes < 0)
		zeros_fail("a request cannot be encoded");
	dispatch_frame(&links[client].connection, frame, (size_t)bytes);
	if (links[client].dead)
		link_lose(client);
}

/* A client that can ask for something. */
static bool can_ask(unsigned client)
{
	const struct link *link = &links[client];

	return link->up && link->welcome && !link->silent &&
	       !link->connection.hello_pending;
}

static struct wire_msg *message(enum wire_type type)
{
	static struct wire_msg msg;

	memset(&msg, 0, sizeof(msg));
	msg.type = type;
	return &msg;
}

static struct wire_msg *asking_message(const struct asking *asking)
{
	struct wire_msg *msg = message(asking->type);
	uint64_t id =
		asking->lease < ZEROS_LEASES ? world->leases[asking->lease].id : 0;

	switch (asking->type) {
	case WIRE_TYPE_allocate:
		msg->allocate.bytes = asking->bytes;
		msg->allocate.node = -1;
		msg->allocate.ttl_ms = asking->ttl_ms;
		if (asking->name < ZEROS_NAMES)
			(void)strcpy(msg->allocate.name, names[asking->name]);
		break;
	case WIRE_TYPE_resize:
		msg->resize.lease = id;
		msg->resize.bytes = asking->bytes;
		break;
	case WIRE_TYPE_renew:
		msg->renew.lease = id;
		msg->renew.ttl_ms = asking->ttl_ms;
		break;
	case WIRE_TYPE_attach:
		(void)strcpy(msg->attach.name, names[asking->name]);
		msg->attach.rights = zeros_random(4)
					     ? WIRE_RIGHT_READ | WIRE_RIGHT_WRITE
					     : WIRE_RIGHT_READ;
		break;
	case WIRE_TYPE_detach:
		msg->detach.lease = id;
		break;
	case WIRE_TYPE_remove:
		(void)strcpy(msg->remove.name,
			     names[world->leases[asking->lease].name]);
		break;
	default:
		msg->free.lease = id;
		break;
	}
	msg->id = asking->id;
	return msg;
}

/* For the first time, or again, because the answer was lost with the connection. */
static void ask(unsigned client)
{
	const struct asking *asking = &world->clients[client].asking;
	struct zeros_lease *lease =
		asking->lease < ZEROS_LEASES ? &world->leases[asking->lease] : NULL;

	/* its place was given to another lease meanwhile, or to none: it has ended */
	if (asking->type != WIRE_TYPE_allocate && lease && !lease->id) {
		world->clients[client].asking.type = (enum wire_type)0;
		return;
	}
	links[client].asked = true;
	say(client, asking_message(asking));
}

/* A place for a new lease that nobody else waits for. */
static unsigned place_find(void)
{
	for (unsigned i = 0; i < ZEROS_LEASES; i++) {
		bool taken = world->leases[i].id != 0;

		for (unsigned k = 0; k < ZEROS_CLIENTS; k++)
			taken |= world->clients[k].asking.type && /* any of it */
				 world->clients[k].asking.lease == i;
		if (!taken)
			return i;
	}
	return ZEROS_LEASES;
}

static uint64_t random_bytes_wanted(void)
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

static bool asking_draw(unsigned client, struct asking *asking)
{
	static const enum wire_type types[] = {
		WIRE_TYPE_allocate, WIRE_TYPE_allocate, WIRE_TYPE_allocate,
		WIRE_TYPE_resize,   WIRE_TYPE_resize,   WIRE_TYPE_free,
		WIRE_TYPE_free,     WIRE_TYPE_detach,   WIRE_TYPE_attach,
		WIRE_TYPE_renew,
	};
	const struct zeros_lease *lease;

	*asking = (struct asking){
		.type = types[zeros_random(sizeof(types) / sizeof(types[0]))],
		.lease = ZEROS_LEASES,
		.bytes = random_bytes_wanted(),
		.ttl_ms = random_ttl_ms(),
		.since_ms = now_ms(),
		.old_bytes = UINT64_MAX,
		.name = ZEROS_NAMES,
	};
	if (asking->type == WIRE_TYPE_attach) {
		asking->name = (unsigned)zeros_random(ZEROS_NAMES);
		return true;
	}
	if (asking->type == WIRE_TYPE_allocate) {
		if (zeros_random(2))
			asking->name = (unsigned)zeros_random(ZEROS_NAMES);
		else
			asking->ttl_ms = 0;
		asking->lease = place_find();
		return asking->lease < ZEROS_LEASES;
	}
	asking->lease = lease_pick(client);
	if (asking->lease == ZEROS_LEASES || lease_is_asked_about(asking->lease))
		return false;
	lease = &world->leases[asking->lease];
	/* whoever has it attached or not, where the name is no other lease's by now */
	if (lease->named && !lease->doubtful && !lease->due_ms &&
	    asking->type == WIRE_TYPE_free && zeros_random(2))
		asking->type = WIRE_TYPE_remove;
	return true;
}

static void client_ask(unsigned client)
{
	struct zeros_client *it = &world->clients[client];
	struct zeros_lease *lease;
	struct asking asking;

	if (it->asking.type || !asking_draw(client, &asking))
		return;
	asking.id = it->next_id++;
	if (asking.type != WIRE_TYPE_allocate && asking.lease < ZEROS_LEASES) {
		lease = &world->leases[asking.lease];
		asking.doubtful = lease->doubtful;
		lease->doubtful = true;
		if (asking.type == WIRE_TYPE_resize) {
			(void)zeros_lease_find(lease->id, &asking.old_bytes);
			/* from now on, as it may be done without an answer */
			if (asking.bytes < lease->filled)
				lease->filled = asking.bytes;
		}
	}
	it->asking = asking;
	ask(client);
}

static void client_connect(unsigned client)
{
	struct zeros_client *it = &world->clients[client];
	struct wire_msg *msg = message(WIRE_TYPE_hello);
	struct link *link = &links[client];

	link_lose(client);
	link->up = true;
	connection_init(&link->connection, &ops, &zeros_control, "192.0.2.1:1");
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
	say(client, msg);
}

/* It has keys from then on. */
static void client_open_channel(unsigned client)
{
	struct wire_msg *msg = message(WIRE_TYPE_open_channel);

	if (world->clients[client].asking.type)
		return;
	msg->id = world->clients[client].next_id++;
	msg->open_channel.endpoint = (uint8_t)zeros_random(ZEROS_ENDPOINTS);
	say(client, msg);
}

/* The keys of a lease anew, which an earlier process had, or a fence has ended. */
static void client_rekey(unsigned client)
{
	struct wire_msg *msg = message(WIRE_TYPE_attach);
	unsigned lease = lease_pick(client);

	if (world->clients[client].asking.type || lease == ZEROS_LEASES)
		return;
	msg->id = world->clients[client].next_id++;
	msg->attach.lease = world->leases[lease].id;
	msg->attach.rights = WIRE_RIGHT_READ | WIRE_RIGHT_WRITE;
	say(client, msg);
}

static void client_fill(unsigned client)
{
	unsigned number = lease_pick(client);
	struct zeros_lease *lease;
	uint64_t reached;

	if (number == ZEROS_LEASES || lease_is_asked_about(number))
		return;
	lease = &world->leases[number];
	reached = zeros_fabric_fill(lease->id);
	if (reached > lease->bytes)
		reached = lease->bytes;
	if (reached > lease->filled)
		lease->filled = reached;
}

void zeros_client_do(unsigned client)
{
	struct zeros_client *it = &world->clients[client];

	if (!links[client].up) {
		if (zeros_random(4) == 0)
			client_connect(client);
		return;
	}
	/* its connection takes no news, or what has waited for that */
	links[client].busy = zeros_random(4) == 0;
	if (!links[client].busy)
		session_connection_idle(&links[client].connection);
	if (!can_ask(client))
		return;
	/* first what is not answered yet, on a new connection */
	if (it->asking.type && !links[client].asked) {
		it->asking.old_bytes = UINT64_MAX;
		ask(client);
		return;
	}
	switch (zeros_random(32)) {
	case 0:
		link_lose(client);
		break;
	case 1:
		links[client].silent = true;
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
		client_ask(client);
		break;
	}
}

void zeros_heartbeats(void)
{
	for (unsigned i = 0; i < ZEROS_CLIENTS; i++) {
		struct wire_msg *msg = message(WIRE_TYPE_ping);

		/* first what is to be asked again */
		if (!can_ask(i) || (world->clients[i].asking.type && !links[i].asked))
			continue;
		msg->id = world->clients[i].next_id++;
		say(i, msg);
	}
}

void zeros_hang_up(void)
{
	for (unsigned i = 0; i < ZEROS_CLIENTS; i++)
		if (links[i].dead)
			link_lose(i);
}

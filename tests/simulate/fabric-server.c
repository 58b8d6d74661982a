/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon's half of the simulated fabrics. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/err.h"
#include "rmemd/lease/attachment.h"
#include "rmemd/lease/lease_table.h"
#include "rmemd/lease/mr.h"
#include "simulate/checks.h"
#include "simulate/daemon.h"
#include "simulate/fabric.h"
#include "simulate/wires.h"

#define VERBS_ENDPOINTS 2u

enum key_state { KEY_PENDING, KEY_LIVE, KEY_DYING, KEY_DEAD };

struct fabric_mr {
	struct list link;
	struct fabric_session *session;
	void *cookie;
	char *addr;
	uint64_t bytes, rkey, lease;
	unsigned rights;
	enum key_state state;
	uint64_t due_ns; /* of KEY_PENDING and KEY_DYING */
	uint64_t used;   /* KEY_DYING: the least length of its segment since then */
	int err;         /* of the registration */
	bool event;      /* waits to be told */
	bool told;       /* a client may have the key */
	unsigned n_notes;
	uint32_t note;
};

struct fabric_session {
	struct list link;
	struct fabric_server *server;
	unsigned endpoint;
	void *cookie;
	bool closing;
	uint64_t until_ns, refused;
	struct list mrs, channels;
};

struct server_channel {
	struct list link;
	struct fabric_session *session;
	struct wire *wire; /* NULL: it has ended, which the daemon is to be told */
	uint32_t number;
	const char *why;
};

struct fabric_server {
	const struct fabric_server_events *events;
	void *ctx;
	int fd;
	enum fabric_kind kind;
	unsigned n_endpoints;
	struct fabric_endpoint endpoints[VERBS_ENDPOINTS];
	struct list sessions, asking;
};

static struct fabric_server *servers[2];
static uint64_t next_rkey = 1000;

static void wake(const struct fabric_server *server)
{
	(void)eventfd_write(server->fd, 1);
}

/* ---- channels ---- */

static void channel_free(struct server_channel *channel)
{
	if (channel->wire) {
		channel->wire->server = NULL;
		(void)wire_send(channel->wire, TO_CLIENT, PACKET_GONE, NULL, 0);
	}
	list_remove(&channel->link);
	free(channel);
}

/* The end of a channel that the daemon does not know yet. */
static void channel_fail(struct server_channel *channel, const char *why)
{
	channel->wire->server = NULL;
	channel->wire = NULL;
	channel->why = why;
	wake(channel->session->server);
}

static void channels_free(struct fabric_session *session)
{
	list_for_each_entry_safe(struct server_channel, channel, &session->channels,
				 link)
		channel_free(channel);
}

/* ---- keys ---- */

static bool mr_works(const struct fabric_mr *mr)
{
	return !mr->session->closing &&
	       (mr->state == KEY_LIVE || mr->state == KEY_DYING);
}

static struct fabric_mr *mr_find(const struct fabric_session *session, uint64_t rkey)
{
	list_for_each_entry(struct fabric_mr, mr, &session->mrs, link) {
		if (mr->rkey == rkey)
			return mr;
	}
	return NULL;
}

static void key_free(struct fabric_mr *mr)
{
	list_remove(&mr->link);
	free(mr);
}

static uint64_t device_ns(void)
{
	uint64_t ns = 50000 + sim_random(1000000);

	if (sim_now_ns < sim_faults.slow_device_ns)
		ns += sim_random(2500) * SIM_MS;
	return sim_now_ns + ns;
}

static int mr_new(struct fabric_session *session, void *addr, size_t bytes,
		  unsigned rights, void *cookie, struct fabric_mr **ret_mr)
{
	const struct mr *of = cookie;
	struct fabric_mr *mr;

	daemon_point();
	if (session->closing)
		sim_fail("a key is made in a closed session");
	if (sim_now_ns < sim_faults.registration_ns && sim_chance(sim_faults.one_in))
		return err_set(-ENOMEM, "the simulated device registers nothing");
	mr = sim_alloc(sizeof(*mr));
	*mr = (struct fabric_mr){ .session = session,
				  .cookie = cookie,
				  .addr = addr,
				  .bytes = bytes,
				  .rkey = next_rkey++,
				  .lease = of->segment->lease->id,
				  .rights = rights };
	list_append(&session->mrs, &mr->link);
	*ret_mr = mr;
	return 0;
}

static int reg_mr(struct fabric_session *session, void *addr, size_t bytes,
		  unsigned rights, void *cookie, struct fabric_mr **ret_mr,
		  struct fabric_key *)
{
	int err = mr_new(session, addr, bytes, rights, cookie, ret_mr);

	if (err)
		return err;
	(*ret_mr)->due_ns = device_ns();
	if (sim_now_ns < sim_faults.registration_ns && sim_chance(sim_faults.one_in))
		(*ret_mr)->err = -EIO;
	return 0;
}

static bool dereg_mr(struct fabric_mr *mr)
{
	daemon_point();
	if (mr->state >= KEY_DYING)
		sim_fail("a key is ended twice");
	mr->state = mr->state == KEY_LIVE ? KEY_DYING : KEY_DEAD;
	mr->event = mr->state == KEY_DEAD;
	mr->due_ns = device_ns();
	mr->used = mr->bytes;
	if (mr->event)
		wake(mr->session->server);
	return false;
}

static struct fabric_key key_of(const struct fabric_mr *mr)
{
	return (struct fabric_key){ .addr = (uintptr_t)mr->addr, .rkey = mr->rkey };
}

static int reg_mr_now(struct fabric_session *session, void *addr, size_t bytes,
		      unsigned rights, void *cookie, struct fabric_mr **ret_mr,
		      struct fabric_key *ret_key)
{
	int err = mr_new(session, addr, bytes, rights, cookie, ret_mr);

	if (err)
		return err;
	(*ret_mr)->state = KEY_LIVE;
	*ret_key = key_of(*ret_mr);
	return 1;
}

static bool dereg_mr_now(struct fabric_mr *mr)
{
	daemon_point();
	if (mr->n_notes || sim_chance(4))
		return dereg_mr(mr);
	/* perhaps the session was closed, and this was its last key */
	wake(mr->session->server);
	key_free(mr);
	return true;
}

/* ---- requests ---- */

static unsigned rights_for(enum fabric_opcode opcode)
{
	if (opcode == FABRIC_READ || opcode == FABRIC_CRC)
		return FABRIC_RIGHT_READ;
	if (opcode == FABRIC_CAS || opcode == FABRIC_FETCH_ADD)
		return FABRIC_RIGHT_READ | FABRIC_RIGHT_WRITE;
	return FABRIC_RIGHT_WRITE;
}

/* The memory that a request names; NULL: it is refused. */
static char *resolve(const struct fabric_session *session, uint64_t rkey, uint64_t addr,
		     uint64_t bytes, unsigned rights, unsigned client)
{
	const struct fabric_mr *mr = mr_find(session, rkey);
	uint64_t at = mr ? (uintptr_t)mr->addr : 0;

	if (!mr || !mr_works(mr) || addr < at || addr - at > mr->bytes ||
	    bytes > mr->bytes - (addr - at) || (mr->rights & rights) != rights) {
		sim_note("  client %u is refused: key %llu state %d, %llu bytes at "
			 "%llu of %llu",
			 client, (unsigned long long)rkey, mr ? (int)mr->state : -1,
			 (unsigned long long)bytes, (unsigned long long)(addr - at),
			 (unsigned long long)(mr ? mr->bytes : 0));
		return NULL;
	}
	check_access(client, mr->addr + (addr - at), bytes, mr->lease);
	return mr->addr + (addr - at);
}

static uint64_t atomic_do(char *at, const struct packet *packet)
{
	uint64_t old, value;

	memcpy(&old, at, sizeof(old));
	value = packet->opcode == FABRIC_FETCH_ADD ? old + packet->atomic.operand
		: old == packet->atomic.compare    ? packet->atomic.operand
						   : old;
	memcpy(at, &value, sizeof(value));
	return old;
}

static void notify(struct fabric_session *session, uint64_t rkey, uint32_t value)
{
	struct fabric_mr *mr = mr_find(session, rkey);

	mr->n_notes++;
	mr->note = value;
	wake(session->server);
}

/* Do it; the answer's bytes are in ret_data.  Returns their number, or -EACCES. */
static int perform(struct fabric_session *session, struct wire *wire,
		   const struct packet *packet, char *ret_data)
{
	char *at, *source;
	uint64_t old;
	uint32_t crc;

	if (packet->opcode == FABRIC_PING)
		return 0;
	at = resolve(session, packet->rkey, packet->remote_addr, packet->bytes,
		     rights_for(packet->opcode), wire->client);
	if (!at)
		return -EACCES;
	switch (packet->opcode) {
	case FABRIC_READ:
		memcpy(ret_data, at, packet->bytes);
		return (int)packet->bytes;
	case FABRIC_WRITE:
		memcpy(at, packet->data, packet->bytes);
		return 0;
	case FABRIC_FILL:
		for (uint32_t i = 0; i < packet->bytes; i++)
			at[i] = (char)(packet->inband.pattern >> i % 8 * 8);
		return 0;
	case FABRIC_COPY:
		source = resolve(session, packet->inband.source.rkey,
				 packet->inband.source.addr, packet->bytes,
				 FABRIC_RIGHT_READ, wire->client);
		if (!source)
			return -EACCES;
		memcpy(at, source, packet->bytes);
		return 0;
	case FABRIC_CRC:
		crc = crc32c(0, at, packet->bytes);
		memcpy(ret_data, &crc, sizeof(crc));
		return (int)sizeof(crc);
	case FABRIC_NOTIFY:
		notify(session, packet->rkey, packet->inband.value);
		return 0;
	default:
		old = atomic_do(at, packet);
		memcpy(ret_data, &old, sizeof(old));
		return (int)sizeof(old);
	}
}

static void request(struct wire *wire, const struct packet *packet)
{
	static char data[WIRE_OP_BYTES];
	struct server_channel *channel = wire->server;
	struct fabric_session *session = channel->session;
	struct packet *answer;
	int n;

	if (wire->kind == FABRIC_TCP && session->until_ns <= sim_now_ns) {
		(void)wire_send(wire, TO_CLIENT, PACKET_GONE, NULL, 0);
		channel_fail(channel, "its client was silent");
		return;
	}
	n = perform(session, wire, packet, data);
	answer = wire_send(wire, TO_CLIENT, PACKET_ANSWER, data,
			   n > 0 ? (uint32_t)n : 0);
	answer->opcode = packet->opcode;
	answer->addr = n > 0 ? packet->addr : NULL;
	answer->status = n < 0 ? n : 0;
	if (n >= 0)
		return;
	session->refused++;
	if (wire->kind == FABRIC_VERBS) {
		(void)wire_send(wire, TO_CLIENT, PACKET_GONE, NULL, 0);
		channel_fail(channel, "an access was refused");
	}
	wake(session->server);
}

static void refuse(struct wire *wire, int err)
{
	wire_send(wire, TO_CLIENT, PACKET_REFUSE, NULL, 0)->status = err;
}

static struct fabric_server *server_of(const struct wire *wire)
{
	for (unsigned i = 0; i < 2; i++)
		if (servers[i] && servers[i]->kind == wire->kind)
			return servers[i];
	return NULL;
}

void server_receive(struct wire *wire, struct packet *packet)
{
	struct fabric_server *server = server_of(wire);

	switch (packet->kind) {
	case PACKET_CONNECT:
		if (!server) {
			refuse(wire, -ECONNREFUSED);
			break;
		}
		list_append(&server->asking, &wire->asking);
		wake(server);
		break;
	case PACKET_REQUEST:
		if (wire->server)
			request(wire, packet);
		break;
	default:
		list_remove(&wire->asking);
		if (wire->server)
			channel_fail(wire->server, "");
		break;
	}
}

bool server_needs_daemon(const struct wire *wire)
{
	return wire->kind == FABRIC_TCP;
}

/* ---- devices ---- */

static bool mr_busy(const struct fabric_mr *mr)
{
	return (mr->state == KEY_PENDING && !mr->event) || mr->state == KEY_DYING;
}

#define EACH_MR(mr)                                                          \
	for (unsigned i_ = 0; i_ < 2; i_++)                                  \
		if (servers[i_])                                             \
			list_for_each_entry(struct fabric_session, session_, \
					    &servers[i_]->sessions, link)    \
				list_for_each_entry(struct fabric_mr, mr,    \
						    &session_->mrs, link)

uint64_t server_due_ns(void)
{
	uint64_t due = SIM_NEVER;

	EACH_MR(mr)
	if (mr_busy(mr) && mr->due_ns < due)
		due = mr->due_ns;
	return due;
}

bool server_step(void)
{
	struct fabric_mr *picked = NULL;
	unsigned n = 0;

	EACH_MR(mr)
	if (mr_busy(mr) && mr->due_ns <= sim_now_ns && sim_chance(++n))
		picked = mr;
	if (!picked)
		return false;
	if (picked->state == KEY_DYING)
		picked->state = KEY_DEAD;
	else if (!picked->err)
		picked->state = KEY_LIVE;
	picked->event = true;
	wake(picked->session->server);
	return true;
}

bool fabric_reaches_lease(uint64_t lease)
{
	EACH_MR(mr)
	if (mr->lease == lease && mr_works(mr))
		return true;
	return false;
}

void fabric_each_guest(void (*each)(uint64_t lease, const char *owner,
				    const char *tenant))
{
	EACH_MR(mr)
	if (mr_works(mr)) {
		const struct mr *of = mr->cookie;

		each(mr->lease, of->segment->lease->tenant->name,
		     of->client->tenant->name);
	}
}

unsigned fabric_keys(void)
{
	unsigned n = 0;

	EACH_MR(mr)
	n++;
	return n;
}

void fabric_each_mr(void (*each)(const char *addr, uint64_t bytes, uint64_t lease))
{
	EACH_MR(mr)
	if (mr->state != KEY_DEAD)
		each(mr->addr, mr->bytes, mr->lease);
}

void fabric_check_growth(void)
{
	EACH_MR(mr)
	{
		const struct mr *of = mr->cookie;
		uint64_t now = of->segment->bytes;

		if (mr->state != KEY_DYING)
			continue;
		if (mr->bytes > mr->used && now > mr->used)
			sim_fail("lease %llu grows where a dying key reaches",
				 (unsigned long long)mr->lease);
		if (now < mr->used)
			mr->used = now;
	}
}

void fabric_each_channel(void (*each)(unsigned client))
{
	list_for_each_entry(const struct wire, wire, &wires, link) {
		if (wire->server && !wire->server->session->closing)
			each(wire->client);
	}
}

void fabric_key_told(uint64_t rkey)
{
	EACH_MR(mr)
	mr->told |= mr->rkey == rkey;
}

void fabric_attack(void)
{
	struct fabric_mr *picked = NULL;
	unsigned n = 0;
	uint64_t from, bytes;

	EACH_MR(mr)
	if (mr->state == KEY_DYING && mr->told && mr_works(mr) &&
	    (mr->rights & FABRIC_RIGHT_WRITE) && sim_chance(++n))
		picked = mr;
	if (!picked)
		return;
	from = sim_random(picked->bytes);
	bytes = 1 + sim_random(picked->bytes - from);
	if (bytes > 64)
		bytes = 64;
	check_late_write(picked->addr + from, bytes, picked->lease);
}

void fabric_cut(unsigned client)
{
	list_for_each_entry(struct wire, wire, &wires, link) {
		if (wire->client != client || !wire->server)
			continue;
		(void)wire_send(wire, TO_CLIENT, PACKET_GONE, NULL, 0);
		channel_fail(wire->server, "the simulation cut it");
	}
}

/* ---- events for the daemon ---- */

static void tell_asking(struct fabric_server *server, struct wire *wire)
{
	struct fabric_session *session;
	struct server_channel *channel;
	unsigned endpoint = 0;
	int err = -EACCES;

	list_remove(&wire->asking);
	while (endpoint < server->n_endpoints &&
	       strcmp(server->endpoints[endpoint].device, wire->device) != 0)
		endpoint++;
	if (endpoint < server->n_endpoints)
		err = server->events->admit(server->ctx, endpoint, &wire->hello,
					    &session);
	if (err) {
		refuse(wire, err);
		return;
	}
	channel = sim_alloc(sizeof(*channel));
	channel->session = session;
	channel->wire = wire;
	channel->number = wire->hello.channel;
	wire->server = channel;
	list_append(&session->channels, &channel->link);
	server->events->channel_up(server->ctx, session->cookie, channel->number);
	if (wire->server)
		(void)wire_send(wire, TO_CLIENT, PACKET_ACCEPT, NULL, 0);
}

static void tell_mr(struct fabric_server *server, struct fabric_mr *mr)
{
	void *cookie = mr->cookie;
	const struct fabric_key key = key_of(mr);
	int err = mr->err;

	mr->event = false;
	if (mr->state == KEY_LIVE) {
		server->events->mr_registered(server->ctx, cookie, 0, "", &key);
	} else if (mr->state == KEY_PENDING) {
		key_free(mr);
		server->events->mr_registered(server->ctx, cookie, err,
					      "the simulated device fails", NULL);
	} else {
		key_free(mr);
		server->events->mr_deregistered(server->ctx, cookie);
	}
}

static bool tell_of_mrs(struct fabric_server *server, struct fabric_session *session)
{
	list_for_each_entry(struct fabric_mr, mr, &session->mrs, link) {
		unsigned n = mr->n_notes;

		if (n) {
			mr->n_notes = 0;
			server->events->notified(server->ctx, session->cookie,
						 mr->cookie, mr->note, n - 1);
			return true;
		}
		if (mr->event) {
			tell_mr(server, mr);
			return true;
		}
	}
	return false;
}

static bool tell_of_channels(struct fabric_server *server,
			     struct fabric_session *session)
{
	list_for_each_entry(struct server_channel, channel, &session->channels, link) {
		uint32_t number = channel->number;
		const char *why = channel->why;

		if (channel->wire)
			continue;
		channel_free(channel);
		server->events->channel_down(server->ctx, session->cookie, number, why);
		return true;
	}
	return false;
}

/* Tell of one event; false: there is none. */
static bool tell(struct fabric_server *server)
{
	struct wire *wire = list_first(&server->asking, struct wire, asking);

	if (wire) {
		tell_asking(server, wire);
		return true;
	}
	list_for_each_entry(struct fabric_session, session, &server->sessions, link) {
		if (session->refused) {
			uint64_t n = session->refused;

			session->refused = 0;
			server->events->access_refused(server->ctx, session->cookie, n);
			return true;
		}
		if (tell_of_mrs(server, session) || tell_of_channels(server, session))
			return true;
		if (session->closing && list_empty(&session->mrs)) {
			void *cookie = session->cookie;

			list_remove(&session->link);
			free(session);
			server->events->session_closed(server->ctx, cookie);
			return true;
		}
	}
	return false;
}

static void server_process(struct fabric_server *server)
{
	eventfd_t count;

	(void)eventfd_read(server->fd, &count);
	while (tell(server))
		;
}

/* ---- what the daemon calls ---- */

static struct fabric_server *
server_new(enum fabric_kind kind, const struct fabric_server_events *events, void *ctx)
{
	struct fabric_server *server = sim_alloc(sizeof(*server));

	server->events = events;
	server->ctx = ctx;
	server->kind = kind;
	server->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	list_init(&server->sessions);
	list_init(&server->asking);
	servers[kind == FABRIC_VERBS] = server;
	return server;
}

static void endpoint_add(struct fabric_server *server, const char *device)
{
	struct fabric_endpoint *endpoint = &server->endpoints[server->n_endpoints++];

	*endpoint = (struct fabric_endpoint){
		.kind = server->kind,
		.address = { .family = 4, .bytes = { 192, 0, 2, 200 }, .port = 7461 },
		.flags = FABRIC_ENDPOINT_ATOMICS | FABRIC_ENDPOINT_INBAND,
		.node = -1,
	};
	(void)snprintf(endpoint->device, sizeof(endpoint->device), "%s", device);
}

static int verbs_open(const struct fabric_server_params *,
		      const struct fabric_server_events *events, void *ctx,
		      struct fabric_server **ret_server)
{
	*ret_server = server_new(FABRIC_VERBS, events, ctx);
	endpoint_add(*ret_server, "sim0");
	endpoint_add(*ret_server, "sim1");
	return 0;
}

static int tcp_open(const struct fabric_server_params *,
		    const struct fabric_server_events *events, void *ctx,
		    struct fabric_server **ret_server)
{
	*ret_server = server_new(FABRIC_TCP, events, ctx);
	endpoint_add(*ret_server, "");
	return 0;
}

static void server_close(struct fabric_server *server)
{
	list_for_each_entry_safe(struct wire, wire, &server->asking, asking) {
		list_remove(&wire->asking);
		refuse(wire, -ECONNRESET);
	}
	list_for_each_entry_safe(struct fabric_session, session, &server->sessions,
				 link) {
		list_for_each_entry_safe(struct fabric_mr, mr, &session->mrs, link)
			key_free(mr);
		channels_free(session);
		list_remove(&session->link);
		free(session);
	}
	servers[server->kind == FABRIC_VERBS] = NULL;
	(void)close(server->fd);
	free(server);
}

static int server_fd(const struct fabric_server *server)
{
	return server->fd;
}

static unsigned n_endpoints(const struct fabric_server *server)
{
	return server->n_endpoints;
}

static const struct fabric_endpoint *endpoint(const struct fabric_server *server,
					      unsigned i)
{
	return &server->endpoints[i];
}

static int session_open(struct fabric_server *server, unsigned i, void *cookie,
			struct fabric_session **ret_session)
{
	struct fabric_session *session;

	if (sim_now_ns < sim_faults.registration_ns && sim_chance(sim_faults.one_in))
		return err_set(-ENOMEM, "the simulated device has no room");
	session = sim_alloc(sizeof(*session));
	session->server = server;
	session->endpoint = i;
	session->cookie = cookie;
	session->until_ns = SIM_NEVER;
	list_init(&session->mrs);
	list_init(&session->channels);
	list_append(&server->sessions, &session->link);
	*ret_session = session;
	return 0;
}

static void session_close(struct fabric_session *session)
{
	daemon_point();
	session->closing = true;
	channels_free(session);
	wake(session->server);
}

static void session_extend(struct fabric_session *session, uint64_t until_ns)
{
	session->until_ns = until_ns;
}

static int channel_close(struct fabric_session *session, uint32_t number)
{
	list_for_each_entry_safe(struct server_channel, channel, &session->channels,
				 link) {
		if (channel->number == number)
			channel_free(channel);
	}
	return 0;
}

/* clang-format off */
#define SIM_OPS                                                              \
	.close = server_close, .fd = server_fd, .process = server_process,   \
	.n_endpoints = n_endpoints, .endpoint = endpoint,                    \
	.session_open = session_open, .session_close = session_close,        \
	.channel_close = channel_close
/* clang-format on */

const struct fabric_server_ops sim_verbs_server = {
	.name = "rdma",
	.kind = FABRIC_VERBS,
	.open = verbs_open,
	.reg_mr = reg_mr,
	.dereg_mr = dereg_mr,
	SIM_OPS,
};

const struct fabric_server_ops sim_tcp_server = {
	.name = "tcp",
	.kind = FABRIC_TCP,
	.open = tcp_open,
	.session_extend = session_extend,
	.reg_mr = reg_mr_now,
	.dereg_mr = dereg_mr_now,
	SIM_OPS,
};

/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/librmem/fake-server.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/err.h"
#include "unit/librmem/fake-fabric-wire.h"

#define CALL_FAILS "the fake fails the call"
#define EVENT_FAILS "the fake fails the event"

struct fabric_endpoint fake_endpoints[WIRE_ENDPOINTS_MAX];
unsigned n_fake_endpoints;
struct fake_server_hooks fake_server_hooks;

/* All under the lock of the fake fabric. */
struct list fake_sessions = LIST_INIT(fake_sessions), fake_mrs = LIST_INIT(fake_mrs);
static struct list servers = LIST_INIT(servers);
static pthread_cond_t connect_done = PTHREAD_COND_INITIALIZER;
static uint64_t next_rkey = 100;

void fake_server_wake(const struct fabric_server *server)
{
	(void)eventfd_write(server->fd, 1);
}

static int no_memory(void)
{
	return err_set(-ENOMEM, "no memory for the fake server");
}

/* ---- channels ---- */

static void channel_free(struct server_channel *channel)
{
	list_remove(&channel->link);
	free(channel);
}

static void channel_end(struct server_channel *channel)
{
	struct fabric_channel *client = channel->client;

	if (client && fake_server_hooks.gone) {
		fake_server_hooks.gone(client);
	} else if (client) {
		client->peer = NULL;
		wire_peer_gone(client);
	}
	channel_free(channel);
}

static void channels_end(struct fabric_session *session)
{
	list_for_each_entry_safe(struct server_channel, channel, &session->channels,
				 link)
		channel_end(channel);
}

/* Tell the client that waits; an error ends the channel. */
static void channel_answer(struct server_channel *channel, int err)
{
	struct fabric_channel *client = channel->client;

	if (fake_server_hooks.admitted) {
		fake_server_hooks.admitted(client, err);
	} else {
		client->connect_err = err;
		if (err)
			client->peer = NULL;
		(void)pthread_cond_broadcast(&connect_done);
	}
	if (err)
		channel_free(channel);
}

/* The channel with this queue pair, or, if qpn is 0, with this number; NULL: none. */
static struct server_channel *channel_find(uint32_t number, uint32_t qpn)
{
	list_for_each_entry(struct fabric_session, session, &fake_sessions, link)
		list_for_each_entry(struct server_channel, channel, &session->channels,
				    link)
			if (qpn ? channel->qpn == qpn : channel->number == number)
				return channel;
	return NULL;
}

/* ---- clients ---- */

static struct fabric_server *server_find(const struct fabric_endpoint *to,
					 unsigned *ret_endpoint)
{
	struct fabric_server *found = NULL;

	list_for_each_entry(struct fabric_server, server, &servers, link)
		for (unsigned i = 0; i < server->n_endpoints; i++)
			if (server->endpoints[i].kind == to->kind &&
			    !strcmp(server->endpoints[i].device, to->device)) {
				found = server;
				*ret_endpoint = i;
			}
	return found;
}

struct server_channel *fake_server_ask(const struct fabric_endpoint *to,
				       const struct fabric_hello *hello, void *client)
{
	unsigned endpoint = 0;
	struct fabric_server *server = server_find(to, &endpoint);
	struct server_channel *channel = server ? calloc(1, sizeof(*channel)) : NULL;

	if (!channel)
		return NULL;
	*channel = (struct server_channel){ .server = server,
					    .endpoint = endpoint,
					    .hello = *hello,
					    .client = client,
					    .number = hello->channel };
	list_append(&server->asking, &channel->link);
	fake_server_wake(server);
	return channel;
}

void fake_server_leave(struct server_channel *channel, const char *why)
{
	channel->client = NULL;
	channel->why = why;
	if (channel->session)
		fake_server_wake(channel->server);
	else
		channel_free(channel);
}

/* The server's end exists already, or has ended again, which only the daemon reports. */
static void connect_direct(struct fabric_channel *client)
{
	struct server_channel *channel = channel_find(0, client->qpn);

	if (channel)
		channel->client = client;
	client->peer = channel;
}

static int connect_cm(struct fabric_channel *client)
{
	struct fabric_hello hello = client->hello;

	hello.peer = (struct fabric_address){ .family = 4, .bytes = { 127, 0, 0, 1 } };
	client->connect_err = -EINPROGRESS;
	client->peer = fake_server_ask(&client->cq->domain->endpoint, &hello, client);
	if (!client->peer)
		return err_set(-ECONNREFUSED, "the fake server is closed");
	while (client->connect_err == -EINPROGRESS)
		(void)pthread_cond_wait(&connect_done, &fake.lock);
	return client->connect_err
		       ? err_set(client->connect_err, "the fake server refused it")
		       : 0;
}

static int side_connect(struct fabric_channel *channel,
			const struct fabric_channel_params *)
{
	int err = 0;

	fake_lock();
	if (channel->qpn)
		connect_direct(channel);
	else
		err = connect_cm(channel);
	fake_unlock();
	return err;
}

static void side_disconnect(struct fabric_channel *client)
{
	fake_server_leave(client->peer, "");
	client->peer = NULL;
}

static bool side_allows(const struct fabric_channel *channel, const struct fake_wr *wr)
{
	return fake_server_allows(channel->peer, wr);
}

static const struct fake_server_side server_side = {
	.connect = side_connect,
	.disconnect = side_disconnect,
	.allows = side_allows,
};

/* ---- keys ---- */

struct fabric_mr *fake_mr_find(uint64_t rkey)
{
	list_for_each_entry(struct fabric_mr, mr, &fake_mrs, link)
		if (mr->rkey == rkey)
			return mr;
	return NULL;
}

bool fake_mr_works(const struct fabric_mr *mr)
{
	return !mr->session->closing &&
	       (mr->state == FAKE_MR_LIVE || mr->state == FAKE_MR_DYING);
}

static bool reaches(const struct server_channel *channel, uint64_t rkey, uint64_t addr,
		    uint64_t bytes, unsigned rights)
{
	const struct fabric_mr *mr = fake_mr_find(rkey);
	uint64_t offset = addr - (mr ? (uintptr_t)mr->addr : 0);

	if (!mr || mr->session != channel->session || !fake_mr_works(mr) ||
	    offset > mr->bytes || bytes > mr->bytes - offset ||
	    (mr->rights & rights) != rights)
		return false;
	if (fake_server_hooks.at_access)
		fake_server_hooks.at_access(channel, mr, mr->addr + offset, bytes);
	return true;
}

static unsigned rights_for(enum fabric_opcode opcode)
{
	if (opcode == FABRIC_READ || opcode == FABRIC_CRC)
		return FABRIC_RIGHT_READ;
	if (opcode == FABRIC_CAS || opcode == FABRIC_FETCH_ADD)
		return FABRIC_RIGHT_READ | FABRIC_RIGHT_WRITE;
	return FABRIC_RIGHT_WRITE;
}

bool fake_server_allows(const struct server_channel *channel, const struct fake_wr *wr)
{
	const struct fabric_key *source = &wr->request.source;

	/* a device checks no key for a write without bytes */
	if (wr->opcode == FABRIC_PING || (wr->opcode == FABRIC_WRITE && wr->bytes == 0))
		return true;
	return reaches(channel, wr->rkey, wr->remote_addr, wr->bytes,
		       rights_for(wr->opcode)) &&
	       (wr->opcode != FABRIC_COPY ||
		reaches(channel, source->rkey, source->addr, wr->bytes,
			FABRIC_RIGHT_READ));
}

static void mr_free(struct fabric_mr *mr)
{
	fake_lock();
	mr->session->n_mrs--;
	list_remove(&mr->link);
	fake_unlock();
	free(mr);
}

static struct fabric_key key_of(const struct fabric_mr *mr)
{
	return (struct fabric_key){ .addr = (uintptr_t)mr->addr, .rkey = mr->rkey };
}

/* ---- events ---- */

static void mr_tell_state(struct fabric_mr *mr)
{
	const struct fabric_server_events *events = mr->session->server->events;
	void *ctx = mr->session->server->ctx, *cookie = mr->cookie;
	const struct fabric_key key = key_of(mr);
	bool dying = mr->state >= FAKE_MR_DYING;
	int err = mr->err;

	mr->event = false;
	if (!dying && !err) {
		mr->state = FAKE_MR_LIVE;
		events->mr_registered(ctx, cookie, 0, "", &key);
		return;
	}
	mr_free(mr);
	if (dying)
		events->mr_deregistered(ctx, cookie);
	else
		events->mr_registered(ctx, cookie, err, EVENT_FAILS, NULL);
}

void fake_mr_tell(struct fabric_mr *mr)
{
	const struct fabric_session *session = mr->session;
	unsigned n = mr->n_notes;

	if (n == 0) {
		mr_tell_state(mr);
		return;
	}
	mr->n_notes = 0;
	session->server->events->notified(session->server->ctx, session->cookie,
					  mr->cookie, mr->note, n - 1);
}

bool fake_session_is_closed(const struct fabric_session *session)
{
	return session->closing && session->n_mrs == 0;
}

static void session_free(struct fabric_session *session)
{
	channels_end(session);
	list_remove(&session->link);
	free(session);
}

void fake_session_tell(struct fabric_session *session)
{
	const struct fabric_server *server = session->server;
	void *cookie = session->cookie;

	fake_lock();
	session_free(session);
	fake_unlock();
	server->events->session_closed(server->ctx, cookie);
}

static void channel_admit(struct server_channel *channel)
{
	const struct fabric_server *server = channel->server;
	struct fabric_session *session = NULL;
	uint32_t number = channel->number;
	int err = server->events->admit(server->ctx, channel->endpoint, &channel->hello,
					&session);

	fake_lock();
	channel->session = session;
	if (!err)
		list_move(&session->channels, &channel->link);
	channel_answer(channel, err);
	fake_unlock();
	if (!err)
		server->events->channel_up(server->ctx, session->cookie, number);
}

/* Forget a channel that its client has left; false: there is none. */
static bool channel_forget(struct fabric_session *session, uint32_t *ret_number,
			   const char **ret_why)
{
	list_for_each_entry(struct server_channel, channel, &session->channels, link) {
		if (channel->client || channel->qpn)
			continue;
		*ret_number = channel->number;
		*ret_why = channel->why;
		channel_free(channel);
		return true;
	}
	return false;
}

static bool tell_of_channels(struct fabric_session *session)
{
	const struct fabric_server *server = session->server;
	const char *why;
	uint32_t number;
	bool found;

	fake_lock();
	found = channel_forget(session, &number, &why);
	fake_unlock();
	if (found)
		server->events->channel_down(server->ctx, session->cookie, number, why);
	return found;
}

static bool tell_of_session(struct fabric_session *session)
{
	const struct fabric_server *server = session->server;
	uint64_t n = session->refused;

	session->refused = 0;
	if (n)
		server->events->access_refused(server->ctx, session->cookie, n);
	else if (fake_session_is_closed(session))
		fake_session_tell(session);
	else
		return tell_of_channels(session);
	return true;
}

/* Tell of one event; false: there is none. */
static bool tell(const struct fabric_server *server)
{
	struct server_channel *asking;

	fake_lock();
	asking = list_first(&server->asking, struct server_channel, link);
	fake_unlock();
	if (asking) {
		channel_admit(asking);
		return true;
	}
	list_for_each_entry(struct fabric_mr, mr, &fake_mrs, link)
		if (mr->session->server == server && (mr->n_notes || mr->event)) {
			fake_mr_tell(mr);
			return true;
		}
	list_for_each_entry(struct fabric_session, session, &fake_sessions, link)
		if (session->server == server && tell_of_session(session))
			return true;
	return false;
}

static struct fabric_mr *mr_get(uint64_t rkey)
{
	struct fabric_mr *mr = fake_mr_find(rkey);

	assert(mr);
	return mr;
}

void fake_server_notify(uint64_t rkey, uint32_t value, uint32_t lost)
{
	const struct fabric_session *session;
	const struct fabric_mr *mr;

	fake_lock();
	mr = mr_get(rkey);
	fake_unlock();
	/* only this thread deregisters it */
	session = mr->session;
	session->server->events->notified(session->server->ctx, session->cookie,
					  mr->cookie, value, lost);
}

void fake_server_replace_key(uint64_t rkey)
{
	fake_lock();
	mr_get(rkey)->rkey = next_rkey++;
	fake_unlock();
}

void fake_server_end_channel(uint32_t number)
{
	const struct fabric_session *session;
	struct server_channel *channel;
	struct fabric_channel *client;

	fake_lock();
	channel = channel_find(number, 0);
	assert(channel);
	session = channel->session;
	client = channel->client;
	if (client)
		client->peer = NULL;
	channel_free(channel);
	fake_unlock();
	session->server->events->channel_down(session->server->ctx, session->cookie,
					      number, "the test ended it");
}

/* ---- the functions that the daemon calls ---- */

static int server_open(enum fabric_kind kind, const struct fabric_server_events *events,
		       void *ctx, struct fabric_server **ret_server)
{
	struct fabric_server *server = calloc(1, sizeof(*server));

	if (!server)
		return no_memory();
	*server = (struct fabric_server){ .events = events,
					  .ctx = ctx,
					  .kind = kind,
					  .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
					  .endpoints = fake_endpoints,
					  .n_endpoints = n_fake_endpoints };
	list_init(&server->asking);
	if (fake_server_hooks.at_open)
		fake_server_hooks.at_open(server);
	fake_lock();
	list_append(&servers, &server->link);
	if (!fake.server)
		fake.server = &server_side;
	fake_unlock();
	*ret_server = server;
	return 0;
}

static int verbs_open(const struct fabric_server_params *,
		      const struct fabric_server_events *events, void *ctx,
		      struct fabric_server **ret_server)
{
	return server_open(FABRIC_VERBS, events, ctx, ret_server);
}

static int tcp_open(const struct fabric_server_params *,
		    const struct fabric_server_events *events, void *ctx,
		    struct fabric_server **ret_server)
{
	return server_open(FABRIC_TCP, events, ctx, ret_server);
}

void fake_server_clear(struct fabric_server *server)
{
	list_for_each_entry_safe(struct fabric_mr, mr, &fake_mrs, link)
		if (mr->session->server == server)
			mr_free(mr);
	fake_lock();
	list_for_each_entry_safe(struct fabric_session, session, &fake_sessions, link)
		if (session->server == server)
			session_free(session);
	list_for_each_entry_safe(struct server_channel, channel, &server->asking, link)
		channel_answer(channel, -ECONNRESET);
	fake_unlock();
}

static void server_close(struct fabric_server *server)
{
	fake_server_clear(server);
	fake_lock();
	list_remove(&server->link);
	fake_unlock();
	(void)close(server->fd);
	free(server);
}

static int server_fd(const struct fabric_server *server)
{
	return server->fd;
}

static void process(struct fabric_server *server)
{
	eventfd_t count;

	(void)eventfd_read(server->fd, &count);
	while (tell(server))
		;
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

static int session_open(struct fabric_server *server, unsigned, void *cookie,
			struct fabric_session **ret_session)
{
	struct fabric_session *session;
	int err = fake_server_hooks.at_session_open
			  ? fake_server_hooks.at_session_open()
			  : 0;

	if (err)
		return err_set(err, CALL_FAILS);
	session = calloc(1, sizeof(*session));
	if (!session)
		return no_memory();
	session->server = server;
	session->cookie = cookie;
	list_init(&session->channels);
	fake_lock();
	list_append(&fake_sessions, &session->link);
	fake_unlock();
	*ret_session = session;
	return 0;
}

static void session_close(struct fabric_session *session)
{
	assert(!session->closing);
	if (fake_server_hooks.at_session_close)
		fake_server_hooks.at_session_close();
	fake_lock();
	session->closing = true;
	channels_end(session);
	fake_unlock();
	fake_server_wake(session->server);
}

static void session_extend(struct fabric_session *session, uint64_t until_ns)
{
	assert(!session->closing);
	session->until_ns = until_ns;
}

static int channel_close(struct fabric_session *session, uint32_t number)
{
	int err = fake_server_hooks.at_channel_close
			  ? fake_server_hooks.at_channel_close()
			  : 0;

	assert(!session->closing);
	if (err)
		return err_set(err, CALL_FAILS);
	fake_lock();
	list_for_each_entry_safe(struct server_channel, channel, &session->channels,
				 link)
		if (channel->number == number)
			channel_end(channel);
	fake_unlock();
	return 0;
}

/* The server's attributes are made from the client's. */
static int channel_connect(struct fabric_session *session, uint32_t number,
			   const struct fabric_qp_info *theirs)
{
	const struct fabric_server *server = session->server;
	struct fabric_qp_info ours = *theirs;
	struct server_channel *channel;
	int held = fake_server_hooks.at_channel_connect
			   ? fake_server_hooks.at_channel_connect(theirs)
			   : 0;

	assert(!session->closing);
	if (held)
		return held < 0 ? err_set(held, CALL_FAILS) : 0;
	channel = calloc(1, sizeof(*channel));
	if (!channel)
		return no_memory();
	*channel = (struct server_channel){ .server = session->server,
					    .session = session,
					    .number = number,
					    .qpn = theirs->qpn };
	fake_lock();
	list_append(&session->channels, &channel->link);
	fake_unlock();
	ours.qpn++;
	ours.mtu /= 2;
	server->events->channel_up(server->ctx, session->cookie, number);
	server->events->channel_connected(server->ctx, session->cookie, number, 0, "",
					  &ours);
	return 0;
}

static int reg_mr(struct fabric_session *session, void *addr, size_t bytes,
		  unsigned rights, void *cookie, struct fabric_mr **ret_mr,
		  struct fabric_key *ret_key)
{
	struct fabric_mr *mr = calloc(1, sizeof(*mr));
	int later = 0;

	assert(!session->closing && bytes > 0 && rights != 0);
	if (!mr)
		return no_memory();
	*mr = (struct fabric_mr){ .session = session,
				  .cookie = cookie,
				  .addr = addr,
				  .bytes = bytes,
				  .rights = rights };
	if (fake_server_hooks.at_reg)
		later = fake_server_hooks.at_reg(mr);
	if (later < 0 || (!later && mr->err)) {
		int err = later < 0 ? later : mr->err;

		free(mr);
		return err_set(err, later < 0 ? CALL_FAILS : EVENT_FAILS);
	}
	fake_lock();
	mr->rkey = next_rkey++;
	mr->state = later ? FAKE_MR_PENDING : FAKE_MR_LIVE;
	list_append(&fake_mrs, &mr->link);
	session->n_mrs++;
	fake_unlock();
	if (!later)
		*ret_key = key_of(mr);
	*ret_mr = mr;
	return !later;
}

static bool dereg_mr(struct fabric_mr *mr)
{
	assert(mr->state < FAKE_MR_DYING);
	mr->event = false;
	if (fake_server_hooks.at_dereg && fake_server_hooks.at_dereg(mr)) {
		if (mr->state != FAKE_MR_DEAD)
			mr->state = FAKE_MR_DYING;
		return false;
	}
	/* perhaps the session was closed, and this was its last key */
	fake_server_wake(mr->session->server);
	mr_free(mr);
	return true;
}

/* clang-format off */
#define FAKE_OPS                                                             \
	.close = server_close, .fd = server_fd, .process = process,          \
	.n_endpoints = n_endpoints, .endpoint = endpoint,                    \
	.session_open = session_open, .session_close = session_close,        \
	.channel_close = channel_close, .channel_connect = channel_connect,  \
	.reg_mr = reg_mr, .dereg_mr = dereg_mr
/* clang-format on */

const struct fabric_server_ops fake_verbs_server = {
	.name = "rdma",
	.kind = FABRIC_VERBS,
	.open = verbs_open,
	FAKE_OPS,
};

const struct fabric_server_ops fake_tcp_server = {
	.name = "tcp",
	.kind = FABRIC_TCP,
	.open = tcp_open,
	.session_extend = session_extend,
	FAKE_OPS,
};

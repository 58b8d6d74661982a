/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/librmem/fake-server.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/err.h"
#include "base/list.h"
#include "unit/librmem/fake-fabric-wire.h"

struct fabric_server {
	const struct fabric_server_events *events;
	void *ctx;
	int fd;
	struct list sessions, connects;
};

struct fabric_session {
	struct list link;
	void *cookie;
	bool closing;
	struct list mrs, channels;
};

struct server_channel {
	struct list link;
	struct fabric_channel *client; /* NULL: not connected yet, or ended */
	uint32_t number;
	uint32_t qpn; /* the client's; 0: connected by rdma_cm */
};

struct fabric_mr {
	struct list link;
	struct fabric_session *session;
	void *cookie;
	uint64_t addr, bytes, rkey;
	unsigned rights;
};

/* A client that waits until the daemon admits its channel. */
struct connect {
	struct list link;
	struct fabric_channel *channel;
	unsigned endpoint;
	bool done;
	int err;
};

struct fabric_endpoint fake_endpoints[WIRE_ENDPOINTS_MAX];
unsigned n_fake_endpoints;

/* All under the lock of the fake fabric. */
static struct fabric_server *server; /* NULL: not open */
static pthread_cond_t connect_done = PTHREAD_COND_INITIALIZER;
static uint64_t next_rkey = 100;

/* ---- channels ---- */

static void channel_end(struct server_channel *channel)
{
	if (channel->client) {
		channel->client->peer = NULL;
		wire_peer_gone(channel->client);
	}
	list_remove(&channel->link);
	free(channel);
}

static void channels_end(struct fabric_session *session)
{
	struct server_channel *channel;

	while ((channel = list_first(&session->channels, struct server_channel, link)))
		channel_end(channel);
}

static void channel_add(struct fabric_session *session, struct fabric_channel *client,
			uint32_t number, uint32_t qpn)
{
	struct server_channel *channel = calloc(1, sizeof(*channel));

	channel->client = client;
	channel->number = number;
	channel->qpn = qpn;
	list_append(&session->channels, &channel->link);
	if (client)
		client->peer = session;
}

/* The channel with this queue pair, or, if qpn is 0, with this number; NULL: none. */
static struct server_channel *channel_find(uint32_t number, uint32_t qpn,
					   struct fabric_session **ret_session)
{
	list_for_each_entry(struct fabric_session, session, &server->sessions, link) {
		*ret_session = session;
		list_for_each_entry(struct server_channel, channel, &session->channels,
				    link)
			if (qpn ? channel->qpn == qpn : channel->number == number)
				return channel;
	}
	return NULL;
}

/* The server's end exists already, or has ended again, which only the daemon reports. */
static void connect_direct(struct fabric_channel *client)
{
	struct fabric_session *session;
	struct server_channel *channel =
		server ? channel_find(0, client->qpn, &session) : NULL;

	if (!channel)
		return;
	channel->client = client;
	client->peer = session;
}

static int connect_cm(struct fabric_channel *channel)
{
	const struct fabric_endpoint *to = &channel->cq->domain->endpoint;
	struct connect connect = { .channel = channel };

	if (!server)
		return err_set(-ECONNREFUSED, "the fake server is closed");
	list_init(&connect.link);
	for (unsigned i = 0; i < n_fake_endpoints; i++)
		if (!strcmp(fake_endpoints[i].device, to->device))
			connect.endpoint = i;
	list_append(&server->connects, &connect.link);
	(void)eventfd_write(server->fd, 1);
	while (!connect.done)
		(void)pthread_cond_wait(&connect_done, &fake.lock);
	return connect.err ? err_set(connect.err, "the fake server refused it") : 0;
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
	struct fabric_session *session = client->peer;

	client->peer = NULL;
	list_for_each_entry(struct server_channel, channel, &session->channels, link) {
		if (channel->client == client)
			channel->client = NULL;
	}
	(void)eventfd_write(server->fd, 1);
}

/* ---- keys ---- */

static struct fabric_mr *mr_find(const struct fabric_session *session, uint64_t rkey)
{
	list_for_each_entry(struct fabric_mr, mr, &session->mrs, link) {
		if (mr->rkey == rkey)
			return mr;
	}
	return NULL;
}

static bool access_allowed(const struct fabric_session *session, uint64_t rkey,
			   uint64_t addr, uint64_t bytes, unsigned rights)
{
	const struct fabric_mr *mr = mr_find(session, rkey);

	return mr && addr >= mr->addr && addr + bytes <= mr->addr + mr->bytes &&
	       (mr->rights & rights) == rights;
}

static unsigned rights_for(enum fabric_opcode opcode)
{
	if (opcode == FABRIC_READ || opcode == FABRIC_CRC)
		return FABRIC_RIGHT_READ;
	if (opcode == FABRIC_CAS || opcode == FABRIC_FETCH_ADD)
		return FABRIC_RIGHT_READ | FABRIC_RIGHT_WRITE;
	return FABRIC_RIGHT_WRITE;
}

static bool side_allows(const struct fabric_channel *channel, const struct fake_wr *wr)
{
	const struct fabric_session *session = channel->peer;

	/* a device checks no key for a write without bytes */
	if (wr->opcode == FABRIC_PING || (wr->opcode == FABRIC_WRITE && wr->bytes == 0))
		return true;
	if (!access_allowed(session, wr->rkey, wr->remote_addr, wr->bytes,
			    rights_for(wr->opcode)))
		return false;
	if (wr->opcode == FABRIC_COPY)
		return access_allowed(session, wr->request.source.rkey,
				      wr->request.source.addr, wr->bytes,
				      FABRIC_RIGHT_READ);
	return true;
}

static const struct fake_server_side server_side = {
	.connect = side_connect,
	.disconnect = side_disconnect,
	.allows = side_allows,
};

static struct fabric_mr *mr_find_any(uint64_t rkey)
{
	struct fabric_mr *mr = NULL;

	list_for_each_entry(struct fabric_session, session, &server->sessions, link) {
		mr = mr_find(session, rkey);
		if (mr)
			break;
	}
	ck_assert_ptr_nonnull(mr);
	return mr;
}

void fake_server_notify(uint64_t rkey, uint32_t value, uint32_t lost)
{
	struct fabric_mr *mr;

	fake_lock();
	mr = mr_find_any(rkey);
	fake_unlock();
	/* only this thread deregisters it */
	server->events->notified(server->ctx, mr->session->cookie, mr->cookie, value,
				 lost);
}

void fake_server_replace_key(uint64_t rkey)
{
	fake_lock();
	mr_find_any(rkey)->rkey = next_rkey++;
	fake_unlock();
}

void fake_server_end_channel(uint32_t number)
{
	struct server_channel *channel;
	struct fabric_session *session;

	fake_lock();
	channel = channel_find(number, 0, &session);
	ck_assert_ptr_nonnull(channel);
	if (channel->client)
		channel->client->peer = NULL;
	channel->client = NULL;
	channel_end(channel);
	fake_unlock();
	server->events->channel_down(server->ctx, session->cookie, number,
				     "the test ended it");
}

/* ---- the functions that the daemon calls ---- */

static int server_open(const struct fabric_server_params *params,
		       const struct fabric_server_events *events, void *ctx,
		       struct fabric_server **ret_server)
{
	struct fabric_server *opened = calloc(1, sizeof(*opened));

	(void)params;
	opened->events = events;
	opened->ctx = ctx;
	opened->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	list_init(&opened->sessions);
	list_init(&opened->connects);
	fake_lock();
	server = opened;
	fake.server = &server_side;
	fake_unlock();
	*ret_server = opened;
	return 0;
}

static void session_free(struct fabric_session *session)
{
	struct fabric_mr *mr;

	while ((mr = list_first(&session->mrs, struct fabric_mr, link))) {
		list_remove(&mr->link);
		free(mr);
	}
	channels_end(session);
	list_remove(&session->link);
	free(session);
}

static void server_close(struct fabric_server *closed)
{
	struct fabric_session *session;
	struct connect *connect;

	fake_lock();
	while ((session = list_first(&server->sessions, struct fabric_session, link)))
		session_free(session);
	while ((connect = list_first(&server->connects, struct connect, link))) {
		list_remove(&connect->link);
		connect->err = -ECONNRESET;
		connect->done = true;
	}
	server = NULL;
	(void)pthread_cond_broadcast(&connect_done);
	fake_unlock();
	(void)close(closed->fd);
	free(closed);
}

static int server_fd(const struct fabric_server *opened)
{
	return opened->fd;
}

static void connect_admit(struct connect *connect)
{
	struct fabric_hello hello = connect->channel->hello;
	unsigned endpoint = connect->endpoint;
	struct fabric_session *session = NULL;
	int err;

	hello.peer = (struct fabric_address){ .family = 4, .bytes = { 127, 0, 0, 1 } };
	fake_unlock();
	err = server->events->admit(server->ctx, endpoint, &hello, &session);
	fake_lock();
	list_remove(&connect->link);
	connect->done = true;
	connect->err = err;
	if (session)
		channel_add(session, connect->channel, hello.channel, 0);
	(void)pthread_cond_broadcast(&connect_done);
	if (!session)
		return;
	fake_unlock();
	server->events->channel_up(server->ctx, session->cookie, hello.channel);
	fake_lock();
}

/* End one channel that its client has ended; false: there is none. */
static bool channel_end_one(struct fabric_session *session)
{
	list_for_each_entry(struct server_channel, channel, &session->channels, link) {
		uint32_t number = channel->number;

		if (channel->client || channel->qpn)
			continue;
		channel_end(channel);
		fake_unlock();
		server->events->channel_down(server->ctx, session->cookie, number, "");
		fake_lock();
		return true;
	}
	return false;
}

static void session_finish(struct fabric_session *session)
{
	void *cookie = session->cookie;
	struct fabric_mr *mr;

	while ((mr = list_first(&session->mrs, struct fabric_mr, link))) {
		void *mr_cookie = mr->cookie;

		list_remove(&mr->link);
		free(mr);
		fake_unlock();
		server->events->mr_deregistered(server->ctx, mr_cookie);
		fake_lock();
	}
	session_free(session);
	fake_unlock();
	server->events->session_closed(server->ctx, cookie);
	fake_lock();
}

/* Process one event; false: there is none. */
static bool process_one(void)
{
	struct connect *connect = list_first(&server->connects, struct connect, link);

	if (connect) {
		connect_admit(connect);
		return true;
	}
	list_for_each_entry(struct fabric_session, session, &server->sessions, link) {
		if (session->closing) {
			session_finish(session);
			return true;
		}
		if (channel_end_one(session))
			return true;
	}
	return false;
}

static void process(struct fabric_server *opened)
{
	eventfd_t count;

	(void)eventfd_read(opened->fd, &count);
	fake_lock();
	while (process_one())
		;
	fake_unlock();
}

static unsigned n_endpoints(const struct fabric_server *opened)
{
	(void)opened;
	return n_fake_endpoints;
}

static const struct fabric_endpoint *endpoint(const struct fabric_server *opened,
					      unsigned i)
{
	(void)opened;
	return &fake_endpoints[i];
}

static int session_open(struct fabric_server *opened, unsigned endpoint, void *cookie,
			struct fabric_session **ret_session)
{
	struct fabric_session *session = calloc(1, sizeof(*session));

	(void)endpoint;
	session->cookie = cookie;
	list_init(&session->mrs);
	list_init(&session->channels);
	fake_lock();
	list_append(&opened->sessions, &session->link);
	fake_unlock();
	*ret_session = session;
	return 0;
}

static void session_close(struct fabric_session *session)
{
	fake_lock();
	session->closing = true;
	channels_end(session);
	fake_unlock();
	(void)eventfd_write(server->fd, 1);
}

static int channel_close(struct fabric_session *session, uint32_t number)
{
	fake_lock();
	list_for_each_entry_safe(struct server_channel, channel, &session->channels,
				 link) {
		if (channel->number == number)
			channel_end(channel);
	}
	fake_unlock();
	return 0;
}

static int channel_connect(struct fabric_session *session, uint32_t number,
			   const struct fabric_qp_info *theirs)
{
	struct fabric_qp_info ours = *theirs;

	fake_lock();
	channel_add(session, NULL, number, theirs->qpn);
	fake_unlock();
	ours.qpn++;
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

	mr->session = session;
	mr->cookie = cookie;
	mr->addr = (uintptr_t)addr;
	mr->bytes = bytes;
	mr->rights = rights;
	fake_lock();
	mr->rkey = next_rkey++;
	list_append(&session->mrs, &mr->link);
	fake_unlock();
	*ret_key = (struct fabric_key){ mr->addr, mr->rkey };
	*ret_mr = mr;
	return 1;
}

static bool dereg_mr(struct fabric_mr *mr)
{
	fake_lock();
	list_remove(&mr->link);
	fake_unlock();
	free(mr);
	return true;
}

const struct fabric_server_ops fake_server = {
	.name = "fake",
	.kind = FABRIC_VERBS,
	.open = server_open,
	.close = server_close,
	.fd = server_fd,
	.process = process,
	.n_endpoints = n_endpoints,
	.endpoint = endpoint,
	.session_open = session_open,
	.session_close = session_close,
	.channel_close = channel_close,
	.channel_connect = channel_connect,
	.reg_mr = reg_mr,
	.dereg_mr = dereg_mr,
};

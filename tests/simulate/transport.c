/* SPDX-License-Identifier: BSD-3-Clause */
#include "simulate/transport.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/list.h"
#include "rmemd/control/connection.h"
#include "rmemd/control/request.h"
#include "rmemd/control/session.h"
#include "simulate/checks.h"
#include "simulate/daemon.h"
#include "simulate/fds.h"
#include "wire/codec.h"

#define IN_BYTES (2 * (size_t)WIRE_FRAME_MAX)
#define OUT_BYTES (4 * (size_t)WIRE_FRAME_MAX)

struct connections {
	struct control *control;
	struct list all;
};

struct peer {
	struct connection connection;
	struct list link;
	struct socket *socket;
	bool authenticated, end_soon;
	bool was_busy;
	uint64_t deadline_ns; /* of the hello, or of sending the last messages */
	size_t in_bytes, out_bytes;
	uint8_t in[IN_BYTES], out[OUT_BYTES];
};

static struct peer *peer_of(struct connection *connection)
{
	return container_of(connection, struct peer, connection);
}

static void peer_free(struct peer *peer, const char *why)
{
	session_connection_lost(&peer->connection, why);
	list_remove(&peer->link);
	socket_close(peer->socket);
	free(peer);
}

static void peer_flush(struct peer *peer)
{
	while (peer->out_bytes > 0) {
		ssize_t n = socket_send(peer->socket, peer->out, peer->out_bytes);

		if (n < 0 && errno != EAGAIN)
			peer->end_soon = true;
		if (n <= 0)
			return;
		peer->out_bytes -= (size_t)n;
		memmove(peer->out, peer->out + n, peer->out_bytes);
	}
	if (peer->connection.closed)
		socket_shut(peer->socket);
}

/* ---- what the daemon calls ---- */

static void op_send(struct connection *connection, const struct wire_msg *msg)
{
	static uint8_t frame[WIRE_FRAME_MAX];
	struct peer *peer = peer_of(connection);
	int bytes;

	if (connection->closed)
		return;
	bytes = wire_encode(msg, frame, sizeof(frame));
	if (bytes < 0)
		sim_fail("a message %s does not fit a frame",
			 wire_type_name(msg->type));
	daemon_point();
	if (daemon_is_dead())
		return;
	check_message(connection, msg);
	sim_note("  client %u <- %s %llu%s%s", socket_client(peer->socket),
		 wire_type_name(msg->type), (unsigned long long)msg->id,
		 msg->type == WIRE_TYPE_error ? ": " : "",
		 msg->type == WIRE_TYPE_error ? msg->error.text : "");
	if (peer->out_bytes + (size_t)bytes > OUT_BYTES) {
		connection->closed = true;
		peer->end_soon = true;
		return;
	}
	memcpy(peer->out + peer->out_bytes, frame, (size_t)bytes);
	peer->out_bytes += (size_t)bytes;
	peer_flush(peer);
	peer->was_busy = peer->out_bytes > 0;
}

static void op_close(struct connection *connection)
{
	struct peer *peer = peer_of(connection);

	peer->authenticated = false;
	peer->deadline_ns = sim_now_ns + CONNECTION_LINGER_MS * SIM_MS;
	peer_flush(peer);
}

static void op_authenticated(struct connection *connection)
{
	struct peer *peer = peer_of(connection);

	if (connection->closed)
		return;
	peer->authenticated = true;
	peer->deadline_ns = SIM_NEVER;
}

static bool op_busy(struct connection *connection)
{
	return peer_of(connection)->out_bytes > 0;
}

/* Whether a whole frame has come. */
static bool has_frame(const struct peer *peer)
{
	int bytes =
		peer->in_bytes >= 4 ? wire_frame_bytes(peer->in, peer->in_bytes) : 0;

	return bytes < 0 || (bytes > 0 && (size_t)bytes <= peer->in_bytes);
}

static bool readable(const struct socket *socket)
{
	return socket_events(socket) & POLLIN;
}

static bool op_unread(struct connection *connection)
{
	const struct peer *peer = peer_of(connection);

	return has_frame(peer) ||
	       (readable(peer->socket) && !socket_ended(peer->socket));
}

static bool op_abandoned(struct connection *connection)
{
	return socket_ended(peer_of(connection)->socket);
}

static int op_identify(struct connection *, const char *)
{
	return 0;
}

static bool op_secret(struct connection *, uint8_t *)
{
	return false;
}

static const struct connection_ops ops = {
	.send = op_send,
	.close = op_close,
	.authenticated = op_authenticated,
	.busy = op_busy,
	.unread = op_unread,
	.identify = op_identify,
	.secret = op_secret,
	.abandoned = op_abandoned,
};

int connections_open(struct control *control, struct connections **ret_connections)
{
	struct connections *connections = sim_alloc(sizeof(*connections));

	connections->control = control;
	list_init(&connections->all);
	*ret_connections = connections;
	return 0;
}

void connections_close(struct connections *connections)
{
	if (!connections)
		return;
	list_for_each_entry_safe(struct peer, peer, &connections->all, link)
		peer_free(peer, "the daemon ends");
	free(connections);
}

int connection_accept(struct connections *, int, const struct fabric_address *)
{
	sim_fail("a listener of sockets is open");
}

void connections_drain(struct connections *connections)
{
	list_for_each_entry_safe(struct peer, peer, &connections->all, link)
		connection_close(&peer->connection);
}

/* There are no keys that could be removed. */
void connections_recheck(struct connections *)
{
}

bool connections_drained(const struct connections *connections)
{
	return list_empty(&connections->all);
}

/* ---- turns of the loop ---- */

static void peer_accept(struct connections *connections, struct socket *socket)
{
	const struct fabric_address address = {
		.family = 4, .bytes = { 192, 0, 2, (uint8_t)socket_client(socket) }
	};
	struct peer *peer = sim_alloc(sizeof(*peer));

	connection_init(&peer->connection, &ops, connections->control, &address);
	peer->socket = socket;
	peer->deadline_ns = sim_now_ns + CONNECTION_HELLO_MS * SIM_MS;
	list_append(&connections->all, &peer->link);
}

/* Handle one frame; false: there is none, or none to be handled now. */
static bool peer_handle(struct peer *peer)
{
	struct connection *connection = &peer->connection;
	static uint8_t frame[WIRE_FRAME_MAX];
	int bytes;

	if (connection->closed || connection->hello_pending || !has_frame(peer))
		return false;
	bytes = wire_frame_bytes(peer->in, peer->in_bytes);
	if (bytes < 0) {
		connection_refuse(connection, 0, REFUSAL_PROTOCOL, bytes, err_text());
		return false;
	}
	memcpy(frame, peer->in, (size_t)bytes);
	peer->in_bytes -= (size_t)bytes;
	memmove(peer->in, peer->in + bytes, peer->in_bytes);
	sim_note("  client %u -> %s", socket_client(peer->socket),
		 wire_type_name(wire_frame_type(frame)));
	dispatch_frame(connection, frame, (size_t)bytes);
	return true;
}

/* False: the connection has ended. */
static bool peer_receive(struct peer *peer)
{
	ssize_t n;

	if (!readable(peer->socket) || peer->in_bytes == IN_BYTES)
		return true;
	n = socket_receive(peer->socket, peer->in + peer->in_bytes,
			   IN_BYTES - peer->in_bytes);
	if (n > 0)
		peer->in_bytes += (size_t)n;
	if (peer->connection.closed)
		peer->in_bytes = 0;
	if (n > 0 || (n < 0 && errno == EAGAIN))
		return true;
	peer_free(peer, n < 0 ? "it was reset" : "the client closed it");
	return false;
}

static bool peer_may_handle(const struct peer *peer)
{
	return !peer->connection.closed && !peer->connection.hello_pending &&
	       has_frame(peer);
}

static bool may_write(const struct peer *peer)
{
	return peer->out_bytes > 0 && (socket_events(peer->socket) & POLLOUT);
}

static void peer_turn(struct peer *peer)
{
	uint64_t frames = 1 + sim_random(4);

	if (!peer_receive(peer))
		return;
	while (frames-- > 0 && peer_handle(peer))
		;
	if (peer->end_soon || peer->deadline_ns <= sim_now_ns) {
		peer_free(peer, "its time is over");
		return;
	}
	peer_flush(peer);
	if (peer->was_busy && !peer->out_bytes && !peer->connection.closed) {
		peer->was_busy = false;
		session_connection_idle(&peer->connection);
	}
}

bool transport_ready(struct connections *connections)
{
	if (network_accept_waits())
		return true;
	list_for_each_entry(const struct peer, peer, &connections->all, link) {
		if ((readable(peer->socket) && peer->in_bytes < IN_BYTES) ||
		    peer_may_handle(peer) || may_write(peer) || peer->end_soon ||
		    peer->deadline_ns <= sim_now_ns)
			return true;
	}
	return false;
}

uint64_t transport_due_ns(struct connections *connections)
{
	uint64_t due = SIM_NEVER;

	list_for_each_entry(const struct peer, peer, &connections->all, link) {
		if (peer->deadline_ns < due)
			due = peer->deadline_ns;
	}
	return due;
}

void transport_turn(struct connections *connections)
{
	struct socket *socket;

	while ((socket = network_accept()))
		peer_accept(connections, socket);
	list_for_each_entry_safe(struct peer, peer, &connections->all, link)
		peer_turn(peer);
}

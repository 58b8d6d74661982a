/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/connection.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/util.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"
#include "base/log.h"
#include "rmemd/control/dispatch.h"
#include "rmemd/control/peer.h"
#include "wire/codec.h"

/* What one client's requests may take before others get their turn. */
#define TURN_NS UINT64_C(1000000)

struct connections {
	struct event_base *base;
	struct control *control;
	struct list welcome;   /* with a session */
	struct list strangers; /* without one, the oldest first */
	unsigned n_strangers;
	struct event *empty; /* the last one has ended */
	void (*drained)(void *ctx);
	void *drained_ctx;
	uint8_t frame[WIRE_FRAME_MAX];
};

struct connection {
	struct peer peer;
	struct connections *connections;
	struct list link;
	struct bufferevent *bev;
	struct event *deadline; /* for the hello, or for the last words */
	bool stranger;
	bool hung_up;         /* our side is shut */
	size_t handled_bytes; /* of the frame at the input's start, while it is handled */
	const char *why;
};

static struct connection *connection_of(struct peer *peer)
{
	return container_of(peer, struct connection, peer);
}

static void on_drained(evutil_socket_t fd, short what, void *arg)
{
	struct connections *connections = arg;

	(void)fd;
	(void)what;
	connections->drained(connections->drained_ctx);
}

static void check_drained(struct connections *connections)
{
	if (connections->drained && list_empty(&connections->welcome) &&
	    list_empty(&connections->strangers))
		event_active(connections->empty, EV_TIMEOUT, 0);
}

static void connection_free(struct connection *connection, const char *why)
{
	struct connections *connections = connection->connections;

	peer_gone(&connection->peer, why);
	if (connection->stranger)
		connections->n_strangers--;
	list_remove(&connection->link);
	if (connection->deadline)
		event_free(connection->deadline);
	if (connection->bev)
		bufferevent_free(connection->bev);
	free(connection);
	check_drained(connections);
}

static void set_deadline(struct connection *connection, unsigned ms)
{
	struct timeval tv = { .tv_sec = ms / 1000, .tv_usec = (ms % 1000) * 1000 };

	/* Only memory can fail it, and the event has had its place in the heap before. */
	(void)event_add(connection->deadline, &tv);
}

/* End it from the loop, whoever is on the stack now. */
static void end_soon(struct connection *connection, const char *why)
{
	connection->peer.closed = true;
	connection->why = why;
	event_active(connection->deadline, EV_TIMEOUT, 0);
}

/* It had its time, or its place is needed. */
static void turn_away(struct connection *connection, const char *why)
{
	struct control *control = connection->peer.control;
	uint64_t dropped;

	if (!connection->peer.closed) {
		control->counters.connections_refused++;
		if (quiet_pass(&control->refusals, &dropped))
			log_event(LOG_NOTICE, "connection-refused",
				  &(struct log_ctx){ .peer = connection->peer.name },
				  "%s (%" PRIu64 " such lines left out)", why, dropped);
	}
	connection_free(connection, why);
}

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
	struct connection *connection = arg;

	(void)fd;
	(void)what;
	turn_away(connection, connection->why);
}

/* The answer to a lone request, a heartbeat above all, need not take a turn of the loop and
 * two changes of what is polled for: that halves what idle sessions cost.  Only while the
 * bytes on the wire are the frames themselves.  Returns how many bytes went out. */
static size_t send_at_once(struct connection *connection, const uint8_t *frame,
			   size_t bytes)
{
	struct evbuffer *input = bufferevent_get_input(connection->bev);
	ssize_t n;

	if (evbuffer_get_length(bufferevent_get_output(connection->bev)) > 0 ||
	    evbuffer_get_length(input) > connection->handled_bytes)
		return 0;
	n = send(bufferevent_getfd(connection->bev), frame, bytes,
		 MSG_DONTWAIT | MSG_NOSIGNAL);
	/* what is wrong with the socket its event will tell */
	return n > 0 ? (size_t)n : 0;
}

static void peer_op_send(struct peer *peer, const struct wire_msg *msg)
{
	struct connection *connection = connection_of(peer);
	struct evbuffer *output = bufferevent_get_output(connection->bev);
	uint8_t *frame = connection->connections->frame;
	size_t sent;
	int bytes;

	if (peer->closed)
		return;
	bytes = wire_encode(msg, frame, WIRE_FRAME_MAX);
	if (bytes < 0) {
		log_event(LOG_ERR, "reply-too-large",
			  &(struct log_ctx){ .peer = peer->name },
			  "%s does not fit a frame", wire_type_name(msg->type));
		end_soon(connection, "an answer does not fit a frame");
		return;
	}
	if (evbuffer_get_length(output) + (size_t)bytes > CONNECTION_OUTPUT_MAX) {
		end_soon(connection, "the client does not read its answers");
		return;
	}
	sent = send_at_once(connection, frame, (size_t)bytes);
	if (sent < (size_t)bytes &&
	    evbuffer_add(output, frame + sent, (size_t)bytes - sent))
		end_soon(connection, "no memory for an answer");
}

static void become_stranger(struct connection *connection)
{
	struct connections *connections = connection->connections;

	connection->stranger = true;
	connections->n_strangers++;
	list_remove(&connection->link);
	list_append(&connections->strangers, &connection->link);
}

/* All is said: tell the client by an end of file, and let it read what is on its way; a
 * close now could take that back. */
static void hang_up(struct connection *connection)
{
	if (connection->hung_up)
		return;
	connection->hung_up = true;
	(void)shutdown(bufferevent_getfd(connection->bev), SHUT_WR);
}

static void peer_op_close(struct peer *peer)
{
	struct connection *connection = connection_of(peer);
	struct evbuffer *output = bufferevent_get_output(connection->bev);

	if (!connection->stranger)
		become_stranger(connection);
	connection->why = "closed";
	set_deadline(connection, CONNECTION_LINGER_MS);
	if (evbuffer_get_length(output) == 0)
		hang_up(connection);
	/* what is still to come is read and thrown away */
	bufferevent_trigger(connection->bev, EV_READ,
			    BEV_TRIG_IGNORE_WATERMARKS | BEV_TRIG_DEFER_CALLBACKS);
}

static void peer_op_greeted(struct peer *peer)
{
	struct connection *connection = connection_of(peer);

	if (peer->closed)
		return;
	connection->stranger = false;
	connection->connections->n_strangers--;
	list_remove(&connection->link);
	list_append(&connection->connections->welcome, &connection->link);
	(void)event_del(connection->deadline);
	bufferevent_trigger(connection->bev, EV_READ,
			    BEV_TRIG_IGNORE_WATERMARKS | BEV_TRIG_DEFER_CALLBACKS);
}

static const struct peer_ops connection_ops = {
	.send = peer_op_send,
	.close = peer_op_close,
	.greeted = peer_op_greeted,
};

/* Handle one frame of the input.  False: there is none, or none to be handled now. */
static bool read_frame(struct connection *connection, struct evbuffer *input)
{
	struct peer *peer = &connection->peer;
	uint8_t start[4];
	const uint8_t *frame;
	int bytes;

	if (peer->closed || peer->greeting)
		return false;
	if (evbuffer_copyout(input, start, sizeof(start)) < (ssize_t)sizeof(start))
		return false;
	bytes = wire_frame_bytes(start, sizeof(start));
	if (bytes < 0) {
		peer_refuse(peer, 0, bytes, err_text());
		return false;
	}
	if (evbuffer_get_length(input) < (size_t)bytes)
		return false;
	frame = evbuffer_pullup(input, bytes);
	if (!frame) {
		end_soon(connection, "no memory for a frame");
		return false;
	}
	connection->handled_bytes = (size_t)bytes;
	dispatch_frame(peer, frame, (size_t)bytes);
	connection->handled_bytes = 0;
	(void)evbuffer_drain(input, (size_t)bytes);
	return true;
}

/* A client may send many requests that take long each; others get their turn between. */
static void on_read(struct bufferevent *bev, void *arg)
{
	struct connection *connection = arg;
	struct evbuffer *input = bufferevent_get_input(bev);
	uint64_t until_ns = clock_now_ns() + TURN_NS;

	while (read_frame(connection, input)) {
		if (clock_now_ns() < until_ns)
			continue;
		bufferevent_trigger(bev, EV_READ,
				    BEV_TRIG_IGNORE_WATERMARKS |
					    BEV_TRIG_DEFER_CALLBACKS);
		break;
	}
	if (connection->peer.closed)
		(void)evbuffer_drain(input, evbuffer_get_length(input));
}

/* All output is written. */
static void on_write(struct bufferevent *bev, void *arg)
{
	struct connection *connection = arg;

	(void)bev;
	if (connection->peer.closed)
		hang_up(connection);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
	struct connection *connection = arg;
	int err = EVUTIL_SOCKET_ERROR();

	(void)bev;
	if (what & BEV_EVENT_EOF)
		connection_free(connection, "the client closed it");
	else if (what & BEV_EVENT_ERROR)
		connection_free(connection, evutil_socket_error_to_string(err));
}

/* Options of the socket are for the sake of speed and of noticing a dead peer sooner; the
 * heartbeat notices it without them. */
static void tune_socket(int fd, const struct config *config)
{
	const int on = 1, probes = 3;
	unsigned fence_ms = (unsigned)config->fence_ms;
	int seconds = (int)(config->fence_ms / 1000) + 1;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof(seconds));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof(seconds));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &fence_ms,
			 sizeof(fence_ms));
}

static int start(struct connection *connection, int fd)
{
	struct event_base *base = connection->connections->base;
	struct timeval tv = { .tv_sec = CONNECTION_HELLO_MS / 1000,
			      .tv_usec = CONNECTION_HELLO_MS % 1000 * 1000 };

	connection->bev = bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE);
	if (!connection->bev) {
		(void)close(fd);
		return -ENOMEM;
	}
	connection->deadline = evtimer_new(base, on_deadline, connection);
	if (!connection->deadline || event_add(connection->deadline, &tv))
		return -ENOMEM;
	bufferevent_setcb(connection->bev, on_read, on_write, on_event, connection);
	bufferevent_setwatermark(connection->bev, EV_READ, 0, 2 * WIRE_FRAME_MAX);
	return bufferevent_enable(connection->bev, EV_READ | EV_WRITE) ? -ENOMEM : 0;
}

int connection_create(struct connections *connections, int fd, const char *name)
{
	struct control *control = connections->control;
	struct connection *connection;
	int err;

	/* Whoever means it says hello at once, so the oldest is the one to go. */
	if (connections->n_strangers >= control->config->connections_max)
		turn_away(list_first(&connections->strangers, struct connection, link),
			  "no hello yet, and newer connections need the place");
	connection = calloc(1, sizeof(*connection));
	if (!connection) {
		(void)close(fd);
		return err_set(-ENOMEM, "no memory for a connection");
	}
	connection->connections = connections;
	connection->why = "no hello in time";
	peer_init(&connection->peer, &connection_ops, control, name);
	list_init(&connection->link);
	become_stranger(connection);
	tune_socket(fd, control->config);
	err = start(connection, fd);
	if (err) {
		connection_free(connection, "no memory");
		return err_set(err, "no memory for a connection");
	}
	return 0;
}

static void close_all(struct list *list)
{
	list_for_each_safe(node, list)
		peer_close(&container_of(node, struct connection, link)->peer);
}

void connections_drain(struct connections *connections, void (*drained)(void *ctx),
		       void *ctx)
{
	connections->drained = drained;
	connections->drained_ctx = ctx;
	/* those with a session go over to the strangers */
	close_all(&connections->strangers);
	close_all(&connections->welcome);
	check_drained(connections);
}

int connections_open(struct event_base *base, struct control *control,
		     struct connections **ret_connections)
{
	struct connections *connections = calloc(1, sizeof(*connections));

	if (!connections)
		return err_set(-ENOMEM, "no memory for the connections");
	connections->base = base;
	connections->control = control;
	list_init(&connections->welcome);
	list_init(&connections->strangers);
	connections->empty = evtimer_new(base, on_drained, connections);
	if (!connections->empty) {
		free(connections);
		return err_set(-ENOMEM, "no memory for the connections");
	}
	*ret_connections = connections;
	return 0;
}

static void free_all(struct list *list)
{
	struct connection *connection;

	while ((connection = list_first(list, struct connection, link)))
		connection_free(connection, "the server stops");
}

void connections_close(struct connections *connections)
{
	if (!connections)
		return;
	free_all(&connections->welcome);
	free_all(&connections->strangers);
	event_free(connections->empty);
	free(connections);
}

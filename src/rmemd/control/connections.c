/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/connections.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/util.h>
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
/* What of a client's requests is taken from its socket before it is handled. */
#define INBOX_BYTES (2 * (size_t)WIRE_FRAME_MAX)

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
	uint8_t inbox[INBOX_BYTES]; /* of the connection whose turn it is */
};

struct connection {
	struct peer peer;
	struct connections *connections;
	struct list link;
	struct bufferevent *bev; /* what goes out */
	struct event *readable;
	struct event *again;    /* its next turn, whether or not more has arrived */
	struct event *deadline; /* for the hello, or for the last words */
	uint8_t *kept;          /* arrived, and not handled yet; NULL: nothing */
	size_t kept_bytes;
	size_t behind_bytes; /* that arrived behind the request which is being handled */
	bool stranger;
	bool hung_up; /* our side is shut */
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

static void event_drop(struct event *event)
{
	if (event)
		event_free(event);
}

static void connection_free(struct connection *connection, const char *why)
{
	struct connections *connections = connection->connections;

	peer_gone(&connection->peer, why);
	if (connection->stranger)
		connections->n_strangers--;
	list_remove(&connection->link);
	event_drop(connection->readable);
	event_drop(connection->again);
	event_drop(connection->deadline);
	if (connection->bev)
		bufferevent_free(connection->bev);
	free(connection->kept);
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

	if (!connection->peer.closed) {
		control->counters.connections_refused++;
		log_event(LOG_NOTICE, "connection-refused",
			  &(struct log_ctx){ .peer = connection->peer.name }, "%s",
			  why);
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

/* Have what the connection has not handled handled in the loop's next turn. */
static void handle_soon(struct connection *connection)
{
	const struct timeval at_once = { 0 };

	/* without memory for the timer others wait a little */
	if (event_add(connection->again, &at_once))
		event_active(connection->again, EV_TIMEOUT, 0);
}

/* The answer to a lone request, a heartbeat above all, need not take a turn of the loop and
 * two changes of what is polled for: that halves what idle sessions cost.  Only while the
 * bytes on the wire are the frames themselves.  Returns how many bytes went out. */
static size_t send_at_once(struct connection *connection, const uint8_t *frame,
			   size_t bytes)
{
	ssize_t n;

	if (evbuffer_get_length(bufferevent_get_output(connection->bev)) > 0 ||
	    connection->behind_bytes > 0)
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
	handle_soon(connection);
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
	if (connection->kept)
		handle_soon(connection);
}

static bool peer_op_busy(const struct peer *peer)
{
	const struct connection *connection =
		container_of((struct peer *)(uintptr_t)peer, struct connection, peer);

	return evbuffer_get_length(bufferevent_get_output(connection->bev)) > 0;
}

static const struct peer_ops connection_ops = {
	.send = peer_op_send,
	.close = peer_op_close,
	.greeted = peer_op_greeted,
	.busy = peer_op_busy,
};

/* Handle one frame at the start of what has arrived; returns its length.  0: there is none,
 * or none to be handled now. */
static size_t handle_frame(struct connection *connection, const uint8_t *at,
			   size_t bytes)
{
	struct peer *peer = &connection->peer;
	int frame_bytes;

	if (peer->closed || peer->greeting || bytes < 4)
		return 0;
	frame_bytes = wire_frame_bytes(at, bytes);
	if (frame_bytes < 0) {
		peer_refuse(peer, 0, frame_bytes, err_text());
		return 0;
	}
	if (bytes < (size_t)frame_bytes)
		return 0;
	connection->behind_bytes = bytes - (size_t)frame_bytes;
	dispatch_frame(peer, at, (size_t)frame_bytes);
	connection->behind_bytes = 0;
	return (size_t)frame_bytes;
}

/* A client may send many requests that take long each; others get their turn between.
 * Returns how much was handled. */
static size_t handle_frames(struct connection *connection, const uint8_t *at,
			    size_t bytes)
{
	uint64_t until_ns = clock_now_ns() + TURN_NS;
	size_t done = 0, n;

	while ((n = handle_frame(connection, at + done, bytes - done)) > 0) {
		done += n;
		if (done == bytes || clock_now_ns() < until_ns)
			continue;
		handle_soon(connection);
		break;
	}
	return connection->peer.closed ? bytes : done;
}

/* Put what was kept and what has arrived into the inbox.  False: it is over. */
static bool fetch(struct connection *connection, size_t *ret_bytes)
{
	uint8_t *inbox = connection->connections->inbox;
	size_t kept_bytes = connection->kept_bytes;
	ssize_t n;

	if (kept_bytes)
		memcpy(inbox, connection->kept, kept_bytes);
	*ret_bytes = kept_bytes;
	if (kept_bytes == INBOX_BYTES)
		return true;
	n = recv(bufferevent_getfd(connection->bev), inbox + kept_bytes,
		 INBOX_BYTES - kept_bytes, MSG_DONTWAIT);
	if (n > 0)
		*ret_bytes += (size_t)n;
	if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
		return true;
	connection_free(connection,
			n < 0 ? strerrordesc_np(errno) : "the client closed it");
	return false;
}

static void keep(struct connection *connection, const uint8_t *at, size_t bytes)
{
	free(connection->kept);
	connection->kept = NULL;
	connection->kept_bytes = 0;
	if (bytes == 0)
		return;
	connection->kept = malloc(bytes);
	if (!connection->kept) {
		end_soon(connection, "no memory for a request");
		return;
	}
	memcpy(connection->kept, at, bytes);
	connection->kept_bytes = bytes;
}

/* Reading goes past the bufferevent, which asks the kernel for the length first and copies
 * twice: a lone request, a heartbeat above all, is one system call and no copy.  As in
 * send_at_once(), only while the bytes on the wire are the frames themselves. */
static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct connection *connection = arg;
	const uint8_t *inbox = connection->connections->inbox;
	size_t bytes, handled;

	(void)fd;
	(void)what;
	if (!fetch(connection, &bytes))
		return;
	handled = handle_frames(connection, inbox, bytes);
	if (handled < bytes || connection->kept)
		keep(connection, inbox + handled, bytes - handled);
	/* what is full is looked at again when it was handled: handle_soon() */
	if (connection->kept_bytes == INBOX_BYTES
		    ? event_del(connection->readable)
		    : event_add(connection->readable, NULL))
		end_soon(connection, "its socket cannot be watched");
}

/* All output is written. */
static void on_write(struct bufferevent *bev, void *arg)
{
	struct connection *connection = arg;

	(void)bev;
	if (connection->peer.closed)
		hang_up(connection);
	else
		peer_idle(&connection->peer);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
	struct connection *connection = arg;
	int err = EVUTIL_SOCKET_ERROR();

	(void)bev;
	if (what & BEV_EVENT_ERROR)
		connection_free(connection, evutil_socket_error_to_string(err));
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
	connection->readable =
		event_new(base, fd, EV_READ | EV_PERSIST, on_readable, connection);
	connection->again = evtimer_new(base, on_readable, connection);
	connection->deadline = evtimer_new(base, on_deadline, connection);
	if (!connection->readable || !connection->again || !connection->deadline ||
	    event_add(connection->deadline, &tv))
		return -ENOMEM;
	bufferevent_setcb(connection->bev, NULL, on_write, on_event, connection);
	return event_add(connection->readable, NULL) ? -ENOMEM : 0;
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
	err = start(connection, fd);
	if (err) {
		connection_free(connection, "no memory");
		return err_set(err, "no memory for a connection");
	}
	/* as a rule its hello is what had it accepted; this may end it */
	on_readable(fd, EV_READ, connection);
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

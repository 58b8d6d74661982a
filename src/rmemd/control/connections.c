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
#include "rmemd/control/session.h"
#include "rmemd/control/connection.h"
#include "wire/codec.h"

/* What one client's requests may take before others get their turn. */
#define TURN_NS UINT64_C(1000000)
/* What of a client's requests is taken from its socket before it is handled. */
#define INBOX_BYTES (2 * (size_t)WIRE_FRAME_MAX)

struct connections {
	struct event_base *base;
	struct control *control;
	struct list active;          /* with a session */
	struct list unauthenticated; /* without one, the oldest first */
	unsigned n_unauthenticated;
	struct event *empty; /* the last one has ended */
	void (*drained)(void *ctx);
	void *drained_ctx;
	uint8_t frame[WIRE_FRAME_MAX];
	uint8_t inbox[INBOX_BYTES]; /* of the connection whose turn it is */
};

struct client_socket {
	struct connection connection;
	struct connections *connections;
	struct list link;
	struct bufferevent *bev; /* what goes out */
	struct event *readable;
	struct event *again;    /* its next turn, whether or not more has arrived */
	struct event *deadline; /* for the hello, or for the last words */
	uint8_t *kept;          /* arrived, and not handled yet; NULL: nothing */
	size_t kept_bytes;
	size_t behind_bytes; /* that arrived behind the request which is being handled */
	bool unauthenticated;
	bool hung_up; /* our side is shut */
	const char *why;
};

static struct client_socket *socket_of(struct connection *connection)
{
	return container_of(connection, struct client_socket, connection);
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
	if (connections->drained && list_empty(&connections->active) &&
	    list_empty(&connections->unauthenticated))
		event_active(connections->empty, EV_TIMEOUT, 0);
}

static void event_drop(struct event *event)
{
	if (event)
		event_free(event);
}

static void socket_free(struct client_socket *socket, const char *why)
{
	struct connections *connections = socket->connections;

	session_connection_lost(&socket->connection, why);
	if (socket->unauthenticated)
		connections->n_unauthenticated--;
	list_remove(&socket->link);
	event_drop(socket->readable);
	event_drop(socket->again);
	event_drop(socket->deadline);
	if (socket->bev)
		bufferevent_free(socket->bev);
	free(socket->kept);
	free(socket);
	check_drained(connections);
}

static void set_deadline(struct client_socket *socket, unsigned ms)
{
	struct timeval tv = { .tv_sec = ms / 1000, .tv_usec = (ms % 1000) * 1000 };

	/* Only memory can fail it, and the event has had its place in the heap before. */
	(void)event_add(socket->deadline, &tv);
}

/* End it from the loop: its functions may be on the stack now. */
static void end_soon(struct client_socket *socket, const char *why)
{
	socket->connection.closed = true;
	socket->why = why;
	event_active(socket->deadline, EV_TIMEOUT, 0);
}

/* Its time is over, or its place is needed. */
static void turn_away(struct client_socket *socket, const char *why)
{
	struct control *control = socket->connection.control;

	if (!socket->connection.closed) {
		control->counters.connections_refused++;
		log_event(LOG_NOTICE, "connection-refused",
			  &(struct log_ctx){ .peer = socket->connection.name }, "%s",
			  why);
	}
	socket_free(socket, why);
}

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
	struct client_socket *socket = arg;

	(void)fd;
	(void)what;
	turn_away(socket, socket->why);
}

/* Have what the connection has not handled handled in the loop's next turn. */
static void handle_soon(struct client_socket *socket)
{
	const struct timeval at_once = { 0 };

	/* without memory for the timer others wait a little */
	if (event_add(socket->again, &at_once))
		event_active(socket->again, EV_TIMEOUT, 0);
}

/* The answer to a lone request, a heartbeat above all, need not take a turn of the loop and
 * two changes of what is polled for: that halves what idle sessions cost.  Only while the
 * bytes on the wire are the frames themselves.  Returns how many bytes went out. */
static size_t send_at_once(struct client_socket *socket, const uint8_t *frame,
			   size_t bytes)
{
	ssize_t n;

	if (evbuffer_get_length(bufferevent_get_output(socket->bev)) > 0 ||
	    socket->behind_bytes > 0)
		return 0;
	n = send(bufferevent_getfd(socket->bev), frame, bytes,
		 MSG_DONTWAIT | MSG_NOSIGNAL);
	/* what is wrong with the socket its event will tell */
	return n > 0 ? (size_t)n : 0;
}

static void op_send(struct connection *connection, const struct wire_msg *msg)
{
	struct client_socket *socket = socket_of(connection);
	struct evbuffer *output = bufferevent_get_output(socket->bev);
	uint8_t *frame = socket->connections->frame;
	size_t sent;
	int bytes;

	if (connection->closed)
		return;
	bytes = wire_encode(msg, frame, WIRE_FRAME_MAX);
	if (bytes < 0) {
		log_event(LOG_ERR, "reply-too-large",
			  &(struct log_ctx){ .peer = connection->name },
			  "%s does not fit a frame", wire_type_name(msg->type));
		end_soon(socket, "an answer does not fit a frame");
		return;
	}
	if (evbuffer_get_length(output) + (size_t)bytes > CONNECTION_OUTPUT_MAX) {
		end_soon(socket, "the client does not read its answers");
		return;
	}
	sent = send_at_once(socket, frame, (size_t)bytes);
	if (sent < (size_t)bytes &&
	    evbuffer_add(output, frame + sent, (size_t)bytes - sent))
		end_soon(socket, "no memory for an answer");
}

static void become_unauthenticated(struct client_socket *socket)
{
	struct connections *connections = socket->connections;

	socket->unauthenticated = true;
	connections->n_unauthenticated++;
	list_remove(&socket->link);
	list_append(&connections->unauthenticated, &socket->link);
}

/* Everything is sent: tell the client by an end of file.  A close could discard what is still
 * on its way. */
static void hang_up(struct client_socket *socket)
{
	if (socket->hung_up)
		return;
	socket->hung_up = true;
	(void)shutdown(bufferevent_getfd(socket->bev), SHUT_WR);
}

static void op_close(struct connection *connection)
{
	struct client_socket *socket = socket_of(connection);
	struct evbuffer *output = bufferevent_get_output(socket->bev);

	if (!socket->unauthenticated)
		become_unauthenticated(socket);
	socket->why = "closed";
	set_deadline(socket, CONNECTION_LINGER_MS);
	if (evbuffer_get_length(output) == 0)
		hang_up(socket);
	/* what is still to come is read and thrown away */
	handle_soon(socket);
}

static void op_authenticated(struct connection *connection)
{
	struct client_socket *socket = socket_of(connection);

	if (connection->closed)
		return;
	socket->unauthenticated = false;
	socket->connections->n_unauthenticated--;
	list_remove(&socket->link);
	list_append(&socket->connections->active, &socket->link);
	(void)event_del(socket->deadline);
	if (socket->kept)
		handle_soon(socket);
}

static bool op_busy(const struct connection *connection)
{
	const struct client_socket *socket =
		container_of((struct connection *)(uintptr_t)connection,
			     struct client_socket, connection);

	return evbuffer_get_length(bufferevent_get_output(socket->bev)) > 0;
}

static const struct connection_ops connection_ops = {
	.send = op_send,
	.close = op_close,
	.authenticated = op_authenticated,
	.busy = op_busy,
};

/* Handle one frame at the start of what has arrived; returns its length.  0: there is none,
 * or none to be handled now. */
static size_t handle_frame(struct client_socket *socket, const uint8_t *at,
			   size_t bytes)
{
	struct connection *connection = &socket->connection;
	int frame_bytes;

	if (connection->closed || connection->hello_pending || bytes < 4)
		return 0;
	frame_bytes = wire_frame_bytes(at, bytes);
	if (frame_bytes < 0) {
		connection_refuse(connection, 0, frame_bytes, err_text());
		return 0;
	}
	if (bytes < (size_t)frame_bytes)
		return 0;
	socket->behind_bytes = bytes - (size_t)frame_bytes;
	dispatch_frame(connection, at, (size_t)frame_bytes);
	socket->behind_bytes = 0;
	return (size_t)frame_bytes;
}

/* A client may send many requests that take long each; others get their turn between.
 * Returns how much was handled. */
static size_t handle_frames(struct client_socket *socket, const uint8_t *at,
			    size_t bytes)
{
	uint64_t until_ns = clock_now_ns() + TURN_NS;
	size_t done = 0, n;

	while ((n = handle_frame(socket, at + done, bytes - done)) > 0) {
		done += n;
		if (done == bytes || clock_now_ns() < until_ns)
			continue;
		handle_soon(socket);
		break;
	}
	return socket->connection.closed ? bytes : done;
}

/* Put what was kept and what has arrived into the inbox.  False: it is over. */
static bool fetch(struct client_socket *socket, size_t *ret_bytes)
{
	uint8_t *inbox = socket->connections->inbox;
	size_t kept_bytes = socket->kept_bytes;
	ssize_t n;

	if (kept_bytes)
		memcpy(inbox, socket->kept, kept_bytes);
	*ret_bytes = kept_bytes;
	if (kept_bytes == INBOX_BYTES)
		return true;
	n = recv(bufferevent_getfd(socket->bev), inbox + kept_bytes,
		 INBOX_BYTES - kept_bytes, MSG_DONTWAIT);
	if (n > 0)
		*ret_bytes += (size_t)n;
	if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
		return true;
	socket_free(socket, n < 0 ? strerrordesc_np(errno) : "the client closed it");
	return false;
}

static void keep(struct client_socket *socket, const uint8_t *at, size_t bytes)
{
	free(socket->kept);
	socket->kept = NULL;
	socket->kept_bytes = 0;
	if (bytes == 0)
		return;
	socket->kept = malloc(bytes);
	if (!socket->kept) {
		end_soon(socket, "no memory for a request");
		return;
	}
	memcpy(socket->kept, at, bytes);
	socket->kept_bytes = bytes;
}

/* Reading goes past the bufferevent, which asks the kernel for the length first and copies
 * twice: a lone request, a heartbeat above all, is one system call and no copy.  As in
 * send_at_once(), only while the bytes on the wire are the frames themselves. */
static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct client_socket *socket = arg;
	const uint8_t *inbox = socket->connections->inbox;
	size_t bytes, handled;

	(void)fd;
	(void)what;
	if (!fetch(socket, &bytes))
		return;
	handled = handle_frames(socket, inbox, bytes);
	if (handled < bytes || socket->kept)
		keep(socket, inbox + handled, bytes - handled);
	/* what is full is looked at again when it was handled: handle_soon() */
	if (socket->kept_bytes == INBOX_BYTES ? event_del(socket->readable)
					      : event_add(socket->readable, NULL))
		end_soon(socket, "its socket cannot be watched");
}

/* All output is written. */
static void on_write(struct bufferevent *bev, void *arg)
{
	struct client_socket *socket = arg;

	(void)bev;
	if (socket->connection.closed)
		hang_up(socket);
	else
		session_connection_idle(&socket->connection);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
	struct client_socket *socket = arg;
	int err = EVUTIL_SOCKET_ERROR();

	(void)bev;
	if (what & BEV_EVENT_ERROR)
		socket_free(socket, evutil_socket_error_to_string(err));
}

static int start(struct client_socket *socket, int fd)
{
	struct event_base *base = socket->connections->base;
	struct timeval tv = { .tv_sec = CONNECTION_HELLO_MS / 1000,
			      .tv_usec = CONNECTION_HELLO_MS % 1000 * 1000 };

	socket->bev = bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE);
	if (!socket->bev) {
		(void)close(fd);
		return -ENOMEM;
	}
	socket->readable =
		event_new(base, fd, EV_READ | EV_PERSIST, on_readable, socket);
	socket->again = evtimer_new(base, on_readable, socket);
	socket->deadline = evtimer_new(base, on_deadline, socket);
	if (!socket->readable || !socket->again || !socket->deadline ||
	    event_add(socket->deadline, &tv))
		return -ENOMEM;
	bufferevent_setcb(socket->bev, NULL, on_write, on_event, socket);
	return event_add(socket->readable, NULL) ? -ENOMEM : 0;
}

int connection_create(struct connections *connections, int fd, const char *name)
{
	struct control *control = connections->control;
	struct client_socket *socket;
	int err;

	/* A client says hello at once, so the oldest connection without one is ended. */
	if (connections->n_unauthenticated >= control->config->connections_max)
		turn_away(list_first(&connections->unauthenticated,
				     struct client_socket, link),
			  "no hello yet, and newer connections need the place");
	socket = calloc(1, sizeof(*socket));
	if (!socket) {
		(void)close(fd);
		return err_set(-ENOMEM, "no memory for a connection");
	}
	socket->connections = connections;
	socket->why = "no hello in time";
	connection_init(&socket->connection, &connection_ops, control, name);
	list_init(&socket->link);
	become_unauthenticated(socket);
	err = start(socket, fd);
	if (err) {
		socket_free(socket, "no memory");
		return err_set(err, "no memory for a connection");
	}
	/* as a rule its hello is what had it accepted; this may end it */
	on_readable(fd, EV_READ, socket);
	return 0;
}

static void close_all(struct list *list)
{
	list_for_each_safe(node, list)
		connection_close(
			&container_of(node, struct client_socket, link)->connection);
}

void connections_drain(struct connections *connections, void (*drained)(void *ctx),
		       void *ctx)
{
	connections->drained = drained;
	connections->drained_ctx = ctx;
	/* active ones that are closed go to the list of the unauthenticated */
	close_all(&connections->unauthenticated);
	close_all(&connections->active);
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
	list_init(&connections->active);
	list_init(&connections->unauthenticated);
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
	struct client_socket *socket;

	while ((socket = list_first(list, struct client_socket, link)))
		socket_free(socket, "the server stops");
}

void connections_close(struct connections *connections)
{
	if (!connections)
		return;
	free_all(&connections->active);
	free_all(&connections->unauthenticated);
	event_free(connections->empty);
	free(connections);
}

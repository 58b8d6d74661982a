/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/connection.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/util.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"
#include "base/log.h"
#include "rmemd/control/control.h"
#include "rmemd/control/request.h"
#include "rmemd/control/session.h"
#include "rmemd/loop/events.h"
#include "wire/codec.h"

/* Time that one client's requests may take before others get their turn. */
#define INPUT_NS UINT64_C(200000)
/* Bytes of a client's requests that are read before they are handled. */
#define INBOX_BYTES (2 * (size_t)WIRE_FRAME_MAX)

struct connections {
	struct control *control;
	struct slice_queue slices;   /* input of the unauthenticated */
	struct list active;          /* with a session */
	struct list unauthenticated; /* without one, the oldest first */
	unsigned n_unauthenticated;
	uint8_t frame[WIRE_FRAME_MAX];
	uint8_t inbox[INBOX_BYTES]; /* of the connection whose turn it is */
};

struct client_socket {
	struct connection connection;
	struct connections *connections;
	struct list link;
	struct bufferevent *bev; /* for output */
	struct event *readable;
	struct slice_work work; /* handles input */
	struct tenant *tenant;  /* holds a reference; NULL before the hello */
	struct event *deadline; /* of the hello, or of sending the last messages */
	uint8_t *unread;        /* input that is not handled yet; NULL: none */
	size_t unread_bytes;
	size_t behind_bytes; /* of input behind the request that is being handled */
	bool unauthenticated;
	bool hung_up; /* shutdown() was called */
	const char *why;
};

static struct client_socket *socket_of(struct connection *connection)
{
	return container_of(connection, struct client_socket, connection);
}

static void socket_free(struct client_socket *socket, const char *why)
{
	session_connection_lost(&socket->connection, why);
	if (socket->unauthenticated)
		socket->connections->n_unauthenticated--;
	list_remove(&socket->link);
	event_drop(&socket->readable);
	slices_remove(&socket->work);
	if (socket->tenant)
		tenant_unref(socket->tenant);
	event_drop(&socket->deadline);
	if (socket->bev)
		bufferevent_free(socket->bev);
	free(socket->unread);
	free(socket);
}

static void set_deadline(struct client_socket *socket, unsigned ms)
{
	const struct timeval tv = timeval_of_ms(ms);

	/* fails only without memory, and libevent's heap had room for this event before */
	(void)event_add(socket->deadline, &tv);
}

/* End the connection from the loop, as its functions may be on the stack now. */
static void socket_end_soon(struct client_socket *socket, const char *why)
{
	socket->connection.closed = true;
	socket->why = why;
	event_active(socket->deadline, EV_TIMEOUT, 0);
}

/* End a connection whose deadline has passed, or whose place another one needs. */
static void socket_refuse(struct client_socket *socket, const char *why)
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

static void on_deadline(evutil_socket_t, short, void *arg)
{
	struct client_socket *socket = arg;

	socket_refuse(socket, socket->why);
}

static struct slice_queue *queue_of(struct client_socket *socket)
{
	return socket->tenant ? &socket->tenant->slices : &socket->connections->slices;
}

/* Handle the rest of the input when the tenant's turn comes. */
static void handle_soon(struct client_socket *socket)
{
	slices_add(&socket->connection.control->slices, queue_of(socket),
		   &socket->work);
}

/* The answer to a lone request, usually a heartbeat, need not take a turn of the loop and
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
	/* an error of the socket is reported by its event */
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
		socket_end_soon(socket, "an answer does not fit a frame");
		return;
	}
	if (evbuffer_get_length(output) + (size_t)bytes > CONNECTION_OUTPUT_MAX) {
		socket_end_soon(socket, "the client does not read its answers");
		return;
	}
	sent = send_at_once(socket, frame, (size_t)bytes);
	if (sent < (size_t)bytes &&
	    evbuffer_add(output, frame + sent, (size_t)bytes - sent))
		socket_end_soon(socket, "no memory for an answer");
}

static void become_unauthenticated(struct client_socket *socket)
{
	struct connections *connections = socket->connections;

	socket->unauthenticated = true;
	connections->n_unauthenticated++;
	list_move(&connections->unauthenticated, &socket->link);
}

/* Everything is sent: tell the client by an end of file.  A close could discard what is still
 * on its way. */
static void socket_hang_up(struct client_socket *socket)
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
		socket_hang_up(socket);
	/* further input is read and dropped */
	handle_soon(socket);
}

static void op_authenticated(struct connection *connection)
{
	struct client_socket *socket = socket_of(connection);

	if (connection->closed)
		return;
	socket->unauthenticated = false;
	socket->connections->n_unauthenticated--;
	list_move(&socket->connections->active, &socket->link);
	(void)event_del(socket->deadline);
	if (!socket->tenant) {
		socket->tenant = connection->session->lease_client.tenant;
		tenant_ref(socket->tenant);
	}
	if (socket->unread)
		handle_soon(socket);
}

static bool op_busy(struct connection *connection)
{
	const struct client_socket *socket = socket_of(connection);

	return evbuffer_get_length(bufferevent_get_output(socket->bev)) > 0;
}

static bool op_unread(struct connection *connection)
{
	const struct client_socket *socket = socket_of(connection);
	uint8_t byte;

	/* whole frames that were read wait for their slice; a part of one is no sign of life */
	return (socket->unread && slice_waits(&socket->work)) ||
	       recv(bufferevent_getfd(socket->bev), &byte, sizeof(byte),
		    MSG_PEEK | MSG_DONTWAIT) > 0;
}

static bool op_abandoned(struct connection *connection)
{
	const struct client_socket *socket = socket_of(connection);
	struct pollfd at = { .fd = bufferevent_getfd(socket->bev),
			     .events = POLLRDHUP };

	return poll(&at, 1, 0) > 0;
}

static const struct connection_ops connection_ops = {
	.send = op_send,
	.close = op_close,
	.authenticated = op_authenticated,
	.busy = op_busy,
	.unread = op_unread,
	.abandoned = op_abandoned,
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
		connection_refuse(connection, 0, frame_bytes,
				  fabric_hello_begins(at, bytes)
					  ? "a data channel at the control port: its "
					    "port is that of [tcp]"
					  : err_text());
		return 0;
	}
	if (bytes < (size_t)frame_bytes)
		return 0;
	socket->behind_bytes = bytes - (size_t)frame_bytes;
	dispatch_frame(connection, at, (size_t)frame_bytes);
	socket->behind_bytes = 0;
	return (size_t)frame_bytes;
}

/* A client may send many requests that take long each; others get their turn between, and then
 * *ret_more is set.  Returns how much was handled. */
static size_t handle_frames(struct client_socket *socket, const uint8_t *at,
			    size_t bytes, bool *ret_more)
{
	uint64_t until_ns = clock_now_ns() + INPUT_NS;
	size_t done = 0, n;

	while ((n = handle_frame(socket, at + done, bytes - done)) > 0) {
		done += n;
		if (done == bytes || clock_now_ns() < until_ns)
			continue;
		*ret_more = true;
		break;
	}
	return socket->connection.closed ? bytes : done;
}

/* Put unread and new input into the inbox.  False: the connection has ended. */
static bool inbox_fill(struct client_socket *socket, size_t *ret_bytes)
{
	uint8_t *inbox = socket->connections->inbox;
	size_t unread_bytes = socket->unread_bytes;
	ssize_t n;

	if (unread_bytes)
		memcpy(inbox, socket->unread, unread_bytes);
	*ret_bytes = unread_bytes;
	if (unread_bytes == INBOX_BYTES)
		return true;
	n = recv(bufferevent_getfd(socket->bev), inbox + unread_bytes,
		 INBOX_BYTES - unread_bytes, MSG_DONTWAIT);
	if (n > 0)
		*ret_bytes += (size_t)n;
	if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
		return true;
	socket_free(socket, n < 0 ? strerrordesc_np(errno) : "the client closed it");
	return false;
}

static void store_unread(struct client_socket *socket, const uint8_t *at, size_t bytes)
{
	free(socket->unread);
	socket->unread = NULL;
	socket->unread_bytes = 0;
	if (bytes == 0)
		return;
	socket->unread = malloc(bytes);
	if (!socket->unread) {
		socket_end_soon(socket, "no memory for a request");
		return;
	}
	memcpy(socket->unread, at, bytes);
	socket->unread_bytes = bytes;
}

/* Reading goes past the bufferevent, which asks the kernel for the length first and copies
 * twice: a lone request, usually a heartbeat, is one system call and no copy.  As in
 * send_at_once(), only while the bytes on the wire are the frames themselves. */
static bool socket_serve(struct slice_work *work)
{
	struct client_socket *socket = container_of(work, struct client_socket, work);
	const uint8_t *inbox = socket->connections->inbox;
	size_t bytes, handled;
	bool more = false;

	if (!inbox_fill(socket, &bytes))
		return false;
	handled = handle_frames(socket, inbox, bytes, &more);
	if (handled < bytes || socket->unread)
		store_unread(socket, inbox + handled, bytes - handled);
	/* a full inbox is read into again when it was handled */
	if (socket->unread_bytes == INBOX_BYTES ? event_del(socket->readable)
						: event_add(socket->readable, NULL))
		socket_end_soon(socket, "its socket cannot be watched");
	return more && !socket->connection.closed;
}

/* In this turn if nobody else waits and it has time left, else when the tenant's turn comes. */
static void on_readable(evutil_socket_t, short, void *arg)
{
	struct client_socket *socket = arg;

	slices_start(&socket->connection.control->slices, queue_of(socket),
		     &socket->work);
}

/* All output is written. */
static void on_write(struct bufferevent *, void *arg)
{
	struct client_socket *socket = arg;

	if (socket->connection.closed)
		socket_hang_up(socket);
	else
		session_connection_idle(&socket->connection);
}

static void on_event(struct bufferevent *, short what, void *arg)
{
	struct client_socket *socket = arg;
	int err = EVUTIL_SOCKET_ERROR();

	if (what & BEV_EVENT_ERROR)
		socket_free(socket, evutil_socket_error_to_string(err));
}

static int socket_start(struct client_socket *socket, int fd)
{
	struct event_base *base = socket->connection.control->base;
	const struct timeval tv = timeval_of_ms(CONNECTION_HELLO_MS);

	socket->bev = bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE);
	if (!socket->bev) {
		(void)close(fd);
		return -ENOMEM;
	}
	socket->readable =
		event_new(base, fd, EV_READ | EV_PERSIST, on_readable, socket);
	socket->deadline = evtimer_new(base, on_deadline, socket);
	if (!socket->readable || !socket->deadline || event_add(socket->deadline, &tv))
		return -ENOMEM;
	bufferevent_setcb(socket->bev, NULL, on_write, on_event, socket);
	return event_add(socket->readable, NULL) ? -ENOMEM : 0;
}

int connection_accept(struct connections *connections, int fd,
		      const struct fabric_address *address)
{
	struct control *control = connections->control;
	struct client_socket *socket;
	int err;

	/* A client says hello at once, so the oldest connection without one is ended. */
	if (connections->n_unauthenticated >= control->config->connections_max)
		socket_refuse(list_first(&connections->unauthenticated,
					 struct client_socket, link),
			      "no hello yet, and newer connections need the place");
	socket = calloc(1, sizeof(*socket));
	if (!socket) {
		(void)close(fd);
		return err_set(-ENOMEM, "no memory for a connection");
	}
	socket->connections = connections;
	socket->why = "no hello in time";
	connection_init(&socket->connection, &connection_ops, control, address);
	list_init(&socket->link);
	slice_work_init(&socket->work, socket_serve);
	become_unauthenticated(socket);
	err = socket_start(socket, fd);
	if (err) {
		socket_free(socket, "no memory");
		return err_set(err, "no memory for a connection");
	}
	/* usually the hello has arrived already; this may end the connection */
	on_readable(fd, EV_READ, socket);
	return 0;
}

static void sockets_close(struct list *list)
{
	list_for_each_entry_safe(struct client_socket, socket, list, link)
		connection_close(&socket->connection);
}

void connections_drain(struct connections *connections)
{
	/* closing moves an active connection to the list `unauthenticated` */
	sockets_close(&connections->unauthenticated);
	sockets_close(&connections->active);
}

bool connections_drained(const struct connections *connections)
{
	return list_empty(&connections->active) &&
	       list_empty(&connections->unauthenticated);
}

int connections_open(struct control *control, struct connections **ret_connections)
{
	struct connections *connections = calloc(1, sizeof(*connections));

	if (!connections)
		return err_set(-ENOMEM, "no memory for the connections");
	connections->control = control;
	list_init(&connections->active);
	list_init(&connections->unauthenticated);
	slice_queue_init(&connections->slices);
	*ret_connections = connections;
	return 0;
}

static void sockets_free(struct list *list)
{
	struct client_socket *socket;

	while ((socket = list_first(list, struct client_socket, link)))
		socket_free(socket, "the server stops");
}

void connections_close(struct connections *connections)
{
	if (!connections)
		return;
	sockets_free(&connections->active);
	sockets_free(&connections->unauthenticated);
	free(connections);
}

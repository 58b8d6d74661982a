/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/client_socket.h"

#include <errno.h>
#include <event2/buffer.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "fabric/hello.h"
#include "fabric/listen.h"
#include "rmemd/control/auth.h"
#include "rmemd/control/handshakes.h"
#include "rmemd/control/request.h"
#include "rmemd/control/session.h"
#include "rmemd/loop/events.h"

/* Bytes given to the socket at a time: a record of TLS. */
#define OUTPUT_BYTES 16384
/* Time that one client's requests may take before others get their turn. */
#define INPUT_NS UINT64_C(200000)

static void socket_set_deadline(struct client_socket *socket, unsigned ms)
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

void admit_soon(struct connections *connections)
{
	if (connections->slots.n_waiting > 0)
		slices_add(&connections->control->slices, &connections->queue,
			   &connections->admission);
}

static void take_slot(struct client_socket *socket)
{
	slot_take(&socket->connections->slots, &socket->slot);
	socket->connections->changed_ns = clock_now_ns();
}

/* One that has none, and does not wait: no effect. */
static void leave_slot(struct client_socket *socket)
{
	struct connections *connections = socket->connections;
	bool taken = socket->slot.taken;

	slot_leave(&connections->slots, &socket->slot);
	if (!taken)
		return;
	connections->changed_ns = clock_now_ns();
	admit_soon(connections);
}

void socket_free(struct client_socket *socket, const char *why)
{
	session_connection_lost(&socket->connection, why);
	leave_slot(socket);
	list_remove(&socket->link);
	slices_remove(&socket->work);
	event_drop(&socket->readable);
	event_drop(&socket->writable);
	event_drop(&socket->deadline);
	if (socket->tenant)
		tenant_unref(socket->tenant);
	handshake_close(socket->handshake);
	stream_close(&socket->stream);
	if (socket->output)
		evbuffer_free(socket->output);
	free(socket->unread);
	free(socket);
}

void socket_refuse(struct client_socket *socket, enum refusal refusal, const char *why)
{
	struct control *control = socket->connection.control;

	if (!socket->connection.closed)
		connection_refused(control, refusal, socket->connection.name, why);
	socket_free(socket, why);
}

static void on_deadline(evutil_socket_t, short, void *arg)
{
	struct client_socket *socket = arg;

	socket_refuse(socket, socket->refusal, socket->why);
}

/* Handle the rest of the input when the tenant's turn comes. */
static void handle_soon(struct client_socket *socket)
{
	slices_add(&socket->connection.control->slices, socket->queue, &socket->work);
}

/* ---- output ---- */

/* The answer to a lone request, usually a heartbeat, need not take a turn of the loop and two
 * changes of what is polled for.  Returns how many bytes went out. */
static size_t send_at_once(struct client_socket *socket, const uint8_t *frame,
			   size_t bytes)
{
	ssize_t n;

	if (evbuffer_get_length(socket->output) > 0 || socket->behind_bytes > 0)
		return 0;
	n = stream_send(&socket->stream, frame, bytes);
	/* an error of the socket is found again when the rest is sent */
	return n > 0 ? (size_t)n : 0;
}

/* Send what waits.  False: the socket is full, or broken. */
static bool output_send(struct client_socket *socket)
{
	struct evbuffer *output = socket->output;
	size_t bytes;

	while ((bytes = evbuffer_get_length(output)) > 0) {
		const uint8_t *at;
		ssize_t n;

		if (bytes > OUTPUT_BYTES)
			bytes = OUTPUT_BYTES;
		at = evbuffer_pullup(output, (ev_ssize_t)bytes);
		n = at ? stream_send(&socket->stream, at, bytes) : -ENOMEM;
		if (n < 0 && n != -EAGAIN)
			socket_end_soon(socket, strerrordesc_np((int)-n));
		if (n < 0)
			return false;
		(void)evbuffer_drain(output, (size_t)n);
	}
	return true;
}

/* Whether no request is handled before the client has read its answers. */
static bool output_is_full(const struct client_socket *socket)
{
	return evbuffer_get_length(socket->output) > CONNECTION_OUTPUT_MAX;
}

/* Send when the socket is writable. */
static void output_watch(struct client_socket *socket)
{
	if (event_add(socket->writable, NULL))
		socket_end_soon(socket, "its socket cannot be watched");
}

static void output_add(struct connection *connection, const struct wire_msg *msg)
{
	struct client_socket *socket = socket_of(connection);
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
	sent = send_at_once(socket, frame, (size_t)bytes);
	if (sent == (size_t)bytes)
		return;
	if (evbuffer_add(socket->output, frame + sent, (size_t)bytes - sent))
		socket_end_soon(socket, "no memory for an answer");
	else
		output_watch(socket);
}

/* Everything is sent: tell the client by an end of file.  A close could discard what is still
 * on its way. */
static void output_end(struct client_socket *socket)
{
	if (socket->hung_up)
		return;
	socket->hung_up = true;
	stream_end(&socket->stream);
}

/* ---- states ---- */

static void output_sent(struct client_socket *socket)
{
	(void)event_del(socket->writable);
	if (socket->connection.closed)
		output_end(socket);
	else
		session_connection_idle(&socket->connection);
}

static void op_close(struct connection *connection)
{
	struct client_socket *socket = socket_of(connection);

	if (socket->state == SOCKET_SERVES) {
		/* without memory it counts for no address */
		(void)slot_wait(&socket->connections->slots, &socket->slot,
				&connection->address);
		list_remove(&socket->link);
		take_slot(socket);
	}
	socket->state = SOCKET_CLOSES;
	socket->why = "closed";
	socket->stalled = false;
	/* nothing was said yet, and its stream is not ours */
	if (socket->handshake) {
		socket_end_soon(socket, socket->why);
		return;
	}
	socket_set_deadline(socket, CONNECTION_LINGER_MS);
	if (evbuffer_get_length(socket->output) == 0)
		output_end(socket);
	/* further input is read and dropped */
	handle_soon(socket);
}

static void op_authenticated(struct connection *connection)
{
	struct client_socket *socket = socket_of(connection);

	if (connection->closed)
		return;
	socket->state = SOCKET_SERVES;
	leave_slot(socket);
	list_append(&socket->connections->active, &socket->link);
	(void)event_del(socket->deadline);
	if (!socket->tenant) {
		socket->tenant = connection->session->lease_client.tenant;
		tenant_ref(socket->tenant);
		socket->queue = &socket->tenant->slices;
	}
	if (socket->unread)
		handle_soon(socket);
}

static int op_identify(struct connection *connection, const char *tenant)
{
	return auth_check(connection->control, &socket_of(connection)->stream, tenant);
}

static bool op_busy(struct connection *connection)
{
	return evbuffer_get_length(socket_of(connection)->output) > 0;
}

static bool op_stalled(struct connection *connection)
{
	return output_is_full(socket_of(connection));
}

static bool op_unread(struct connection *connection)
{
	const struct client_socket *socket = socket_of(connection);
	uint8_t byte;

	if (socket->stalled)
		return false;
	/* whole frames that were read wait for their slice; a part of one is no sign of life */
	return (socket->unread && slice_waits(&socket->work)) ||
	       recv(socket->stream.fd, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT) >
		       0;
}

static bool op_abandoned(struct connection *connection)
{
	struct pollfd at = { .fd = socket_of(connection)->stream.fd,
			     .events = POLLRDHUP };

	return poll(&at, 1, 0) > 0;
}

static const struct connection_ops connection_ops = {
	.send = output_add,
	.close = op_close,
	.identify = op_identify,
	.authenticated = op_authenticated,
	.busy = op_busy,
	.unread = op_unread,
	.stalled = op_stalled,
	.abandoned = op_abandoned,
};

/* ---- input ---- */

/* Handle one frame at the start of what has arrived; returns its length.  0: there is none,
 * or none to be handled now. */
static size_t handle_frame(struct client_socket *socket, const uint8_t *at,
			   size_t bytes)
{
	struct connection *connection = &socket->connection;
	const char *why;
	int frame_bytes;

	if (connection->closed || connection->hello_pending || bytes < 4)
		return 0;
	socket->stalled = output_is_full(socket);
	if (socket->stalled)
		return 0;
	frame_bytes = wire_frame_bytes(at, bytes);
	if (frame_bytes < 0) {
		why = fabric_hello_begins(at, bytes)
			      ? "a data channel at the control port: its port is that "
				"of [tcp]"
		      : auth_tls_begins(at, bytes)
			      ? "the client speaks TLS, and [server] auth is none here"
			      : err_text();
		connection_refuse(connection, 0, REFUSAL_PROTOCOL, frame_bytes, why);
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

/* Input is read some time after it arrived if the loop is busy or was stopped. */
static uint64_t silent_ms(int fd)
{
	struct tcp_info info;
	socklen_t bytes = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) < 0)
		return 0;
	return info.tcpi_last_data_recv;
}

/* Put unread and new input into the inbox.  False: the connection has ended. */
static bool inbox_fill(struct client_socket *socket, size_t *ret_bytes)
{
	uint8_t *inbox = socket->connections->inbox;
	size_t unread_bytes = socket->unread_bytes, n_bytes = unread_bytes;
	ssize_t n = -EAGAIN;

	if (unread_bytes)
		memcpy(inbox, socket->unread, unread_bytes);
	/* what TLS has received is not seen by poll(2) */
	do {
		if (n_bytes == INBOX_BYTES)
			break;
		n = stream_receive(&socket->stream, inbox + n_bytes,
				   INBOX_BYTES - n_bytes);
		if (n > 0)
			n_bytes += (size_t)n;
	} while (n > 0 && stream_pending(&socket->stream));
	*ret_bytes = n_bytes;
	/* an end behind input is found again when that is handled */
	if (n_bytes > unread_bytes || n == -EAGAIN)
		return true;
	if (n == -EPROTO)
		connection_refused(socket->connection.control, REFUSAL_TLS,
				   socket->connection.name, err_text());
	socket_free(socket, n < 0 ? err_text() : "the client closed it");
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

/* A lone request, usually a heartbeat, is one system call and no copy. */
static bool socket_serve(struct slice_work *work)
{
	struct client_socket *socket = container_of(work, struct client_socket, work);
	const uint8_t *inbox = socket->connections->inbox;
	size_t bytes, handled;
	bool more = false;

	if (!inbox_fill(socket, &bytes))
		return false;
	socket->connection.silent_ms = silent_ms(socket->stream.fd);
	handled = handle_frames(socket, inbox, bytes, &more);
	if (handled < bytes || socket->unread)
		store_unread(socket, inbox + handled, bytes - handled);
	/* a full inbox is read into again when it was handled */
	if (socket->stalled || socket->unread_bytes == INBOX_BYTES
		    ? event_del(socket->readable)
		    : event_add(socket->readable, NULL))
		socket_end_soon(socket, "its socket cannot be watched");
	else if (stream_pending(&socket->stream) && !socket->connection.hello_pending &&
		 !socket->stalled)
		more = true;
	return more && !socket->connection.closed;
}

/* ---- the handshake of TLS ---- */

/* Nothing is polled for while a thread has the socket. */
static void handshake_run(struct client_socket *socket)
{
	(void)event_del(socket->readable);
	(void)event_del(socket->writable);
	handshake_go_on(socket->handshake);
}

static void handshake_watch(struct client_socket *socket, bool wants_out)
{
	if (event_add(wants_out ? socket->writable : socket->readable, NULL))
		socket_end_soon(socket, "its socket cannot be watched");
}

static void handshake_succeeded(struct client_socket *socket)
{
	socket->state = SOCKET_GREETS;
	socket->connection.auth =
		stream_certified(&socket->stream) ? "certificate" : "psk";
	handshake_watch(socket, false);
}

static void handshake_failed(struct client_socket *socket, int err)
{
	connection_refused(socket->connection.control,
			   auth_refusal(&socket->stream, err), socket->connection.name,
			   err_text());
	/* what tells the client may be on its way still */
	stream_strip(&socket->stream);
	connection_close(&socket->connection);
}

static void handshake_ended(struct client_socket *socket)
{
	const struct handshake_state state = *handshake_state(socket->handshake);

	handshake_give(socket->handshake, &socket->stream);
	socket->handshake = NULL;
	if (state.end == HANDSHAKE_DONE) {
		handshake_succeeded(socket);
	} else if (state.end == HANDSHAKE_FAILED) {
		handshake_watch(socket, false);
		handshake_failed(socket, err_restore(&state.result));
	} else if (state.end == HANDSHAKE_PLAIN) {
		stream_strip(&socket->stream);
		handshake_watch(socket, false);
		connection_refuse(&socket->connection, state.plain_id, REFUSAL_TLS,
				  -EACCES,
				  "this server asks for TLS: give a psk, or a ca and a "
				  "cert");
	} else {
		socket_free(socket, "the client closed it");
	}
}

static void on_handshake(void *ctx)
{
	struct client_socket *socket = ctx;
	const struct handshake_state *state = handshake_state(socket->handshake);

	/* it ends soon */
	if (socket->connection.closed)
		return;
	if (state->answered && !socket->answered_ns)
		socket->answered_ns = clock_now_ns();
	if (state->end == HANDSHAKE_WAITS)
		handshake_watch(socket, state->wants_out);
	else
		handshake_ended(socket);
}

/* ---- events ---- */

/* In this turn if nobody else waits and it has time left, else when the tenant's turn comes. */
static void on_readable(evutil_socket_t, short, void *arg)
{
	struct client_socket *socket = arg;

	if (socket->handshake) {
		handshake_run(socket);
		return;
	}
	slices_start(&socket->connection.control->slices, socket->queue, &socket->work);
}

static void on_writable(evutil_socket_t, short, void *arg)
{
	struct client_socket *socket = arg;

	if (socket->handshake)
		handshake_run(socket);
	else if (output_send(socket))
		output_sent(socket);
	if (socket->stalled && !output_is_full(socket)) {
		socket->stalled = false;
		handle_soon(socket);
	}
}

static int no_memory(void)
{
	return err_set(-ENOMEM, "no memory for a connection");
}

static int socket_begin(struct client_socket *socket)
{
	struct event_base *base = socket->connection.control->base;
	struct tls_context *tls = socket->connection.control->tls;
	int fd = socket->stream.fd, err = 0;

	socket->refusal = REFUSAL_LATE;
	socket->why = "no hello in time";
	socket->state = tls ? SOCKET_HANDSHAKES : SOCKET_GREETS;
	if (tls) {
		socket->stream.fd = -1;
		err = handshake_open(socket->connections->handshakes, fd, tls,
				     &socket->connection.address, on_handshake, socket,
				     &socket->handshake);
	}
	if (err)
		return err;
	socket->output = evbuffer_new();
	socket->readable =
		event_make(base, fd, EV_READ | EV_PERSIST, on_readable, socket);
	socket->writable =
		event_make(base, fd, EV_WRITE | EV_PERSIST, on_writable, socket);
	if (!socket->output || !socket->readable || !socket->writable)
		return no_memory();
	socket_set_deadline(socket, CONNECTION_HELLO_MS);
	/* a thread looks first at a socket under TLS */
	return !tls && event_add(socket->readable, NULL) ? no_memory() : 0;
}

/* ---- a new one ---- */

int socket_open(struct connections *connections, int fd,
		const struct fabric_address *address)
{
	struct client_socket *socket = calloc(1, sizeof(*socket));

	if (!socket || slot_wait(&connections->slots, &socket->slot, address)) {
		free(socket);
		(void)close(fd);
		return no_memory();
	}
	socket->connections = connections;
	socket->queue = &connections->queue;
	socket->refusal = REFUSAL_SLOT;
	socket->why = "no slot has become free in time";
	stream_plain(&socket->stream, fd);
	connection_init(&socket->connection, &connection_ops, connections->control,
			address);
	/* of family 0, unless it is known */
	(void)fabric_socket_address(fd, &socket->connection.reached);
	slice_work_init(&socket->work, socket_serve);
	list_init(&socket->link);
	socket->deadline =
		event_make(connections->control->base, -1, 0, on_deadline, socket);
	if (!socket->deadline) {
		socket_free(socket, "no memory");
		return no_memory();
	}
	socket_set_deadline(socket, CONNECTION_HELLO_MS);
	return 0;
}

void socket_start(struct client_socket *socket)
{
	take_slot(socket);
	if (socket_begin(socket))
		socket_refuse(socket, REFUSAL_SLOT, err_text());
	else
		/* usually the hello has arrived already; this may end the connection */
		on_readable(socket->stream.fd, EV_READ, socket);
}

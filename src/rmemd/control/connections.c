/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/client_socket.h"

#include <errno.h>
#include <event2/buffer.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
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
#include "rmemd/control/auth.h"
#include "rmemd/control/control.h"
#include "rmemd/control/handshakes.h"
#include "rmemd/control/request.h"
#include "rmemd/control/session.h"
#include "rmemd/loop/events.h"
#include "tls/stream.h"
#include "wire/codec.h"

/* Time that one client's requests may take before others get their turn. */
#define INPUT_NS UINT64_C(200000)
/* If no place becomes free for this time, handshakes end whose clients have not answered in it. */
#define ANSWER_NS (250 * NS_PER_MS)

static void admit_soon(struct connections *connections)
{
	if (connections->newcomers.n_waiting > 0)
		slices_add(&connections->control->slices, &connections->slices,
			   &connections->admission);
}

static void place_take(struct client_socket *socket)
{
	struct connections *connections = socket->connections;

	connections->n_unauthenticated++;
	connections->changed_ns = clock_now_ns();
	list_move(&connections->unauthenticated, &socket->link);
}

static void place_leave(struct client_socket *socket)
{
	struct connections *connections = socket->connections;

	newcomers_leave(&connections->newcomers, &socket->newcomer);
	connections->n_unauthenticated--;
	connections->changed_ns = clock_now_ns();
	admit_soon(connections);
}

static void socket_free(struct client_socket *socket, const char *why)
{
	session_connection_lost(&socket->connection, why);
	if (socket->state == SOCKET_WAITS)
		newcomers_leave(&socket->connections->newcomers, &socket->newcomer);
	else if (socket->state != SOCKET_SERVES)
		place_leave(socket);
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

/* End a connection whose deadline has passed, or whose place another one needs. */
static void socket_refuse(struct client_socket *socket, enum refusal refusal,
			  const char *why)
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
		(void)newcomers_join(&socket->connections->newcomers, &socket->newcomer,
				     &connection->address);
		place_take(socket);
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
	struct connections *connections = socket->connections;

	if (connection->closed)
		return;
	socket->state = SOCKET_SERVES;
	place_leave(socket);
	list_move(&connections->active, &socket->link);
	(void)event_del(socket->deadline);
	if (!socket->tenant) {
		socket->tenant = connection->session->lease_client.tenant;
		tenant_ref(socket->tenant);
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
static bool input_serve(struct client_socket *socket)
{
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

static bool socket_serve(struct slice_work *work)
{
	return input_serve(container_of(work, struct client_socket, work));
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
	slices_start(&socket->connection.control->slices, queue_of(socket),
		     &socket->work);
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

/* It has a place. */
static int socket_start(struct client_socket *socket)
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

/* ---- places ---- */

static const char crowded[] = "no hello yet, and newer connections need the place";

static bool places_used(const struct connections *connections)
{
	return connections->n_unauthenticated >=
	       connections->control->config->connections_max;
}

/* Whether the connection waits for this process. */
static bool waits_for_us(const struct client_socket *socket)
{
	return slice_waits(&socket->work) || socket->connection.hello_pending ||
	       (socket->handshake && handshake_is_under_way(socket->handshake));
}

/* Whether the connection waits for this process, or for a client that may answer yet.  A client
 * says hello at once, so a connection that has sent less waits for nothing.  After the first
 * message of a handshake, whose answer is the expensive part, a client has some time. */
static bool keeps_place(const struct client_socket *socket)
{
	return waits_for_us(socket) ||
	       (socket->state != SOCKET_CLOSES && socket->answered_ns);
}

/* Whether the socket has to give way rather than the other one, which is older. */
static bool gives_way(const struct client_socket *socket,
		      const struct client_socket *other)
{
	unsigned places = newcomers_places(&socket->newcomer),
		 others = newcomers_places(&other->newcomer);

	if (places != others)
		return places > others;
	return !keeps_place(socket) && keeps_place(other);
}

/* The connection whose place an address that would have n of them may have; NULL: there is none.
 * It is of the address that has most; and if it keeps its place, then only for an address that has
 * fewer. */
static struct client_socket *place_find(const struct connections *connections,
					unsigned n)
{
	struct client_socket *found = NULL;

	list_for_each_entry(struct client_socket, socket, &connections->unauthenticated,
			    link) {
		if (!found || gives_way(socket, found))
			found = socket;
	}
	return found && (!keeps_place(found) || newcomers_places(&found->newcomer) > n)
		       ? found
		       : NULL;
}

/* End the handshakes whose clients have had time to answer. */
static void places_clear(struct connections *connections)
{
	uint64_t now_ns = clock_now_ns();

	list_for_each_entry_safe(struct client_socket, socket,
				 &connections->unauthenticated, link) {
		if (socket->answered_ns && !waits_for_us(socket) &&
		    now_ns - socket->answered_ns >= ANSWER_NS)
			socket_refuse(socket, REFUSAL_PLACE, crowded);
	}
}

/* Make a place for an address that has n then.  False: there is none. */
static bool place_make(struct connections *connections, unsigned n)
{
	struct client_socket *other;

	if (!places_used(connections))
		return true;
	other = place_find(connections, n);
	if (other)
		socket_refuse(other, REFUSAL_PLACE, crowded);
	/* as long as handshakes are done, others need not end */
	else if (clock_now_ns() - connections->changed_ns >= ANSWER_NS)
		places_clear(connections);
	return !places_used(connections);
}

/* ---- newcomers, who wait for a place ---- */

static void newcomer_admit(struct client_socket *socket)
{
	place_take(socket);
	if (socket_start(socket))
		socket_refuse(socket, REFUSAL_PLACE, err_text());
	else
		/* usually the hello has arrived already; this may end the connection */
		on_readable(socket->stream.fd, EV_READ, socket);
}

static struct client_socket *socket_of_newcomer(struct newcomer *newcomer)
{
	return newcomer ? container_of(newcomer, struct client_socket, newcomer) : NULL;
}

/* A slice: who has begun a handshake makes work, and others get their turn between. */
static bool admit_next(struct slice_work *work)
{
	struct connections *connections =
		container_of(work, struct connections, admission);
	struct newcomers *newcomers = &connections->newcomers;
	struct client_socket *first = socket_of_newcomer(newcomers_first(newcomers));

	if (!first)
		return false;
	newcomers_admit(newcomers, &first->newcomer);
	if (!place_make(connections, newcomers_places(&first->newcomer))) {
		/* then there is none for others */
		newcomers_return(newcomers, &first->newcomer);
		return false;
	}
	newcomer_admit(first);
	return newcomers->n_waiting > 0;
}

static void stuck_watch(struct connections *connections)
{
	const struct timeval pause = timeval_of_ms(ANSWER_NS / NS_PER_MS);

	/* without memory the next newcomer has the same effect */
	if (connections->newcomers.n_waiting > 0)
		(void)event_add(connections->stuck, &pause);
}

/* Handshakes have not gone on, perhaps, or a reload has made places. */
static void on_stuck(evutil_socket_t, short, void *arg)
{
	admit_soon(arg);
	stuck_watch(arg);
}

/* Family 0: no address of IP. */
static struct fabric_address address_reached(int fd)
{
	struct fabric_address address = { .family = 0 };
	struct sockaddr_storage at = { .ss_family = AF_UNSPEC };
	socklen_t bytes = sizeof(at);

	if (!getsockname(fd, (struct sockaddr *)&at, &bytes))
		(void)fabric_address_from_sockaddr((struct sockaddr *)&at, &address);
	return address;
}

static int newcomer_make(struct connections *connections, int fd,
			 const struct fabric_address *address)
{
	struct client_socket *socket = calloc(1, sizeof(*socket));

	if (!socket ||
	    newcomers_join(&connections->newcomers, &socket->newcomer, address)) {
		free(socket);
		(void)close(fd);
		return no_memory();
	}
	socket->connections = connections;
	socket->refusal = REFUSAL_PLACE;
	socket->why = "no place has become free in time";
	stream_plain(&socket->stream, fd);
	connection_init(&socket->connection, &connection_ops, connections->control,
			address);
	socket->connection.reached = address_reached(fd);
	slice_work_init(&socket->work, socket_serve);
	list_init(&socket->link);
	newcomers_wait(&connections->newcomers, &socket->newcomer);
	socket->deadline =
		event_make(connections->control->base, -1, 0, on_deadline, socket);
	if (!socket->deadline) {
		socket_free(socket, "no memory");
		return no_memory();
	}
	socket_set_deadline(socket, CONNECTION_HELLO_MS);
	return 0;
}

int connection_accept(struct connections *connections, int fd,
		      const struct fabric_address *address)
{
	const struct newcomers *newcomers = &connections->newcomers;
	int err = newcomer_make(connections, fd, address);

	if (err)
		return err;
	if (newcomers->n_waiting > 1) {
		admit_soon(connections);
	} else {
		(void)admit_next(&connections->admission);
		stuck_watch(connections);
	}
	if (newcomers->n_waiting > connections->control->newcomers_max)
		socket_refuse(socket_of_newcomer(newcomers_last(newcomers)),
			      REFUSAL_PLACE,
			      "too many of its address wait for a place");
	return 0;
}

/* ---- after a reload ---- */

/* Also of a connection that is closed: its session goes on until the last messages are sent. */
static void session_recheck(struct client_socket *socket)
{
	static const char removed[] = "its key or certificate is not accepted any more";
	struct connection *connection = &socket->connection;
	struct session *session = connection->session;

	if (auth_holds(connection->control, &socket->stream,
		       session->lease_client.tenant->name))
		return;
	connection_refused(connection->control, REFUSAL_REMOVED, connection->name,
			   removed);
	session_fence_active(session, WIRE_STEP_REFUSE, removed);
}

/* A slice, as a session that is fenced is a line of the log and a message under TLS. */
static bool recheck_next(struct slice_work *work)
{
	struct connections *connections =
		container_of(work, struct connections, recheck);
	struct client_socket *socket =
		list_first(&connections->unchecked, struct client_socket, link);

	if (!socket)
		return false;
	list_move(&connections->active, &socket->link);
	if (socket->connection.session)
		session_recheck(socket);
	return !list_empty(&connections->unchecked);
}

static bool is_outdated(const struct client_socket *socket)
{
	const struct tls_context *tls = socket->connections->control->tls;

	if (socket->handshake)
		return !handshake_is_with(socket->handshake, tls);
	return socket->stream.ssl && socket->stream.context != tls;
}

/* A handshake or hello that is under way would be judged by what was loaded before: its client
 * connects again.  There are few of them. */
static void unauthenticated_recheck(struct connections *connections)
{
	list_for_each_entry_safe(struct client_socket, socket,
				 &connections->unauthenticated, link)
		if (socket->connection.session)
			session_recheck(socket);
		else if (!socket->connection.closed && is_outdated(socket))
			connection_close(&socket->connection);
}

void connections_recheck(struct connections *connections)
{
	unauthenticated_recheck(connections);
	list_splice(&connections->unchecked, &connections->active);
	if (!list_empty(&connections->unchecked))
		slices_add(&connections->control->slices, &connections->rechecks,
			   &connections->recheck);
}

/* ---- all connections ---- */

static void sockets_close(struct list *list)
{
	list_for_each_entry_safe(struct client_socket, socket, list, link)
		connection_close(&socket->connection);
}

static void sockets_free(struct list *list)
{
	struct client_socket *socket;

	while ((socket = list_first(list, struct client_socket, link)))
		socket_free(socket, "the server stops");
}

static void newcomers_free(struct connections *connections)
{
	struct newcomer *newcomer;

	while ((newcomer = newcomers_first(&connections->newcomers)))
		socket_free(socket_of_newcomer(newcomer), "the server stops");
}

void connections_drain(struct connections *connections)
{
	newcomers_free(connections);
	/* closing moves an active connection to the list `unauthenticated` */
	sockets_close(&connections->unauthenticated);
	sockets_close(&connections->active);
	sockets_close(&connections->unchecked);
}

bool connections_drained(const struct connections *connections)
{
	return list_empty(&connections->active) &&
	       list_empty(&connections->unchecked) &&
	       list_empty(&connections->unauthenticated);
}

int connections_open(struct control *control, struct connections **ret_connections)
{
	struct connections *connections = calloc(1, sizeof(*connections));
	int err;

	if (!connections)
		return err_set(-ENOMEM, "no memory for the connections");
	connections->control = control;
	list_init(&connections->active);
	list_init(&connections->unchecked);
	slice_queue_init(&connections->rechecks, SLICE_TENANT);
	slice_work_init(&connections->recheck, recheck_next);
	list_init(&connections->unauthenticated);
	newcomers_init(&connections->newcomers);
	slice_queue_init(&connections->slices, SLICE_STRANGERS);
	slice_work_init(&connections->admission, admit_next);
	connections->stuck = event_make(control->base, -1, 0, on_stuck, connections);
	err = connections->stuck
		      ? handshakes_open(control->base, &connections->handshakes)
		      : err_set(-ENOMEM, "no memory for the connections");
	if (err) {
		event_drop(&connections->stuck);
		free(connections);
		return err;
	}
	*ret_connections = connections;
	return 0;
}

void connections_close(struct connections *connections)
{
	if (!connections)
		return;
	slices_remove(&connections->recheck);
	newcomers_free(connections);
	sockets_free(&connections->active);
	sockets_free(&connections->unchecked);
	sockets_free(&connections->unauthenticated);
	slices_remove(&connections->admission);
	event_drop(&connections->stuck);
	handshakes_close(connections->handshakes);
	free(connections);
}

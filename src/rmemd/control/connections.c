/* SPDX-License-Identifier: BSD-3-Clause */
/* All connections of clients: their slots, and who waits for one. */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "rmemd/control/auth.h"
#include "rmemd/control/client_socket.h"
#include "rmemd/control/handshakes.h"
#include "rmemd/control/session.h"
#include "rmemd/loop/events.h"

/* If no slot becomes free for this time, handshakes end whose clients have not answered in it. */
#define ANSWER_NS (250 * NS_PER_MS)

static struct client_socket *socket_with(const struct slot *slot)
{
	return container_of((struct slot *)(uintptr_t)slot, struct client_socket, slot);
}

/* ---- slots ---- */

static const char crowded[] = "no hello yet, and newer connections need the slot";

static bool slots_used(const struct connections *connections)
{
	return connections->slots.n_taken >=
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
static bool keeps_slot(const struct slot *slot)
{
	const struct client_socket *socket = socket_with(slot);

	return waits_for_us(socket) ||
	       (socket->state != SOCKET_CLOSES && socket->answered_ns);
}

/* End the handshakes whose clients have had time to answer. */
static void slots_clear(struct connections *connections)
{
	uint64_t now_ns = clock_now_ns();

	list_for_each_entry_safe(struct slot, slot, &connections->slots.taken, link) {
		struct client_socket *socket = socket_with(slot);

		if (socket->answered_ns && !waits_for_us(socket) &&
		    now_ns - socket->answered_ns >= ANSWER_NS)
			socket_refuse(socket, REFUSAL_SLOT, crowded);
	}
}

/* Make room for the newcomer.  False: there is no slot. */
static bool slot_make(struct connections *connections, const struct slot *newcomer)
{
	struct slot *victim;

	if (!slots_used(connections))
		return true;
	victim = slots_victim(&connections->slots, newcomer, keeps_slot);
	if (victim)
		socket_refuse(socket_with(victim), REFUSAL_SLOT, crowded);
	/* as long as handshakes are done, others need not end */
	else if (clock_now_ns() - connections->changed_ns >= ANSWER_NS)
		slots_clear(connections);
	return !slots_used(connections);
}

/* ---- newcomers, who wait for a slot ---- */

/* A slice: who has begun a handshake makes work, and others get their turn between. */
static bool admit_next(struct slice_work *work)
{
	struct connections *connections =
		container_of(work, struct connections, admission);
	struct slot *first = slots_first(&connections->slots);

	/* if there is no slot for this one, then none for others */
	if (!first || !slot_make(connections, first))
		return false;
	socket_start(socket_with(first));
	return connections->slots.n_waiting > 0;
}

static void stuck_watch(struct connections *connections)
{
	const struct timeval pause = timeval_of_ms(ANSWER_NS / NS_PER_MS);

	/* without memory the next newcomer has the same effect */
	if (connections->slots.n_waiting > 0)
		(void)event_add(connections->stuck, &pause);
}

/* Handshakes have not gone on, perhaps, or a reload has made slots. */
static void on_stuck(evutil_socket_t, short, void *arg)
{
	admit_soon(arg);
	stuck_watch(arg);
}

int connection_accept(struct connections *connections, int fd,
		      const struct fabric_address *address)
{
	const struct slots *slots = &connections->slots;
	int err = socket_open(connections, fd, address);

	if (err)
		return err;
	if (slots->n_waiting > 1) {
		admit_soon(connections);
	} else {
		(void)admit_next(&connections->admission);
		stuck_watch(connections);
	}
	if (slots->n_waiting > connections->control->newcomers_max)
		socket_refuse(socket_with(slots_last(slots)), REFUSAL_SLOT,
			      "too many of its address wait for a slot");
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
	list_for_each_entry_safe(struct slot, slot, &connections->slots.taken, link) {
		struct client_socket *socket = socket_with(slot);

		if (socket->connection.session)
			session_recheck(socket);
		else if (!socket->connection.closed && is_outdated(socket))
			connection_close(&socket->connection);
	}
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
	struct slot *slot;

	while ((slot = slots_first(&connections->slots)))
		socket_free(socket_with(slot), "the server stops");
}

void connections_drain(struct connections *connections)
{
	newcomers_free(connections);
	/* closing an active connection takes a slot */
	list_for_each_entry_safe(struct slot, slot, &connections->slots.taken, link)
		connection_close(&socket_with(slot)->connection);
	sockets_close(&connections->active);
	sockets_close(&connections->unchecked);
}

bool connections_drained(const struct connections *connections)
{
	return list_empty(&connections->active) &&
	       list_empty(&connections->unchecked) && connections->slots.n_taken == 0;
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
	slots_init(&connections->slots);
	slice_queue_init(&connections->queue, SLICE_STRANGERS);
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
	struct slot *slot;

	if (!connections)
		return;
	slices_remove(&connections->recheck);
	newcomers_free(connections);
	sockets_free(&connections->active);
	sockets_free(&connections->unchecked);
	while ((slot = list_first(&connections->slots.taken, struct slot, link)))
		socket_free(socket_with(slot), "the server stops");
	slices_remove(&connections->admission);
	event_drop(&connections->stuck);
	handshakes_close(connections->handshakes);
	free(connections);
}

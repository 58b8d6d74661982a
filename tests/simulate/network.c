/* SPDX-License-Identifier: BSD-3-Clause */
#include "simulate/network.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"

/* What a socket keeps for its reader, on the way included. */
#define ROOM_BYTES 16384u

enum chunk_kind { CHUNK_SYN, CHUNK_ACCEPTED, CHUNK_BYTES, CHUNK_END, CHUNK_RESET };

struct chunk {
	struct list link; /* in socket->arriving */
	uint64_t due_ns;
	enum chunk_kind kind;
	size_t bytes;
	uint8_t data[];
};

enum state { STATE_NEW, STATE_CONNECTING, STATE_WAITING, STATE_OPEN, STATE_BROKEN };

/* One end of a stream. */
struct socket {
	struct list link;    /* in `sockets` */
	struct list waiting; /* in `backlog` */
	struct socket *peer; /* NULL: closed */
	unsigned client;
	enum direction towards; /* of what arrives here */
	enum state state;
	int error;      /* for the next call; 0: none */
	bool end, shut; /* the peer's end of file came; this end's was sent */
	struct list arriving;
	size_t arriving_bytes, in_bytes;
	uint8_t in[ROOM_BYTES];
};

struct link_state links[SIM_CLIENTS];
static struct list sockets = LIST_INIT(sockets), backlog = LIST_INIT(backlog);
static bool listening, kept_listening;

/* ---- links ---- */

uint64_t link_arrival_ns(void)
{
	uint64_t delay = 20000 + sim_random(300000);

	if (sim_chance(40) && !sim_healed)
		delay += sim_random(300) * SIM_MS;
	return sim_now_ns + delay;
}

bool link_is_down(unsigned client, enum direction direction)
{
	return links[client].down_until_ns[direction] > sim_now_ns;
}

uint64_t link_again_ns(unsigned client, enum direction direction)
{
	uint64_t until = links[client].down_until_ns[direction];

	return until == SIM_NEVER ? SIM_NEVER : until + sim_random(200) * SIM_MS;
}

/* ---- sockets ---- */

static struct socket *end_new(unsigned client, enum direction towards)
{
	struct socket *socket = sim_alloc(sizeof(*socket));

	socket->client = client;
	socket->towards = towards;
	list_init(&socket->arriving);
	list_init(&socket->waiting);
	list_append(&sockets, &socket->link);
	return socket;
}

struct socket *socket_new(unsigned client)
{
	return end_new(client, TO_CLIENT);
}

static void chunk_send(struct socket *to, enum chunk_kind kind, const void *from,
		       size_t bytes)
{
	struct chunk *chunk = sim_alloc(sizeof(*chunk) + bytes), *last;

	chunk->due_ns = link_arrival_ns();
	if (!list_empty(&to->arriving)) {
		last = container_of(to->arriving.prev, struct chunk, link);
		if (last->due_ns > chunk->due_ns)
			chunk->due_ns = last->due_ns;
	}
	chunk->kind = kind;
	chunk->bytes = bytes;
	if (bytes)
		memcpy(chunk->data, from, bytes);
	to->arriving_bytes += bytes;
	list_append(&to->arriving, &chunk->link);
}

static void chunks_drop(struct socket *socket)
{
	list_for_each_entry_safe(struct chunk, chunk, &socket->arriving, link) {
		list_remove(&chunk->link);
		free(chunk);
	}
	socket->arriving_bytes = 0;
}

static void socket_free(struct socket *socket)
{
	chunks_drop(socket);
	list_remove(&socket->waiting);
	list_remove(&socket->link);
	free(socket);
}

void socket_connect(struct socket *socket)
{
	struct socket *peer = end_new(socket->client, TO_DAEMON);

	peer->peer = socket;
	socket->peer = peer;
	socket->state = STATE_CONNECTING;
	chunk_send(peer, CHUNK_SYN, NULL, 0);
}

static void end_close(struct socket *socket, enum chunk_kind kind)
{
	struct socket *peer = socket->peer;

	if (peer) {
		peer->peer = NULL;
		if (!socket->shut || kind == CHUNK_RESET)
			chunk_send(peer, kind, NULL, 0);
		/* nobody else has it */
		if (peer->state == STATE_NEW && peer->towards == TO_DAEMON)
			socket_free(peer);
	}
	socket_free(socket);
}

void socket_close(struct socket *socket)
{
	/* as TCP does when bytes were not read */
	end_close(socket, socket->in_bytes ? CHUNK_RESET : CHUNK_END);
}

void socket_reset(struct socket *socket)
{
	end_close(socket, CHUNK_RESET);
}

void socket_shut(struct socket *socket)
{
	if (socket->peer && !socket->shut)
		chunk_send(socket->peer, CHUNK_END, NULL, 0);
	socket->shut = true;
}

static bool has_room(const struct socket *socket)
{
	return !socket->peer ||
	       socket->peer->in_bytes + socket->peer->arriving_bytes < ROOM_BYTES;
}

short socket_events(const struct socket *socket)
{
	short events = 0;

	if (socket->error || socket->state == STATE_BROKEN)
		return POLLIN | POLLOUT | POLLERR | POLLHUP | POLLRDHUP;
	if (socket->in_bytes || socket->end)
		events |= POLLIN;
	if (socket->end)
		events |= POLLRDHUP;
	if (socket->state == STATE_OPEN && has_room(socket))
		events |= POLLOUT;
	return events;
}

int socket_error(struct socket *socket)
{
	int err = socket->error;

	socket->error = 0;
	return err;
}

unsigned socket_client(const struct socket *socket)
{
	return socket->client;
}

static ssize_t fail(int err)
{
	errno = err;
	return -1;
}

static ssize_t socket_take_error(struct socket *socket)
{
	int err = socket->error ? socket->error : EPIPE;

	socket->error = 0;
	return fail(err);
}

ssize_t socket_send(struct socket *socket, const void *from, size_t bytes)
{
	size_t room;

	if (socket->error || socket->state == STATE_BROKEN)
		return socket_take_error(socket);
	if (socket->state != STATE_OPEN)
		return fail(socket->state == STATE_NEW ? ENOTCONN : EAGAIN);
	/* the peer answers with a reset */
	if (!socket->peer)
		return (ssize_t)bytes;
	if (!has_room(socket))
		return fail(EAGAIN);
	room = ROOM_BYTES - socket->peer->in_bytes - socket->peer->arriving_bytes;
	if (bytes > room)
		bytes = room;
	/* rarely a part of a frame */
	if (bytes > 1 && sim_chance(20))
		bytes = 1 + sim_random(bytes - 1);
	chunk_send(socket->peer, CHUNK_BYTES, from, bytes);
	return (ssize_t)bytes;
}

ssize_t socket_receive(struct socket *socket, void *to, size_t bytes, bool peek)
{
	if (socket->error)
		return socket_take_error(socket);
	if (!socket->in_bytes)
		return socket->end || socket->state == STATE_BROKEN
			       ? 0
			       : fail(socket->state == STATE_NEW ? ENOTCONN : EAGAIN);
	if (bytes > socket->in_bytes)
		bytes = socket->in_bytes;
	memcpy(to, socket->in, bytes);
	if (peek)
		return (ssize_t)bytes;
	socket->in_bytes -= bytes;
	memmove(socket->in, socket->in + bytes, socket->in_bytes);
	return (ssize_t)bytes;
}

/* ---- the daemon's port ---- */

bool network_accept_waits(void)
{
	return !list_empty(&backlog);
}

struct socket *network_accept(void)
{
	struct socket *socket = list_first(&backlog, struct socket, waiting);

	if (socket)
		list_remove(&socket->waiting);
	return socket;
}

void network_listen(bool listens, bool kept)
{
	struct socket *socket;

	listening = listens;
	kept_listening = kept;
	while (!listens && !kept && (socket = network_accept()))
		socket_reset(socket);
}

/* ---- arrivals ---- */

static void syn_arrives(struct socket *socket)
{
	struct socket *client = socket->peer;

	if (!client) {
		socket_free(socket);
		return;
	}
	if (!listening && !kept_listening) {
		socket_reset(socket);
		return;
	}
	socket->state = STATE_OPEN;
	list_append(&backlog, &socket->waiting);
	chunk_send(client, CHUNK_ACCEPTED, NULL, 0);
}

static void reset_arrives(struct socket *socket)
{
	socket->error = socket->state == STATE_CONNECTING ? ECONNREFUSED : ECONNRESET;
	socket->state = STATE_BROKEN;
	socket->in_bytes = 0;
	chunks_drop(socket);
}

static void chunk_arrives(struct socket *socket, struct chunk *chunk)
{
	list_remove(&chunk->link);
	socket->arriving_bytes -= chunk->bytes;
	if (socket->towards == TO_DAEMON)
		links[socket->client].heard_ns = sim_now_ns;
	switch (chunk->kind) {
	case CHUNK_SYN:
		syn_arrives(socket);
		break;
	case CHUNK_ACCEPTED:
		socket->state = STATE_OPEN;
		break;
	case CHUNK_BYTES:
		memcpy(socket->in + socket->in_bytes, chunk->data, chunk->bytes);
		socket->in_bytes += chunk->bytes;
		break;
	case CHUNK_END:
		socket->end = true;
		break;
	case CHUNK_RESET:
		reset_arrives(socket);
		break;
	}
	free(chunk);
}

static struct chunk *socket_next(const struct socket *socket)
{
	return list_first(&socket->arriving, struct chunk, link);
}

uint64_t network_due_ns(void)
{
	uint64_t due = SIM_NEVER;

	list_for_each_entry(const struct socket, socket, &sockets, link) {
		const struct chunk *chunk = socket_next(socket);

		if (chunk && chunk->due_ns < due)
			due = chunk->due_ns;
	}
	return due;
}

/* Of those whose next chunk is due, one by chance. */
static struct socket *socket_due(void)
{
	struct socket *picked = NULL;
	unsigned n = 0;

	list_for_each_entry(struct socket, socket, &sockets, link) {
		const struct chunk *chunk = socket_next(socket);

		if (chunk && chunk->due_ns <= sim_now_ns && sim_chance(++n))
			picked = socket;
	}
	return picked;
}

bool network_step(void)
{
	struct socket *socket = socket_due();
	struct chunk *chunk;

	if (!socket)
		return false;
	chunk = socket_next(socket);
	if (link_is_down(socket->client, socket->towards))
		chunk->due_ns = link_again_ns(socket->client, socket->towards);
	else
		chunk_arrives(socket, chunk);
	return true;
}

void network_cut(unsigned client)
{
	list_for_each_entry(struct socket, socket, &sockets, link) {
		/* one that is not accepted is reset with its client's end */
		if (socket->client == client && socket->state == STATE_OPEN)
			reset_arrives(socket);
	}
}

void network_close(void)
{
	list_for_each_entry_safe(struct socket, socket, &sockets, link)
		socket_free(socket);
	list_init(&backlog);
	memset(links, 0, sizeof(links));
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/tcp/accept.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/utf8.h"
#include "fabric/address.h"
#include "fabric/listen.h"
#include "fabric/slots.h"
#include "fabric/tcp/socket.h"
#include "fabric/tcp/stream.h"
#include "wire/codec.h"

#define HELLO_MS 5000 /* for the hello */
#define DRAINS_MAX 16 /* calls that drop what a misled client has sent */

struct incoming {
	struct tcp_source source;
	struct tcp_acceptor *acceptor;
	struct slot slot; /* one of acceptor->slots */
	struct list free; /* in acceptor->free, while it has none */
	int fd;           /* -1: it has none */
	struct fabric_address peer;
	uint64_t deadline_ms;
	size_t have;
	uint8_t hello[FABRIC_HELLO_BYTES];
};

struct tcp_acceptor {
	const struct tcp_acceptor_events *events;
	void *ctx;
	int epoll_fd;
	struct tcp_source listening;
	int listen_fd;
	uint16_t port;
	bool paused;
	uint64_t pause_end_ms;
	struct tcp_source timing;
	int timer_fd;
	unsigned n_slots;
	struct slots slots; /* the oldest first: deadlines rise */
	struct list free;
	struct incoming incoming[]; /* one more than there are slots */
};

int tcp_source_watch(int epoll_fd, int fd, struct tcp_source *source)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = source };

	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
		return err_errno(-errno, "epoll_ctl");
	return 0;
}

void tcp_send_status(int fd, enum wire_code status, const char *why)
{
	struct {
		struct stream_status status;
		char text[STREAM_TEXT_MAX];
	} message;
	size_t bytes = utf8_cut(why, sizeof(message.text));

	message.status.status = htole32(status);
	message.status.bytes = htole32((uint32_t)bytes);
	memcpy(message.text, why, bytes);
	/* the first bytes on a socket fit its buffer */
	(void)!send(fd, &message, sizeof(message.status) + bytes,
		    MSG_NOSIGNAL | MSG_DONTWAIT);
}

static struct incoming *incoming_of(struct slot *slot)
{
	return slot ? container_of(slot, struct incoming, slot) : NULL;
}

static struct incoming *incoming_oldest(const struct tcp_acceptor *acceptor)
{
	return incoming_of(list_first(&acceptor->slots.taken, struct slot, link));
}

/* Set the timer to the next deadline. */
static void acceptor_set_timer(struct tcp_acceptor *acceptor)
{
	const struct incoming *oldest = incoming_oldest(acceptor);
	uint64_t next = UINT64_MAX;
	struct itimerspec when = { 0 };

	if (oldest)
		next = oldest->deadline_ms;
	if (acceptor->paused && acceptor->pause_end_ms < next)
		next = acceptor->pause_end_ms;
	if (next != UINT64_MAX)
		when.it_value = clock_timespec(next * NS_PER_MS);
	/* a valid time on a timerfd: cannot fail */
	(void)timerfd_settime(acceptor->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

/* Free the slot; returns the socket, which the caller owns. */
static int incoming_release(struct incoming *incoming)
{
	struct tcp_acceptor *acceptor = incoming->acceptor;
	int fd = incoming->fd;

	(void)epoll_ctl(acceptor->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	incoming->fd = -1;
	slot_leave(&acceptor->slots, &incoming->slot);
	list_append(&acceptor->free, &incoming->free);
	return fd;
}

static void incoming_reject(struct incoming *incoming)
{
	struct tcp_acceptor *acceptor = incoming->acceptor;

	(void)close(incoming_release(incoming));
	acceptor->events->rejected(acceptor->ctx);
}

_Static_assert(WIRE_HEADER_BYTES + sizeof(uint32_t) <= FABRIC_HELLO_BYTES,
	       "a control hello begins with a header and the magic number");

/* Whether the first bytes are those of a client of the control protocol, whose URI has the wrong
 * port. */
static bool is_control_hello(const struct incoming *incoming)
{
	uint32_t magic;

	memcpy(&magic, incoming->hello + WIRE_HEADER_BYTES, sizeof(magic));
	return wire_frame_type(incoming->hello) == WIRE_TYPE_hello &&
	       le32toh(magic) == WIRE_MAGIC;
}

/* Answer it with an error of its own protocol; the caller closes the socket. */
static void control_refuse(const struct incoming *incoming)
{
	uint8_t buf[4096];
	struct wire_msg msg;
	uint64_t id;
	int bytes;

	wire_msg_init(&msg, WIRE_TYPE_error);
	memcpy(&id, incoming->hello + WIRE_HEADER_BYTES - sizeof(id), sizeof(id));
	msg.id = le64toh(id);
	msg.error.code = WIRE_CODE_malformed;
	(void)snprintf(
		msg.error.text, sizeof(msg.error.text),
		"port %u of this server is for data; a URI names its control "
		"port, which [server] port or rmemd.socket sets (by default 7460)",
		incoming->acceptor->port);
	/* a socket that is closed with unread input resets the connection, and the client may
	 * lose the answer */
	for (unsigned i = 0; i < DRAINS_MAX; i++)
		if (recv(incoming->fd, buf, sizeof(buf), MSG_DONTWAIT) <= 0)
			break;
	bytes = wire_encode(&msg, buf, sizeof(buf));
	/* the first bytes on a socket fit its buffer; an error is the client's loss */
	if (bytes > 0)
		(void)!send(incoming->fd, buf, (size_t)bytes,
			    MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void incoming_ready(struct tcp_source *source)
{
	struct incoming *incoming = container_of(source, struct incoming, source);
	struct tcp_acceptor *acceptor = incoming->acceptor;
	struct fabric_hello hello;
	ssize_t n;

	/* the slot may have been freed since epoll reported it */
	if (incoming->fd < 0)
		return;
	n = recv(incoming->fd, incoming->hello + incoming->have,
		 sizeof(incoming->hello) - incoming->have, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		incoming_reject(incoming);
		return;
	}
	incoming->have += (size_t)n;
	if (incoming->have < sizeof(incoming->hello))
		return;
	if (fabric_hello_decode(incoming->hello, incoming->have, &hello) != 0) {
		if (is_control_hello(incoming))
			control_refuse(incoming);
		else
			tcp_send_status(incoming->fd, WIRE_CODE_malformed, err_text());
		incoming_reject(incoming);
		return;
	}
	hello.peer = incoming->peer;
	acceptor->events->hello(acceptor->ctx, incoming_release(incoming), &hello);
}

static void on_connection(void *ctx, int fd, const struct fabric_address *peer)
{
	struct tcp_acceptor *acceptor = ctx;
	struct slots *slots = &acceptor->slots;
	struct incoming *incoming = list_first(&acceptor->free, struct incoming, free);

	list_remove(&incoming->free);
	incoming->fd = fd;
	incoming->peer = *peer;
	incoming->have = 0;
	incoming->deadline_ms = clock_now_ms() + HELLO_MS;
	if (slot_wait(slots, &incoming->slot, peer) ||
	    tcp_source_watch(acceptor->epoll_fd, fd, &incoming->source)) {
		incoming_reject(incoming);
		return;
	}
	if (slots->n_taken == acceptor->n_slots)
		incoming_reject(
			incoming_of(slots_victim(slots, &incoming->slot, NULL)));
	slot_take(slots, &incoming->slot);
	/* the hello often arrives with the connection */
	incoming_ready(&incoming->source);
}

/* Stop or resume accepting. */
static void acceptor_pause(struct tcp_acceptor *acceptor, bool pause)
{
	struct epoll_event event = { .events = pause ? 0 : EPOLLIN,
				     .data.ptr = &acceptor->listening };

	acceptor->paused = pause;
	acceptor->pause_end_ms = clock_now_ms() + ACCEPT_PAUSE_MS;
	/* changing what is registered takes no memory: cannot fail */
	(void)epoll_ctl(acceptor->epoll_fd, EPOLL_CTL_MOD, acceptor->listen_fd, &event);
}

static void acceptor_listening(struct tcp_source *source)
{
	struct tcp_acceptor *acceptor =
		container_of(source, struct tcp_acceptor, listening);

	if (fabric_accept(acceptor->listen_fd, on_connection, acceptor)) {
		acceptor_pause(acceptor, true);
		acceptor->events->trouble(acceptor->ctx, err_text());
	}
	acceptor_set_timer(acceptor);
}

static void acceptor_timing(struct tcp_source *source)
{
	struct tcp_acceptor *acceptor =
		container_of(source, struct tcp_acceptor, timing);
	uint64_t now = clock_now_ms(), expirations;
	struct incoming *oldest;

	(void)!read(acceptor->timer_fd, &expirations, sizeof(expirations));
	while ((oldest = incoming_oldest(acceptor)) && oldest->deadline_ms <= now)
		incoming_reject(oldest);
	if (acceptor->paused && acceptor->pause_end_ms <= now)
		acceptor_pause(acceptor, false);
	acceptor_set_timer(acceptor);
}

static int acceptor_listen(struct tcp_acceptor *acceptor,
			   const struct fabric_address *address)
{
	char text[FABRIC_ADDRESS_TEXT];
	struct fabric_address own;
	int fd = fabric_listen(address), err;

	if (fd < 0)
		return err_errno(fd, "cannot listen for data streams on %s",
				 fabric_address_text(address, text));
	acceptor->listen_fd = fd;
	err = fabric_socket_address(fd, &own);
	if (err)
		return err_errno(err, "getsockname");
	acceptor->port = own.port;
	err = tcp_source_watch(acceptor->epoll_fd, fd, &acceptor->listening);
	if (err)
		return err;
	acceptor->timer_fd = timerfd_create(CLOCK_TIMER_ID, TFD_CLOEXEC | TFD_NONBLOCK);
	if (acceptor->timer_fd < 0)
		return err_errno(-errno, "timerfd_create");
	return tcp_source_watch(acceptor->epoll_fd, acceptor->timer_fd,
				&acceptor->timing);
}

int tcp_acceptor_open(const struct fabric_address *address, unsigned slots,
		      int epoll_fd, const struct tcp_acceptor_events *events, void *ctx,
		      struct tcp_acceptor **ret_acceptor)
{
	struct tcp_acceptor *acceptor = calloc(
		1, sizeof(*acceptor) + (slots + 1) * sizeof(acceptor->incoming[0]));
	int err;

	if (!acceptor)
		return err_errno(-ENOMEM, "room for %u new data streams", slots);
	acceptor->events = events;
	acceptor->ctx = ctx;
	acceptor->epoll_fd = epoll_fd;
	acceptor->listening.ready = acceptor_listening;
	acceptor->timing.ready = acceptor_timing;
	acceptor->listen_fd = acceptor->timer_fd = -1;
	acceptor->n_slots = slots;
	slots_init(&acceptor->slots);
	list_init(&acceptor->free);
	for (unsigned i = 0; i <= slots; i++) {
		struct incoming *incoming = &acceptor->incoming[i];

		*incoming = (struct incoming){ .source.ready = incoming_ready,
					       .acceptor = acceptor,
					       .fd = -1 };
		list_append(&acceptor->free, &incoming->free);
	}
	err = acceptor_listen(acceptor, address);
	if (err) {
		tcp_acceptor_close(acceptor);
		return err;
	}
	*ret_acceptor = acceptor;
	return 0;
}

void tcp_acceptor_close(struct tcp_acceptor *acceptor)
{
	struct incoming *incoming;

	if (!acceptor)
		return;
	while ((incoming = incoming_oldest(acceptor)))
		(void)close(incoming_release(incoming));
	if (acceptor->timer_fd >= 0)
		(void)close(acceptor->timer_fd);
	if (acceptor->listen_fd >= 0)
		(void)close(acceptor->listen_fd);
	free(acceptor);
}

uint16_t tcp_acceptor_port(const struct tcp_acceptor *acceptor)
{
	return acceptor->port;
}

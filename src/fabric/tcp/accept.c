/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/tcp/accept.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
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
#include "fabric/crowd.h"
#include "fabric/listen.h"
#include "fabric/tcp/socket.h"
#include "fabric/tcp/stream.h"
#include "wire/codec.h"

#define HELLO_MS 5000  /* for the hello */
#define PAUSE_MS 200   /* without accept() after it found no resources */
#define ACCEPTS_MAX 16 /* per event, so that others get their turn */
#define DRAINS_MAX 16  /* calls that drop what a misled client has sent */
/* Completed by the kernel, not yet accepted.  Beyond it SYNs are lost, and their clients wait for a
 * second, so it is longer than what arrives during a turn of the loop. */
#define LISTEN_QUEUE 1024

struct incoming {
	struct tcp_source source;
	struct tcp_acceptor *acceptor;
	struct list link; /* acceptor->waiting or acceptor->free_slots */
	int fd;           /* -1: the slot is free */
	struct fabric_address peer;
	struct crowd *crowd; /* of the peer; NULL: the slot is free */
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
	struct list waiting; /* oldest first: deadlines rise */
	struct list crowds;  /* of those that wait */
	struct list free_slots;
	unsigned n_slots;
	struct incoming slots[];
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

/* Set the timer to the next deadline. */
static void acceptor_set_timer(struct tcp_acceptor *acceptor)
{
	struct incoming *oldest = list_first(&acceptor->waiting, struct incoming, link);
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
	crowd_leave(incoming->crowd);
	incoming->crowd = NULL;
	list_move(&acceptor->free_slots, &incoming->link);
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

/* The oldest one of the address that has the most: whoever has fewer keeps its own. */
static struct incoming *incoming_victim(const struct tcp_acceptor *acceptor)
{
	struct incoming *victim = NULL;

	list_for_each_entry(struct incoming, incoming, &acceptor->waiting, link) {
		if (!victim || incoming->crowd->n > victim->crowd->n)
			victim = incoming;
	}
	return victim;
}

/* A slot for the socket, which is watched.  NULL: it cannot be. */
static struct incoming *incoming_take(struct tcp_acceptor *acceptor, int fd)
{
	struct incoming *incoming;

	if (list_empty(&acceptor->free_slots))
		incoming_reject(incoming_victim(acceptor));
	incoming = list_first(&acceptor->free_slots, struct incoming, link);
	return tcp_source_watch(acceptor->epoll_fd, fd, &incoming->source) ? NULL
									   : incoming;
}

static void acceptor_add(struct tcp_acceptor *acceptor, int fd,
			 const struct sockaddr *from)
{
	struct fabric_address peer = { .family = 0 };
	struct incoming *incoming = NULL;
	struct crowd *crowd;

	(void)fabric_address_from_sockaddr(from, &peer);
	crowd = crowd_join(&acceptor->crowds, &peer, sizeof(*crowd));
	if (crowd)
		incoming = incoming_take(acceptor, fd);
	if (!incoming) {
		crowd_leave(crowd);
		(void)close(fd);
		acceptor->events->rejected(acceptor->ctx);
		return;
	}
	incoming->fd = fd;
	incoming->peer = peer;
	incoming->crowd = crowd;
	incoming->have = 0;
	incoming->deadline_ms = clock_now_ms() + HELLO_MS;
	list_move(&acceptor->waiting, &incoming->link);
	/* the hello often arrives with the connection */
	incoming_ready(&incoming->source);
}

/* Stop or resume accepting. */
static void acceptor_pause(struct tcp_acceptor *acceptor, bool pause)
{
	struct epoll_event event = { .events = pause ? 0 : EPOLLIN,
				     .data.ptr = &acceptor->listening };

	acceptor->paused = pause;
	acceptor->pause_end_ms = clock_now_ms() + PAUSE_MS;
	/* changing what is registered takes no memory: cannot fail */
	(void)epoll_ctl(acceptor->epoll_fd, EPOLL_CTL_MOD, acceptor->listen_fd, &event);
}

static bool accept_is_over(struct tcp_acceptor *acceptor, int err)
{
	switch (err) {
	case EAGAIN:
		return true;
	case EMFILE:
	case ENFILE:
	case ENOBUFS:
	case ENOMEM:
		acceptor_pause(acceptor, true);
		(void)err_errno(-err, "data streams cannot be accepted for now");
		acceptor->events->trouble(acceptor->ctx, err_text());
		return true;
	default:
		/* an error of that connection */
		return false;
	}
}

static void acceptor_listening(struct tcp_source *source)
{
	struct tcp_acceptor *acceptor =
		container_of(source, struct tcp_acceptor, listening);

	for (unsigned i = 0; i < ACCEPTS_MAX; i++) {
		struct sockaddr_storage from = { .ss_family = AF_UNSPEC };
		socklen_t bytes = sizeof(from);
		int fd = accept4(acceptor->listen_fd, (struct sockaddr *)&from, &bytes,
				 SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0)
			acceptor_add(acceptor, fd, (struct sockaddr *)&from);
		else if (accept_is_over(acceptor, errno))
			break;
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
	while ((oldest = list_first(&acceptor->waiting, struct incoming, link)) !=
		       NULL &&
	       oldest->deadline_ms <= now)
		incoming_reject(oldest);
	if (acceptor->paused && acceptor->pause_end_ms <= now)
		acceptor_pause(acceptor, false);
	acceptor_set_timer(acceptor);
}

static int socket_port(int fd, uint16_t *ret_port)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);

	if (getsockname(fd, (struct sockaddr *)&addr, &len) != 0)
		return err_errno(-errno, "getsockname");
	/* sin_port and sin6_port have one offset */
	*ret_port = ntohs(((const struct sockaddr_in *)(const void *)&addr)->sin_port);
	return 0;
}

static int acceptor_listen(struct tcp_acceptor *acceptor,
			   const struct fabric_address *address)
{
	char text[FABRIC_ADDRESS_TEXT];
	int fd = fabric_listen(address, LISTEN_QUEUE);
	int err;

	if (fd < 0)
		return err_errno(fd, "cannot listen for data streams on %s",
				 fabric_address_text(address, text));
	acceptor->listen_fd = fd;
	err = socket_port(fd, &acceptor->port);
	if (!err)
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
	struct tcp_acceptor *acceptor =
		calloc(1, sizeof(*acceptor) + slots * sizeof(acceptor->slots[0]));
	int err;

	if (!acceptor)
		return err_errno(-ENOMEM, "room for %u new data streams", slots);
	acceptor->events = events;
	acceptor->ctx = ctx;
	acceptor->epoll_fd = epoll_fd;
	acceptor->listening.ready = acceptor_listening;
	acceptor->timing.ready = acceptor_timing;
	acceptor->listen_fd = acceptor->timer_fd = -1;
	list_init(&acceptor->waiting);
	list_init(&acceptor->crowds);
	list_init(&acceptor->free_slots);
	acceptor->n_slots = slots;
	for (unsigned i = 0; i < slots; i++) {
		acceptor->slots[i] = (struct incoming){ .source.ready = incoming_ready,
							.acceptor = acceptor,
							.fd = -1 };
		list_append(&acceptor->free_slots, &acceptor->slots[i].link);
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
	if (!acceptor)
		return;
	for (unsigned i = 0; i < acceptor->n_slots; i++) {
		crowd_leave(acceptor->slots[i].crowd);
		if (acceptor->slots[i].fd >= 0)
			(void)close(acceptor->slots[i].fd);
	}
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

/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/tcp/accept.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "fabric/tcp/socket.h"
#include "fabric/tcp/stream.h"

#define HELLO_MS 5000    /* a connection's time to present itself */
#define PAUSE_MS 200     /* no accept after it failed for want of resources */
#define ACCEPTS_MAX 16   /* per wake-up: the loop has other things to do */
#define LISTEN_QUEUE 128 /* completed by the kernel, not yet accepted */

struct guest {
	struct tcp_source source;
	struct tcp_lobby *lobby;
	struct list link; /* lobby->waiting or lobby->seats_free */
	int fd;           /* -1: the seat is free */
	uint64_t deadline_ms;
	size_t have;
	uint8_t hello[FABRIC_HELLO_BYTES];
};

struct tcp_lobby {
	const struct tcp_lobby_events *events;
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
	struct list seats_free;
	unsigned n_seats;
	struct guest seats[];
};

int tcp_source_watch(int epoll_fd, int fd, struct tcp_source *source)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = source };

	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
		return err_errno(-errno, "epoll_ctl");
	return 0;
}

int tcp_lobby_verdict(int fd, uint32_t status)
{
	struct stream_verdict verdict = { .status = htole32(status) };
	ssize_t n = send(fd, &verdict, sizeof(verdict), MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0)
		return err_errno(-errno, "sending a verdict");
	/* the first bytes on a new socket: they fit or it is broken */
	return n == sizeof(verdict) ? 0 : err_set(-EPIPE, "a verdict was cut short");
}

/* Have the timer go off at the next deadline. */
static void lobby_set_timer(struct tcp_lobby *lobby)
{
	struct guest *oldest = list_first(&lobby->waiting, struct guest, link);
	uint64_t now = clock_now_ms(), next = UINT64_MAX, left;
	struct itimerspec when = { 0 };

	if (oldest)
		next = oldest->deadline_ms;
	if (lobby->paused && lobby->pause_end_ms < next)
		next = lobby->pause_end_ms;
	if (next != UINT64_MAX) {
		left = next > now ? next - now : 1;
		when.it_value.tv_sec = (time_t)(left / 1000);
		when.it_value.tv_nsec = (long)(left % 1000) * 1000000L;
	}
	/* a valid time on a timerfd: cannot fail */
	(void)timerfd_settime(lobby->timer_fd, 0, &when, NULL);
}

/* Free the seat; returns the socket, which is the caller's now. */
static int guest_leave(struct guest *guest)
{
	struct tcp_lobby *lobby = guest->lobby;
	int fd = guest->fd;

	(void)epoll_ctl(lobby->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	guest->fd = -1;
	list_remove(&guest->link);
	list_append(&lobby->seats_free, &guest->link);
	return fd;
}

static void guest_turn_away(struct guest *guest)
{
	struct tcp_lobby *lobby = guest->lobby;

	(void)close(guest_leave(guest));
	lobby->events->turned_away(lobby->ctx);
}

static void guest_ready(struct tcp_source *source)
{
	struct guest *guest = container_of(source, struct guest, source);
	struct tcp_lobby *lobby = guest->lobby;
	struct fabric_hello hello;
	ssize_t n;

	/* the seat may have been freed since epoll reported it */
	if (guest->fd < 0)
		return;
	n = recv(guest->fd, guest->hello + guest->have,
		 sizeof(guest->hello) - guest->have, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		guest_turn_away(guest);
		return;
	}
	guest->have += (size_t)n;
	if (guest->have < sizeof(guest->hello))
		return;
	if (fabric_hello_decode(guest->hello, guest->have, &hello) != 0) {
		(void)tcp_lobby_verdict(guest->fd, STREAM_BROKEN);
		guest_turn_away(guest);
		return;
	}
	lobby->events->hello(lobby->ctx, guest_leave(guest), &hello);
}

static void lobby_seat(struct tcp_lobby *lobby, int fd)
{
	struct guest *guest;

	if (list_empty(&lobby->seats_free))
		guest_turn_away(list_first(&lobby->waiting, struct guest, link));
	guest = list_first(&lobby->seats_free, struct guest, link);
	if (tcp_source_watch(lobby->epoll_fd, fd, &guest->source) != 0) {
		(void)close(fd);
		lobby->events->turned_away(lobby->ctx);
		return;
	}
	guest->fd = fd;
	guest->have = 0;
	guest->deadline_ms = clock_now_ms() + HELLO_MS;
	list_remove(&guest->link);
	list_append(&lobby->waiting, &guest->link);
	/* most hellos are there already */
	guest_ready(&guest->source);
}

/* Stop or start to look at the listener. */
static void lobby_pause(struct tcp_lobby *lobby, bool pause)
{
	struct epoll_event event = { .events = pause ? 0 : EPOLLIN,
				     .data.ptr = &lobby->listening };

	lobby->paused = pause;
	lobby->pause_end_ms = clock_now_ms() + PAUSE_MS;
	/* changing what is registered takes no memory: cannot fail */
	(void)epoll_ctl(lobby->epoll_fd, EPOLL_CTL_MOD, lobby->listen_fd, &event);
}

static bool accept_is_over(struct tcp_lobby *lobby, int err)
{
	switch (err) {
	case EAGAIN:
		return true;
	case EMFILE:
	case ENFILE:
	case ENOBUFS:
	case ENOMEM:
		lobby_pause(lobby, true);
		(void)err_errno(-err, "data streams cannot be accepted for now");
		lobby->events->trouble(lobby->ctx, err_text());
		return true;
	default:
		/* an error of the one connection, passed on by accept */
		return false;
	}
}

static void lobby_listening(struct tcp_source *source)
{
	struct tcp_lobby *lobby = container_of(source, struct tcp_lobby, listening);

	for (unsigned i = 0; i < ACCEPTS_MAX; i++) {
		int fd = accept4(lobby->listen_fd, NULL, NULL,
				 SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0)
			lobby_seat(lobby, fd);
		else if (accept_is_over(lobby, errno))
			break;
	}
	lobby_set_timer(lobby);
}

static void lobby_timing(struct tcp_source *source)
{
	struct tcp_lobby *lobby = container_of(source, struct tcp_lobby, timing);
	uint64_t now = clock_now_ms(), expirations;
	struct guest *oldest;

	(void)!read(lobby->timer_fd, &expirations, sizeof(expirations));
	while ((oldest = list_first(&lobby->waiting, struct guest, link)) != NULL &&
	       oldest->deadline_ms <= now)
		guest_turn_away(oldest);
	if (lobby->paused && lobby->pause_end_ms <= now)
		lobby_pause(lobby, false);
	lobby_set_timer(lobby);
}

static int listen_on(const struct fabric_address *address)
{
	struct sockaddr_storage addr;
	socklen_t len = tcp_socket_address(address, &addr);
	int fd, err, on = 1, v6only = memcmp(address->bytes, &in6addr_any, 16) != 0;

	fd = socket(addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
	    (addr.ss_family == AF_INET6 &&
	     setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof(v6only)) != 0) ||
	    bind(fd, (struct sockaddr *)&addr, len) != 0 ||
	    listen(fd, LISTEN_QUEUE) != 0) {
		err = -errno;
		(void)close(fd);
		return err;
	}
	return fd;
}

/* The wildcard of both families, or of IPv4 where there is no IPv6. */
static int listen_everywhere(uint16_t port)
{
	struct fabric_address any = { .family = 6, .port = port };
	int fd = listen_on(&any);

	if (fd == -EAFNOSUPPORT || fd == -EADDRNOTAVAIL) {
		any.family = 4;
		fd = listen_on(&any);
	}
	return fd;
}

static int socket_port(int fd, uint16_t *ret_port)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);

	if (getsockname(fd, (struct sockaddr *)&addr, &len) != 0)
		return err_errno(-errno, "getsockname");
	/* the port is at the same place in both families */
	*ret_port = ntohs(((const struct sockaddr_in *)(const void *)&addr)->sin_port);
	return 0;
}

static int lobby_listen(struct tcp_lobby *lobby, const struct fabric_address *address)
{
	char text[TCP_ADDRESS_TEXT];
	int fd =
		address->family ? listen_on(address) : listen_everywhere(address->port);
	int err;

	if (fd < 0)
		return err_errno(fd, "cannot listen for data streams on %s",
				 tcp_socket_text(address, text));
	lobby->listen_fd = fd;
	err = socket_port(fd, &lobby->port);
	if (err)
		return err;
	lobby->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (lobby->timer_fd < 0)
		return err_errno(-errno, "timerfd_create");
	err = tcp_source_watch(lobby->epoll_fd, fd, &lobby->listening);
	if (err)
		return err;
	return tcp_source_watch(lobby->epoll_fd, lobby->timer_fd, &lobby->timing);
}

int tcp_lobby_open(const struct fabric_address *address, unsigned seats, int epoll_fd,
		   const struct tcp_lobby_events *events, void *ctx,
		   struct tcp_lobby **ret_lobby)
{
	struct tcp_lobby *lobby =
		calloc(1, sizeof(*lobby) + seats * sizeof(lobby->seats[0]));
	int err;

	if (!lobby)
		return err_errno(-ENOMEM, "room for %u new data streams", seats);
	lobby->events = events;
	lobby->ctx = ctx;
	lobby->epoll_fd = epoll_fd;
	lobby->listening.ready = lobby_listening;
	lobby->timing.ready = lobby_timing;
	lobby->listen_fd = lobby->timer_fd = -1;
	list_init(&lobby->waiting);
	list_init(&lobby->seats_free);
	lobby->n_seats = seats;
	for (unsigned i = 0; i < seats; i++) {
		lobby->seats[i] = (struct guest){ .source.ready = guest_ready,
						  .lobby = lobby,
						  .fd = -1 };
		list_append(&lobby->seats_free, &lobby->seats[i].link);
	}
	err = lobby_listen(lobby, address);
	if (err) {
		tcp_lobby_close(lobby);
		return err;
	}
	*ret_lobby = lobby;
	return 0;
}

void tcp_lobby_close(struct tcp_lobby *lobby)
{
	if (!lobby)
		return;
	for (unsigned i = 0; i < lobby->n_seats; i++)
		if (lobby->seats[i].fd >= 0)
			(void)close(lobby->seats[i].fd);
	if (lobby->timer_fd >= 0)
		(void)close(lobby->timer_fd);
	if (lobby->listen_fd >= 0)
		(void)close(lobby->listen_fd);
	free(lobby);
}

uint16_t tcp_lobby_port(const struct tcp_lobby *lobby)
{
	return lobby->port;
}

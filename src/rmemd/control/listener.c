/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/listener.h"

#include <errno.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "fabric/listen.h"
#include "rmemd/control/connection.h"
#include "rmemd/control/control.h"
#include "rmemd/loop/events.h"
#include "rmemd/loop/turn.h"

/* Connections that the kernel holds until the loop comes to them: the clients of a rack. */
#define BACKLOG 1024
/* Pause after an error: without a free descriptor accept(2) fails again at once. */
#define PAUSE_MS 100
/* Accepted in a row before others get their turn. */
#define ACCEPTS_MAX 16
/* The kernel holds back a connection that sends nothing for about this long; the time for the
 * hello counts from then on. */
#define SILENT_SECONDS 1

bool listener_skips(const struct fabric_address *address, int err)
{
	return (err == -EADDRNOTAVAIL || err == -EAFNOSUPPORT) &&
	       address->family == 6 && fabric_address_is_loopback(address);
}

/* A socket address with its port. */
static struct fabric_address address_of(const struct sockaddr *from)
{
	struct fabric_address address = { .family = 0 };
	struct sockaddr_in in;

	/* which stands at one place in both families */
	memcpy(&in, from, sizeof(in));
	if (fabric_address_from_sockaddr(from, &address))
		address.port = ntohs(in.sin_port);
	return address;
}

/* A listener that cannot be enabled, for want of memory or of watches of epoll, tries again. */
static void listener_enable(struct listener *listener)
{
	const struct timeval pause = timeval_of_ms(PAUSE_MS);

	if (evconnlistener_enable(listener->events))
		(void)event_add(listener->resume, &pause);
}

static void listener_pause(struct listener *listener, const struct timeval *pause)
{
	(void)evconnlistener_disable(listener->events);
	if (event_add(listener->resume, pause))
		listener_enable(listener);
}

static void on_accept(struct evconnlistener *, evutil_socket_t fd,
		      struct sockaddr *sockaddr, int, void *arg)
{
	struct listener *listener = arg;
	struct control *control = listener->control;
	const struct fabric_address from = address_of(sockaddr);
	const struct timeval at_once = { 0 };
	char name[FABRIC_ADDRESS_TEXT];

	turn_work();
	/* libevent accepts until there are no more connections, or until it is disabled */
	if (++listener->n_accepted == ACCEPTS_MAX)
		listener_pause(listener, &at_once);
	control->counters.connections++;
	if (connection_accept(control->connections, fd, &from))
		connection_refused(control, REFUSAL_PLACE,
				   fabric_address_text(&from, name), err_text());
}

static void on_error(struct evconnlistener *, void *arg)
{
	const struct timeval pause = timeval_of_ms(PAUSE_MS);
	struct listener *listener = arg;
	int err = EVUTIL_SOCKET_ERROR();

	turn_work();
	log_event(LOG_WARNING, "accept-failed", NULL, "%s: %s%s", listener->name,
		  strerror(err), err == EMFILE ? "; raise LimitNOFILE" : "");
	listener_pause(listener, &pause);
}

static void on_resume(evutil_socket_t, short, void *arg)
{
	struct listener *listener = arg;

	listener->n_accepted = 0;
	listener_enable(listener);
}

/* All options but the first are for accepted sockets, which inherit them: they save time, and find
 * a dead peer sooner.  Failures are ignored, as the heartbeat finds it too. */
static void tune_socket(int fd, const struct config *config)
{
	const int on = 1, off = 0, probes = 3, silent_seconds = SILENT_SECONDS;
	unsigned fence_ms = (unsigned)config->fence_ms;
	int seconds = (int)(config->fence_ms / 1000) + 1;

	/* a connection held back costs neither a descriptor nor a turn of the loop */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &silent_seconds,
			 sizeof(silent_seconds));
	/* replies are sent at once, and acknowledge the requests */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &off, sizeof(off));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof(seconds));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof(seconds));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &fence_ms,
			 sizeof(fence_ms));
}

/* Watch the socket.  evconnlistener_new() does not tell whether it is enabled. */
static int listener_watch(struct listener *listener, int fd)
{
	struct event_base *base = listener->control->base;

	listener->resume = event_make(base, -1, 0, on_resume, listener);
	if (listener->resume)
		listener->events = evconnlistener_new(
			base, on_accept, listener,
			LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_DISABLED, BACKLOG, fd);
	if (!listener->events)
		return err_set(-ENOMEM, "no memory for a listener");
	evconnlistener_set_error_cb(listener->events, on_error);
	if (evconnlistener_enable(listener->events))
		return err_errno(-ENOMEM, "%s cannot be watched", listener->name);
	return 0;
}

/* Without its socket. */
static void listener_free(struct listener *listener)
{
	if (listener->events)
		evconnlistener_free(listener->events);
	event_drop(&listener->resume);
	free(listener);
}

int listener_open_fd(struct control *control, int fd, struct listener **ret_listener)
{
	struct listener *listener = calloc(1, sizeof(*listener));
	struct sockaddr_storage at = { 0 };
	socklen_t bytes = sizeof(at);
	struct fabric_address address;
	int err;

	if (!listener)
		return err_set(-ENOMEM, "no memory for a listener");
	listener->control = control;
	if (getsockname(fd, (struct sockaddr *)&at, &bytes)) {
		free(listener);
		return err_errno(-errno, "the control socket");
	}
	tune_socket(fd, control->config);
	address = address_of((struct sockaddr *)&at);
	(void)fabric_address_text(&address, listener->name);
	listener->loopback = fabric_address_is_loopback(&address);
	err = listener_watch(listener, fd);
	if (err) {
		listener_free(listener);
		return err;
	}
	*ret_listener = listener;
	return 0;
}

int listener_open(struct control *control, const struct fabric_address *address,
		  struct listener **ret_listener)
{
	char name[FABRIC_ADDRESS_TEXT];
	int fd = fabric_listen(address, BACKLOG), err;

	(void)fabric_address_text(address, name);
	if (fd == -EADDRINUSE)
		return err_set(
			fd,
			"%s is taken, perhaps by another rmemd: stop that, or set "
			"[server] port",
			name);
	if (fd < 0)
		return err_errno(fd, "%s", name);
	err = listener_open_fd(control, fd, ret_listener);
	if (err)
		(void)close(fd);
	return err;
}

void listener_close(struct listener *listener)
{
	if (!listener)
		return;
	(void)close(evconnlistener_get_fd(listener->events));
	listener_free(listener);
}

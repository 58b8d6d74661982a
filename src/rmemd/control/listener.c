/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/listener.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "fabric/listen.h"
#include "rmemd/control/connection.h"
#include "rmemd/control/control.h"
#include "rmemd/loop/events.h"

/* The kernel holds back a connection that sends nothing for about this long; the time for the
 * hello counts from then on. */
#define SILENT_SECONDS 1

bool listener_skips(const struct fabric_address *address, int err)
{
	return (err == -EADDRNOTAVAIL || err == -EAFNOSUPPORT) &&
	       address->family == 6 && fabric_address_is_loopback(address);
}

static void listener_pause(struct listener *listener)
{
	const struct timeval pause = timeval_of_ms(ACCEPT_PAUSE_MS);

	(void)event_add(listener->resume, &pause);
}

static void on_connection(void *ctx, int fd, const struct fabric_address *from)
{
	struct control *control = ctx;
	char name[FABRIC_ADDRESS_TEXT];

	control->counters.connections++;
	if (connection_accept(control->connections, fd, from))
		connection_refused(control, REFUSAL_SLOT,
				   fabric_address_text(from, name), err_text());
}

static void on_readable(evutil_socket_t fd, short, void *arg)
{
	struct listener *listener = arg;

	if (!fabric_accept(fd, on_connection, listener->control))
		return;
	log_event(LOG_WARNING, "accept-failed", NULL, "%s: %s", listener->name,
		  err_text());
	(void)event_del(listener->readable);
	listener_pause(listener);
}

/* For want of memory or of watches of epoll it tries again. */
static void on_resume(evutil_socket_t, short, void *arg)
{
	struct listener *listener = arg;

	if (event_add(listener->readable, NULL))
		listener_pause(listener);
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

/* Without its socket. */
static void listener_free(struct listener *listener)
{
	event_drop(&listener->readable);
	event_drop(&listener->resume);
	free(listener);
}

static int listener_watch(struct listener *listener)
{
	struct event_base *base = listener->control->base;

	listener->readable = event_make(base, listener->fd, EV_READ | EV_PERSIST,
					on_readable, listener);
	listener->resume = event_make(base, -1, 0, on_resume, listener);
	if (!listener->readable || !listener->resume)
		return err_set(-ENOMEM, "no memory for a listener");
	if (event_add(listener->readable, NULL))
		return err_errno(-ENOMEM, "%s cannot be watched", listener->name);
	return 0;
}

int listener_open_fd(struct control *control, int fd, struct listener **ret_listener)
{
	struct listener *listener = calloc(1, sizeof(*listener));
	struct fabric_address address;
	int err;

	if (!listener)
		return err_set(-ENOMEM, "no memory for a listener");
	listener->control = control;
	listener->fd = fd;
	err = fabric_socket_address(fd, &address);
	if (err) {
		free(listener);
		return err_errno(err, "the control socket");
	}
	tune_socket(fd, control->config);
	(void)fabric_address_text(&address, listener->name);
	listener->loopback = fabric_address_is_loopback(&address);
	err = listener_watch(listener);
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
	int fd = fabric_listen(address), err;

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
	(void)close(listener->fd);
	listener_free(listener);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The admin socket: HTTP with JSON on a UNIX socket.
 *   GET what resource.c has: /v1/status /v1/leases /v1/events /metrics ...
 * and the actions of action.h, by POST.  peer.h says who may look, and who may act.
 * Answers are made from the daemon's state when asked; nothing is kept.  Sessions and leases, of
 * which there may be many, are sent in pages, each with the state at that time.
 * Threads: [loop].  Never blocks it. */
#ifndef RMEMD_ADMIN_ADMIN_H
#define RMEMD_ADMIN_ADMIN_H

#include <event2/event.h>
#include <stdint.h>

#include "rmemd/config/config.h"

struct admin;
struct config_reloaded;
struct control;
struct sample_sources;

/* What it shows, filled by the daemon before the loop runs; all borrowed. */
struct admin_sources {
	struct control *control;
	const char *listeners[CONFIG_LIST_MAX]; /* "127.0.0.1:7460" */
	unsigned n_listeners;
	const char *verbs_missing; /* why RDMA is not served; NULL: it is */
	uint64_t started_ms;
	const struct sample_sources *metrics;
	/* Read the configuration again; the result is borrowed until the next call.  -errno:
	 * nothing has changed. */
	int (*reload)(void *ctx, const struct config_reloaded **ret_reloaded);
	void *ctx;
};

/* Serve on `path`, which is absolute (mode 0660; of its directories only RUNSTATEDIR/rmemd is
 * created; the socket of a daemon that has died is replaced), or, if it is not -1, on `fd`: a
 * listening socket that was passed, and is taken over on success.  Borrows base and sources, which
 * must outlive it.
 *   -EADDRINUSE  another daemon serves there
 *   -EEXIST      something else than a socket is there
 *   -ENOENT      there is no such directory
 *   -EACCES, -ENAMETOOLONG, -ENOMEM ...  with text */
int admin_open(struct event_base *base, const struct admin_sources *sources,
	       const char *path, int fd, struct admin **ret_admin);
/* Closes connections; removes the socket it made.  NULL: nothing. */
void admin_close(struct admin *admin);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The admin socket: HTTP with JSON on a UNIX socket, read-only.
 *   GET /v1/status /v1/pools /v1/devices /v1/sessions /v1/leases /v1/tenants
 * Answers are made from the daemon's state when asked; nothing is kept.
 * Threads: [loop].  Never blocks it. */
#ifndef RMEMD_ADMIN_ADMIN_H
#define RMEMD_ADMIN_ADMIN_H

#include <event2/event.h>

struct admin;
struct daemon;

/* Serve on `path` (mode 0660; its directory is created; the socket of a daemon that has
 * died is replaced), or on `fd`, a listening socket that was passed, when it is not -1:
 * it is taken over on success and `path` is not touched.  Borrows base and daemon,
 * which must outlive it. -EADDRINUSE  another daemon serves there -EACCES,
 * -ENAMETOOLONG, -ENOMEM ...  with text */
int admin_open(struct event_base *base, struct daemon *daemon, const char *path, int fd,
	       struct admin **ret_admin);
/* Closes connections; removes the socket it made.  NULL: nothing. */
void admin_close(struct admin *admin);

#endif

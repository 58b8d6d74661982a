/* SPDX-License-Identifier: BSD-3-Clause */
/* Listening sockets of control connections: made for addresses of the configuration, or passed by
 * the service manager.  Threads: [loop]. */
#ifndef RMEMD_CONTROL_LISTENER_H
#define RMEMD_CONTROL_LISTENER_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/address.h"

struct control;
struct event;

struct listener {
	struct control *control;
	int fd;
	struct event *readable, *resume;
	bool loopback;                  /* the address is loopback */
	char name[FABRIC_ADDRESS_TEXT]; /* "127.0.0.1:7460" */
};

/* Whether this error on this address is ignored: ::1, a default, on a host without IPv6. */
bool listener_skips(const struct fabric_address *address, int err);

/* Listen on one address.  Borrows control.
 *   -EADDRINUSE  the port is taken; the text names it and the remedy
 *   -EADDRNOTAVAIL, -EAFNOSUPPORT  this host does not have the address, which is loopback, or its
 *                                  family
 *   -EACCES, -EMFILE ... */
int listener_open(struct control *control, const struct fabric_address *address,
		  struct listener **ret_listener);
/* Take over a listening socket, on success.  -EINVAL, -ENOMEM */
int listener_open_fd(struct control *control, int fd, struct listener **ret_listener);
/* NULL: no effect. */
void listener_close(struct listener *listener);

#endif

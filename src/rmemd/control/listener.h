/* SPDX-License-Identifier: BSD-3-Clause */
/* Where control connections come in: sockets for the addresses of the configuration, or
 * sockets that were passed.  Threads: [loop]. */
#ifndef RMEMD_CONTROL_LISTENER_H
#define RMEMD_CONTROL_LISTENER_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "fabric/fabric.h"

struct connections;
struct control;
struct listener;

/* An address of the configuration, "::1" or "0.0.0.0".  -EINVAL */
int listener_parse(const char *text, uint16_t port, struct fabric_address *ret_address);

/* Whether an address that cannot be listened on is passed over: ::1 on a host without
 * IPv6, which the default names too. */
bool listener_skips(const struct fabric_address *address, int err);

/* Listen on one address.  Borrows all.
 *   -EADDRINUSE  the port is taken; the text names it and the remedy
 *   -EADDRNOTAVAIL, -EAFNOSUPPORT  this host does not have the address
 *   -EACCES, -EMFILE ... */
int listener_open(struct event_base *base, struct control *control,
		  struct connections *connections, const struct fabric_address *address,
		  struct listener **ret_listener);
/* Take over a listening socket, on success.  -EINVAL, -ENOMEM */
int listener_open_fd(struct event_base *base, struct control *control,
		     struct connections *connections, int fd,
		     struct listener **ret_listener);
/* NULL: nothing. */
void listener_close(struct listener *listener);

bool listener_is_loopback(const struct listener *listener);
/* "127.0.0.1:7460"; borrowed. */
const char *listener_name(const struct listener *listener);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* TCP sockets that listen, and the addresses of this host.  Threads: [any]. */
#ifndef FABRIC_LISTEN_H
#define FABRIC_LISTEN_H

#include <stdbool.h>

#include "fabric/fabric.h"

/* Time without fabric_accept() after it has found no descriptors or memory: it would fail again at
 * once. */
#define ACCEPT_PAUSE_MS 100

/* A socket that listens at the address, non-blocking and close-on-exec.  Connections come once the
 * host has the address: at boot it may be late.  Loopback is there, or it is not.
 * 0.0.0.0 stands for all addresses of IPv4, and :: for all of IPv6 alone.
 * -errno without text: -EADDRINUSE, -EADDRNOTAVAIL, -EAFNOSUPPORT ... */
int fabric_listen(const struct fabric_address *address);
/* The socket's own address, with its port; of family 0, without an address of IP.  -errno without
 * text. */
int fabric_socket_address(int fd, struct fabric_address *ret_address);
/* Accept connections, as many as others may wait for; accepted() owns the socket, which is
 * non-blocking and close-on-exec.  -errno: none can be accepted for now, with a text that says what
 * to do; -EMFILE, -ENFILE, -ENOBUFS, -ENOMEM */
int fabric_accept(int fd,
		  void (*accepted)(void *ctx, int fd,
				   const struct fabric_address *from),
		  void *ctx);
/* The address of this host from which IP would send to that one; no packet is sent.  -errno without
 * text: no route leads there. */
int fabric_address_source(const struct fabric_address *to,
			  struct fabric_address *ret_source);
/* Whether the host has the address now, as far as it can be found out. */
bool fabric_address_is_here(const struct fabric_address *address);

#endif

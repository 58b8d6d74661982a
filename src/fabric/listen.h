/* SPDX-License-Identifier: BSD-3-Clause */
/* TCP sockets that listen.  Threads: [any]. */
#ifndef FABRIC_LISTEN_H
#define FABRIC_LISTEN_H

#include <stdbool.h>

#include "fabric/address.h"

/* A socket that listens at the address, non-blocking and close-on-exec.  Connections come once the
 * host has the address: at boot it may be late.  Loopback is there, or it is not.
 * 0.0.0.0 stands for all addresses of IPv4, and :: for all of IPv6 alone.
 * -errno without text: -EADDRINUSE, -EADDRNOTAVAIL, -EAFNOSUPPORT ... */
int fabric_listen(const struct fabric_address *address, int backlog);
/* Whether the host has the address now, as far as it can be found out. */
bool fabric_address_is_here(const struct fabric_address *address);

#endif

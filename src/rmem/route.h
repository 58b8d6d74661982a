/* SPDX-License-Identifier: BSD-3-Clause */
/* Which address of this host leads to a server.  Threads: [any]. */
#ifndef RMEM_ROUTE_H
#define RMEM_ROUTE_H

#include <netinet/in.h>
#include <sys/socket.h>

struct route_end {
	struct sockaddr_storage address;
	socklen_t bytes;
};

/* "192.0.2.1:7460" or "[2001:db8::1]:7460", as a session names its server.  -EINVAL */
int route_parse(const char *server, struct route_end *ret_end);

/* The local address on the way to `server`, as text.
 *   -EINVAL  `server` is no address
 *   -ENETUNREACH ... */
int route_local(const char *server, char ret_local[INET6_ADDRSTRLEN]);

#endif

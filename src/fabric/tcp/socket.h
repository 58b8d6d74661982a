/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses and options of sockets, for both ends of a stream.  Threads: [any]. */
#ifndef FABRIC_TCP_SOCKET_H
#define FABRIC_TCP_SOCKET_H

#include <sys/socket.h>

#include "fabric/fabric.h"

/* Longest "[address]:port" with its terminator. */
#define TCP_ADDRESS_TEXT 64

/* Family 4 or 6; returns the length of the socket address. */
socklen_t tcp_socket_address(const struct fabric_address *address,
			     struct sockaddr_storage *ret_addr);

/* "192.0.2.1:7000", "[2001:db8::1]:7000", "*:7000" for family 0; returns buf. */
const char *tcp_socket_text(const struct fabric_address *address,
			    char buf[TCP_ADDRESS_TEXT]);

/* Set the options of a data stream: small requests are sent at once, and a peer that is gone or
 * does not receive ends the stream within half a minute.  -errno with text. */
int tcp_socket_tune(int fd);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Set a stream up from the client's side: connection, hello, status.
 * Threads: [any]. */
#ifndef FABRIC_TCP_CONNECT_H
#define FABRIC_TCP_CONNECT_H

#include "fabric/fabric.h"

/* Returns a tuned non-blocking socket that was admitted.  Blocks for timeout_ms at most.
 *   -EACCES      refused by the server
 *   -EPROTO      the other side does not speak the protocol
 *   -ETIMEDOUT, -ECONNREFUSED, -ECONNRESET ... with text that names the address */
int tcp_connect(const struct fabric_address *address, const struct fabric_hello *hello,
		unsigned timeout_ms);

#endif

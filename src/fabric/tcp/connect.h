/* SPDX-License-Identifier: BSD-3-Clause */
/* Open a stream as the client: connection, hello, status.
 * Threads: [any]. */
#ifndef FABRIC_TCP_CONNECT_H
#define FABRIC_TCP_CONNECT_H

#include "fabric/fabric.h"

/* Returns a tuned non-blocking socket that was admitted.  Blocks up to timeout_ms.
 *   -EACCES      refused by the server
 *   -EPROTO      the other side does not speak the protocol
 *   -ETIMEDOUT, -ECONNREFUSED, -ECONNRESET ... with text that names the address */
int tcp_connect(const struct fabric_address *address, const struct fabric_hello *hello,
		unsigned timeout_ms);

#endif

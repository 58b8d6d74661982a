/* SPDX-License-Identifier: BSD-3-Clause */
/* From a frame to the handler of its request.  Every request gets exactly one reply.  A client
 * that breaks the protocol gets an error, where that is possible, and is disconnected.
 * Threads: [loop]. */
#ifndef RMEMD_CONTROL_DISPATCH_H
#define RMEMD_CONTROL_DISPATCH_H

#include <stddef.h>
#include <stdint.h>

struct connection;

/* Handle one frame of a connection that is neither closed nor waits for its session. */
void dispatch_frame(struct connection *connection, const uint8_t *frame, size_t bytes);

#endif

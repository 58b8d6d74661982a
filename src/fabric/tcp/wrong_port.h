/* SPDX-License-Identifier: BSD-3-Clause */
/* A client of the control protocol at the port of data streams, as its URI has the wrong port: it
 * gets an error of its own protocol.  Threads: [poller]. */
#ifndef FABRIC_TCP_WRONG_PORT_H
#define FABRIC_TCP_WRONG_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/fabric.h"

/* Whether the first bytes are those of a control client's hello. */
bool wrong_port_reached(const uint8_t hello[FABRIC_HELLO_BYTES]);
/* Answer it; the caller closes the socket.  port: the one that was reached. */
void wrong_port_answer(int fd, const uint8_t hello[FABRIC_HELLO_BYTES], uint16_t port);

#endif

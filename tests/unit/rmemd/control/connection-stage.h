/* SPDX-License-Identifier: BSD-3-Clause */
/* An event loop with control connections, and the client's end of a socket: shared by the tests of
 * connections and listeners. */
#ifndef TESTS_UNIT_CONNECTION_STAGE_H
#define TESTS_UNIT_CONNECTION_STAGE_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "unit/rmemd/control-stage.h"
#include "rmemd/control/connection.h"

extern struct event_base *base;
extern struct connections *connections;

/* Checked fixtures. */
void connections_setup(void);
void connections_teardown(void);

/* Run the loop for all events that are due. */
void run_loop(void);

extern uint8_t frame[WIRE_FRAME_MAX];
extern struct wire_msg received; /* the last message */

/* Encode a message into `frame`; returns its size. */
int encode(struct wire_msg *msg, uint64_t id);
/* Send bytes of frames, without running the loop. */
void send_bytes(int fd, const void *bytes, int n);
/* Send bytes of frames, and run the loop. */
void client_write(int fd, const void *bytes, int n);
/* Receive a message that has arrived into `received`.  False: the end of the connection. */
bool receive(int fd);
/* Receive a message of this type. */
void expect(int fd, enum wire_type type);
/* Send a request, and expect a reply of this type. */
void request(int fd, struct wire_msg *msg, uint64_t id, enum wire_type type);
void open_session(int fd);
/* Close the client's end, and run the loop. */
void disconnect(int fd);

#endif

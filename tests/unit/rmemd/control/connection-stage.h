/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of connections and of their listeners share: a loop that has both, over the
 * control stage, and the client's end of a socket. */
#ifndef TESTS_UNIT_CONNECTION_STAGE_H
#define TESTS_UNIT_CONNECTION_STAGE_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "unit/rmemd/control-stage.h"
#include "rmemd/control/connections.h"

extern struct event_base *base;
extern struct connections *connections;

/* Checked fixtures. */
void connections_setup(void);
void connections_teardown(void);

/* Let the loop do what can be done without waiting. */
void turn(void);

extern uint8_t frame[WIRE_FRAME_MAX];
extern struct wire_msg got;

/* Into `frame`; returns its length. */
int encode(struct wire_msg *msg, uint64_t id);
/* And let the loop turn. */
void say(int fd, const void *bytes, int n);
/* Take one answer that is there, into `got`; false: the end of the connection. */
bool hear(int fd);
void open_session(int fd);

#endif

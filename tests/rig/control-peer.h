/* SPDX-License-Identifier: BSD-3-Clause */
/* A control connection with blocking calls, for a client that does not follow the library's rules.
 * A call that fails ends the program. */
#ifndef TESTS_RIG_CONTROL_PEER_H
#define TESTS_RIG_CONTROL_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "tls/stream.h"
#include "wire/msg.h"

extern struct stream control; /* the connection */
extern struct wire_msg msg;   /* to send */
extern struct wire_msg reply; /* the last one */

_Noreturn void give_up(const char *what);
void must(bool condition, const char *what);

/* Connect, under TLS if the environment has the file RMEM_PSK. */
void control_connect(const char *address, const char *port);
/* The port of this end. */
unsigned control_local_port(void);
/* Send msg, and receive a reply of this type. */
void control_ask(enum wire_type type);
/* Send a heartbeat, and drop what arrives for `ms`; false when the connection is lost. */
bool control_beat(unsigned ms);
/* The token of a channel of the session. */
void control_token(const struct wire_welcome *welcome, uint32_t channel,
		   uint8_t ret_token[WIRE_TOKEN_BYTES]);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The connections and messages of the hostile client, and its checks of the answers.  A check
 * that fails ends the program. */
#ifndef TESTS_FAULT_HOSTILE_PEER_H
#define TESTS_FAULT_HOSTILE_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/msg.h"

extern const char *address, *control_port, *data_port;
extern uint8_t frame[WIRE_FRAME_MAX]; /* from encode() */
extern struct wire_msg msg;           /* to encode */
extern struct wire_msg answer;        /* the last answer */

void must(bool condition, const char *what);

int peer_connect(const char *port);
/* From this IPv4 address; NULL: any. */
int peer_connect_from(const char *source, const char *port);
/* Send bytes; false when the daemon has closed the connection. */
bool push(int fd, const void *bytes, size_t n);
/* Receive the next message, which may be an event; false as below. */
bool message_get(int fd);
bool answer_is_event(void);
/* Receive the next reply, skipping events; false when the daemon closed the connection. */
bool answer_get(int fd);

/* Clear msg and set its type. */
void message(enum wire_type type);
/* Make msg a valid hello. */
void hello_make(void);
/* Encode msg with the next id; returns the length of the frame. */
size_t encode(void);
/* Send msg and receive the answer; false when the daemon closed the connection. */
bool ask(int fd);

int session_open(void);
void session_bye(int fd);
/* Check that the daemon serves a valid client. */
void service_check(void);

/* Name the attack for messages; check the service after it. */
void attack_begin(const char *name);
void attack_end(void);

/* The daemon must close the connection; it may send an error first. */
void expect_close(int fd);
/* Send msg; the answer must be an error, with this code unless the code is 0. */
#define expect_error(fd, code) expect_error_at(__LINE__, fd, code)
void expect_error_at(int line, int fd, uint32_t code);

#endif

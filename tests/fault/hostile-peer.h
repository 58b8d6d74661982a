/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection of the hostile client's, its messages, and how it judges the answers: what
 * is not as it should be ends the program. */
#ifndef TESTS_FAULT_HOSTILE_PEER_H
#define TESTS_FAULT_HOSTILE_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/msg.h"

extern const char *address, *control_port, *data_port;
extern uint8_t frame[WIRE_FRAME_MAX]; /* what encode() made */
extern struct wire_msg msg;           /* to be sent */
extern struct wire_msg answer;        /* the last one */

void must(bool condition, const char *what);

int dial(const char *port);
/* A hostile stream may be closed by the daemon at any moment: then false. */
bool push(int fd, const void *bytes, size_t n);
/* The next reply, events skipped; false when the daemon closed the connection. */
bool answer_get(int fd);

/* Empty msg, and give it a type. */
void message(enum wire_type type);
void hello_make(void);
/* msg as a frame, with the next id; its length. */
size_t encode(void);
/* Send it, and take the answer; false when the daemon closed the connection. */
bool ask(int fd);

int session_open(void);
void session_bye(int fd);
/* What an honest client would notice of the attack: nothing. */
void honest(void);

/* An attack, by its name; behind it the daemon still serves others. */
void attack_begin(const char *name);
void attack_end(void);

/* The daemon may answer with an error first, but must then close. */
void expect_close(int fd);
/* Ask; the answer is an error, with this code unless that is 0. */
#define expect_error(fd, code) expect_error_at(__LINE__, fd, code)
void expect_error_at(int line, int fd, uint32_t code);

#endif

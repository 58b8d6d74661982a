/* SPDX-License-Identifier: BSD-3-Clause */
/* The server of a control connection, in the same thread as the client: the client's socket is one
 * end of a pair, and each request is answered while the client sends it, as the input decides.
 * Linked with $(FUZZ_SERVER). */
#ifndef TESTS_FUZZ_HOSTILE_SERVER_H
#define TESTS_FUZZ_HOSTILE_SERVER_H

#include <stdint.h>

#include "fuzz/target.h"

/* Memory that the client reaches through the fake fabric. */
#define HOSTILE_MEMORY 8192
extern unsigned char hostile_memory[HOSTILE_MEMORY];

/* Answers come from the input, from now on. */
void hostile_server_begin(struct fuzz_input *input);
void hostile_server_end(void);
/* Send an event, or close the connection, as the input decides. */
void hostile_server_event(void);
void hostile_server_close(void);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections as a program makes them that knows nothing but rdma_cm: each with a protection
 * domain, a registration, a completion queue and a queue pair of its own at the client, the
 * same but for the completion queue at the server, which is a process of its own.
 * Threads: one. */
#ifndef TESTS_BENCH_SESSIONS_H
#define TESTS_BENCH_SESSIONS_H

#include <stdint.h>

/* Start the server; it ends with this process. */
void bare_serve(const char *address, uint16_t port);
/* Connect once more, and stay so until the process ends. */
void bare_connect(const char *address, uint16_t port);

/* The program cannot go on. */
_Noreturn void give_up(const char *what);

#endif

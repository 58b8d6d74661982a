/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections as a good program makes them that knows nothing but rdma_cm, in order to read
 * what another host has: each with a protection domain, a registration and a queue pair of
 * its own at both ends, as what a session has is its own, too; the client's with a completion
 * queue, which at the server is one for all.  The server, a process of its own, tells in its
 * answer where its memory is.  All of a client's connections share rdma_cm's events and the
 * completion channel.
 * Threads: one. */
#ifndef TESTS_BENCH_SESSIONS_H
#define TESTS_BENCH_SESSIONS_H

#include <netinet/in.h>
#include <stdint.h>

#define BENCH_BYTES 8192u

struct bare;

/* Start the server, which ends with this process; returns once it listens. */
void bare_serve(const char *address, uint16_t port);
/* Connect once more. */
struct bare *bare_connect(const char *address, uint16_t port);
/* The server's word there. */
uint32_t bare_read(struct bare *bare, uint64_t offset);
/* Disconnect, and free it. */
void bare_close(struct bare *bare);

/* What a control connection takes at the least: a TCP connection, and round trips on it, to a
 * server that sends back what comes.  Start that server, which ends with this process. */
void control_serve(const char *address, uint16_t port);
/* Connect to it; owned by the caller, who closes it. */
int control_open(const char *address, uint16_t port);
/* A round trip of so many bytes. */
void control_ask(int fd, unsigned bytes);

/* The word number i in the memory of either server. */
static inline uint32_t bench_pattern(uint32_t i)
{
	return (i + 1) * UINT32_C(2654435761);
}

/* Of this host, as text and number. */
struct sockaddr_in address_of(const char *text, uint16_t port);

/* The program cannot go on. */
_Noreturn void give_up(const char *what);

#endif

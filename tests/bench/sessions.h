/* SPDX-License-Identifier: BSD-3-Clause */
/* The connections that sessions.c compares sessions with.
 *
 * A bare connection is set up with rdma_cm in order to read the server's memory.  It has a
 * protection domain, a memory region and a queue pair of its own at both ends, as a session has,
 * and a completion queue at the client.  The server, another process, has one completion queue
 * for all and sends the address of its memory as private data.  All connections of the client
 * share an event channel and a completion channel.
 *
 * A control connection is the least that the control protocol needs: TCP and round trips to a
 * server that echoes each message.
 * Threads: one. */
#ifndef TESTS_BENCH_SESSIONS_H
#define TESTS_BENCH_SESSIONS_H

#include <netinet/in.h>
#include <stdint.h>

#define BENCH_BYTES 8192u

struct bare;

/* Start the server, which ends with this process; returns once it listens. */
void bare_serve(const char *address, uint16_t port);
struct bare *bare_connect(const char *address, uint16_t port);
/* The server's word at this offset. */
uint32_t bare_read(struct bare *bare, uint64_t offset);
/* Disconnect, and free it. */
void bare_close(struct bare *bare);

/* Start the echo server, which ends with this process. */
void control_serve(const char *address, uint16_t port);
/* Connect to it; the caller closes the descriptor. */
int control_open(const char *address, uint16_t port);
/* Make a round trip of this many bytes. */
void control_ask(int fd, unsigned bytes);

/* Word i of the memory of either server. */
static inline uint32_t bench_pattern(uint32_t i)
{
	return (i + 1) * UINT32_C(2654435761);
}

struct sockaddr_in address_of(const char *text, uint16_t port);

/* Print an error and exit. */
_Noreturn void give_up(const char *what);

#endif

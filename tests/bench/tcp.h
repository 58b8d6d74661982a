/* SPDX-License-Identifier: BSD-3-Clause */
/* The bare programs of tcp.sh: send(2) and recv(2), and nothing else. */
#ifndef RMEM_BENCH_TCP_H
#define RMEM_BENCH_TCP_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

#define BLOCK_BYTES (UINT32_C(1) << 20) /* of one call */

/* What a client sends first.  The server answers each request by a response.  With no bytes in a
 * response it only receives, with none in a request it only sends. */
struct exchange {
	uint64_t request_bytes;
	uint64_t response_bytes;
};

/* Ends the program unless `ok`. */
void need(int ok, const char *what);

void *block_new(size_t bytes);

/* Send or receive all.  Returns -1 if the connection has ended or failed. */
int all_send(int fd, const void *data, size_t bytes);
int all_receive(int fd, void *data, size_t bytes);

void nodelay_set(int fd);

/* Serves until the program is killed, each connection by a thread. */
_Noreturn void serve(const struct sockaddr_in *address);

#endif

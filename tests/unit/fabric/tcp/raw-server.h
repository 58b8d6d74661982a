/* SPDX-License-Identifier: BSD-3-Clause */
/* A channel of the tcp fabric's client whose server is the test: it answers the operations with any
 * bytes, at any time.  Over a pair of sockets, so that what was sent is there at once.  Linked with
 * $(TCP_RAW_SERVER_WRAPS). */
#ifndef TESTS_UNIT_FABRIC_TCP_RAW_SERVER_H
#define TESTS_UNIT_FABRIC_TCP_RAW_SERVER_H

#include "fabric/client.h"
#include "fabric/tcp/stream.h"

struct raw_server {
	int fd, client_fd; /* client_fd: closed with the channel */
	struct fabric_cq *cq;
	struct fabric_channel *channel;
	uint64_t posted; /* the cookie on the wire of the next operation */
};
extern struct raw_server raw;

void raw_open(unsigned depth);
void raw_close(void);
/* Post a read, or a write of as many bytes; false: the channel is dead. */
bool raw_post(enum fabric_opcode opcode, void *addr, uint32_t bytes);
/* The same with its local memory in n slices, one behind the other, of more bytes than n. */
bool raw_post_slices(enum fabric_opcode opcode, void *addr, uint32_t bytes, unsigned n);
/* The same with any slices. */
bool raw_post_sges(enum fabric_opcode opcode, const struct fabric_sge *sges,
		   unsigned n);
/* Drop what the client has sent. */
void raw_drop_requests(void);
/* Returns the number of bytes that were sent. */
size_t raw_send(const void *data, size_t bytes);
/* Answers to the operation with this cookie. */
struct stream_response raw_done(uint32_t bytes, uint64_t cookie);
struct stream_response raw_refusal(uint64_t cookie);

#endif

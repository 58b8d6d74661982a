/* SPDX-License-Identifier: BSD-3-Clause */
/* What the server's end of a stream has received and not handled yet, and answered and not sent
 * yet.  A data thread lends the buffers to a stream, which keeps them only while something is in
 * them: so a stream without work has none.  Threads: [data thread]. */
#ifndef FABRIC_TCP_BUFFERS_H
#define FABRIC_TCP_BUFFERS_H

#include <stdbool.h>

#include "fabric/tcp/stream.h"

#define TCP_REPLIES 128u /* limit of unsent replies; a power of two */
#define TCP_INBOX_BYTES 8192u

struct fabric_mr;

/* A response that waits to be sent. */
struct tcp_reply {
	struct stream_response header;
	char *payload;              /* header.bytes long; in the region, or &word */
	const struct fabric_mr *mr; /* NULL: payload is in no region */
	/* an aligned 8-byte read, an atomic's old value, or an in-band request's result */
	uint64_t word;
};

struct tcp_buffers {
	/* requests, and small payloads, from inbox + taken on */
	unsigned taken, received;
	char inbox[TCP_INBOX_BYTES];
	/* replies */
	unsigned first, n_replies; /* ring */
	size_t sent;               /* of the first reply, including its header */
	size_t unsent; /* bytes of all replies, with what was sent of the first one */
	struct tcp_reply replies[TCP_REPLIES];
};

/* Empty ones, or NULL: no memory. */
struct tcp_buffers *tcp_buffers_new(void);
static inline bool tcp_buffers_empty(const struct tcp_buffers *buffers)
{
	return buffers->taken == buffers->received && buffers->n_replies == 0;
}

/* Add a response without payload; there is room. */
struct tcp_reply *tcp_reply_add(struct tcp_buffers *buffers, uint64_t cookie,
				uint32_t status);
/* Give it a payload in a region, which is not changed until it is sent, or NULL: in the reply. */
void tcp_reply_set_payload(struct tcp_buffers *buffers, struct tcp_reply *reply,
			   char *payload, uint32_t bytes, const struct fabric_mr *mr);
/* Fill iov with unsent parts of the replies, about `max` bytes of payload; returns the number of
 * parts. */
size_t tcp_replies_gather(struct tcp_buffers *buffers,
			  struct iovec iov[2 * TCP_REPLIES], size_t max);
/* So many bytes of them were sent. */
void tcp_replies_sent(struct tcp_buffers *buffers, size_t bytes);
/* Refuse the requests whose replies are in the region.  False: a reply that was sent in part cannot
 * be changed. */
bool tcp_replies_release(struct tcp_buffers *buffers, const struct fabric_mr *mr);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/tcp/buffers.h"

#include <endian.h>
#include <stdlib.h>

#include "fabric/status.h"

struct tcp_buffers *tcp_buffers_new(void)
{
	struct tcp_buffers *buffers = malloc(sizeof(*buffers));

	/* the inbox and the replies are written before they are read */
	if (buffers) {
		buffers->taken = buffers->received = 0;
		buffers->first = buffers->n_replies = 0;
		buffers->sent = buffers->unsent = 0;
	}
	return buffers;
}

static struct tcp_reply *reply_at(struct tcp_buffers *buffers, unsigned i)
{
	return &buffers->replies[(buffers->first + i) % TCP_REPLIES];
}

static size_t reply_bytes(const struct tcp_reply *reply)
{
	return le32toh(reply->header.bytes);
}

struct tcp_reply *tcp_reply_add(struct tcp_buffers *buffers, uint64_t cookie,
				uint32_t status)
{
	struct tcp_reply *reply = reply_at(buffers, buffers->n_replies++);

	reply->header =
		(struct stream_response){ .status = htole32(status), .cookie = cookie };
	reply->payload = NULL;
	reply->mr = NULL;
	buffers->unsent += sizeof(reply->header);
	return reply;
}

void tcp_reply_set_payload(struct tcp_buffers *buffers, struct tcp_reply *reply,
			   char *payload, uint32_t bytes, const struct fabric_mr *mr)
{
	reply->header.bytes = htole32(bytes);
	reply->payload = payload;
	reply->mr = mr;
	buffers->unsent += bytes;
}

size_t tcp_replies_gather(struct tcp_buffers *buffers,
			  struct iovec iov[2 * TCP_REPLIES], size_t max)
{
	struct stream_parts parts = { iov, 0, buffers->sent };

	for (unsigned i = 0; i < buffers->n_replies && max > 0; i++) {
		struct tcp_reply *reply = reply_at(buffers, i);
		size_t part;

		stream_parts_add(&parts, &reply->header, sizeof(reply->header));
		part = reply_bytes(reply) - parts.skip;
		if (part > max)
			part = max;
		max -= part;
		stream_parts_add(&parts, reply->payload, parts.skip + part);
	}
	return parts.n;
}

void tcp_replies_sent(struct tcp_buffers *buffers, size_t bytes)
{
	buffers->sent += bytes;
	while (buffers->n_replies > 0) {
		const struct tcp_reply *reply = reply_at(buffers, 0);
		size_t whole = sizeof(reply->header) + reply_bytes(reply);

		if (buffers->sent < whole)
			break;
		buffers->sent -= whole;
		buffers->unsent -= whole;
		buffers->first = (buffers->first + 1) % TCP_REPLIES;
		buffers->n_replies--;
	}
}

bool tcp_replies_release(struct tcp_buffers *buffers, const struct fabric_mr *mr)
{
	if (buffers->n_replies > 0 && buffers->sent > 0 &&
	    reply_at(buffers, 0)->mr == mr)
		return false;
	for (unsigned i = 0; i < buffers->n_replies; i++) {
		struct tcp_reply *reply = reply_at(buffers, i);

		if (reply->mr != mr)
			continue;
		buffers->unsent -= reply_bytes(reply);
		reply->header.status = htole32(FABRIC_STALE);
		reply->header.bytes = 0;
		reply->payload = NULL;
		reply->mr = NULL;
	}
	return true;
}

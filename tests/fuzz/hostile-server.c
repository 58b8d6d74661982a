/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz/hostile-server.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/codec.h"

#define REQUESTS_BYTES 65536 /* of requests that are not whole yet */
#define LEASES 8

/* The first byte of an answer; others are ANSWER_VALID. */
enum answer {
	ANSWER_VALID,
	ANSWER_EDITED, /* valid, with some bytes changed */
	ANSWER_BODY,   /* a body of the right type */
	ANSWER_ERROR,
	ANSWER_NONE,
	ANSWER_OTHER, /* a message of any type */
	ANSWER_CLOSE,
	ANSWER_LATE, /* an event comes before */
	ANSWER_WRONG_ID,
	ANSWER_PARTS, /* the rest comes with the next message */
	ANSWER_BYTES, /* no frame at all */
};

#define TYPE_OF(name, number, since, text) WIRE_TYPE_##name,
static const enum wire_type types[] = { WIRE_MESSAGES(TYPE_OF) };
#define N_TYPES (sizeof(types) / sizeof(types[0]))

unsigned char hostile_memory[HOSTILE_MEMORY] __attribute__((aligned(64)));

static struct fuzz_input *input;
static int client = -1, server = -1;
static uint8_t requests[REQUESTS_BYTES];
static size_t requests_have;
static uint8_t rest[WIRE_FRAME_MAX]; /* of an answer in parts */
static size_t rest_bytes;
static uint64_t lease_bytes[LEASES], last_lease;
static uint32_t last_channel;
static struct wire_msg reply;

int __real_socket(int domain, int type, int protocol);
ssize_t __real_send(int fd, const void *data, size_t bytes, int flags);
int __wrap_socket(int domain, int type, int protocol);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t bytes);
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags);

/* ---- valid answers ---- */

static void fill_welcome(const struct wire_hello *hello)
{
	static const struct wire_endpoint endpoints[] = {
		{ .fabric = WIRE_FABRIC_TCP,
		  .version = 1,
		  .family = 4,
		  .address = { 127, 0, 0, 1 },
		  .port = 7462,
		  .node = -1,
		  .flags = WIRE_ENDPOINT_ATOMICS | WIRE_ENDPOINT_INBAND },
		{ .fabric = WIRE_FABRIC_VERBS,
		  .version = 1,
		  .family = 4,
		  .address = { 192, 0, 2, 1 },
		  .port = 7461,
		  .node = 0,
		  .flags = WIRE_ENDPOINT_ATOMICS | WIRE_ENDPOINT_INBAND |
			   WIRE_ENDPOINT_DIRECT,
		  .device = "fake0" },
	};
	struct wire_welcome *welcome = &reply.welcome;

	reply.type = WIRE_TYPE_welcome;
	*welcome = (struct wire_welcome){ .version = WIRE_VERSION_MAX,
					  .session = 1,
					  .token = { 1 },
					  .resumed = hello->resume != 0,
					  .heartbeat_ms = 500,
					  .fence_ms = 2000,
					  .grace_ms = 10000,
					  .channels_max = 8,
					  .requests_max = 256,
					  .stream_bytes_max = 1 << 20,
					  .inband_bytes_max = 1 << 18,
					  .inband_requests_max = 8,
					  .n_endpoints = 2 };
	memcpy(welcome->endpoints, endpoints, sizeof(endpoints));
	if (!hello->resume && hello->channel) {
		welcome->channel = ++last_channel;
		welcome->endpoint = hello->channel == WIRE_FABRIC_VERBS;
	}
}

/* The number of a lease by its name. */
static uint64_t lease_named(const char *name)
{
	return 1 + (unsigned char)name[0] % (LEASES - 1);
}

static void fill_lease(uint64_t id, uint64_t bytes)
{
	struct wire_lease *lease = &reply.lease;

	reply.type = WIRE_TYPE_lease;
	lease_bytes[id % LEASES] = bytes;
	*lease = (struct wire_lease){ .lease = id,
				      .generation = 1,
				      .rights = WIRE_RIGHT_READ | WIRE_RIGHT_WRITE,
				      .bytes = bytes,
				      .node = -1,
				      .n_segments = bytes > 0,
				      .n_keys = bytes > 0 ? 2 : 0 };
	lease->segments[0] = (struct wire_segment){
		.bytes = bytes, .node = -1, .page_bytes = 4096, .endpoints = 3
	};
	for (unsigned i = 0; i < lease->n_keys; i++)
		lease->keys[i] = (struct wire_key){ .endpoint = (uint8_t)i,
						    .addr = (uintptr_t)hostile_memory,
						    .rkey = 100 + i };
}

static void fill_attached(const struct wire_attach *attach)
{
	uint64_t id = attach->lease ? attach->lease : lease_named(attach->name);
	uint64_t bytes = lease_bytes[id % LEASES];

	fill_lease(id, bytes ? bytes : 4096);
}

static void fill_entries(void)
{
	reply.type = WIRE_TYPE_entries;
	reply.entries = (struct wire_entries){ .n_entries = 1 };
	reply.entries.entries[0] =
		(struct wire_entry){ .lease = 1, .bytes = 4096, .name = "a" };
}

static void fill_valid(const struct wire_msg *request)
{
	switch (request->type) {
	case WIRE_TYPE_hello:
		fill_welcome(&request->hello);
		break;
	case WIRE_TYPE_open_channel:
		reply.type = WIRE_TYPE_channel;
		reply.channel = (struct wire_channel){ .channel = ++last_channel };
		break;
	case WIRE_TYPE_allocate:
		fill_lease(++last_lease, request->allocate.bytes);
		break;
	case WIRE_TYPE_attach:
		fill_attached(&request->attach);
		break;
	case WIRE_TYPE_resize:
		fill_lease(request->resize.lease, request->resize.bytes);
		break;
	case WIRE_TYPE_stat:
	case WIRE_TYPE_list:
		fill_entries();
		break;
	case WIRE_TYPE_join_channel:
		reply.type = WIRE_TYPE_joined;
		reply.joined = (struct wire_joined){ .qpn = 9, .mtu = 1024 };
		break;
	case WIRE_TYPE_fix_atomic_device:
		reply.type = WIRE_TYPE_atomic_device;
		reply.atomic_device = (struct wire_atomic_device){
			.fabric = request->fix_atomic_device.endpoint
					  ? WIRE_FABRIC_VERBS
					  : WIRE_FABRIC_TCP
		};
		(void)strcpy(reply.atomic_device.device,
			     request->fix_atomic_device.endpoint ? "fake0" : "");
		break;
	default:
		reply.type = WIRE_TYPE_ok;
	}
}

/* ---- sending ---- */

static void put_bytes(const void *data, size_t bytes)
{
	/* what does not fit the client's socket is lost */
	if (server >= 0)
		(void)!__real_send(server, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void put_rest(void)
{
	size_t bytes = rest_bytes;

	rest_bytes = 0;
	put_bytes(rest, bytes);
}

/* A frame with a valid header, and a body from the input. */
static void put_body(unsigned type, uint64_t id)
{
	uint8_t frame[WIRE_HEADER_BYTES + 256];
	struct fuzz_output output = { frame, 0, sizeof(frame) };
	size_t n;
	const uint8_t *body = fuzz_bytes(input, fuzz_number(input, 1), &n);

	fuzz_put(&output, WIRE_HEADER_BYTES + n, 4);
	fuzz_put(&output, type, 4);
	fuzz_put(&output, id, 8);
	fuzz_put_bytes(&output, body, n);
	put_bytes(frame, output.used);
}

static void put_valid(enum answer how, const struct wire_msg *request)
{
	static uint8_t frame[WIRE_FRAME_MAX];
	unsigned edits =
		how == ANSWER_EDITED ? 1 + (unsigned)fuzz_number(input, 1) % 4 : 0;
	size_t bytes, sent;

	memset(&reply, 0, sizeof(reply));
	fill_valid(request);
	reply.id = request->id;
	if (how == ANSWER_WRONG_ID)
		reply.id ^= 1 + fuzz_number(input, 1);
	bytes = (size_t)wire_encode(&reply, frame, sizeof(frame));
	ck_assert_uint_le(bytes, sizeof(frame));
	for (; edits > 0; edits--) {
		size_t at = WIRE_HEADER_BYTES + fuzz_number(input, 2) % WIRE_FRAME_MAX;
		uint8_t value = (uint8_t)fuzz_number(input, 1);

		if (at < bytes)
			frame[at] = value;
	}
	sent = how == ANSWER_PARTS ? fuzz_number(input, 1) % bytes : bytes;
	put_bytes(frame, sent);
	rest_bytes = bytes - sent;
	memcpy(rest, frame + sent, rest_bytes);
}

static void put_error(uint64_t id)
{
	uint8_t frame[1024];
	int bytes;

	wire_msg_init(&reply, WIRE_TYPE_error);
	reply.id = id;
	reply.error.code = (uint32_t)fuzz_number(input, 1);
	(void)strcpy(reply.error.text, fuzz_number(input, 1) % 2 ? "no" : "");
	bytes = wire_encode(&reply, frame, sizeof(frame));
	ck_assert_int_gt(bytes, 0);
	put_bytes(frame, (size_t)bytes);
}

void hostile_server_close(void)
{
	if (server >= 0)
		(void)close(server);
	server = -1;
}

void hostile_server_event(void)
{
	static const enum wire_type events[] = {
		WIRE_TYPE_revoked,       WIRE_TYPE_changed,  WIRE_TYPE_draining,
		WIRE_TYPE_closing,       WIRE_TYPE_notified, WIRE_TYPE_shrinking,
		WIRE_TYPE_channel_ended, WIRE_TYPE_serving,  WIRE_TYPE_fenced,
	};
	unsigned which = (unsigned)fuzz_number(input, 1);

	put_rest();
	if (which < sizeof(events) / sizeof(events[0]))
		put_body(events[which], 0);
	else
		put_body(0x80 + which, 0);
}

static void answer(const struct wire_msg *request)
{
	enum answer how = (enum answer)fuzz_number(input, 1);
	size_t n;
	const uint8_t *bytes;

	put_rest();
	switch (how) {
	case ANSWER_BODY:
		fill_valid(request);
		put_body(reply.type, request->id);
		break;
	case ANSWER_ERROR:
		put_error(request->id);
		break;
	case ANSWER_NONE:
		break;
	case ANSWER_OTHER:
		put_body(types[fuzz_number(input, 1) % N_TYPES], request->id);
		break;
	case ANSWER_CLOSE:
		hostile_server_close();
		break;
	case ANSWER_BYTES:
		bytes = fuzz_bytes(input, fuzz_number(input, 1), &n);
		put_bytes(bytes, n);
		break;
	case ANSWER_LATE:
		hostile_server_event();
		put_valid(ANSWER_VALID, request);
		break;
	default:
		put_valid(how, request);
	}
}

/* ---- the client's socket ---- */

/* That of a wake-up, of datagrams, is a real one. */
int __wrap_socket(int domain, int type, int protocol)
{
	int fds[2];

	if (type & SOCK_DGRAM)
		return __real_socket(domain, type, protocol);
	ck_assert_int_eq(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds),
		0);
	hostile_server_close();
	server = fds[1];
	requests_have = rest_bytes = 0;
	return fds[0];
}

/* By now it has its number. */
int __wrap_connect(int fd, const struct sockaddr *, socklen_t)
{
	client = fd;
	if (fuzz_number(input, 1) != 1)
		return 0;
	errno = ECONNREFUSED;
	return -1;
}

/* Answer each whole request. */
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags)
{
	static struct wire_msg request;
	int n;

	if (fd != client)
		return __real_send(fd, data, bytes, flags);
	if (server < 0) {
		errno = EPIPE;
		return -1;
	}
	ck_assert_uint_le(bytes, sizeof(requests) - requests_have);
	memcpy(requests + requests_have, data, bytes);
	requests_have += bytes;
	while ((n = wire_frame_bytes(requests, requests_have)) > 0 &&
	       (size_t)n <= requests_have) {
		/* the client's own requests are valid */
		ck_assert_int_eq(wire_decode(requests, (size_t)n, &request), 0);
		requests_have -= (size_t)n;
		memmove(requests, requests + n, requests_have);
		answer(&request);
	}
	ck_assert_int_ge(n, 0);
	return (ssize_t)bytes;
}

void hostile_server_begin(struct fuzz_input *from)
{
	input = from;
	client = server = -1;
	last_lease = last_channel = 0;
	memset(lease_bytes, 0, sizeof(lease_bytes));
}

void hostile_server_end(void)
{
	hostile_server_close();
	client = -1;
}

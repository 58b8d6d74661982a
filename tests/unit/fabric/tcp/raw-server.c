/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/fabric/tcp/raw-server.h"

#include <check.h>
#include <endian.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric/listen.h"
#include "fabric/status.h"
#include "fabric/tcp/channel.h"
#include "fabric/tcp/socket.h"

#define BUFFER_BYTES (1 << 20)

struct raw_server raw;

/* ---- the client's way to its server ---- */

int __wrap_socket(int family, int type, int protocol);
int __wrap_socket(int, int, int)
{
	return raw.client_fd;
}

int __wrap_connect(int fd, const struct sockaddr *addr, socklen_t len);
int __wrap_connect(int, const struct sockaddr *, socklen_t)
{
	return 0;
}

int __wrap_tcp_socket_tune(int fd);
int __wrap_tcp_socket_tune(int)
{
	return 0;
}

int __wrap_fabric_socket_address(int fd, struct fabric_address *ret_address);
int __wrap_fabric_socket_address(int, struct fabric_address *ret_address)
{
	*ret_address = (struct fabric_address){ .family = 4 };
	return 0;
}

/* ---- */

void raw_open(unsigned depth)
{
	static struct fabric_domain domain = { .address = { .family = 4 },
					       .atomics = true,
					       .inband = true };
	const struct stream_status admitted = { 0 };
	const struct fabric_channel_params params = { .depth = depth,
						      .timeout_ms = 1000 };
	int fds[2], bytes = BUFFER_BYTES;

	ck_assert_int_eq(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds),
		0);
	raw = (struct raw_server){ .fd = fds[0], .client_fd = fds[1] };
	ck_assert_int_eq(
		setsockopt(raw.fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)), 0);
	ck_assert_int_eq(fabric_tcp_client.cq_create(&domain, depth, &raw.cq), 0);
	ck_assert_uint_eq(raw_send(&admitted, sizeof(admitted)), sizeof(admitted));
	ck_assert_int_eq(fabric_tcp_client.connect(raw.cq, &params, &raw.channel), 0);
	raw.client_fd = raw.channel->fd;
	raw_drop_requests();
}

void raw_close(void)
{
	fabric_tcp_client.channel_free(raw.channel);
	fabric_tcp_client.cq_free(raw.cq);
	(void)close(raw.fd);
}

static const struct fabric_key key = { .addr = 4096, .rkey = 77 };

bool raw_post(enum fabric_opcode opcode, void *addr, uint32_t bytes)
{
	const struct fabric_op op = { .addr = addr, .bytes = bytes };
	int posted = fabric_tcp_client.post_one(raw.channel, opcode, NULL, &key, &op);

	ck_assert_int_ne(posted, 0);
	raw.posted += posted == 1;
	return posted == 1;
}

bool raw_post_sges(enum fabric_opcode opcode, const struct fabric_sge *sges, unsigned n)
{
	const struct fabric_batch batch = fabric_batch_of(opcode, NULL, &key);
	struct fabric_op op = { 0 };

	for (unsigned i = 0; i < n; i++)
		op.bytes += sges[i].bytes;
	if (fabric_tcp_client.prepare_sges(raw.channel, &batch, &op, sges, n) != 1 ||
	    fabric_tcp_client.post(raw.channel) != 1)
		return false;
	raw.posted++;
	return true;
}

bool raw_post_slices(enum fabric_opcode opcode, void *addr, uint32_t bytes, unsigned n)
{
	struct fabric_sge sges[8];
	uint32_t at = 0;

	/* the second one is the largest, as that of a value behind its header */
	for (unsigned i = 0; i < n; i++) {
		uint32_t left = n - 1 - i, part = i == 1 ? bytes - at - left : 1;

		sges[i] =
			(struct fabric_sge){ .addr = (char *)addr + at, .bytes = part };
		at += part;
	}
	ck_assert_uint_eq(at, bytes);
	return raw_post_sges(opcode, sges, n);
}

void raw_drop_requests(void)
{
	char sink[4096];

	while (recv(raw.fd, sink, sizeof(sink), 0) > 0)
		;
}

size_t raw_send(const void *data, size_t bytes)
{
	ssize_t n = send(raw.fd, data, bytes, MSG_NOSIGNAL);

	return n < 0 ? 0 : (size_t)n;
}

struct stream_response raw_done(uint32_t bytes, uint64_t cookie)
{
	return (struct stream_response){ .status = htole32(FABRIC_DONE),
					 .bytes = htole32(bytes),
					 .cookie = htole64(cookie) };
}

struct stream_response raw_refusal(uint64_t cookie)
{
	return (struct stream_response){ .status = htole32(FABRIC_FORBIDDEN),
					 .cookie = htole64(cookie) };
}

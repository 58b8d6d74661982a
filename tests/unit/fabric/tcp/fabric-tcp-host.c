/* SPDX-License-Identifier: BSD-3-Clause */
/* The server and the raw clients. */
#include "unit/fabric/tcp/fabric-tcp-host.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/random.h"
#include "fabric/address.h"
#include "unit/unit.h"

const struct fabric_server_ops *ops = &fabric_tcp_server;
struct host host;

static int on_admit(void *ctx, unsigned endpoint, struct fabric_hello *hello,
		    struct fabric_session **ret_session)
{
	(void)ctx;
	ck_assert_uint_eq(endpoint, 0);
	ck_assert(fabric_address_is_loopback(&hello->peer));
	if (hello->session != 1 ||
	    !secret_equal(hello->token, host.token, FABRIC_TOKEN_BYTES))
		return err_set(-ESTALE, "%s", host.refusal);
	*ret_session = host.session;
	return 0;
}

void host_process_next(void)
{
	struct pollfd pfd = { .fd = ops->fd(host.server), .events = POLLIN };

	ck_assert_msg(poll(&pfd, 1, WAIT_MS) == 1, "no event of the server");
	ops->process(host.server);
}

void host_await(const unsigned *count, unsigned wanted)
{
	while (*count < wanted)
		host_process_next();
}

void host_register(void)
{
	ck_assert_int_eq(ops->reg_mr(host.session, host.memory, MIDDLE, RW, NULL,
				     &host.mr, &seen.key),
			 1);
}

void host_deregister(struct fabric_mr *mr)
{
	seen.deregistered += ops->dereg_mr(mr);
}

static int on_channel_key(void *ctx, void *cookie, uint32_t channel,
			  uint8_t ret_key[FABRIC_TLS_KEY_BYTES])
{
	(void)ctx;
	ck_assert_ptr_eq(cookie, &host);
	ck_assert_uint_eq(channel, 5);
	memcpy(ret_key, host.tls_key, FABRIC_TLS_KEY_BYTES);
	return 0;
}

static void host_open_with(unsigned threads, bool tls)
{
	struct fabric_server_params params = { .listen = { .family = 4,
							   .bytes = { 127, 0, 0, 1 } },
					       .threads = threads,
					       .tls = tls,
					       .backlog = BACKLOG };

	server_events.admit = on_admit;
	server_events.channel_key = on_channel_key;
	seen.session_cookie = &host;
	seen.all_succeed = true;
	ck_assert_int_eq(ops->open(&params, &server_events, NULL, &host.server), 0);
	host.port = ops->endpoint(host.server, 0)->address.port;
	host.refusal = "";
	random_bytes(host.token, sizeof(host.token));
	random_bytes(host.tls_key, sizeof(host.tls_key));
	ck_assert_int_eq(ops->session_open(host.server, 0, &host, &host.session), 0);
	host.area = mmap(NULL, AREA, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(host.area, MAP_FAILED);
	memset(host.area, 0x33, AREA);
	host.memory = host.area + AREA / 4;
	host_register();
}

void host_open(void)
{
	host_open_with(2, false);
}

void host_open_one(void)
{
	host_open_with(1, false);
}

void host_open_tls(void)
{
	host_open_with(2, true);
}

void host_open_tls_one(void)
{
	host_open_with(1, true);
}

void host_close(void)
{
	/* around the mr no byte was written */
	ck_assert(bytes_equal(host.area, AREA / 4, 0x33));
	ck_assert(bytes_equal(host.memory + MIDDLE, AREA / 4, 0x33));
	ops->close(host.server);
	(void)munmap(host.area, AREA);
}

struct fabric_endpoint_stats host_stats(void)
{
	struct fabric_endpoint_stats stats;

	ops->stats(host.server, 0, &stats);
	return stats;
}

/* ---- a raw client ---- */

int raw_connect_to(int family, uint16_t port)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_port = htons(port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6,
				    .sin6_port = htons(port),
				    .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct timeval timeout = { .tv_sec = WAIT_MS / 1000 };
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	ck_assert_int_ge(fd, 0);
	/* send without delay */
	ck_assert_int_eq(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), 0);
	ck_assert_int_eq(
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)), 0);
	ck_assert_int_eq(
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)), 0);
	if ((family == AF_INET
		     ? connect(fd, (struct sockaddr *)&in, sizeof(in))
		     : connect(fd, (struct sockaddr *)&in6, sizeof(in6))) != 0) {
		(void)close(fd);
		return -1;
	}
	return fd;
}

int raw_connect(void)
{
	int fd = raw_connect_to(AF_INET, host.port);

	ck_assert_int_ge(fd, 0);
	return fd;
}

void raw_send(int fd, const void *data, size_t bytes)
{
	ck_assert_int_eq(send(fd, data, bytes, MSG_NOSIGNAL), (ssize_t)bytes);
}

void raw_send_bytes(int fd, const void *data, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		raw_send(fd, (const char *)data + i, 1);
}

void raw_recv(int fd, void *data, size_t bytes)
{
	ck_assert_int_eq(recv(fd, data, bytes, MSG_WAITALL), (ssize_t)bytes);
}

void raw_expect_end(int fd)
{
	char byte;
	ssize_t n = recv(fd, &byte, 1, 0);

	ck_assert_msg(n == 0 || (n < 0 && errno == ECONNRESET), "%zd, errno %d", n,
		      errno);
}

void raw_close(int fd, bool reset)
{
	struct linger now = { .l_onoff = 1, .l_linger = 0 };

	if (reset)
		ck_assert_int_eq(
			setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
	ck_assert_int_eq(close(fd), 0);
}

void raw_close_await(int fd, unsigned downs)
{
	raw_close(fd, false);
	host_await(&seen.downs, downs);
}

void raw_hello(uint8_t buf[FABRIC_HELLO_BYTES])
{
	struct fabric_hello hello = { .session = 1, .channel = 5 };

	memcpy(hello.token, host.token, sizeof(hello.token));
	fabric_hello_encode(&hello, buf);
}

/* The text is the server's, or its beginning. */
static void raw_refusal(int fd, uint32_t status, size_t bytes)
{
	char text[STREAM_TEXT_MAX];

	ck_assert_uint_ge(bytes, 1);
	ck_assert_uint_le(bytes, sizeof(text));
	if (status != WIRE_CODE_stale) {
		raw_recv(fd, text, bytes);
		return;
	}
	ck_assert(bytes == strlen(host.refusal) || bytes == sizeof(text));
	raw_recv(fd, text, bytes);
	ck_assert_mem_eq(text, host.refusal, bytes);
}

uint32_t raw_status(int fd)
{
	struct stream_status status;
	struct pollfd pfds[2] = { { .fd = fd, .events = POLLIN },
				  { .fd = ops->fd(host.server), .events = POLLIN } };

	for (;;) {
		ck_assert_int_ge(poll(pfds, 2, WAIT_MS), 1);
		if (pfds[0].revents)
			break;
		ops->process(host.server);
	}
	raw_recv(fd, &status, sizeof(status));
	if (le32toh(status.status) != WIRE_CODE_none)
		raw_refusal(fd, le32toh(status.status), le32toh(status.bytes));
	else
		ck_assert_uint_eq(status.bytes, 0);
	return le32toh(status.status);
}

int raw_channel_open(void)
{
	uint8_t buf[FABRIC_HELLO_BYTES];
	unsigned ups = seen.ups;
	int fd = raw_connect();

	raw_hello(buf);
	raw_send(fd, buf, sizeof(buf));
	ck_assert_uint_eq(raw_status(fd), WIRE_CODE_none);
	ck_assert_uint_eq(seen.ups, ups + 1);
	return fd;
}

MODULAR struct stream_request request(uint32_t op, uint64_t offset, uint32_t bytes,
				      uint64_t cookie)
{
	return (struct stream_request){ .op = htole16((uint16_t)op),
					.flags = htole16((uint16_t)(op >> 16)),
					.bytes = htole32(bytes),
					.rkey = htole64(seen.key.rkey),
					.addr = htole64(seen.key.addr + offset),
					.cookie = htole64(cookie) };
}

void raw_request(int fd, uint32_t op, uint64_t offset, uint32_t bytes, uint64_t cookie)
{
	struct stream_request r = request(op, offset, bytes, cookie);

	raw_send(fd, &r, sizeof(r));
}

void raw_expect(int fd, uint32_t status, uint32_t bytes, uint64_t cookie)
{
	struct stream_response r;

	raw_recv(fd, &r, sizeof(r));
	ck_assert_uint_eq(le32toh(r.status), status);
	ck_assert_uint_eq(le32toh(r.bytes), bytes);
	ck_assert_uint_eq(le64toh(r.cookie), cookie);
}

uint64_t raw_expect_word(int fd, uint64_t cookie)
{
	uint64_t word;

	raw_expect(fd, FABRIC_DONE, sizeof(word), cookie);
	raw_recv(fd, &word, sizeof(word));
	return le64toh(word);
}

char raw_read_byte(int fd, uint64_t offset)
{
	char byte;

	raw_request(fd, STREAM_READ, offset, 1, 99);
	raw_expect(fd, FABRIC_DONE, 1, 99);
	raw_recv(fd, &byte, 1);
	return byte;
}

void host_check_serves(void)
{
	int fd = raw_channel_open();
	unsigned downs = seen.downs;
	uint64_t word = htole64(0x0123456789abcdef);

	raw_request(fd, STREAM_WRITE, 16, sizeof(word), 1);
	raw_send(fd, &word, sizeof(word));
	raw_expect(fd, FABRIC_DONE, 0, 1);
	raw_request(fd, STREAM_READ, 16, sizeof(word), 2);
	ck_assert_uint_eq(raw_expect_word(fd, 2), le64toh(word));
	raw_close_await(fd, downs + 1);
	ck_assert_str_eq(seen.why, "");
}

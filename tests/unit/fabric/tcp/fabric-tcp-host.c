/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/fabric/tcp/fabric-tcp-host.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "unit/unit.h"

const struct fabric_server_ops *ops = &fabric_tcp_server;
struct host host;

static struct fabric_session *on_admit(void *ctx, unsigned endpoint,
				       const struct fabric_hello *hello)
{
	(void)ctx;
	ck_assert_uint_eq(endpoint, 0);
	if (hello->session != 1 ||
	    !secret_equal(hello->token, host.token, FABRIC_TOKEN_BYTES))
		return NULL;
	return host.session;
}

static void on_channel_up(void *ctx, void *cookie, uint32_t channel)
{
	(void)ctx;
	(void)channel;
	ck_assert_ptr_eq(cookie, &host);
	host.ups++;
}

static void on_channel_down(void *ctx, void *cookie, uint32_t channel, const char *why)
{
	(void)ctx;
	(void)channel;
	ck_assert_ptr_eq(cookie, &host);
	host.downs++;
	(void)snprintf(host.why, sizeof(host.why), "%s", why);
}

static void on_exposed(void *ctx, void *cookie, int err, const char *text,
		       const struct fabric_key *key)
{
	(void)ctx;
	(void)cookie;
	ck_assert_msg(err == 0, "%s", text);
	host.exposed++;
	host.key = *key;
}

static void on_withdrawn(void *ctx, void *cookie)
{
	(void)ctx;
	(void)cookie;
	ck_assert_uint_eq(host.closed, 0);
	host.withdrawn++;
}

static void on_session_closed(void *ctx, void *cookie)
{
	(void)ctx;
	ck_assert_ptr_eq(cookie, &host);
	host.closed++;
}

static void on_endpoint_news(void *ctx, unsigned endpoint, const char *text)
{
	(void)ctx;
	(void)endpoint;
	ck_assert_str_ne(text, "");
	host.news++;
}

static void on_notified(void *ctx, void *session_cookie, void *cookie, uint32_t value,
			uint32_t lost)
{
	uint64_t until_ms = clock_now_ms() + host.note_ms;

	(void)ctx;
	(void)cookie;
	(void)value;
	ck_assert_ptr_eq(session_cookie, &host);
	ck_assert_uint_eq(lost, 0);
	while (clock_now_ms() < until_ms)
		(void)sched_yield();
	host.notified++;
}

const struct fabric_server_events host_events = {
	.admit = on_admit,
	.channel_up = on_channel_up,
	.channel_down = on_channel_down,
	.mr_registered = on_exposed,
	.mr_deregistered = on_withdrawn,
	.session_closed = on_session_closed,
	.endpoint_event = on_endpoint_news,
	.notified = on_notified,
};

void host_await(const unsigned *what, unsigned wanted)
{
	struct pollfd pfd = { .fd = ops->fd(host.server), .events = POLLIN };

	while (*what < wanted) {
		ck_assert_msg(poll(&pfd, 1, WAIT_MS) == 1, "the server has no news");
		ops->process(host.server);
	}
}

static void host_open_with(unsigned threads)
{
	struct fabric_server_params params = { .listen = { .family = 4,
							   .bytes = { 127, 0, 0, 1 } },
					       .threads = threads,
					       .backlog = BACKLOG };

	ck_assert_int_eq(ops->open(&params, &host_events, NULL, &host.server), 0);
	host.port = ops->endpoint(host.server, 0)->address.port;
	random_bytes(host.token, sizeof(host.token));
	ck_assert_int_eq(ops->session_open(host.server, 0, &host, &host.session), 0);
	host.area = mmap(NULL, AREA, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(host.area, MAP_FAILED);
	memset(host.area, 0x33, AREA);
	host.memory = host.area + AREA / 4;
	ck_assert_int_eq(
		ops->reg_mr(host.session, host.memory, MIDDLE, RW, NULL, &host.mr), 0);
	host_await(&host.exposed, 1);
}

void host_open(void)
{
	host_open_with(2);
}

void host_open_one(void)
{
	host_open_with(1);
}

bool area_is(const char *from, size_t bytes, char value)
{
	for (size_t i = 0; i < bytes; i++)
		if (from[i] != value)
			return false;
	return true;
}

void host_close(void)
{
	/* whatever came: what was not exposed was not touched */
	ck_assert(area_is(host.area, AREA / 4, 0x33));
	ck_assert(area_is(host.memory + MIDDLE, AREA / 4, 0x33));
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
	/* what was sent is there */
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

void raw_hello(uint8_t buf[FABRIC_HELLO_BYTES])
{
	struct fabric_hello hello = { .session = 1, .channel = 5 };

	memcpy(hello.token, host.token, sizeof(hello.token));
	fabric_hello_encode(&hello, buf);
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
	ck_assert_uint_eq(status.zero, 0);
	return le32toh(status.status);
}

int raw_join(void)
{
	uint8_t buf[FABRIC_HELLO_BYTES];
	unsigned ups = host.ups;
	int fd = raw_connect();

	raw_hello(buf);
	raw_send(fd, buf, sizeof(buf));
	ck_assert_uint_eq(raw_status(fd), STREAM_DONE);
	ck_assert_uint_eq(host.ups, ups + 1);
	return fd;
}

struct stream_request request(uint32_t op, uint64_t offset, uint32_t bytes,
			      uint64_t cookie)
{
	return (struct stream_request){ .op = htole32(op),
					.bytes = htole32(bytes),
					.rkey = htole64(host.key.rkey),
					.addr = htole64(host.key.addr + offset),
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

void host_is_well(void)
{
	int fd = raw_join();
	unsigned downs = host.downs;
	uint64_t word = 0x0123456789abcdef, back = 0;

	raw_request(fd, STREAM_WRITE, 16, sizeof(word), 1);
	raw_send(fd, &word, sizeof(word));
	raw_expect(fd, STREAM_DONE, 0, 1);
	raw_request(fd, STREAM_READ, 16, sizeof(back), 2);
	raw_expect(fd, STREAM_DONE, sizeof(back), 2);
	raw_recv(fd, &back, sizeof(back));
	ck_assert_uint_eq(back, word);
	raw_close(fd, false);
	host_await(&host.downs, downs + 1);
	ck_assert_str_eq(host.why, "");
}

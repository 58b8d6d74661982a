/* SPDX-License-Identifier: BSD-3-Clause */
/* The tcp fabric's server against clients that mean it no good: raw sockets that say what
 * they like, when they like.  RMEM_SEED=N repeats a fuzzed run. */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/random.h"
#include "fabric/fabric.h"
#include "fabric/tcp/stream.h"
#include "unit.h"

#define RW (FABRIC_RIGHT_READ | FABRIC_RIGHT_WRITE)
#define WAIT_MS 20000
#define BACKLOG 4
#define AREA (4u << 20) /* of memory; the middle half of it is exposed */
#define MIDDLE (AREA / 2)

static const struct fabric_server_ops *ops = &fabric_tcp_server;

/* The daemon, as far as this needs one: one session, one exposure. */
static struct {
	struct fabric_server *server;
	uint16_t port;
	uint8_t token[FABRIC_TOKEN_BYTES];
	struct fabric_session *session;
	unsigned ups, downs, closed, exposed, withdrawn, news;
	char why[FABRIC_TEXT_MAX];
	struct fabric_key key;
	struct fabric_exposure *exposure;
	char *area, *memory;
} host;

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

static const struct fabric_server_events events = {
	.admit = on_admit,
	.channel_up = on_channel_up,
	.channel_down = on_channel_down,
	.exposed = on_exposed,
	.withdrawn = on_withdrawn,
	.session_closed = on_session_closed,
	.endpoint_news = on_endpoint_news,
};

/* Let the server work until *what is at least `wanted`. */
static void host_await(const unsigned *what, unsigned wanted)
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

	ck_assert_int_eq(ops->open(&params, &events, NULL, &host.server), 0);
	host.port = ops->endpoint(host.server, 0)->address.port;
	random_bytes(host.token, sizeof(host.token));
	ck_assert_int_eq(ops->session_open(host.server, 0, &host, &host.session), 0);
	host.area = mmap(NULL, AREA, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(host.area, MAP_FAILED);
	memset(host.area, 0x33, AREA);
	host.memory = host.area + AREA / 4;
	ck_assert_int_eq(ops->expose(host.session, host.memory, MIDDLE, RW, NULL,
				     &host.exposure),
			 0);
	host_await(&host.exposed, 1);
}

static void host_open(void)
{
	host_open_with(2);
}

static void host_open_one(void)
{
	host_open_with(1);
}

static bool area_is(const char *from, size_t bytes, char value)
{
	for (size_t i = 0; i < bytes; i++)
		if (from[i] != value)
			return false;
	return true;
}

static void host_close(void)
{
	/* whatever came: what was not exposed was not touched */
	ck_assert(area_is(host.area, AREA / 4, 0x33));
	ck_assert(area_is(host.memory + MIDDLE, AREA / 4, 0x33));
	ops->close(host.server);
	(void)munmap(host.area, AREA);
}

static struct fabric_endpoint_stats host_stats(void)
{
	struct fabric_endpoint_stats stats;

	ops->stats(host.server, 0, &stats);
	return stats;
}

/* ---- a raw client ---- */

static int raw_connect_to(int family, uint16_t port)
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

static int raw_connect(void)
{
	int fd = raw_connect_to(AF_INET, host.port);

	ck_assert_int_ge(fd, 0);
	return fd;
}

static void raw_send(int fd, const void *data, size_t bytes)
{
	ck_assert_int_eq(send(fd, data, bytes, MSG_NOSIGNAL), (ssize_t)bytes);
}

static void raw_recv(int fd, void *data, size_t bytes)
{
	ck_assert_int_eq(recv(fd, data, bytes, MSG_WAITALL), (ssize_t)bytes);
}

/* The server ends the stream: with or without a reset, but with no byte more. */
static void raw_expect_end(int fd)
{
	char byte;
	ssize_t n = recv(fd, &byte, 1, 0);

	ck_assert_msg(n == 0 || (n < 0 && errno == ECONNRESET), "%zd, errno %d", n,
		      errno);
}

/* Close in order, or with a reset. */
static void raw_close(int fd, bool reset)
{
	struct linger now = { .l_onoff = 1, .l_linger = 0 };

	if (reset)
		ck_assert_int_eq(
			setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
	ck_assert_int_eq(close(fd), 0);
}

static void raw_hello(uint8_t buf[FABRIC_HELLO_BYTES])
{
	struct fabric_hello hello = { .session = 1, .channel = 5 };

	memcpy(hello.token, host.token, sizeof(hello.token));
	fabric_hello_encode(&hello, buf);
}

static uint32_t raw_verdict(int fd)
{
	struct stream_verdict verdict;
	struct pollfd pfds[2] = { { .fd = fd, .events = POLLIN },
				  { .fd = ops->fd(host.server), .events = POLLIN } };

	for (;;) {
		ck_assert_int_ge(poll(pfds, 2, WAIT_MS), 1);
		if (pfds[0].revents)
			break;
		ops->process(host.server);
	}
	raw_recv(fd, &verdict, sizeof(verdict));
	ck_assert_uint_eq(verdict.zero, 0);
	return le32toh(verdict.status);
}

static int raw_join(void)
{
	uint8_t buf[FABRIC_HELLO_BYTES];
	unsigned ups = host.ups;
	int fd = raw_connect();

	raw_hello(buf);
	raw_send(fd, buf, sizeof(buf));
	ck_assert_uint_eq(raw_verdict(fd), STREAM_DONE);
	ck_assert_uint_eq(host.ups, ups + 1);
	return fd;
}

static struct stream_request request(uint32_t op, uint64_t offset, uint32_t bytes,
				     uint64_t cookie)
{
	return (struct stream_request){ .op = htole32(op),
					.bytes = htole32(bytes),
					.rkey = htole64(host.key.rkey),
					.addr = htole64(host.key.addr + offset),
					.cookie = htole64(cookie) };
}

static void raw_request(int fd, uint32_t op, uint64_t offset, uint32_t bytes,
			uint64_t cookie)
{
	struct stream_request r = request(op, offset, bytes, cookie);

	raw_send(fd, &r, sizeof(r));
}

static void raw_expect(int fd, uint32_t status, uint32_t bytes, uint64_t cookie)
{
	struct stream_response r;

	raw_recv(fd, &r, sizeof(r));
	ck_assert_uint_eq(le32toh(r.status), status);
	ck_assert_uint_eq(le32toh(r.bytes), bytes);
	ck_assert_uint_eq(le64toh(r.cookie), cookie);
}

/* The server is well: a new client is served. */
static void host_is_well(void)
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

/* ---- admission ---- */

START_TEST(open__names_the_address_that_is_taken)
{
	struct fabric_server_params params = {
		.listen = { .family = 4, .bytes = { 127, 0, 0, 1 }, .port = host.port },
		.threads = 1,
		.backlog = 1
	};
	struct fabric_server *server = NULL;
	char text[64];

	ck_assert_int_eq(ops->open(&params, &events, NULL, &server), -EADDRINUSE);
	ck_assert_ptr_null(server);
	(void)snprintf(text, sizeof(text), "127.0.0.1:%u", host.port);
	ck_assert_ptr_nonnull(strstr(err_text(), text));
	params.listen.family = 0;
	ck_assert_int_eq(ops->open(&params, &events, NULL, &server), -EADDRINUSE);
	(void)snprintf(text, sizeof(text), "*:%u", host.port);
	ck_assert_ptr_nonnull(strstr(err_text(), text));
	params.threads = 0;
	ck_assert_int_eq(ops->open(&params, &events, NULL, &server), -EINVAL);
}
END_TEST

START_TEST(open__without_address_serves_both_families)
{
	struct fabric_server_params params = { .threads = 1, .backlog = 1 };
	struct fabric_server *server = NULL;
	const struct fabric_endpoint *endpoint;
	int fd;

	ck_assert_int_eq(ops->open(&params, &events, NULL, &server), 0);
	ck_assert_uint_eq(ops->n_endpoints(server), 1);
	endpoint = ops->endpoint(server, 0);
	ck_assert_int_eq(endpoint->kind, FABRIC_TCP);
	ck_assert_uint_eq(endpoint->address.family, 0);
	ck_assert_uint_ne(endpoint->address.port, 0);
	ck_assert_int_eq(endpoint->node, -1);
	ck_assert_str_eq(endpoint->device, "");
	fd = raw_connect_to(AF_INET, endpoint->address.port);
	ck_assert_int_ge(fd, 0);
	(void)close(fd);
	/* where this host has IPv6 at all */
	fd = raw_connect_to(AF_INET6, endpoint->address.port);
	ck_assert(fd >= 0 || errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT);
	if (fd >= 0)
		(void)close(fd);
	ops->close(server);
}
END_TEST

START_TEST(hello__wrong_is_refused_with_a_verdict)
{
	uint8_t buf[FABRIC_HELLO_BYTES];
	int fd;

	for (unsigned i = 0; i < FABRIC_HELLO_BYTES; i++) {
		/* the channel's number is the session's affair */
		if (i >= 16 && i < 20)
			continue;
		fd = raw_connect();
		raw_hello(buf);
		buf[i] ^= 0x40;
		raw_send(fd, buf, sizeof(buf));
		ck_assert_uint_eq(raw_verdict(fd),
				  i < 8 ? STREAM_BROKEN : STREAM_REFUSED);
		raw_expect_end(fd);
		raw_close(fd, false);
	}
	ck_assert_uint_eq(host.ups, 0);
	ck_assert_uint_eq(host_stats().refused, FABRIC_HELLO_BYTES - 4);
	host_is_well();
}
END_TEST

START_TEST(hello__in_single_bytes_is_understood)
{
	uint8_t buf[FABRIC_HELLO_BYTES];
	int fd = raw_connect();

	raw_hello(buf);
	for (unsigned i = 0; i < sizeof(buf); i++) {
		raw_send(fd, buf + i, 1);
		ops->process(host.server);
	}
	ck_assert_uint_eq(raw_verdict(fd), STREAM_DONE);
	raw_close(fd, false);
	host_await(&host.downs, 1);
}
END_TEST

static void await_refused(unsigned refused)
{
	struct pollfd pfd = { .fd = ops->fd(host.server), .events = POLLIN };

	while (host_stats().refused < refused) {
		ck_assert_int_eq(poll(&pfd, 1, WAIT_MS), 1);
		ops->process(host.server);
	}
}

START_TEST(hello__that_does_not_come_ends_the_connection)
{
	uint8_t buf[FABRIC_HELLO_BYTES];
	uint64_t start = clock_now_ms();
	int silent = raw_connect(), slow = raw_connect();

	raw_hello(buf);
	raw_send(slow, buf, sizeof(buf) - 1);
	await_refused(2);
	raw_expect_end(silent);
	raw_expect_end(slow);
	ck_assert_uint_ge(clock_now_ms() - start, 4900);
	raw_close(silent, false);
	raw_close(slow, false);
	host_is_well();
}
END_TEST

START_TEST(hello__that_does_not_come_shuts_nobody_out)
{
	int silent[3 * BACKLOG];
	uint64_t start = clock_now_ms();

	for (unsigned i = 0; i < 3 * BACKLOG; i++)
		silent[i] = raw_connect();
	host_is_well();
	ck_assert_uint_lt(clock_now_ms() - start, 4000);
	/* the first ones had to go */
	for (unsigned i = 0; i < 2 * BACKLOG; i++)
		raw_expect_end(silent[i]);
	for (unsigned i = 0; i < 3 * BACKLOG; i++)
		raw_close(silent[i], false);
	await_refused(3 * BACKLOG);
}
END_TEST

START_TEST(accept__recovers_when_descriptors_run_out)
{
	struct rlimit limit, low;
	int fd = raw_connect(), next = dup(fd);

	ck_assert_int_ge(next, 0);
	(void)close(next);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	low = limit;
	low.rlim_cur = (rlim_t)next;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
	host_await(&host.news, 1);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	raw_close(fd, false);
	host_is_well();
}
END_TEST

/* ---- requests ---- */

START_TEST(request__of_absurd_length_or_kind_ends_the_stream)
{
	static const struct {
		uint32_t op, bytes;
	} absurd[] = {
		{ STREAM_READ, 0 },
		{ STREAM_WRITE, 0 },
		{ STREAM_READ, STREAM_BYTES_MAX + 1 },
		{ STREAM_WRITE, STREAM_BYTES_MAX + 1 },
		{ STREAM_READ, UINT32_MAX },
		{ STREAM_WRITE, UINT32_MAX },
		{ 0, 8 },
		{ 3, 8 },
		{ UINT32_MAX, 8 },
		{ UINT32_C(1) << 24, 8 },
	};
	int fd = raw_join();

	raw_request(fd, absurd[_i].op, 0, absurd[_i].bytes, 1);
	raw_expect_end(fd);
	host_await(&host.downs, 1);
	ck_assert_str_ne(host.why, "");
	ck_assert_uint_eq(host_stats().errors, 1);
	raw_close(fd, false);
	ck_assert(area_is(host.memory, MIDDLE, 0x33));
	host_is_well();
}
END_TEST

START_TEST(request__refused_leaves_the_stream_in_step)
{
	enum { BIG = 300000 };
	char *bytes = malloc(BIG), *back = malloc(BIG);
	int fd = raw_join();
	struct stream_request bad_key = request(STREAM_WRITE, 0, BIG, 2);

	ck_assert_ptr_nonnull(bytes);
	ck_assert_ptr_nonnull(back);
	memset(bytes, 0x44, BIG);
	/* out of bounds by one, then a wrong key, then what is right, then a read that is
	 * not */
	raw_request(fd, STREAM_WRITE, MIDDLE - BIG + 1, BIG, 1);
	raw_send(fd, bytes, BIG);
	bad_key.rkey ^= htole64(UINT64_C(1) << 63);
	raw_send(fd, &bad_key, sizeof(bad_key));
	raw_send(fd, bytes, BIG);
	raw_request(fd, STREAM_WRITE, MIDDLE - BIG, BIG, 3);
	raw_send(fd, bytes, BIG);
	raw_request(fd, STREAM_READ, MIDDLE - BIG + 1, BIG, 4);
	raw_request(fd, STREAM_READ, MIDDLE - BIG, BIG, 5);
	raw_expect(fd, STREAM_REFUSED, 0, 1);
	raw_expect(fd, STREAM_REFUSED, 0, 2);
	raw_expect(fd, STREAM_DONE, 0, 3);
	raw_expect(fd, STREAM_REFUSED, 0, 4);
	raw_expect(fd, STREAM_DONE, BIG, 5);
	raw_recv(fd, back, BIG);
	ck_assert_mem_eq(back, bytes, BIG);
	ck_assert(area_is(host.memory, MIDDLE - BIG, 0x33));
	raw_close(fd, false);
	free(bytes);
	free(back);
}
END_TEST

START_TEST(requests__in_one_segment_are_answered_in_order)
{
	enum { N = 100 };
	struct {
		struct stream_request write;
		char payload[5];
		struct stream_request read;
	} __attribute__((packed)) batch[N];
	int fd = raw_join();

	for (unsigned i = 0; i < N; i++) {
		batch[i].write = request(STREAM_WRITE, 7 * i, 5, 2 * i);
		memset(batch[i].payload, (int)i, 5);
		batch[i].read = request(STREAM_READ, 7 * i, 5, 2 * i + 1);
	}
	raw_send(fd, batch, sizeof(batch));
	for (unsigned i = 0; i < N; i++) {
		char back[5];

		raw_expect(fd, STREAM_DONE, 0, 2 * i);
		raw_expect(fd, STREAM_DONE, 5, 2 * i + 1);
		raw_recv(fd, back, 5);
		ck_assert_mem_eq(back, batch[i].payload, 5);
	}
	raw_close(fd, false);
}
END_TEST

START_TEST(requests__in_single_bytes_are_understood)
{
	struct stream_request write = request(STREAM_WRITE, 1, 3, 1);
	struct stream_request read = request(STREAM_READ, 0, 5, 2);
	char back[5];
	int fd = raw_join();

	for (unsigned i = 0; i < sizeof(write); i++)
		raw_send(fd, (char *)&write + i, 1);
	for (unsigned i = 0; i < 3; i++)
		raw_send(fd, "abc" + i, 1);
	for (unsigned i = 0; i < sizeof(read); i++)
		raw_send(fd, (char *)&read + i, 1);
	raw_expect(fd, STREAM_DONE, 0, 1);
	raw_expect(fd, STREAM_DONE, 5, 2);
	raw_recv(fd, back, 5);
	ck_assert_mem_eq(back,
			 "\x33"
			 "abc\x33",
			 5);
	raw_close(fd, false);
}
END_TEST

/* ---- clients that vanish ---- */

START_TEST(client__may_vanish_at_every_byte)
{
	enum { PAYLOAD = 11, STEPS = FABRIC_HELLO_BYTES + 2 * 32 + PAYLOAD + 1 };
	uint8_t script[STEPS];
	struct stream_request write = request(STREAM_WRITE, 0, PAYLOAD, 1);
	struct stream_request read = request(STREAM_READ, 0, STREAM_BYTES_MAX, 2);
	bool reset = _i != 0;
	unsigned joined = 0;

	memset(script, 0x33, sizeof(script));
	raw_hello(script);
	memcpy(script + FABRIC_HELLO_BYTES, &write, sizeof(write));
	memcpy(script + FABRIC_HELLO_BYTES + sizeof(write) + PAYLOAD, &read,
	       sizeof(read));
	for (size_t step = 0; step < STEPS; step++) {
		int fd = raw_connect();

		if (step < FABRIC_HELLO_BYTES) {
			raw_send(fd, script, step);
			raw_close(fd, reset);
			continue;
		}
		raw_send(fd, script, FABRIC_HELLO_BYTES);
		ck_assert_uint_eq(raw_verdict(fd), STREAM_DONE);
		joined++;
		if (step > FABRIC_HELLO_BYTES)
			raw_send(fd, script + FABRIC_HELLO_BYTES,
				 step - FABRIC_HELLO_BYTES);
		raw_close(fd, reset);
		/* one after the other: they write to the same memory */
		host_await(&host.downs, joined);
	}
	ck_assert_uint_eq(host_stats().channels, 0);
	ck_assert_uint_eq(host_stats().channels_ever, joined);
	/* all but the ends between two requests are errors */
	ck_assert_uint_ge(host_stats().errors, joined - 5);
	host_is_well();
}
END_TEST

START_TEST(client__may_vanish_while_answers_wait)
{
	enum { READS = 64 };

	for (unsigned reset = 0; reset < 2; reset++) {
		unsigned downs = host.downs;
		int fd = raw_join();
		char some[1000];

		for (unsigned i = 0; i < READS; i++)
			raw_request(fd, STREAM_READ, 0, STREAM_BYTES_MAX, i);
		raw_recv(fd, some, sizeof(some));
		raw_close(fd, reset);
		host_await(&host.downs, downs + 1);
		ck_assert_str_ne(host.why, "");
	}
	host_is_well();
}
END_TEST

/* ---- withdrawal under a stalled client ---- */

/* Look through another stream of the same thread, which has then seen to the first. */
static char look(int eye, uint64_t offset)
{
	char byte;

	raw_request(eye, STREAM_READ, offset, 1, 99);
	raw_expect(eye, STREAM_DONE, 1, 99);
	raw_recv(eye, &byte, 1);
	return byte;
}

/* Until a byte has arrived in the memory. */
static void await_byte(int eye, uint64_t offset, char value)
{
	uint64_t start = clock_now_ms();

	while (look(eye, offset) != value)
		ck_assert_uint_lt(clock_now_ms() - start, WAIT_MS);
}

/* Until what waits for a client that does not read has become no more for a while. */
static void await_stuck(int eye, int fd)
{
	int waiting = 0, before = -1;

	for (unsigned same = 0; same < 10; same = waiting == before ? same + 1 : 0) {
		before = waiting;
		(void)look(eye, 0);
		ck_assert_int_eq(ioctl(fd, FIONREAD, &waiting), 0);
	}
}

START_TEST(withdraw__turns_a_write_in_progress_into_a_refused_one)
{
	enum { BIG = 400000, HALF = BIG / 2 };
	char *bytes = malloc(BIG);
	int fd = raw_join(), eye = raw_join();
	struct fabric_exposure *first = host.exposure;
	struct fabric_key old_key = host.key;

	ck_assert_ptr_nonnull(bytes);
	memset(bytes, 0x44, BIG);
	raw_request(fd, STREAM_WRITE, 0, BIG, 1);
	raw_send(fd, bytes, HALF);
	await_byte(eye, HALF - 1, 0x44);
	ops->withdraw(first);
	/* the client does nothing, and cannot hold it up */
	host_await(&host.withdrawn, 1);
	memset(host.memory, 0x55, MIDDLE);
	raw_send(fd, bytes + HALF, BIG - HALF);
	raw_expect(fd, STREAM_REFUSED, 0, 1);
	ck_assert(area_is(host.memory, MIDDLE, 0x55));
	/* the stream goes on: with what is exposed now, under a new key */
	ck_assert_int_eq(ops->expose(host.session, host.memory, MIDDLE, RW, NULL,
				     &host.exposure),
			 0);
	host_await(&host.exposed, 2);
	ck_assert_uint_ne(host.key.rkey, old_key.rkey);
	raw_request(fd, STREAM_WRITE, 0, 8, 2);
	raw_send(fd, bytes, 8);
	raw_expect(fd, STREAM_DONE, 0, 2);
	ck_assert_uint_eq(host.downs, 0);
	raw_close(fd, false);
	raw_close(eye, false);
	free(bytes);
}
END_TEST

START_TEST(withdraw__refuses_a_word_that_is_not_whole)
{
	int fd = raw_join();

	raw_request(fd, STREAM_WRITE, 0, 8, 1);
	raw_send(fd, "\x44\x44\x44\x44", 4);
	ops->withdraw(host.exposure);
	host_await(&host.withdrawn, 1);
	raw_send(fd, "\x44\x44\x44\x44", 4);
	raw_expect(fd, STREAM_REFUSED, 0, 1);
	ck_assert(area_is(host.memory, MIDDLE, 0x33));
	raw_close(fd, false);
}
END_TEST

/* The response that is being sent cannot be taken back: then the stream ends.  Those that
 * were not begun are refused. */
START_TEST(withdraw__takes_back_answers_that_wait)
{
	enum { READS = 64, BYTES = STREAM_BYTES_MAX - 5 };
	int fd = raw_join(), eye = raw_join();
	char *got = malloc(BYTES);
	struct stream_response r;
	unsigned done = 0, refused = 0;

	ck_assert_ptr_nonnull(got);
	for (unsigned i = 0; i < READS; i++)
		raw_request(fd, STREAM_READ, 0, BYTES, i);
	/* more than the sockets hold is still to come */
	await_stuck(eye, fd);
	ops->withdraw(host.exposure);
	host_await(&host.withdrawn, 1);
	ck_assert_uint_eq(host_stats().exposures, 0);
	memset(host.memory, 0x55, MIDDLE);
	while (done + refused < READS &&
	       recv(fd, &r, sizeof(r), MSG_WAITALL) == sizeof(r)) {
		ssize_t n;

		ck_assert_uint_eq(le64toh(r.cookie), done + refused);
		if (le32toh(r.status) == STREAM_REFUSED) {
			refused++;
			continue;
		}
		ck_assert_uint_eq(refused, 0);
		ck_assert_uint_eq(le32toh(r.bytes), BYTES);
		n = recv(fd, got, BYTES, MSG_WAITALL);
		/* nothing of what the memory holds now */
		if (n > 0)
			ck_assert_ptr_null(memchr(got, 0x55, (size_t)n));
		if (n < BYTES)
			break;
		done++;
	}
	ck_assert_uint_lt(done, READS);
	if (done + refused < READS) {
		host_await(&host.downs, 1);
		ck_assert_str_eq(host.why, "memory withdrawn while it was read");
	}
	raw_close(fd, false);
	raw_close(eye, false);
	free(got);
}
END_TEST

START_TEST(session_close__does_not_wait_for_stalled_clients)
{
	int writer = raw_join(), reader = raw_join(), idle = raw_join();
	char bytes[1000] = { 0 };

	/* in different places: two streams may be served by two threads */
	raw_request(writer, STREAM_WRITE, MIDDLE / 2, STREAM_BYTES_MAX, 1);
	raw_send(writer, bytes, sizeof(bytes));
	for (unsigned i = 0; i < 64; i++)
		raw_request(reader, STREAM_READ, 0, STREAM_BYTES_MAX, i);
	ops->session_close(host.session);
	host_await(&host.closed, 1);
	ck_assert_uint_eq(host.withdrawn, 1);
	ck_assert_uint_eq(host.downs, 0);
	ck_assert_uint_eq(host_stats().channels, 0);
	raw_expect_end(writer);
	raw_expect_end(idle);
	raw_close(writer, false);
	raw_close(reader, false);
	raw_close(idle, false);
}
END_TEST

/* Writes on their way into the memory, as many as the sockets take. */
static void raw_stuff(int fd, char *bytes, uint32_t each)
{
	for (uint64_t i = 0;; i++) {
		struct stream_request r = request(STREAM_WRITE, 0, each, i);
		ssize_t n;

		memcpy(bytes, &r, sizeof(r));
		n = send(fd, bytes, sizeof(r) + each, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < (ssize_t)(sizeof(r) + each) || i == 15)
			return;
	}
}

START_TEST(channel_close__lets_nothing_more_into_the_memory)
{
	enum { EACH = 262144 };
	char *bytes = malloc(sizeof(struct stream_request) + EACH);

	ck_assert_ptr_nonnull(bytes);
	memset(bytes, 0x44, sizeof(struct stream_request) + EACH);
	for (unsigned round = 0; round < 20; round++) {
		int fd = raw_join();
		struct pollfd pfd = { .fd = ops->fd(host.server), .events = POLLIN };

		raw_stuff(fd, bytes, EACH);
		ops->channel_close(host.session, 5);
		/* at once, not when the thread has seen it */
		memset(host.memory, 0x55, EACH);
		while (host_stats().channels > 0) {
			ck_assert_int_eq(poll(&pfd, 1, WAIT_MS), 1);
			ops->process(host.server);
		}
		ck_assert(area_is(host.memory, EACH, 0x55));
		raw_close(fd, true);
	}
	ck_assert_uint_eq(host.downs, 0);
	free(bytes);
}
END_TEST

START_TEST(close__ends_what_is_left)
{
	int writer = raw_join(), silent = raw_connect();

	raw_request(writer, STREAM_WRITE, 0, STREAM_BYTES_MAX, 1);
	ops->process(host.server);
	/* host_close() is the test: every descriptor, thread and byte is given back */
	(void)silent;
}
END_TEST

/* ---- turns ---- */

START_TEST(streams__of_a_thread_take_turns)
{
	enum { GREEDY = 8, READS = 400 };
	int greedy[GREEDY], modest;
	struct timeval none = { .tv_usec = 1 };

	for (unsigned g = 0; g < GREEDY; g++) {
		greedy[g] = raw_join();
		for (unsigned i = 0; i < READS; i++)
			raw_request(greedy[g], STREAM_READ, 0, STREAM_BYTES_MAX, i);
		ck_assert_int_eq(setsockopt(greedy[g], SOL_SOCKET, SO_RCVTIMEO, &none,
					    sizeof(none)),
				 0);
	}
	modest = raw_join();
	for (unsigned i = 0; i < 200; i++) {
		char sink[4096];

		/* there is always room for more in the sockets of the greedy */
		for (unsigned g = 0; g < GREEDY; g++)
			(void)!recv(greedy[g], sink, sizeof(sink), 0);
		raw_request(modest, STREAM_READ, 0, 8, i);
		raw_expect(modest, STREAM_DONE, 8, i);
		raw_recv(modest, sink, 8);
	}
	for (unsigned g = 0; g < GREEDY; g++)
		raw_close(greedy[g], true);
	raw_close(modest, false);
}
END_TEST

/* ---- anything at all ---- */

static uint64_t fuzz_seed;

static uint64_t fuzz(void)
{
	fuzz_seed ^= fuzz_seed << 13;
	fuzz_seed ^= fuzz_seed >> 7;
	fuzz_seed ^= fuzz_seed << 17;
	return fuzz_seed;
}

/* Mostly sound requests with a field or two that are not, then plain noise. */
static size_t fuzz_request(uint8_t *buf)
{
	static const uint64_t edges[] = { 0,      1,          7,         MIDDLE - 1,
					  MIDDLE, MIDDLE + 1, UINT64_MAX };
	struct stream_request r = request(1 + fuzz() % 2, fuzz() % (2 * MIDDLE),
					  (uint32_t)(fuzz() % 2000), fuzz());
	uint32_t bytes;

	switch (fuzz() % 16) {
	case 0:
		r.rkey ^= UINT64_C(1) << fuzz() % 64;
		break;
	case 1:
		r.addr = htole64(host.key.addr + edges[fuzz() % 7]);
		break;
	case 2:
		r.addr = fuzz();
		break;
	case 3:
		r.bytes = htole32((uint32_t)fuzz() % (STREAM_BYTES_MAX + 2));
		break;
	case 4:
		((uint8_t *)&r)[fuzz() % sizeof(r)] ^= (uint8_t)(1 << fuzz() % 8);
		break;
	default:
		break;
	}
	memcpy(buf, &r, sizeof(r));
	bytes = le32toh(r.op) == STREAM_WRITE ? le32toh(r.bytes) : 0;
	if (bytes > STREAM_BYTES_MAX)
		bytes = 0;
	if (fuzz() % 64 == 0)
		bytes = (uint32_t)(fuzz() % (bytes + 1));
	memset(buf + sizeof(r), 0x77, bytes);
	return sizeof(r) + bytes;
}

/* Send and drop what comes back, until the server has had enough or we have. */
static void fuzz_stream(uint8_t *buf)
{
	int fd = raw_join();
	char sink[65536];
	unsigned n = (unsigned)(fuzz() % 200);

	for (unsigned i = 0; i < n; i++) {
		size_t bytes = fuzz_request(buf), sent = 0;

		while (sent < bytes) {
			ssize_t part = send(fd, buf + sent, bytes - sent,
					    MSG_NOSIGNAL | MSG_DONTWAIT);

			if (part > 0)
				sent += (size_t)part;
			else if (errno != EAGAIN)
				goto out;
			part = recv(fd, sink, sizeof(sink), MSG_DONTWAIT);
			if (part == 0 || (part < 0 && errno != EAGAIN))
				goto out;
		}
	}
out:
	raw_close(fd, fuzz() % 2);
	/* one after the other: they write to the same memory */
	host_await(&host.downs, host.ups);
}

START_TEST(server__survives_anything)
{
	const char *given = getenv("RMEM_SEED");
	uint8_t *buf = malloc(2 * STREAM_BYTES_MAX);
	unsigned downs;

	ck_assert_ptr_nonnull(buf);
	fuzz_seed = given ? strtoull(given, NULL, 0) : random_u64() | 1;
	fprintf(stderr, "# RMEM_SEED=%#llx\n", (unsigned long long)fuzz_seed);
	for (unsigned i = 0; i < 300; i++) {
		fuzz_stream(buf);
		if (i % 50 == 49) {
			ops->withdraw(host.exposure);
			host_await(&host.withdrawn, host.exposed);
			ck_assert_int_eq(ops->expose(host.session, host.memory, MIDDLE,
						     RW, NULL, &host.exposure),
					 0);
			host_await(&host.exposed, host.withdrawn + 1);
		}
	}
	downs = host.downs;
	ck_assert_uint_eq(host_stats().channels, 0);
	host_is_well();
	ck_assert_uint_eq(host.downs, downs + 1);
	free(buf);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("fabric-tcp-server");
	TCase *tcase = tcase_create("server");

	tcase_add_checked_fixture(tcase, host_open, host_close);
	tcase_set_timeout(tcase, 120);
	tcase_add_test(tcase, open__names_the_address_that_is_taken);
	tcase_add_test(tcase, open__without_address_serves_both_families);
	tcase_add_test(tcase, hello__wrong_is_refused_with_a_verdict);
	tcase_add_test(tcase, hello__in_single_bytes_is_understood);
	tcase_add_test(tcase, hello__that_does_not_come_ends_the_connection);
	tcase_add_test(tcase, hello__that_does_not_come_shuts_nobody_out);
	tcase_add_test(tcase, accept__recovers_when_descriptors_run_out);
	tcase_add_loop_test(tcase, request__of_absurd_length_or_kind_ends_the_stream, 0,
			    10);
	tcase_add_test(tcase, request__refused_leaves_the_stream_in_step);
	tcase_add_test(tcase, requests__in_one_segment_are_answered_in_order);
	tcase_add_test(tcase, requests__in_single_bytes_are_understood);
	tcase_add_loop_test(tcase, client__may_vanish_at_every_byte, 0, 2);
	tcase_add_test(tcase, client__may_vanish_while_answers_wait);
	tcase_add_test(tcase, withdraw__refuses_a_word_that_is_not_whole);
	tcase_add_test(tcase, session_close__does_not_wait_for_stalled_clients);
	tcase_add_test(tcase, channel_close__lets_nothing_more_into_the_memory);
	tcase_add_test(tcase, close__ends_what_is_left);
	tcase_add_test(tcase, server__survives_anything);
	suite_add_tcase(suite, tcase);
	tcase = tcase_create("one-thread");
	tcase_add_checked_fixture(tcase, host_open_one, host_close);
	tcase_set_timeout(tcase, 120);
	tcase_add_test(tcase, withdraw__turns_a_write_in_progress_into_a_refused_one);
	tcase_add_test(tcase, withdraw__takes_back_answers_that_wait);
	tcase_add_test(tcase, streams__of_a_thread_take_turns);
	suite_add_tcase(suite, tcase);
	return unit_main(suite);
}

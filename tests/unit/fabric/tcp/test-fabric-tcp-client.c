/* SPDX-License-Identifier: BSD-3-Clause */
/* The client of the tcp fabric, with a raw server that sends valid and invalid
 * responses. */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/random.h"
#include "fabric/client.h"
#include "fabric/status.h"
#include "fabric/tcp/stream.h"
#include "unit/unit.h"
#include "unit/fabric/wr.h"

#define DEPTH 4
#define WAIT_MS 20000
#define BIG FABRIC_STREAM_BYTES_MAX
#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static const struct fabric_client_ops *ops = &fabric_tcp_client;

static const struct fabric_hello hello = { .session = 1, .channel = 2, .token = { 3 } };

/* The client's objects, and the raw server's sockets. */
static struct {
	int listener, peer; /* peer: -1 when not connected */
	uint32_t status;    /* status that the raw server sends */
	unsigned status_bytes;
	bool cancels;
	const char *text; /* behind the status */
	uint32_t text_bytes;
	struct fabric_domain *domain;
	struct fabric_cq *cq;
	struct fabric_channel *channel;
	char *memory;
} ends;

static atomic_bool cancelled;

/* Accept a connection, read its hello and send the status, or cancel the client's wait for it. */
static void *peer_accept(void *arg)
{
	struct stream_status status = { .status = htole32(ends.status),
					.bytes = htole32(ends.text_bytes) };
	uint8_t buf[FABRIC_HELLO_BYTES];
	struct fabric_hello got;
	int on = 1;

	(void)arg;
	ends.peer = accept(ends.listener, NULL, NULL);
	ck_assert_int_ge(ends.peer, 0);
	ck_assert_int_eq(
		setsockopt(ends.peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), 0);
	ck_assert_int_eq(recv(ends.peer, buf, sizeof(buf), MSG_WAITALL), sizeof(buf));
	ck_assert_int_eq(fabric_hello_decode(buf, sizeof(buf), &got), 0);
	ck_assert_uint_eq(got.session, hello.session);
	ck_assert_uint_eq(got.channel, hello.channel);
	ck_assert_mem_eq(got.origin, "\0\0\x7f\0\0\1\0", sizeof(got.origin));
	ck_assert_int_eq(send(ends.peer, &status, ends.status_bytes, MSG_NOSIGNAL),
			 ends.status_bytes);
	if (ends.text)
		(void)send(ends.peer, ends.text, strlen(ends.text), MSG_NOSIGNAL);
	if (ends.status || ends.status_bytes == 1)
		(void)shutdown(ends.peer, SHUT_RDWR);
	cancelled = ends.cancels;
	return NULL;
}

/* The origin shows the source. */
static void name_source(void *ctx, const struct fabric_address *source,
			struct fabric_hello *named)
{
	ck_assert_ptr_eq(ctx, &ends);
	ck_assert_uint_eq(source->family, 4);
	memcpy(named->origin + 2, source->bytes, 4);
}

static int client_connect(unsigned timeout_ms)
{
	struct fabric_channel_params params = { .hello = hello,
						.name_source = name_source,
						.name_source_ctx = &ends,
						.depth = DEPTH,
						.timeout_ms = timeout_ms,
						.cancelled = &cancelled };
	pthread_t thread;
	int err;

	ck_assert_int_eq(pthread_create(&thread, NULL, peer_accept, NULL), 0);
	err = wr_connect(ops, ends.cq, &params, &ends.channel);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	return err;
}

static void ends_open(void)
{
	struct fabric_endpoint endpoint = { .kind = FABRIC_TCP,
					    .node = -1,
					    .flags = FABRIC_ENDPOINT_ATOMICS };
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(in);

	ends.peer = -1;
	ends.status = WIRE_CODE_none;
	ends.status_bytes = sizeof(struct stream_status);
	ends.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_ge(ends.listener, 0);
	ck_assert_int_eq(bind(ends.listener, (struct sockaddr *)&in, sizeof(in)), 0);
	ck_assert_int_eq(listen(ends.listener, 1), 0);
	ck_assert_int_eq(getsockname(ends.listener, (struct sockaddr *)&in, &len), 0);
	endpoint.address.family = 4;
	memcpy(endpoint.address.bytes, &in.sin_addr, 4);
	endpoint.address.port = ntohs(in.sin_port);
	ck_assert_int_eq(ops->domain_open(&endpoint, NULL, WAIT_MS, &ends.domain), 0);
	ck_assert_str_eq(ops->domain_device(ends.domain), "");
	ck_assert_int_eq(ops->cq_create(ends.domain, DEPTH, &ends.cq), 0);
	ends.memory = calloc(DEPTH, BIG);
	ck_assert_ptr_nonnull(ends.memory);
}

static void ends_close(void)
{
	ops->channel_free(ends.channel);
	ops->cq_free(ends.cq);
	ops->domain_close(ends.domain);
	if (ends.peer >= 0)
		(void)close(ends.peer);
	(void)close(ends.listener);
	free(ends.memory);
}

/* ---- admission ---- */

static const struct {
	uint32_t status;
	unsigned bytes;
	int err;
} statuses[] = {
	/* no text: it is no server of this protocol */
	{ WIRE_CODE_forbidden, 8, -EPROTO },
	{ WIRE_CODE_no_memory, 8, -EPROTO },
	{ 0xffffffff, 8, -EPROTO },
	{ WIRE_CODE_none, 1, -ECONNRESET },
};

START_TEST(connect__reports_the_status)
{
	ends.status = statuses[_i].status;
	ends.status_bytes = statuses[_i].bytes;
	ck_assert_int_eq(client_connect(WAIT_MS), statuses[_i].err);
	ck_assert_ptr_null(ends.channel);
	ck_assert_ptr_nonnull(strstr(err_text(), "127.0.0.1:"));
	ck_assert_int_eq(strstr(err_text(), "is it another port?") != NULL,
			 statuses[_i].err == -EPROTO);
}
END_TEST

#define LONG "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
_Static_assert(4 * (sizeof(LONG) - 1) == STREAM_TEXT_MAX + 1, "one byte too long");

static const struct {
	uint32_t status;
	const char *text, *told; /* text that the server sends, and the one told */
	uint32_t bytes;          /* length that it announces */
	int err;
} refusals[] = {
	{ WIRE_CODE_forbidden, "from 192.0.2.1", "a data stream: from 192.0.2.1", 14,
	  -EACCES },
	{ WIRE_CODE_forbidden, "a\nb\033", "a data stream: a?b?", 4, -EACCES },
	{ WIRE_CODE_malformed, "what", "a data stream: what", 4, -EPROTO },
	{ WIRE_CODE_no_memory, "full", "a data stream: full", 4, -ENOMEM },
	/* numbers of later servers, of groups that this client knows, or not */
	{ 199, "not now", "a data stream: not now", 7, -EBUSY },
	{ 399, "go away", "a data stream: go away", 7, -EACCES },
	{ 899, "a secret", "a data stream: a secret", 8, -EIO },
	{ UINT32_MAX, "a secret", "a data stream: a secret", 8, -EIO },
	{ WIRE_CODE_forbidden, "short", "Connection reset by peer", 6, -ECONNRESET },
	{ WIRE_CODE_forbidden, LONG LONG LONG LONG, "is it another port?",
	  STREAM_TEXT_MAX + 1, -EPROTO },
	{ WIRE_CODE_forbidden, LONG LONG LONG LONG, "is it another port?", UINT32_MAX,
	  -EPROTO },
	{ WIRE_CODE_forbidden, "", "is it another port?", 0, -EPROTO },
};

START_TEST(connect__tells_why_it_is_refused)
{
	const char *told;

	ends.status = refusals[_i].status;
	ends.text = refusals[_i].text;
	ends.text_bytes = refusals[_i].bytes;
	ck_assert_int_eq(client_connect(WAIT_MS), refusals[_i].err);
	ck_assert_ptr_nonnull(strstr(err_text(), "127.0.0.1:"));
	told = strstr(err_text(), refusals[_i].told);
	ck_assert_msg(told && strcmp(told, refusals[_i].told) == 0, "%s", err_text());
}
END_TEST

START_TEST(connect__times_out)
{
	uint64_t start = clock_now_ms();

	ends.status_bytes = 0;
	ck_assert_int_eq(client_connect(300), -ETIMEDOUT);
	ck_assert_ptr_null(ends.channel);
	ck_assert_uint_ge(clock_now_ms() - start, 290);
}
END_TEST

START_TEST(connect__is_cancelled)
{
	ends.status_bytes = 0;
	ends.cancels = true;
	ck_assert_int_eq(client_connect(INT_MAX), -ECANCELED);
	ck_assert_ptr_null(ends.channel);
}
END_TEST

START_TEST(connect__that_is_cancelled_already)
{
	struct fabric_channel_params params = { .hello = hello,
						.depth = DEPTH,
						.timeout_ms = INT_MAX,
						.cancelled = &cancelled };

	cancelled = true;
	ck_assert_int_eq(wr_connect(ops, ends.cq, &params, &ends.channel), -ECANCELED);
	ck_assert_ptr_null(ends.channel);
}
END_TEST

START_TEST(connect__refused_names_the_address)
{
	struct fabric_channel_params params = { .hello = hello,
						.depth = DEPTH,
						.timeout_ms = WAIT_MS };

	(void)close(ends.listener);
	ends.listener = -1;
	ck_assert_int_eq(wr_connect(ops, ends.cq, &params, &ends.channel),
			 -ECONNREFUSED);
	ck_assert_ptr_nonnull(strstr(err_text(), "127.0.0.1:"));
	params.depth = 0;
	ck_assert_int_eq(wr_connect(ops, ends.cq, &params, &ends.channel), -EINVAL);
}
END_TEST

START_TEST(domain_open__needs_an_address)
{
	struct fabric_endpoint endpoint = { .kind = FABRIC_TCP };
	struct fabric_domain *domain = NULL;

	ck_assert_int_eq(ops->domain_open(&endpoint, NULL, WAIT_MS, &domain), -EINVAL);
	ck_assert_ptr_null(domain);
}
END_TEST

/* Nobody answers there; in a network namespace of its own this process reaches nobody at all. */
START_TEST(domain_open__needs_a_route)
{
	struct fabric_endpoint endpoint = {
		.kind = FABRIC_TCP,
		.address = { .family = 4, .bytes = { 127, 0, 0, 1 }, .port = 9 },
	};
	struct fabric_domain *domain = NULL;

	ck_assert_int_eq(ops->domain_open(&endpoint, NULL, WAIT_MS, &domain), 0);
	ops->domain_close(domain);
	domain = NULL;
	if (unshare(CLONE_NEWNET) && unshare(CLONE_NEWUSER | CLONE_NEWNET))
		return; /* not permitted here */
	ck_assert_int_eq(ops->domain_open(&endpoint, NULL, WAIT_MS, &domain),
			 -ENETUNREACH);
	ck_assert_ptr_nonnull(strstr(err_text(), "127.0.0.1:9"));
	ck_assert_ptr_null(domain);
}
END_TEST

/* ---- operations ---- */

static void ends_connect(void)
{
	ck_assert_int_eq(client_connect(WAIT_MS), 0);
	ck_assert_ptr_nonnull(ends.channel);
}

/* Post operation `cookie` with its own part of the memory. */
static void client_post(enum fabric_opcode opcode, unsigned cookie, uint32_t bytes)
{
	struct wr wr = { .opcode = opcode,
			 .bytes = bytes,
			 .addr = ends.memory + (size_t)(cookie % DEPTH) * BIG,
			 .remote_addr = 1000 + cookie,
			 .rkey = 77,
			 .cookie = cookie };

	ck_assert_int_eq(wr_post(ops, ends.channel, &wr, 1), 1);
}

/* Whether the CQ's descriptor is readable within that time. */
static bool cq_readable(int timeout_ms)
{
	struct pollfd pfd = { .fd = ops->cq_fd(ends.cq), .events = POLLIN };

	return poll(&pfd, 1, timeout_ms) == 1;
}

static struct wc client_await(void)
{
	struct wc wc;

	while (wr_poll(ops, ends.cq, &wc, 1) == 0) {
		ck_assert_int_eq(ops->cq_arm(ends.cq), 0);
		ck_assert(cq_readable(WAIT_MS));
	}
	ck_assert_ptr_eq(wc.channel, ends.channel);
	return wc;
}

/* Receive the next request and drop its payload. */
static struct stream_request peer_request(void)
{
	struct stream_request r;
	char sink[4096];

	ck_assert_int_eq(recv(ends.peer, &r, sizeof(r), MSG_WAITALL), sizeof(r));
	ck_assert_uint_eq(le64toh(r.rkey), 77);
	if (le16toh(r.op) == STREAM_WRITE) {
		ck_assert_uint_le(le32toh(r.bytes), sizeof(sink));
		ck_assert_int_eq(recv(ends.peer, sink, le32toh(r.bytes), MSG_WAITALL),
				 le32toh(r.bytes));
	}
	return r;
}

static void peer_send(const void *data, size_t bytes)
{
	ck_assert_int_eq(send(ends.peer, data, bytes, MSG_NOSIGNAL), (ssize_t)bytes);
}

static void peer_answer(uint32_t status, uint32_t bytes, uint64_t wire_cookie)
{
	struct stream_response r = { .status = htole32(status),
				     .bytes = htole32(bytes),
				     .cookie = wire_cookie };

	peer_send(&r, sizeof(r));
}

static void expect(unsigned cookie, int status)
{
	struct wc wc = client_await();

	ck_assert_uint_eq(wc.cookie, cookie);
	ck_assert_int_eq(wc.status, status);
	ck_assert(status == 0 || wc.text[0] != '\0');
}

static void expect_nothing(void)
{
	struct wc wc;

	ck_assert_int_eq(wr_poll(ops, ends.cq, &wc, 1), 0);
}

static void expect_dead(void)
{
	struct wr wr = { .opcode = FABRIC_READ, .bytes = 1, .addr = ends.memory };

	expect_nothing();
	ck_assert(!ops->alive(ends.channel));
	ck_assert_int_eq(wr_post(ops, ends.channel, &wr, 1), -ECONNRESET);
	/* the descriptor is not readable, so a program that waits does not spin */
	ck_assert(!cq_readable(0));
}

START_TEST(atomics__need_support_of_the_server)
{
	struct fabric_endpoint endpoint = { .kind = FABRIC_TCP,
					    .address = { .family = 4 } };
	struct wr wr = { .opcode = FABRIC_CAS, .bytes = 8, .addr = ends.memory };
	struct fabric_domain *old = NULL;

	ck_assert_int_eq(ops->domain_open(&endpoint, NULL, WAIT_MS, &old), 0);
	ck_assert_int_eq(ops->domain_supports(old, FABRIC_CAN_ATOMICS), -ENOTSUP);
	ck_assert_ptr_nonnull(strstr(err_text(), "has no atomics over tcp"));
	ops->domain_close(old);
	ck_assert_int_eq(ops->domain_supports(ends.domain, FABRIC_CAN_ATOMICS), 0);
	ck_assert_int_eq(ops->domain_supports(ends.domain, (enum fabric_capability)99),
			 -ENOTSUP);
	ends_connect();
	wr.remote_addr = 1004;
	ck_assert_int_eq(wr_post(ops, ends.channel, &wr, 1), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err_text(), "not a multiple of 8"));
}
END_TEST

static void client_post_atomic(enum fabric_opcode opcode, unsigned cookie)
{
	const struct wr wr = { .opcode = opcode,
			       .bytes = 8,
			       .addr = ends.memory + 8 * (size_t)cookie,
			       .remote_addr = 1000 + 8 * (uint64_t)cookie,
			       .rkey = 77,
			       .cookie = cookie,
			       .atomic = { .compare = 0x1122334455667788u,
					   .operand = cookie } };

	ck_assert_int_eq(wr_post(ops, ends.channel, &wr, 1), 1);
}

/* Receive an atomic and answer it with the old value. */
static void peer_atomic(uint32_t op, unsigned cookie, uint64_t old)
{
	struct stream_request r = peer_request();
	struct stream_atomic atomic;
	uint64_t word = htole64(old);

	ck_assert_uint_eq(le16toh(r.op), op);
	ck_assert_uint_eq(le32toh(r.bytes), sizeof(atomic));
	ck_assert_uint_eq(le64toh(r.addr), 1000 + 8 * (uint64_t)cookie);
	ck_assert_int_eq(recv(ends.peer, &atomic, sizeof(atomic), MSG_WAITALL),
			 sizeof(atomic));
	ck_assert_uint_eq(le64toh(atomic.compare), 0x1122334455667788u);
	ck_assert_uint_eq(le64toh(atomic.operand), cookie);
	peer_answer(FABRIC_DONE, 8, r.cookie);
	peer_send(&word, sizeof(word));
}

START_TEST(atomics__send_operands_and_store_the_old_value)
{
	uint64_t got[4];

	ends_connect();
	for (unsigned i = 0; i < DEPTH; i++)
		client_post_atomic(i % 2 ? FABRIC_CAS : FABRIC_FETCH_ADD, i);
	ck_assert_int_eq(
		wr_post(ops, ends.channel, &(struct wr){ .opcode = FABRIC_CAS }, 1), 0);
	for (unsigned i = 0; i < DEPTH; i++)
		peer_atomic(i % 2 ? STREAM_CAS : STREAM_FETCH_ADD, i, 70 + i);
	for (unsigned i = 0; i < DEPTH; i++)
		expect(i, 0);
	memcpy(got, ends.memory, sizeof(got));
	for (unsigned i = 0; i < DEPTH; i++)
		ck_assert_uint_eq(got[i], 70 + i);
	/* an answer without the old value is invalid */
	client_post_atomic(FABRIC_CAS, 4);
	peer_answer(FABRIC_DONE, 0, peer_request().cookie);
	expect(4, -EPROTO);
}
END_TEST

/* The last ones are of later servers, of a group that this client knows, or not. */
static const uint32_t refused_with[] = { FABRIC_STALE, FABRIC_INVALID, 499, 899,
					 UINT32_MAX };

START_TEST(refusal__fails_only_its_operation)
{
	ends_connect();
	client_post(FABRIC_READ, 0, 100);
	client_post(FABRIC_WRITE, 1, 100);
	client_post(FABRIC_READ, 2, 100);
	peer_answer(FABRIC_FORBIDDEN, 0, peer_request().cookie);
	peer_answer(refused_with[_i], 0, peer_request().cookie);
	peer_answer(FABRIC_DONE, 100, peer_request().cookie);
	memset(ends.memory + 3 * BIG, 0x66, 100);
	peer_send(ends.memory + 3 * BIG, 100);
	expect(0, -EACCES);
	expect(1, -EACCES);
	expect(2, 0);
	ck_assert_int_eq(ends.memory[0], 0);
	ck_assert_mem_eq(ends.memory + 2 * BIG, ends.memory + 3 * BIG, 100);
	ck_assert(ops->alive(ends.channel));
}
END_TEST

/* Invalid responses to a read of 100 bytes; cookie_bits differ from the request's cookie. */
static const struct {
	uint32_t status, bytes;
	uint64_t cookie_bits;
} invalid[] = {
	{ FABRIC_DONE, 100, 1 },
	{ FABRIC_DONE, 99, 0 },
	{ FABRIC_DONE, 101, 0 },
	{ FABRIC_DONE, 0, 0 },
	{ FABRIC_FORBIDDEN, 1, 0 },
	{ FABRIC_STALE, 100, 0 },
	{ UINT32_MAX, 1, 0 },
	{ FABRIC_FORBIDDEN, 0, 1 },
	{ FABRIC_DONE, UINT32_MAX, 0 },
	{ FABRIC_DONE, 100, UINT64_C(1) << 63 },
	{ FABRIC_DONE, 100, UINT64_MAX },
};

START_TEST(response__invalid_ends_the_channel)
{
	struct stream_request r;

	ends_connect();
	client_post(FABRIC_READ, 0, 100);
	client_post(FABRIC_WRITE, 1, 100);
	client_post(FABRIC_READ, 2, 100);
	r = peer_request();
	peer_answer(invalid[_i].status, invalid[_i].bytes,
		    htole64(le64toh(r.cookie) ^ invalid[_i].cookie_bits));
	expect(0, -EPROTO);
	expect(1, -ECONNRESET);
	expect(2, -ECONNRESET);
	ck_assert_int_eq(ends.memory[0], 0);
	expect_dead();
}
END_TEST

START_TEST(response__out_of_order_ends_the_channel)
{
	ends_connect();
	client_post(FABRIC_WRITE, 0, 100);
	client_post(FABRIC_WRITE, 1, 100);
	(void)peer_request();
	peer_answer(FABRIC_DONE, 0, peer_request().cookie);
	expect(0, -EPROTO);
	expect(1, -ECONNRESET);
	expect_dead();
}
END_TEST

START_TEST(response__without_request_ends_the_channel)
{
	ends_connect();
	peer_send("x", 1);
	ck_assert(cq_readable(WAIT_MS));
	expect_dead();
}
END_TEST

START_TEST(end__of_the_stream_completes_each_operation_once)
{
	char answer[sizeof(struct stream_response) + 100] = { 0 };
	struct stream_response r = { .bytes = htole32(100) };

	/* before the header, in it, after it, and in the payload */
	static const size_t cuts[] = { 0, 1, 15, 16, 17, 115 };

	ends_connect();
	for (unsigned i = 0; i < DEPTH; i++)
		client_post(FABRIC_READ, i, 100);
	r.cookie = peer_request().cookie;
	memcpy(answer, &r, sizeof(r));
	if (cuts[_i])
		peer_send(answer, cuts[_i]);
	(void)close(ends.peer);
	ends.peer = -1;
	for (unsigned i = 0; i < DEPTH; i++)
		expect(i, -ECONNRESET);
	expect_dead();
}
END_TEST

START_TEST(end__of_the_stream_keeps_responses_before_it)
{
	ends_connect();
	client_post(FABRIC_WRITE, 0, 100);
	client_post(FABRIC_WRITE, 1, 100);
	peer_answer(FABRIC_DONE, 0, peer_request().cookie);
	(void)peer_request();
	(void)shutdown(ends.peer, SHUT_WR);
	expect(0, 0);
	expect(1, -ECONNRESET);
	expect_dead();
}
END_TEST

START_TEST(alive__sees_the_end_on_an_idle_channel)
{
	ends_connect();
	ck_assert(ops->alive(ends.channel));
	ck_assert_int_eq(ops->alive_fd(ends.channel), -1);
	(void)shutdown(ends.peer, SHUT_WR);
	ck_assert(cq_readable(WAIT_MS));
	ck_assert(!ops->alive(ends.channel));
	expect_dead();
}
END_TEST

START_TEST(post__continues_when_the_peer_reads_again)
{
	struct pollfd pfds[2] = { { .fd = ops->cq_fd(ends.cq), .events = POLLIN },
				  { .events = POLLIN } };
	size_t all = DEPTH * (BIG + sizeof(struct stream_request)), got = 0;
	char *sink = malloc(BIG);

	ck_assert_ptr_nonnull(sink);
	ends_connect();
	pfds[1].fd = ends.peer;
	for (unsigned i = 0; i < DEPTH; i++)
		client_post(FABRIC_WRITE, i, BIG);
	/* the server sends nothing, so only space in the socket makes cq_fd()
	 * readable */
	while (got < all) {
		ck_assert_int_ge(poll(pfds, 2, WAIT_MS), 1);
		if (pfds[1].revents) {
			ssize_t n = recv(ends.peer, sink, BIG, 0);

			ck_assert_int_gt(n, 0);
			got += (size_t)n;
		}
		if (pfds[0].revents)
			expect_nothing();
	}
	ck_assert_int_eq(poll(pfds, 2, 0), 0);
	free(sink);
}
END_TEST

START_TEST(abort__sends_no_more_data)
{
	size_t got = 0;
	ssize_t n;

	ends_connect();
	/* more than the sockets hold; the server does not read */
	for (unsigned i = 0; i < DEPTH; i++) {
		memset(ends.memory + (size_t)i * BIG, 0x21, BIG);
		client_post(FABRIC_WRITE, i, BIG);
	}
	expect_nothing();
	ops->abort(ends.channel);
	for (unsigned i = 0; i < DEPTH; i++)
		expect(i, -ECONNRESET);
	expect_dead();
	/* a reset: data that was not yet sent is dropped */
	while ((n = recv(ends.peer, ends.memory, BIG, 0)) > 0)
		got += (size_t)n;
	ck_assert(n < 0 && errno == ECONNRESET);
	ck_assert_uint_lt(got, DEPTH * (BIG + sizeof(struct stream_request)));
}
END_TEST

START_TEST(channel_free__with_outstanding_operations_resets_the_stream)
{
	char byte;

	ends_connect();
	client_post(FABRIC_READ, 0, 100);
	(void)peer_request();
	ops->channel_free(ends.channel);
	ends.channel = NULL;
	ck_assert(recv(ends.peer, &byte, 1, 0) < 0 && errno == ECONNRESET);
}
END_TEST

START_TEST(memory__unmapped_fails_the_operation)
{
	/* a smaller read is copied by the library */
	enum { BYTES = 4096 };
	char *unmapped =
		mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct wr wr = { .opcode = _i ? FABRIC_READ : FABRIC_WRITE,
			 .bytes = BYTES,
			 .addr = unmapped,
			 .rkey = 77,
			 .cookie = 0 };

	ends_connect();
	ck_assert_ptr_ne(unmapped, MAP_FAILED);
	ck_assert_int_eq(wr_post(ops, ends.channel, &wr, 1), 1);
	if (_i) {
		peer_answer(FABRIC_DONE, BYTES, peer_request().cookie);
		peer_send(ends.memory, BYTES);
	}
	expect(0, -EFAULT);
	expect_dead();
	(void)munmap(unmapped, 8192);
}
END_TEST

START_TEST(memory__unmapped_fails_the_right_operation)
{
	char *unmapped =
		mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct wr wrs[3];

	ck_assert_ptr_ne(unmapped, MAP_FAILED);
	for (unsigned i = 0; i < 3; i++)
		wrs[i] = (struct wr){ .opcode = FABRIC_WRITE,
				      .bytes = 100,
				      .addr = i == 1 ? unmapped : ends.memory,
				      .rkey = 77,
				      .cookie = i };
	ends_connect();
	ck_assert_int_eq(wr_post(ops, ends.channel, wrs, 3), 3);
	expect(0, -ECONNRESET);
	expect(1, -EFAULT);
	expect(2, -ECONNRESET);
	expect_dead();
	(void)munmap(unmapped, 4096);
}
END_TEST

/* Responses in parts of random size, polled for a random number of completions. */
START_TEST(responses__may_arrive_in_parts)
{
	enum { ROUNDS = 300, LARGEST = 700 };
	uint64_t seed = random_u64();
	char stream[DEPTH * (sizeof(struct stream_response) + LARGEST)];

	fprintf(stderr, "# seed %#llx\n", (unsigned long long)seed);
	ends_connect();
	for (unsigned round = 0; round < ROUNDS; round++) {
		size_t bytes = 0, sent = 0;
		unsigned done = 0;
		uint32_t sizes[DEPTH];

		memset(ends.memory, 0, LARGEST + 1);
		for (unsigned i = 0; i < DEPTH; i++) {
			struct stream_response r = { 0 };
			struct stream_request q;
			bool read;

			read = random_next(&seed) % 2;
			sizes[i] = 1 + (uint32_t)(random_next(&seed) % LARGEST);
			client_post(read ? FABRIC_READ : FABRIC_WRITE, i, sizes[i]);
			q = peer_request();
			r.cookie = q.cookie;
			r.bytes = read ? q.bytes : 0;
			memcpy(stream + bytes, &r, sizeof(r));
			bytes += sizeof(r);
			memset(stream + bytes, (int)(round + i), read ? sizes[i] : 0);
			bytes += read ? sizes[i] : 0;
			if (!read)
				sizes[i] = 0;
		}
		while (sent < bytes || done < DEPTH) {
			struct wc wcs[DEPTH];
			unsigned want = 1 + (unsigned)(random_next(&seed) % DEPTH);
			int got;

			if (sent < bytes) {
				size_t part = 1 + random_next(&seed) % 400;

				if (part > bytes - sent)
					part = bytes - sent;
				peer_send(stream + sent, part);
				sent += part;
			}
			got = wr_poll(ops, ends.cq, wcs, want);
			ck_assert_int_ge(got, 0);
			for (int k = 0; k < got; k++, done++) {
				const char *at = ends.memory + (size_t)done * BIG;

				ck_assert_uint_eq(wcs[k].cookie, done);
				ck_assert_int_eq(wcs[k].status, 0);
				for (uint32_t b = 0; b < sizes[done]; b++)
					ck_assert_int_eq(at[b], (char)(round + done));
			}
		}
		ck_assert_uint_eq(done, DEPTH);
	}
	expect_nothing();
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("client", ends_open, ends_close);

	tcase_add_loop_test(tcase, connect__reports_the_status, 0, COUNT(statuses));
	tcase_add_loop_test(tcase, connect__tells_why_it_is_refused, 0,
			    COUNT(refusals));
	tcase_add_test(tcase, connect__times_out);
	tcase_add_test(tcase, connect__is_cancelled);
	tcase_add_test(tcase, connect__that_is_cancelled_already);
	tcase_add_test(tcase, connect__refused_names_the_address);
	tcase_add_test(tcase, domain_open__needs_an_address);
	tcase_add_test(tcase, domain_open__needs_a_route);
	tcase_add_test(tcase, atomics__need_support_of_the_server);
	tcase_add_test(tcase, atomics__send_operands_and_store_the_old_value);
	tcase_add_loop_test(tcase, refusal__fails_only_its_operation, 0,
			    COUNT(refused_with));
	tcase_add_loop_test(tcase, response__invalid_ends_the_channel, 0,
			    COUNT(invalid));
	tcase_add_test(tcase, response__out_of_order_ends_the_channel);
	tcase_add_test(tcase, response__without_request_ends_the_channel);
	tcase_add_loop_test(tcase, end__of_the_stream_completes_each_operation_once, 0,
			    6);
	tcase_add_test(tcase, end__of_the_stream_keeps_responses_before_it);
	tcase_add_test(tcase, alive__sees_the_end_on_an_idle_channel);
	tcase_add_test(tcase, post__continues_when_the_peer_reads_again);
	tcase_add_test(tcase, abort__sends_no_more_data);
	tcase_add_test(tcase,
		       channel_free__with_outstanding_operations_resets_the_stream);
	tcase_add_loop_test(tcase, memory__unmapped_fails_the_operation, 0, 2);
	tcase_add_test(tcase, memory__unmapped_fails_the_right_operation);
	tcase_add_test(tcase, responses__may_arrive_in_parts);
	return unit_main();
}

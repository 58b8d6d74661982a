/* SPDX-License-Identifier: BSD-3-Clause */
/* The server of the tcp fabric: wrong, slow and missing hellos, invalid requests,
 * atomics, and clients that vanish at any byte. */
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "unit/fabric/tcp/fabric-tcp-host.h"
#include "wire/codec.h"
#include "unit/unit.h"

/* ---- listening and admission ---- */

START_TEST(open__names_an_address_in_use)
{
	struct fabric_server_params params = {
		.listen = { .family = 4, .bytes = { 127, 0, 0, 1 }, .port = host.port },
		.threads = 1,
		.backlog = 1
	};
	struct fabric_server *server = NULL;
	char text[64];

	ck_assert_int_eq(ops->open(&params, &server_events, NULL, &server),
			 -EADDRINUSE);
	ck_assert_ptr_null(server);
	(void)snprintf(text, sizeof(text), "127.0.0.1:%u", host.port);
	ck_assert_ptr_nonnull(strstr(err_text(), text));
	memset(params.listen.bytes, 0, sizeof(params.listen.bytes));
	ck_assert_int_eq(ops->open(&params, &server_events, NULL, &server),
			 -EADDRINUSE);
	(void)snprintf(text, sizeof(text), "0.0.0.0:%u", host.port);
	ck_assert_ptr_nonnull(strstr(err_text(), text));
	params.threads = 0;
	ck_assert_int_eq(ops->open(&params, &server_events, NULL, &server), -EINVAL);
}
END_TEST

/* Whether a stream over this family is taken. */
static bool serves(int family, uint16_t port)
{
	int fd = raw_connect_to(family, port);

	if (fd >= 0)
		(void)close(fd);
	return fd >= 0;
}

/* Whatever the host's net.ipv6.bindv6only says. */
START_TEST(open__at_a_wildcard_serves_its_family)
{
	struct fabric_server_params params = { .listen.family = _i ? 6 : 4,
					       .threads = 1,
					       .backlog = 1 };
	struct fabric_server *server = NULL, *other = NULL;
	const struct fabric_endpoint *endpoint;
	int err = ops->open(&params, &server_events, NULL, &server);

	/* this host has no IPv6 */
	if (_i && (err == -EAFNOSUPPORT || err == -EADDRNOTAVAIL))
		return;
	ck_assert_int_eq(err, 0);
	ck_assert_uint_eq(ops->n_endpoints(server), 1);
	endpoint = ops->endpoint(server, 0);
	ck_assert_int_eq(endpoint->kind, FABRIC_TCP);
	ck_assert_uint_eq(endpoint->address.family, params.listen.family);
	ck_assert_uint_ne(endpoint->address.port, 0);
	ck_assert_int_eq(endpoint->node, -1);
	ck_assert_str_eq(endpoint->device, "");
	ck_assert(serves(_i ? AF_INET6 : AF_INET, endpoint->address.port));
	ck_assert(!serves(_i ? AF_INET : AF_INET6, endpoint->address.port));
	/* the other one is not in its way */
	params.listen.family = _i ? 4 : 6;
	params.listen.port = endpoint->address.port;
	err = ops->open(&params, &server_events, NULL, &other);
	ck_assert(err == 0 || err == -EAFNOSUPPORT || err == -EADDRNOTAVAIL);
	if (!err)
		ops->close(other);
	ops->close(server);
}
END_TEST

START_TEST(hello__wrong_is_refused_with_a_status)
{
	uint8_t buf[FABRIC_HELLO_BYTES];
	char reason[STREAM_TEXT_MAX + 2] = { 0 };
	int fd;

	memset(reason, 'r', sizeof(reason) - 1);
	for (unsigned i = 0; i < FABRIC_HELLO_BYTES - FABRIC_ORIGIN_BYTES; i++) {
		/* any channel number is valid here, from any origin */
		if (i >= 16 && i < 20)
			continue;
		fd = raw_connect();
		raw_hello(buf);
		buf[i] ^= 0x40;
		host.refusal = i % 2 ? "a reason" : reason;
		raw_send(fd, buf, sizeof(buf));
		ck_assert_uint_eq(raw_status(fd),
				  i < 8 ? WIRE_CODE_malformed : WIRE_CODE_stale);
		raw_expect_end(fd);
		raw_close(fd, false);
	}
	ck_assert_uint_eq(seen.ups, 0);
	ck_assert_uint_eq(host_stats().refused,
			  FABRIC_HELLO_BYTES - FABRIC_ORIGIN_BYTES - 4);
	host_check_serves();
}
END_TEST

START_TEST(hello__of_a_control_client_gets_an_error_message)
{
	struct wire_msg msg;
	uint8_t frame[512];
	char port[64];
	int bytes, fd = raw_connect();

	wire_msg_init(&msg, WIRE_TYPE_hello);
	msg.id = 77;
	msg.hello.magic = WIRE_MAGIC;
	(void)snprintf(msg.hello.client, sizeof(msg.hello.client), "a client");
	bytes = wire_encode(&msg, frame, sizeof(frame));
	ck_assert_int_gt(bytes, FABRIC_HELLO_BYTES);
	raw_send(fd, frame, (size_t)bytes);
	ops->process(host.server);
	raw_recv(fd, frame, WIRE_HEADER_BYTES);
	bytes = wire_frame_bytes(frame, WIRE_HEADER_BYTES);
	ck_assert_int_gt(bytes, WIRE_HEADER_BYTES);
	raw_recv(fd, frame + WIRE_HEADER_BYTES, (size_t)bytes - WIRE_HEADER_BYTES);
	ck_assert_int_eq(wire_decode(frame, (size_t)bytes, &msg), 0);
	ck_assert_int_eq(msg.type, WIRE_TYPE_error);
	ck_assert_uint_eq(msg.id, 77);
	ck_assert_uint_eq(msg.error.code, WIRE_CODE_malformed);
	(void)snprintf(port, sizeof(port), "port %u of this server is for data;",
		       host.port);
	ck_assert_int_eq(strncmp(msg.error.text, port, strlen(port)), 0);
	raw_expect_end(fd);
	raw_close(fd, false);
	ck_assert_uint_eq(host_stats().refused, 1);
	host_check_serves();
}
END_TEST

static _Atomic unsigned n_receives;

ssize_t __real_recv(int fd, void *data, size_t bytes, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t bytes, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t bytes, int flags)
{
	(void)atomic_fetch_add(&n_receives, 1);
	return __real_recv(fd, data, bytes, flags);
}

/* What it sends without an end is left, as the main loop has other work. */
START_TEST(hello__of_a_control_client_is_soon_answered)
{
	static uint8_t more[1 << 20];
	struct wire_msg msg;
	uint8_t frame[512];
	int bytes, fd = raw_connect();

	wire_msg_init(&msg, WIRE_TYPE_hello);
	msg.hello.magic = WIRE_MAGIC;
	bytes = wire_encode(&msg, frame, sizeof(frame));
	raw_send(fd, frame, (size_t)bytes);
	ck_assert_int_gt(send(fd, more, sizeof(more), MSG_DONTWAIT), 128 << 10);
	n_receives = 0;
	ops->process(host.server);
	ck_assert_uint_eq(host_stats().refused, 1);
	/* the hello, and 64 KiB */
	ck_assert_uint_le(n_receives, 1 + 16);
	raw_close(fd, false);
	host_check_serves();
}
END_TEST

START_TEST(hello__in_single_bytes_is_accepted)
{
	uint8_t buf[FABRIC_HELLO_BYTES];
	int fd = raw_connect();

	raw_hello(buf);
	for (unsigned i = 0; i < sizeof(buf); i++) {
		raw_send(fd, buf + i, 1);
		ops->process(host.server);
	}
	ck_assert_uint_eq(raw_status(fd), WIRE_CODE_none);
	raw_close_await(fd, 1);
}
END_TEST

static void await_refused(unsigned refused)
{
	while (host_stats().refused < refused)
		host_process_next();
}

START_TEST(hello__missing_ends_the_connection)
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
	host_check_serves();
}
END_TEST

START_TEST(hello__missing_does_not_block_others)
{
	int silent[3 * BACKLOG];

	for (unsigned i = 0; i < 3 * BACKLOG; i++)
		silent[i] = raw_connect();
	host_check_serves();
	/* and no deadline has ended them all */
	ck_assert_uint_lt(host_stats().refused, 3 * BACKLOG);
	/* the server closed the oldest ones */
	for (unsigned i = 0; i < 2 * BACKLOG; i++)
		raw_expect_end(silent[i]);
	for (unsigned i = 0; i < 3 * BACKLOG; i++)
		raw_close(silent[i], false);
	await_refused(3 * BACKLOG);
}
END_TEST

/* A connection from 127.0.0.LAST. */
static int connect_from(uint8_t last)
{
	struct sockaddr_in from = { .sin_family = AF_INET,
				    .sin_addr.s_addr =
					    htonl(INADDR_LOOPBACK - 1 + last) };
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons(host.port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ck_assert_int_eq(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

/* An address with many silent peers takes no slot of another one's, whose hello comes late. */
START_TEST(hello__missing_does_not_end_those_of_other_addresses)
{
	int silent[3 * BACKLOG], late = connect_from(2);
	uint8_t buf[FABRIC_HELLO_BYTES];

	for (unsigned i = 0; i < 3 * BACKLOG; i++)
		silent[i] = connect_from(3);
	await_refused(2 * BACKLOG + 1);
	raw_hello(buf);
	raw_send(late, buf, sizeof(buf));
	ck_assert_uint_eq(raw_status(late), WIRE_CODE_none);
	raw_close_await(late, 1);
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
	host_await(&seen.events, 1);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	raw_close(fd, false);
	host_check_serves();
}
END_TEST

/* A client whose SYN is lost tries again after a second; so nobody may fill the kernel's queue
 * between two turns of the loop. */
START_TEST(accept__takes_a_burst_of_connections)
{
	enum { BURST = 1000 };
	struct rlimit limit;
	int *fds = malloc(BURST * sizeof(*fds));

	ck_assert_ptr_nonnull(fds);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	/* the server accepts none of them meanwhile: this is its loop */
	for (unsigned i = 0; i < BURST; i++)
		fds[i] = raw_connect();
	for (unsigned i = 0; i < BURST; i++)
		raw_close(fds[i], true);
	host_check_serves();
	free(fds);
}
END_TEST

/* ---- requests ---- */

START_TEST(request__invalid_ends_the_stream)
{
	static const struct {
		uint32_t op, bytes;
	} invalid[] = {
		{ STREAM_READ, 0 },
		{ STREAM_WRITE, 0 },
		{ STREAM_READ, FABRIC_STREAM_BYTES_MAX + 1 },
		{ STREAM_WRITE, FABRIC_STREAM_BYTES_MAX + 1 },
		{ STREAM_READ, UINT32_MAX },
		{ STREAM_WRITE, UINT32_MAX },
		{ 0, 8 },
		{ STREAM_FETCH_ADD + 1, 8 },
		{ STREAM_CAS, 8 },
		{ STREAM_FETCH_ADD, 15 },
		{ STREAM_CAS, 17 },
		{ UINT16_MAX, 8 },
		/* flags, in the upper half */
		{ STREAM_READ | 1u << 16, 8 },
		{ STREAM_WRITE | UINT32_C(1) << 31, 8 },
	};
	int fd = raw_channel_open();

	raw_request(fd, invalid[_i].op, 0, invalid[_i].bytes, 1);
	raw_expect_end(fd);
	host_await(&seen.downs, 1);
	ck_assert_str_ne(seen.why, "");
	ck_assert_uint_eq(host_stats().errors, 1);
	raw_close(fd, false);
	ck_assert(bytes_equal(host.memory, MIDDLE, 0x33));
	host_check_serves();
}
END_TEST

START_TEST(request__refused_keeps_the_stream_in_step)
{
	enum { BIG = 300000 };
	char *bytes = malloc(BIG), *back = malloc(BIG);
	int fd = raw_channel_open();
	struct stream_request bad_key = request(STREAM_WRITE, 0, BIG, 2);

	ck_assert_ptr_nonnull(bytes);
	ck_assert_ptr_nonnull(back);
	memset(bytes, 0x44, BIG);
	/* a write out of bounds by one, one with a wrong key, a valid one, a read out
	 * of bounds, a valid one */
	raw_request(fd, STREAM_WRITE, MIDDLE - BIG + 1, BIG, 1);
	raw_send(fd, bytes, BIG);
	bad_key.rkey ^= htole64(UINT64_C(1) << 63);
	raw_send(fd, &bad_key, sizeof(bad_key));
	raw_send(fd, bytes, BIG);
	raw_request(fd, STREAM_WRITE, MIDDLE - BIG, BIG, 3);
	raw_send(fd, bytes, BIG);
	raw_request(fd, STREAM_READ, MIDDLE - BIG + 1, BIG, 4);
	raw_request(fd, STREAM_READ, MIDDLE - BIG, BIG, 5);
	raw_expect(fd, FABRIC_OUTSIDE, 0, 1);
	raw_expect(fd, FABRIC_STALE, 0, 2);
	raw_expect(fd, FABRIC_DONE, 0, 3);
	raw_expect(fd, FABRIC_OUTSIDE, 0, 4);
	raw_expect(fd, FABRIC_DONE, BIG, 5);
	raw_recv(fd, back, BIG);
	ck_assert_mem_eq(back, bytes, BIG);
	ck_assert(bytes_equal(host.memory, MIDDLE - BIG, 0x33));
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
	int fd = raw_channel_open();

	for (unsigned i = 0; i < N; i++) {
		batch[i].write = request(STREAM_WRITE, 7 * i, 5, 2 * i);
		memset(batch[i].payload, (int)i, 5);
		batch[i].read = request(STREAM_READ, 7 * i, 5, 2 * i + 1);
	}
	raw_send(fd, batch, sizeof(batch));
	for (unsigned i = 0; i < N; i++) {
		char back[5];

		raw_expect(fd, FABRIC_DONE, 0, 2 * i);
		raw_expect(fd, FABRIC_DONE, 5, 2 * i + 1);
		raw_recv(fd, back, 5);
		ck_assert_mem_eq(back, batch[i].payload, 5);
	}
	raw_close(fd, false);
}
END_TEST

START_TEST(requests__in_single_bytes_are_executed)
{
	struct stream_request write = request(STREAM_WRITE, 1, 3, 1);
	struct stream_request read = request(STREAM_READ, 0, 5, 2);
	char back[5];
	int fd = raw_channel_open();

	raw_send_bytes(fd, &write, sizeof(write));
	raw_send_bytes(fd, "abc", 3);
	raw_send_bytes(fd, &read, sizeof(read));
	raw_expect(fd, FABRIC_DONE, 0, 1);
	raw_expect(fd, FABRIC_DONE, 5, 2);
	raw_recv(fd, back, 5);
	ck_assert_mem_eq(back,
			 "\x33"
			 "abc\x33",
			 5);
	raw_close(fd, false);
}
END_TEST

/* ---- atomics ---- */

static void raw_atomic(int fd, uint32_t op, uint64_t offset, uint64_t cookie,
		       uint64_t compare, uint64_t operand)
{
	const struct stream_atomic atomic = { .compare = htole64(compare),
					      .operand = htole64(operand) };

	raw_request(fd, op, offset, sizeof(atomic), cookie);
	raw_send(fd, &atomic, sizeof(atomic));
}

static void raw_expect_old(int fd, uint64_t cookie, uint64_t old)
{
	ck_assert_uint_eq(raw_expect_word(fd, cookie), old);
}

static void word_equals(uint64_t offset, uint64_t value)
{
	uint64_t word;

	memcpy(&word, host.memory + offset, sizeof(word));
	ck_assert_uint_eq(word, value);
}

START_TEST(atomics__return_the_old_value)
{
	const uint64_t filled = 0x3333333333333333u;
	int fd = raw_channel_open();

	raw_atomic(fd, STREAM_FETCH_ADD, 8, 1, 99, 1);
	raw_atomic(fd, STREAM_CAS, 8, 2, filled, 5);
	raw_atomic(fd, STREAM_CAS, 8, 3, filled + 1, 6);
	raw_atomic(fd, STREAM_FETCH_ADD, 8, 4, 99, (uint64_t)-7);
	raw_expect_old(fd, 1, filled);
	raw_expect_old(fd, 2, filled + 1);
	raw_expect_old(fd, 3, filled + 1);
	raw_expect_old(fd, 4, 6);
	word_equals(0, filled);
	word_equals(8, (uint64_t)-1);
	word_equals(16, filled);
	raw_close(fd, false);
}
END_TEST

START_TEST(atomics__in_single_bytes_are_executed)
{
	const struct stream_request head = request(STREAM_FETCH_ADD, 0, 16, 1);
	const struct stream_atomic atomic = { .operand = htole64(2) };
	char both[sizeof(head) + sizeof(atomic)];
	int fd = raw_channel_open();

	memcpy(both, &head, sizeof(head));
	memcpy(both + sizeof(head), &atomic, sizeof(atomic));
	for (unsigned round = 0; round < 2; round++)
		raw_send_bytes(fd, both, sizeof(both));
	raw_expect_old(fd, 1, 0x3333333333333333u);
	raw_expect_old(fd, 1, 0x3333333333333335u);
	raw_close(fd, false);
}
END_TEST

START_TEST(atomics__refused_keep_the_stream_in_step)
{
	static const uint64_t bad[] = { 1, 4, 7, MIDDLE, MIDDLE - 4, (uint64_t)-8 };
	int fd = raw_channel_open();

	for (unsigned i = 0; i < 6; i++)
		raw_atomic(fd, i % 2 ? STREAM_CAS : STREAM_FETCH_ADD, bad[i], i,
			   0x3333333333333333u, 1);
	raw_atomic(fd, STREAM_FETCH_ADD, MIDDLE - 8, 6, 0, 0);
	for (unsigned i = 0; i < 6; i++)
		raw_expect(fd, i < 3 ? FABRIC_INVALID : FABRIC_OUTSIDE, 0, i);
	host_await(&seen.refused, 6);
	ck_assert_uint_eq(seen.refused, 6);
	raw_expect_old(fd, 6, 0x3333333333333333u);
	ck_assert(bytes_equal(host.memory, MIDDLE, 0x33));
	raw_close(fd, false);
}
END_TEST

/* The mr is deregistered before the operands have arrived: no memory is changed. */
START_TEST(atomic__is_refused_when_the_mr_is_deregistered)
{
	const struct stream_atomic atomic = { .operand = htole64(2) };
	int fd = raw_channel_open();

	raw_request(fd, STREAM_READ, 0, 1, 1);
	raw_request(fd, STREAM_FETCH_ADD, 0, sizeof(atomic), 2);
	raw_send(fd, &atomic, 5);
	raw_expect(fd, FABRIC_DONE, 1, 1);
	raw_recv(fd, &(char){ 0 }, 1);
	host_deregister(host.mr);
	host_await(&seen.deregistered, 1);
	raw_send(fd, (const char *)&atomic + 5, sizeof(atomic) - 5);
	raw_expect(fd, FABRIC_STALE, 0, 2);
	ck_assert(bytes_equal(host.memory, MIDDLE, 0x33));
	raw_close(fd, false);
}
END_TEST

/* ---- clients that vanish ---- */

START_TEST(client__that_vanishes_at_any_byte_is_handled)
{
	enum { PAYLOAD = 11, STEPS = FABRIC_HELLO_BYTES + 2 * 32 + PAYLOAD + 1 };
	uint8_t script[STEPS];
	struct stream_request write = request(STREAM_WRITE, 0, PAYLOAD, 1);
	struct stream_request read =
		request(STREAM_READ, 0, FABRIC_STREAM_BYTES_MAX, 2);
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
		ck_assert_uint_eq(raw_status(fd), WIRE_CODE_none);
		joined++;
		if (step > FABRIC_HELLO_BYTES)
			raw_send(fd, script + FABRIC_HELLO_BYTES,
				 step - FABRIC_HELLO_BYTES);
		raw_close(fd, reset);
		/* wait: the next client writes to the same memory */
		host_await(&seen.downs, joined);
	}
	ck_assert_uint_eq(host_stats().channels, 0);
	ck_assert_uint_eq(host_stats().channels_ever, joined);
	/* an end between two requests is no error */
	ck_assert_uint_ge(host_stats().errors, joined - 5);
	host_check_serves();
}
END_TEST

START_TEST(client__that_vanishes_with_unread_responses_is_handled)
{
	enum { READS = 64 };

	for (unsigned reset = 0; reset < 2; reset++) {
		unsigned downs = seen.downs;
		int fd = raw_channel_open();
		char some[1000];

		for (unsigned i = 0; i < READS; i++)
			raw_request(fd, STREAM_READ, 0, FABRIC_STREAM_BYTES_MAX, i);
		raw_recv(fd, some, sizeof(some));
		raw_close(fd, reset);
		host_await(&seen.downs, downs + 1);
		ck_assert_str_ne(seen.why, "");
	}
	host_check_serves();
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("server", host_open, host_close);

	tcase_set_timeout(tcase, 120);
	tcase_add_test(tcase, open__names_an_address_in_use);
	tcase_add_loop_test(tcase, open__at_a_wildcard_serves_its_family, 0, 2);
	tcase_add_test(tcase, hello__wrong_is_refused_with_a_status);
	tcase_add_test(tcase, hello__of_a_control_client_gets_an_error_message);
	tcase_add_test(tcase, hello__of_a_control_client_is_soon_answered);
	tcase_add_test(tcase, hello__in_single_bytes_is_accepted);
	tcase_add_test(tcase, hello__missing_ends_the_connection);
	tcase_add_test(tcase, hello__missing_does_not_block_others);
	tcase_add_test(tcase, hello__missing_does_not_end_those_of_other_addresses);
	tcase_add_test(tcase, accept__recovers_when_descriptors_run_out);
	tcase_add_test(tcase, accept__takes_a_burst_of_connections);
	tcase_add_loop_test(tcase, request__invalid_ends_the_stream, 0, 14);
	tcase_add_test(tcase, request__refused_keeps_the_stream_in_step);
	tcase_add_test(tcase, requests__in_one_segment_are_answered_in_order);
	tcase_add_test(tcase, requests__in_single_bytes_are_executed);
	tcase_add_test(tcase, atomics__return_the_old_value);
	tcase_add_test(tcase, atomics__in_single_bytes_are_executed);
	tcase_add_test(tcase, atomics__refused_keep_the_stream_in_step);
	tcase_add_test(tcase, atomic__is_refused_when_the_mr_is_deregistered);
	tcase_add_loop_test(tcase, client__that_vanishes_at_any_byte_is_handled, 0, 2);
	tcase_add_test(tcase, client__that_vanishes_with_unread_responses_is_handled);
	return unit_main();
}

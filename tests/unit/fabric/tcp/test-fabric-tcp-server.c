/* SPDX-License-Identifier: BSD-3-Clause */
/* The tcp fabric's server against wrong, slow and missing hellos, absurd requests, and
 * clients that vanish at every byte. */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "unit/fabric/tcp/fabric-tcp-host.h"
#include "unit/unit.h"

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

	ck_assert_int_eq(ops->open(&params, &host_events, NULL, &server), -EADDRINUSE);
	ck_assert_ptr_null(server);
	(void)snprintf(text, sizeof(text), "127.0.0.1:%u", host.port);
	ck_assert_ptr_nonnull(strstr(err_text(), text));
	params.listen.family = 0;
	ck_assert_int_eq(ops->open(&params, &host_events, NULL, &server), -EADDRINUSE);
	(void)snprintf(text, sizeof(text), "*:%u", host.port);
	ck_assert_ptr_nonnull(strstr(err_text(), text));
	params.threads = 0;
	ck_assert_int_eq(ops->open(&params, &host_events, NULL, &server), -EINVAL);
}
END_TEST

START_TEST(open__without_address_serves_both_families)
{
	struct fabric_server_params params = { .threads = 1, .backlog = 1 };
	struct fabric_server *server = NULL;
	const struct fabric_endpoint *endpoint;
	int fd;

	ck_assert_int_eq(ops->open(&params, &host_events, NULL, &server), 0);
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

START_TEST(hello__wrong_is_refused_with_a_status)
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
		ck_assert_uint_eq(raw_status(fd),
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
	ck_assert_uint_eq(raw_status(fd), STREAM_DONE);
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
		{ STREAM_FETCH_ADD + 1, 8 },
		{ STREAM_CAS, 8 },
		{ STREAM_FETCH_ADD, 15 },
		{ STREAM_CAS, 17 },
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
		raw_send(fd, &"abc"[i], 1);
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
	uint64_t word;

	raw_expect(fd, STREAM_DONE, sizeof(word), cookie);
	raw_recv(fd, &word, sizeof(word));
	ck_assert_uint_eq(le64toh(word), old);
}

static void word_is(uint64_t offset, uint64_t value)
{
	uint64_t word;

	memcpy(&word, host.memory + offset, sizeof(word));
	ck_assert_uint_eq(word, value);
}

START_TEST(atomics__are_answered_with_what_was_there)
{
	const uint64_t filled = 0x3333333333333333u;
	int fd = raw_join();

	raw_atomic(fd, STREAM_FETCH_ADD, 8, 1, 99, 1);
	raw_atomic(fd, STREAM_CAS, 8, 2, filled, 5);
	raw_atomic(fd, STREAM_CAS, 8, 3, filled + 1, 6);
	raw_atomic(fd, STREAM_FETCH_ADD, 8, 4, 99, (uint64_t)-7);
	raw_expect_old(fd, 1, filled);
	raw_expect_old(fd, 2, filled + 1);
	raw_expect_old(fd, 3, filled + 1);
	raw_expect_old(fd, 4, 6);
	word_is(0, filled);
	word_is(8, (uint64_t)-1);
	word_is(16, filled);
	raw_close(fd, false);
}
END_TEST

START_TEST(atomics__in_single_bytes_are_understood)
{
	const struct stream_request head = request(STREAM_FETCH_ADD, 0, 16, 1);
	const struct stream_atomic atomic = { .operand = htole64(2) };
	char both[sizeof(head) + sizeof(atomic)];
	int fd = raw_join();

	memcpy(both, &head, sizeof(head));
	memcpy(both + sizeof(head), &atomic, sizeof(atomic));
	for (unsigned round = 0; round < 2; round++)
		for (unsigned i = 0; i < sizeof(both); i++)
			raw_send(fd, both + i, 1);
	raw_expect_old(fd, 1, 0x3333333333333333u);
	raw_expect_old(fd, 1, 0x3333333333333335u);
	raw_close(fd, false);
}
END_TEST

START_TEST(atomics__refused_leave_the_stream_in_step)
{
	static const uint64_t bad[] = { 1, 4, 7, MIDDLE, MIDDLE - 4, (uint64_t)-8 };
	int fd = raw_join();

	for (unsigned i = 0; i < 6; i++)
		raw_atomic(fd, i % 2 ? STREAM_CAS : STREAM_FETCH_ADD, bad[i], i,
			   0x3333333333333333u, 1);
	raw_atomic(fd, STREAM_FETCH_ADD, MIDDLE - 8, 6, 0, 0);
	for (unsigned i = 0; i < 6; i++)
		raw_expect(fd, STREAM_REFUSED, 0, i);
	raw_expect_old(fd, 6, 0x3333333333333333u);
	ck_assert(area_is(host.memory, MIDDLE, 0x33));
	raw_close(fd, false);
}
END_TEST

/* Its memory is withdrawn before its numbers are there: nothing is changed. */
START_TEST(atomic__whose_memory_goes_is_refused)
{
	const struct stream_atomic atomic = { .operand = htole64(2) };
	int fd = raw_join();

	raw_request(fd, STREAM_READ, 0, 1, 1);
	raw_request(fd, STREAM_FETCH_ADD, 0, sizeof(atomic), 2);
	raw_send(fd, &atomic, 5);
	raw_expect(fd, STREAM_DONE, 1, 1);
	raw_recv(fd, &(char){ 0 }, 1);
	ops->dereg_mr(host.mr);
	host_await(&host.withdrawn, 1);
	raw_send(fd, (const char *)&atomic + 5, sizeof(atomic) - 5);
	raw_expect(fd, STREAM_REFUSED, 0, 2);
	ck_assert(area_is(host.memory, MIDDLE, 0x33));
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
		ck_assert_uint_eq(raw_status(fd), STREAM_DONE);
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

int main(void)
{
	Suite *suite = suite_create("fabric-tcp-server");
	TCase *tcase = tcase_create("server");

	tcase_add_checked_fixture(tcase, host_open, host_close);
	tcase_set_timeout(tcase, 120);
	tcase_add_test(tcase, open__names_the_address_that_is_taken);
	tcase_add_test(tcase, open__without_address_serves_both_families);
	tcase_add_test(tcase, hello__wrong_is_refused_with_a_status);
	tcase_add_test(tcase, hello__in_single_bytes_is_understood);
	tcase_add_test(tcase, hello__that_does_not_come_ends_the_connection);
	tcase_add_test(tcase, hello__that_does_not_come_shuts_nobody_out);
	tcase_add_test(tcase, accept__recovers_when_descriptors_run_out);
	tcase_add_loop_test(tcase, request__of_absurd_length_or_kind_ends_the_stream, 0,
			    13);
	tcase_add_test(tcase, request__refused_leaves_the_stream_in_step);
	tcase_add_test(tcase, requests__in_one_segment_are_answered_in_order);
	tcase_add_test(tcase, requests__in_single_bytes_are_understood);
	tcase_add_test(tcase, atomics__are_answered_with_what_was_there);
	tcase_add_test(tcase, atomics__in_single_bytes_are_understood);
	tcase_add_test(tcase, atomics__refused_leave_the_stream_in_step);
	tcase_add_test(tcase, atomic__whose_memory_goes_is_refused);
	tcase_add_loop_test(tcase, client__may_vanish_at_every_byte, 0, 2);
	tcase_add_test(tcase, client__may_vanish_while_answers_wait);
	suite_add_tcase(suite, tcase);
	return unit_main(suite);
}

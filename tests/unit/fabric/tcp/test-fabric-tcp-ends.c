/* SPDX-License-Identifier: BSD-3-Clause */
/* How mrs, channels and sessions end while clients stall, on the server of the tcp
 * fabric; its scheduling of streams; and random requests.  RMEM_SEED=N repeats a random
 * run. */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/clock.h"
#include "base/random.h"
#include "fabric/tcp/buffers.h"
#include "unit/fabric/tcp/fabric-tcp-host.h"
#include "unit/unit.h"

/* ---- deregistration under a stalled client ---- */

/* Wait until a byte has arrived in memory.  A read over another stream of the same
 * thread also makes sure that the thread has served the first stream. */
static void await_byte(int observer, uint64_t offset, char value)
{
	uint64_t start = clock_now_ms();

	while (raw_read_byte(observer, offset) != value)
		ck_assert_uint_lt(clock_now_ms() - start, WAIT_MS);
}

/* Wait until the unread data of a client that does not read has stopped growing. */
static void await_no_progress(int observer, int fd)
{
	int waiting = 0, before = -1;

	for (unsigned same = 0; same < 10; same = waiting == before ? same + 1 : 0) {
		before = waiting;
		(void)raw_read_byte(observer, 0);
		ck_assert_int_eq(ioctl(fd, FIONREAD, &waiting), 0);
	}
}

START_TEST(dereg_mr__refuses_a_write_in_progress)
{
	enum { BIG = 400000, HALF = BIG / 2 };
	char *bytes = malloc(BIG);
	int fd = raw_channel_open(), observer = raw_channel_open();
	struct fabric_mr *first = host.mr;
	struct fabric_key old_key = seen.key;

	ck_assert_ptr_nonnull(bytes);
	memset(bytes, 0x44, BIG);
	raw_request(fd, STREAM_WRITE, 0, BIG, 1);
	raw_send(fd, bytes, HALF);
	await_byte(observer, HALF - 1, 0x44);
	host_deregister(first);
	/* the client sends nothing, and does not delay it */
	host_await(&seen.deregistered, 1);
	memset(host.memory, 0x55, MIDDLE);
	raw_send(fd, bytes + HALF, BIG - HALF);
	raw_expect(fd, FABRIC_STALE, 0, 1);
	ck_assert(bytes_equal(host.memory, MIDDLE, 0x55));
	/* the stream continues, with a new key */
	host_register();
	ck_assert_uint_ne(seen.key.rkey, old_key.rkey);
	raw_request(fd, STREAM_WRITE, 0, 8, 2);
	raw_send(fd, bytes, 8);
	raw_expect(fd, FABRIC_DONE, 0, 2);
	ck_assert_uint_eq(seen.downs, 0);
	raw_close(fd, false);
	raw_close(observer, false);
	free(bytes);
}
END_TEST

START_TEST(dereg_mr__refuses_a_partial_word)
{
	int fd = raw_channel_open();

	raw_request(fd, STREAM_WRITE, 0, 8, 1);
	raw_send(fd, "\x44\x44\x44\x44", 4);
	host_deregister(host.mr);
	host_await(&seen.deregistered, 1);
	raw_send(fd, "\x44\x44\x44\x44", 4);
	raw_expect(fd, FABRIC_STALE, 0, 1);
	ck_assert(bytes_equal(host.memory, MIDDLE, 0x33));
	raw_close(fd, false);
}
END_TEST

/* The stream ends in the response that is being sent; the responses after it are
 * refusals. */
START_TEST(dereg_mr__refuses_reads_not_yet_sent)
{
	enum { READS = 64, BYTES = FABRIC_STREAM_BYTES_MAX - 5 };
	int fd = raw_channel_open(), observer = raw_channel_open();
	char *got = malloc(BYTES);
	struct stream_response r;
	unsigned done = 0, refused = 0;

	ck_assert_ptr_nonnull(got);
	for (unsigned i = 0; i < READS; i++)
		raw_request(fd, STREAM_READ, 0, BYTES, i);
	/* the sockets do not hold all responses */
	await_no_progress(observer, fd);
	host_deregister(host.mr);
	host_await(&seen.deregistered, 1);
	ck_assert_uint_eq(host_stats().exposures, 0);
	memset(host.memory, 0x55, MIDDLE);
	while (done + refused < READS &&
	       recv(fd, &r, sizeof(r), MSG_WAITALL) == sizeof(r)) {
		ssize_t n;

		ck_assert_uint_eq(le64toh(r.cookie), done + refused);
		if (le32toh(r.status) == FABRIC_STALE) {
			refused++;
			continue;
		}
		ck_assert_uint_eq(refused, 0);
		ck_assert_uint_eq(le32toh(r.bytes), BYTES);
		n = recv(fd, got, BYTES, MSG_WAITALL);
		/* no byte from after the deregistration */
		if (n > 0)
			ck_assert_ptr_null(memchr(got, 0x55, (size_t)n));
		if (n < BYTES)
			break;
		done++;
	}
	ck_assert_uint_lt(done, READS);
	if (done + refused < READS) {
		host_await(&seen.downs, 1);
		ck_assert_str_eq(seen.why, "memory deregistered while it was read");
	}
	raw_close(fd, false);
	raw_close(observer, false);
	free(got);
}
END_TEST

START_TEST(session_close__does_not_wait_for_stalled_clients)
{
	int writer = raw_channel_open();
	int reader = raw_channel_open();
	int idle = raw_channel_open();
	char bytes[1000] = { 0 };

	/* at different offsets: two threads may serve the streams */
	raw_request(writer, STREAM_WRITE, MIDDLE / 2, FABRIC_STREAM_BYTES_MAX, 1);
	raw_send(writer, bytes, sizeof(bytes));
	for (unsigned i = 0; i < 64; i++)
		raw_request(reader, STREAM_READ, 0, FABRIC_STREAM_BYTES_MAX, i);
	ops->session_close(host.session);
	host_deregister(host.mr);
	host_await(&seen.closed, 1);
	ck_assert_uint_eq(seen.deregistered, 1);
	ck_assert_uint_eq(seen.downs, 0);
	ck_assert_uint_eq(host_stats().channels, 0);
	raw_expect_end(writer);
	raw_expect_end(idle);
	raw_close(writer, false);
	raw_close(reader, false);
	raw_close(idle, false);
}
END_TEST

/* The thread waits for the client to read, and has as many answers for it as it keeps. */
START_TEST(session_close__sends_no_memory_that_is_free)
{
	int fd = raw_channel_open(), observer = raw_channel_open(), other;
	struct fabric_session *closed = host.session;
	char *got = malloc(FABRIC_STREAM_BYTES_MAX);
	ssize_t n;

	ck_assert_ptr_nonnull(got);
	ck_assert_int_eq(ops->session_open(host.server, 0, &host, &host.session), 0);
	other = raw_channel_open();
	for (unsigned i = 0; i < 2 * TCP_REPLIES; i++)
		raw_request(fd, STREAM_READ, 0, FABRIC_STREAM_BYTES_MAX, i);
	await_no_progress(observer, fd);
	ops->session_close(closed);
	/* the thread does not hold the stream any more */
	for (uint64_t i = 0; i < 10; i++) {
		struct inband_request ping = inband_make(FABRIC_PING, 0, 0, i);

		raw_send(other, &ping, sizeof(ping));
		(void)raw_expect_word(other, i);
	}
	host_deregister(host.mr);
	host_await(&seen.deregistered, 1);
	memset(host.memory, 0x55, MIDDLE);
	while ((n = recv(fd, got, FABRIC_STREAM_BYTES_MAX, 0)) > 0)
		ck_assert_ptr_null(memchr(got, 0x55, (size_t)n));
	host_await(&seen.closed, 1);
	raw_close(fd, false);
	raw_close(observer, false);
	raw_close_await(other, 1);
	free(got);
}
END_TEST

/* Send writes until the sockets are full. */
static void raw_fill_sockets(int fd, char *bytes, uint32_t each)
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

START_TEST(channel_close__ends_all_writes_when_it_returns)
{
	enum { EACH = 262144 };
	char *bytes = malloc(sizeof(struct stream_request) + EACH);

	ck_assert_ptr_nonnull(bytes);
	memset(bytes, 0x44, sizeof(struct stream_request) + EACH);
	for (unsigned round = 0; round < 20; round++) {
		int fd = raw_channel_open();

		raw_fill_sockets(fd, bytes, EACH);
		ops->channel_close(host.session, 5);
		/* from now on, not only when the thread has noticed */
		memset(host.memory, 0x55, EACH);
		while (host_stats().channels > 0)
			host_process_next();
		ck_assert(bytes_equal(host.memory, EACH, 0x55));
		raw_close(fd, true);
	}
	ck_assert_uint_eq(seen.downs, 0);
	free(bytes);
}
END_TEST

/* The write is applied, and answered. */
static void raw_write_done(int fd, char value)
{
	raw_request(fd, STREAM_WRITE, 0, 1, 1);
	raw_send(fd, &value, 1);
	raw_expect(fd, FABRIC_DONE, 0, 1);
	ck_assert_int_eq(host.memory[0], value);
}

/* The process was paused for longer than its session may be silent, and has not noticed yet, or has
 * heard the session since: streams of before the pause apply nothing. */
START_TEST(session_extend__ends_overdue_streams)
{
	struct {
		struct stream_request request;
		char byte;
	} late;
	uint64_t later_ns = clock_now_ns() + WAIT_MS * NS_PER_MS;
	int fd = raw_channel_open(), next;

	memset(&late, 0x55, sizeof(late));
	late.request = request(STREAM_WRITE, 0, 1, 1);
	ops->session_extend(host.session, later_ns);
	raw_write_done(fd, 0x44);
	ops->session_extend(host.session, later_ns + 1);
	raw_write_done(fd, 0x45);
	ops->session_extend(host.session, clock_now_ns() - NS_PER_MS * 100);
	if (_i)
		ops->session_extend(host.session, later_ns);
	/* fails if the stream has ended already */
	(void)send(fd, &late, sizeof(late), MSG_NOSIGNAL);
	raw_expect_end(fd);
	ck_assert_int_eq(host.memory[0], 0x45);
	host_await(&seen.downs, 1);
	ck_assert_str_eq(seen.why, _i ? "" : "its session was not heard in time");
	ops->session_extend(host.session, later_ns);
	next = raw_channel_open();
	raw_write_done(next, 0x46);
	raw_close(fd, false);
	raw_close(next, false);
}
END_TEST

START_TEST(close__frees_open_connections)
{
	int writer = raw_channel_open(), silent = raw_connect();

	raw_request(writer, STREAM_WRITE, 0, FABRIC_STREAM_BYTES_MAX, 1);
	ops->process(host.server);
	/* host_close() frees all descriptors, threads and memory */
	(void)silent;
}
END_TEST

/* ---- scheduling ---- */

START_TEST(streams__of_a_thread_take_turns)
{
	enum { GREEDY = 8, READS = 400 };
	int greedy[GREEDY], modest;
	struct timeval none = { .tv_usec = 1 };

	for (unsigned g = 0; g < GREEDY; g++) {
		greedy[g] = raw_channel_open();
		for (unsigned i = 0; i < READS; i++)
			raw_request(greedy[g], STREAM_READ, 0, FABRIC_STREAM_BYTES_MAX,
				    i);
		ck_assert_int_eq(setsockopt(greedy[g], SOL_SOCKET, SO_RCVTIMEO, &none,
					    sizeof(none)),
				 0);
	}
	modest = raw_channel_open();
	for (unsigned i = 0; i < 200; i++) {
		char sink[4096];

		/* make space in the sockets of the greedy streams */
		for (unsigned g = 0; g < GREEDY; g++)
			(void)!recv(greedy[g], sink, sizeof(sink), 0);
		raw_request(modest, STREAM_READ, 0, 8, i);
		raw_expect(modest, FABRIC_DONE, 8, i);
		raw_recv(modest, sink, 8);
	}
	for (unsigned g = 0; g < GREEDY; g++)
		raw_close(greedy[g], true);
	raw_close(modest, false);
}
END_TEST

/* ---- random requests ---- */

static uint64_t fuzz_seed;

static uint64_t fuzz(void)
{
	fuzz_seed ^= fuzz_seed << 13;
	fuzz_seed ^= fuzz_seed >> 7;
	fuzz_seed ^= fuzz_seed << 17;
	return fuzz_seed;
}

/* A write or read, often with an invalid field or a random bit. */
MODULAR static size_t fuzz_request(uint8_t *buf)
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
		r.addr = htole64(seen.key.addr + edges[fuzz() % 7]);
		break;
	case 2:
		r.addr = fuzz();
		break;
	case 3:
		r.bytes = htole32((uint32_t)fuzz() % (FABRIC_STREAM_BYTES_MAX + 2));
		break;
	case 4:
		((uint8_t *)&r)[fuzz() % sizeof(r)] ^= (uint8_t)(1 << fuzz() % 8);
		break;
	default:
		break;
	}
	memcpy(buf, &r, sizeof(r));
	bytes = le16toh(r.op) == STREAM_WRITE ? le32toh(r.bytes) : 0;
	if (bytes > FABRIC_STREAM_BYTES_MAX)
		bytes = 0;
	if (fuzz() % 64 == 0)
		bytes = (uint32_t)(fuzz() % (bytes + 1));
	memset(buf + sizeof(r), 0x77, bytes);
	return sizeof(r) + bytes;
}

/* Send random requests and drop the responses, until the stream ends or all are
 * sent. */
static void fuzz_stream(uint8_t *buf)
{
	int fd = raw_channel_open();
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
	/* wait: the next client writes to the same memory */
	host_await(&seen.downs, seen.ups);
}

START_TEST(server__survives_random_requests)
{
	const char *given = getenv("RMEM_SEED");
	uint8_t *buf = malloc(2 * FABRIC_STREAM_BYTES_MAX);
	unsigned downs;

	ck_assert_ptr_nonnull(buf);
	fuzz_seed = given ? strtoull(given, NULL, 0) : random_u64() | 1;
	fprintf(stderr, "# RMEM_SEED=%#llx\n", (unsigned long long)fuzz_seed);
	for (unsigned i = 0; i < 300; i++) {
		fuzz_stream(buf);
		if (i % 50 == 49) {
			host_deregister(host.mr);
			host_await(&seen.deregistered, i / 50 + 1);
			host_register();
		}
	}
	downs = seen.downs;
	ck_assert_uint_eq(host_stats().channels, 0);
	host_check_serves();
	ck_assert_uint_eq(seen.downs, downs + 1);
	free(buf);
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("ends", host_open, host_close);

	tcase_set_timeout(tcase, 120);
	tcase_add_test(tcase, dereg_mr__refuses_a_partial_word);
	tcase_add_test(tcase, session_close__does_not_wait_for_stalled_clients);
	tcase_add_test(tcase, channel_close__ends_all_writes_when_it_returns);
	tcase_add_loop_test(tcase, session_extend__ends_overdue_streams, 0, 2);
	tcase_add_test(tcase, close__frees_open_connections);
	tcase_add_test(tcase, server__survives_random_requests);
	tcase = unit_case("one-thread", host_open_one, host_close);
	tcase_set_timeout(tcase, 120);
	tcase_add_test(tcase, dereg_mr__refuses_a_write_in_progress);
	tcase_add_test(tcase, dereg_mr__refuses_reads_not_yet_sent);
	tcase_add_test(tcase, session_close__sends_no_memory_that_is_free);
	tcase_add_test(tcase, streams__of_a_thread_take_turns);
	return unit_main();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The control connection against a scripted server on a socket pair. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "librmem/session/connection.h"
#include "unit/unit.h"
#include "wire/codec.h"

static struct connection *connection;
static int epfd, server = -1;
static uint64_t now_ns, answered_ns;
static unsigned n_events;
static uint64_t event_lease;

/* How a call ended. */
struct end {
	unsigned calls;
	int err;
	enum wire_type type;
	uint64_t lease;
	char text[128];
};

static int ended(void *ctx, int err, const struct wire_msg *reply)
{
	struct end *end = ctx;

	end->calls++;
	end->err = err;
	if (err) {
		(void)snprintf(end->text, sizeof(end->text), "%.120s", err_text());
		return 0;
	}
	end->type = reply->type;
	if (reply->type == WIRE_TYPE_lease)
		end->lease = reply->lease.lease;
	return 0;
}

/* How often the library looks into its socket. */
static unsigned looks;

ssize_t recv(int fd, void *buf, size_t bytes, int flags)
{
	looks += fd != server;
	return syscall(SYS_recvfrom, fd, buf, bytes, flags, NULL, NULL);
}

static void on_answer(void *ctx, uint64_t sent_ns)
{
	(void)ctx;
	answered_ns = sent_ns;
}

static int on_event(void *ctx, const struct wire_msg *msg)
{
	(void)ctx;
	n_events++;
	if (msg->type == WIRE_TYPE_closing)
		return err_set(-ESTALE, "closing");
	event_lease = msg->revoked.lease;
	return 0;
}

static const struct connection_events events = { on_answer, on_event };

static uint64_t test_now(void)
{
	return now_ns;
}

/* A fresh connection; the server's end is `server`. */
static void reconnect(void)
{
	int pair[2];

	if (server >= 0)
		(void)close(server);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
				    0, pair),
			 0);
	ck_assert_int_eq(connection_adopt(connection, pair[0]), 0);
	server = pair[1];
}

static void setup(void)
{
	now_ns = 1000;
	answered_ns = 0;
	n_events = 0;
	clock_set_source(test_now);
	epfd = epoll_create1(EPOLL_CLOEXEC);
	ck_assert_int_eq(connection_create(epfd, &events, NULL, &connection), 0);
	reconnect();
}

static void teardown(void)
{
	connection_free(connection);
	(void)close(server);
	(void)close(epfd);
	server = -1;
}

/* The next request the server receives; its type is 0 when there is none. */
static struct wire_msg *receive(void)
{
	static uint8_t in[1 << 17];
	static size_t have;
	static int from = -1;
	static struct wire_msg msg;
	ssize_t n;
	int bytes;

	if (from != server)
		have = 0;
	from = server;
	n = recv(server, in + have, sizeof(in) - have, 0);
	if (n > 0)
		have += (size_t)n;
	msg.type = 0;
	bytes = wire_frame_bytes(in, have);
	ck_assert_int_ge(bytes, 0);
	if (bytes == 0 || (size_t)bytes > have)
		return &msg;
	ck_assert_int_eq(wire_decode(in, (size_t)bytes, &msg), 0);
	have -= (size_t)bytes;
	memmove(in, in + bytes, have);
	return &msg;
}

static void reply(enum wire_type type, uint64_t id)
{
	static uint8_t buf[WIRE_FRAME_MAX];
	static struct wire_msg msg;
	int n;

	memset(&msg, 0, sizeof(msg));
	msg.type = type;
	msg.id = id;
	if (type == WIRE_TYPE_error) {
		msg.error.code = EDQUOT;
		(void)strcpy(msg.error.text, "too much");
	}
	if (type == WIRE_TYPE_lease)
		msg.lease.lease = 77;
	if (type == WIRE_TYPE_revoked)
		msg.revoked.lease = 33;
	n = wire_encode(&msg, buf, sizeof(buf));
	ck_assert_int_gt(n, 0);
	ck_assert_int_eq(send(server, buf, (size_t)n, MSG_NOSIGNAL), n);
}

static void call(enum wire_type type, struct end *end)
{
	struct wire_msg *msg = calloc(1, sizeof(*msg));

	memset(end, 0, sizeof(*end));
	msg->type = type;
	ck_assert_int_eq(connection_call(connection, msg, ended, end, NULL), 0);
	free(msg);
}

/* Say hello and be welcome. */
static void greet(void)
{
	struct wire_msg *hello = calloc(1, sizeof(*hello));
	struct end end = { 0 };

	hello->type = WIRE_TYPE_hello;
	ck_assert_int_eq(connection_hello(connection, hello, ended, &end), 0);
	hello->id = receive()->id;
	reply(WIRE_TYPE_welcome, hello->id);
	ck_assert_int_eq(connection_io(connection), 0);
	ck_assert_int_eq(end.type, WIRE_TYPE_welcome);
	connection_ready(connection);
	free(hello);
}

START_TEST(hello__goes_first)
{
	struct end ping;
	struct end hello = { 0 };
	struct wire_msg *msg = calloc(1, sizeof(*msg));

	call(WIRE_TYPE_ping, &ping);
	ck_assert_int_eq(receive()->type, 0);
	msg->type = WIRE_TYPE_hello;
	ck_assert_int_eq(connection_hello(connection, msg, ended, &hello), 0);
	ck_assert_int_eq(receive()->type, WIRE_TYPE_hello);
	ck_assert_int_eq(connection_io(connection), 0);
	ck_assert_int_eq(receive()->type, 0);
	connection_ready(connection);
	ck_assert_int_eq(receive()->type, WIRE_TYPE_ping);
	connection_end(connection, -ESTALE, "end");
	ck_assert_int_eq(hello.err, -ESTALE);
	ck_assert_int_eq(ping.err, -ESTALE);
	free(msg);
}
END_TEST

START_TEST(replies__in_any_order)
{
	struct end a, b, c;
	uint64_t id_a, id_b, id_c;

	greet();
	now_ns = 5000;
	call(WIRE_TYPE_allocate, &a);
	now_ns = 6000;
	call(WIRE_TYPE_ping, &b);
	call(WIRE_TYPE_stat, &c);
	id_a = receive()->id;
	id_b = receive()->id;
	id_c = receive()->id;
	ck_assert_uint_lt(id_a, id_b);
	ck_assert_uint_lt(id_b, id_c);
	reply(WIRE_TYPE_error, id_c);
	reply(WIRE_TYPE_lease, id_a);
	ck_assert_int_eq(connection_io(connection), 0);
	ck_assert_int_eq(c.err, -EDQUOT);
	ck_assert_str_eq(c.text, "too much");
	ck_assert_uint_eq(a.lease, 77);
	ck_assert_uint_eq(b.calls, 0);
	/* the lease clock runs from the sending */
	ck_assert_uint_eq(answered_ns, 5000);
	reply(WIRE_TYPE_ok, id_b);
	ck_assert_int_eq(connection_io(connection), 0);
	ck_assert_int_eq(b.type, WIRE_TYPE_ok);
}
END_TEST

START_TEST(frames__in_single_bytes)
{
	uint8_t buf[256];
	struct wire_msg *msg = calloc(1, sizeof(*msg));
	struct end ping;
	int n;

	greet();
	call(WIRE_TYPE_ping, &ping);
	msg->type = WIRE_TYPE_ok;
	msg->id = receive()->id;
	n = wire_encode(msg, buf, sizeof(buf));
	for (int i = 0; i < n; i++) {
		ck_assert_uint_eq(ping.calls, 0);
		ck_assert_int_eq(send(server, buf + i, 1, 0), 1);
		ck_assert_int_eq(connection_io(connection), 0);
	}
	ck_assert_uint_eq(ping.calls, 1);
	free(msg);
}
END_TEST

static const struct {
	enum wire_type type;
	bool right_id;
} wrong[] = {
	{ WIRE_TYPE_lease, true }, /* not the answer to a ping */
	{ WIRE_TYPE_ok, false },   /* to nothing */
	{ WIRE_TYPE_error, false }, { WIRE_TYPE_ping, true }, /* a request */
	{ WIRE_TYPE_hello, false },
};

START_TEST(reply__that_is_wrong)
{
	struct end ping;
	uint64_t id;

	greet();
	call(WIRE_TYPE_ping, &ping);
	id = receive()->id;
	reply(wrong[_i].type, wrong[_i].right_id ? id : id + 1);
	ck_assert_int_eq(connection_io(connection), -EPROTO);
	ck_assert_uint_eq(ping.calls, 0);
	/* it waits for another connection */
	connection_drop(connection);
	ck_assert_uint_eq(ping.calls, 0);
	reconnect();
	greet();
	ck_assert_uint_eq(receive()->id, id);
	reply(WIRE_TYPE_ok, id);
	ck_assert_int_eq(connection_io(connection), 0);
	ck_assert_uint_eq(ping.calls, 1);
	/* twice is once too often */
	reply(WIRE_TYPE_ok, id);
	ck_assert_int_eq(connection_io(connection), -EPROTO);
}
END_TEST

START_TEST(reply__before_the_request_is_sent)
{
	struct end ping;

	call(WIRE_TYPE_ping, &ping);
	reply(WIRE_TYPE_ok, 1);
	ck_assert_int_eq(connection_io(connection), -EPROTO);
	ck_assert_uint_eq(ping.calls, 0);
	connection_end(connection, -ESTALE, "end");
}
END_TEST

static const uint8_t error_codes[][4] = {
	{ 0, 0, 0, 0 }, { 0, 0x10, 0, 0 }, { 0xff, 0xff, 0xff, 0xff }, { 0, 0, 0, 0x80 }
};

START_TEST(error_code__that_is_none)
{
	uint8_t buf[256];
	struct wire_msg *msg = calloc(1, sizeof(*msg));
	struct end ping;
	int n;

	greet();
	call(WIRE_TYPE_ping, &ping);
	msg->type = WIRE_TYPE_error;
	msg->id = receive()->id;
	msg->error.code = 1;
	n = wire_encode(msg, buf, sizeof(buf));
	memcpy(buf + WIRE_HEADER_BYTES, error_codes[_i], 4);
	ck_assert_int_eq(send(server, buf, (size_t)n, 0), n);
	ck_assert_int_eq(connection_io(connection), -EPROTO);
	ck_assert_uint_eq(ping.calls, 0);
	connection_end(connection, -ESTALE, "end");
	free(msg);
}
END_TEST

START_TEST(connection__that_ends)
{
	struct end allocate, ping, unsent, bye;
	uint64_t id;

	greet();
	call(WIRE_TYPE_allocate, &allocate);
	call(WIRE_TYPE_ping, &ping);
	call(WIRE_TYPE_bye, &bye);
	id = receive()->id;
	ck_assert_int_eq(receive()->type, WIRE_TYPE_ping);
	ck_assert_int_eq(receive()->type, WIRE_TYPE_bye);
	(void)close(server);
	server = -1;
	ck_assert_int_eq(connection_io(connection), -ECONNRESET);
	connection_drop(connection);
	ck_assert_uint_eq(allocate.calls, 0);
	ck_assert_uint_eq(ping.calls, 0);
	ck_assert_int_eq(bye.err, -ECONNRESET);
	/* what is asked meanwhile is sent later, behind what was asked before */
	call(WIRE_TYPE_free, &unsent);
	for (unsigned i = 0; i < 3; i++) {
		reconnect();
		greet();
		ck_assert_uint_eq(receive()->id, id);
		ck_assert_uint_eq(receive()->id, id + 1);
		ck_assert_int_eq(receive()->type, WIRE_TYPE_free);
		ck_assert_int_eq(receive()->type, 0);
		connection_drop(connection);
	}
	ck_assert_uint_eq(allocate.calls, 0);
	ck_assert_uint_eq(unsent.calls, 0);
	reconnect();
	greet();
	reply(WIRE_TYPE_lease, receive()->id);
	ck_assert_int_eq(connection_io(connection), 0);
	ck_assert_uint_eq(allocate.calls, 1);
	ck_assert_uint_eq(allocate.lease, 77);
	connection_end(connection, -ESTALE, "it is over");
	ck_assert_int_eq(ping.err, -ESTALE);
	ck_assert_str_eq(ping.text, "it is over");
	ck_assert_int_eq(unsent.err, -ESTALE);
}
END_TEST

/* Nobody waits any more for what was asked on a connection that is lost. */
START_TEST(abandoned__after_a_loss)
{
	struct wire_msg *msg = calloc(1, sizeof(*msg));
	struct connection_call *allocate, *channel;
	struct end first = { 0 }, second = { 0 };

	greet();
	msg->type = WIRE_TYPE_allocate;
	ck_assert_int_eq(connection_call(connection, msg, ended, &first, &allocate), 0);
	msg->type = WIRE_TYPE_open_channel;
	ck_assert_int_eq(connection_call(connection, msg, ended, &first, &channel), 0);
	ck_assert_int_eq(receive()->type, WIRE_TYPE_allocate);
	ck_assert_int_eq(receive()->type, WIRE_TYPE_open_channel);
	connection_drop(connection);
	/* it may have been granted */
	connection_abandon(allocate, ended, &second);
	/* this is gone with its connection */
	connection_abandon(channel, ended, &second);
	reconnect();
	greet();
	msg->id = receive()->id;
	ck_assert_int_eq(receive()->type, 0);
	reply(WIRE_TYPE_lease, msg->id);
	ck_assert_int_eq(connection_io(connection), 0);
	ck_assert_uint_eq(first.calls, 0);
	ck_assert_uint_eq(second.calls, 1);
	ck_assert_uint_eq(second.lease, 77);
	free(msg);
}
END_TEST

START_TEST(end__refuses_new_calls)
{
	struct wire_msg *msg = calloc(1, sizeof(*msg));
	struct end end = { 0 };

	greet();
	connection_end(connection, -ESTALE, "it is over");
	msg->type = WIRE_TYPE_ping;
	ck_assert_int_eq(connection_call(connection, msg, ended, &end, NULL), -ESTALE);
	ck_assert_str_eq(err_text(), "it is over");
	ck_assert_uint_eq(end.calls, 0);
	free(msg);
}
END_TEST

START_TEST(abandoned__reply_goes_elsewhere)
{
	struct wire_msg *msg = calloc(1, sizeof(*msg));
	struct end first = { 0 }, second = { 0 };
	struct connection_call *handle;

	greet();
	msg->type = WIRE_TYPE_allocate;
	ck_assert_int_eq(connection_call(connection, msg, ended, &first, &handle), 0);
	connection_abandon(handle, ended, &second);
	reply(WIRE_TYPE_lease, receive()->id);
	ck_assert_int_eq(connection_io(connection), 0);
	ck_assert_uint_eq(first.calls, 0);
	ck_assert_uint_eq(second.lease, 77);
	/* what was not sent yet never is */
	connection_drop(connection);
	ck_assert_int_eq(connection_call(connection, msg, ended, &first, &handle), 0);
	connection_abandon(handle, ended, &second);
	reconnect();
	greet();
	ck_assert_int_eq(receive()->type, 0);
	ck_assert_uint_eq(first.calls, 0);
	ck_assert_uint_eq(second.calls, 1);
	free(msg);
}
END_TEST

START_TEST(events__are_handed_up)
{
	greet();
	reply(WIRE_TYPE_revoked, 0);
	reply(WIRE_TYPE_revoked, 0);
	ck_assert_int_eq(connection_io(connection), 0);
	ck_assert_uint_eq(n_events, 2);
	ck_assert_uint_eq(event_lease, 33);
	reply(WIRE_TYPE_closing, 0);
	ck_assert_int_eq(connection_io(connection), -ESTALE);
}
END_TEST

/* Of a server that is newer.  Anything else that is unknown ends the connection. */
START_TEST(events__that_are_unknown_are_ignored)
{
	static const uint16_t types[] = { 0x87, 0xff, 0x100, 0xffff };
	uint8_t frame[WIRE_HEADER_BYTES + 3] = { sizeof(frame) };
	struct end ping;

	greet();
	call(WIRE_TYPE_ping, &ping);
	for (unsigned i = 0; i < 4; i++) {
		frame[4] = (uint8_t)types[i];
		frame[5] = (uint8_t)(types[i] >> 8);
		ck_assert_int_eq(send(server, frame, sizeof(frame), 0), sizeof(frame));
	}
	reply(WIRE_TYPE_revoked, 0);
	reply(WIRE_TYPE_ok, receive()->id);
	ck_assert_int_eq(connection_io(connection), 0);
	ck_assert_uint_eq(n_events, 1);
	ck_assert_uint_eq(event_lease, 33);
	ck_assert_int_eq(ping.type, WIRE_TYPE_ok);
	frame[4] = 0x7f;
	frame[5] = 0;
	ck_assert_int_eq(send(server, frame, sizeof(frame), 0), sizeof(frame));
	ck_assert_int_eq(connection_io(connection), -EPROTO);
}
END_TEST

START_TEST(socket__that_is_full)
{
	struct end *ends = calloc(4000, sizeof(*ends));
	unsigned answered = 0;
	int small = 4096;

	greet();
	(void)setsockopt(server, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	for (unsigned i = 0; i < 4000; i++)
		call(WIRE_TYPE_ping, &ends[i]);
	while (answered < 4000) {
		const struct wire_msg *msg = receive();

		if (msg->type == WIRE_TYPE_ping) {
			reply(WIRE_TYPE_ok, msg->id);
			answered++;
		}
		ck_assert_int_eq(connection_io(connection), 0);
	}
	for (unsigned i = 0; i < 4000; i++)
		ck_assert_uint_eq(ends[i].calls, 1);
	free(ends);
}
END_TEST

/* What is there in one fragment is taken in one. */
START_TEST(answer__costs_one_look)
{
	struct end ping;

	greet();
	call(WIRE_TYPE_ping, &ping);
	reply(WIRE_TYPE_ok, receive()->id);
	looks = 0;
	ck_assert_int_eq(connection_io(connection), 0);
	ck_assert_uint_eq(ping.calls, 1);
	ck_assert_uint_eq(looks, 1);
	connection_end(connection, -ESTALE, "end");
}
END_TEST

START_TEST(garbage__never_does_harm)
{
	unsigned seed = (unsigned)time(NULL) + (unsigned)_i;
	uint8_t buf[512];

	printf("# seed %u\n", seed);
	srand(seed);
	for (unsigned round = 0; round < 300; round++) {
		struct end ping;
		size_t n = 1 + (size_t)rand() % sizeof(buf);

		greet();
		call(WIRE_TYPE_ping, &ping);
		for (size_t i = 0; i < n; i++)
			buf[i] = (uint8_t)rand();
		/* now and then a header that is nearly right */
		if (rand() % 2 && n >= WIRE_HEADER_BYTES) {
			memset(buf, 0, WIRE_HEADER_BYTES);
			buf[0] = (uint8_t)n;
			buf[1] = (uint8_t)(n >> 8);
			buf[4] = (uint8_t)(rand() % 2 ? rand() : 0x40 + rand() % 6);
			buf[8] = (uint8_t)rand() % 8;
		}
		ck_assert_int_eq(send(server, buf, n, MSG_NOSIGNAL), (ssize_t)n);
		(void)close(server);
		server = -1;
		/* the end may be seen behind what is no frame yet */
		if (connection_io(connection) == 0)
			ck_assert_int_lt(connection_io(connection), 0);
		connection_end(connection, -ESTALE, "next");
		ck_assert_uint_eq(ping.calls, 1);
		connection_free(connection);
		ck_assert_int_eq(connection_create(epfd, &events, NULL, &connection),
				 0);
		reconnect();
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("librmem-control");
	TCase *tc = tcase_create("control");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, hello__goes_first);
	tcase_add_test(tc, replies__in_any_order);
	tcase_add_test(tc, frames__in_single_bytes);
	tcase_add_loop_test(tc, reply__that_is_wrong, 0, 5);
	tcase_add_test(tc, reply__before_the_request_is_sent);
	tcase_add_loop_test(tc, error_code__that_is_none, 0, 4);
	tcase_add_test(tc, connection__that_ends);
	tcase_add_test(tc, end__refuses_new_calls);
	tcase_add_test(tc, abandoned__reply_goes_elsewhere);
	tcase_add_test(tc, abandoned__after_a_loss);
	tcase_add_test(tc, events__are_handed_up);
	tcase_add_test(tc, events__that_are_unknown_are_ignored);
	tcase_add_test(tc, socket__that_is_full);
	tcase_add_test(tc, answer__costs_one_look);
	tcase_add_loop_test(tc, garbage__never_does_harm, 0, 3);
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}

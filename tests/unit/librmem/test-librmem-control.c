/* SPDX-License-Identifier: BSD-3-Clause */
/* The control connection, with the test as the server on a socket pair. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
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
#include "wire/errors.h"

static struct connection *connection;
static int epfd, server = -1; /* the server's end of the socket pair; -1: closed */
static uint64_t now_ns, answered_ns;
static unsigned n_events;
static uint64_t event_lease;

struct result {
	unsigned times; /* calls of on_done() */
	int err;
	enum wire_type type;
	uint64_t lease;
	char text[128];
};

static int on_done(void *ctx, int err, const struct wire_msg *reply)
{
	struct result *result = ctx;

	result->times++;
	result->err = err;
	if (err) {
		(void)snprintf(result->text, sizeof(result->text), "%.120s",
			       err_text());
		return 0;
	}
	result->type = reply->type;
	if (reply->type == WIRE_TYPE_lease)
		result->lease = reply->lease.lease;
	return 0;
}

/* The library's calls of recv(). */
static unsigned receives;

ssize_t recv(int fd, void *buf, size_t bytes, int flags)
{
	receives += fd != server;
	return syscall(SYS_recvfrom, fd, buf, bytes, flags, NULL, NULL);
}

static void on_answered(void *ctx, uint64_t sent_ns)
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

static const struct connection_events events = { on_answered, on_event };

static uint64_t test_now(void)
{
	return now_ns;
}

static void server_close(void)
{
	if (server >= 0)
		(void)close(server);
	server = -1;
}

/* Give the connection a new socket. */
static void reconnect(void)
{
	int pair[2];

	server_close();
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
				    0, pair),
			 0);
	ck_assert_int_eq(connection_adopt(connection, pair[0], NULL), 0);
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
	server_close();
	(void)close(epfd);
}

/* The next request that the server receives; its type is 0 if there is none. */
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

static void send_bytes(const uint8_t *bytes, size_t n)
{
	ck_assert_int_eq(send(server, bytes, n, MSG_NOSIGNAL), (ssize_t)n);
}

/* A message without content, which the next call overwrites. */
static struct wire_msg *message(enum wire_type type)
{
	static struct wire_msg msg;

	memset(&msg, 0, sizeof(msg));
	msg.type = type;
	return &msg;
}

/* Encode a reply, or an event if id is 0; returns the bytes. */
static size_t encode(enum wire_type type, uint64_t id, uint8_t *frame, size_t capacity)
{
	struct wire_msg *msg = message(type);
	int n;

	msg->id = id;
	if (type == WIRE_TYPE_error) {
		msg->error.code = WIRE_CODE_quota;
		(void)strcpy(msg->error.text, "too much");
	}
	if (type == WIRE_TYPE_lease)
		msg->lease.lease = 77;
	if (type == WIRE_TYPE_revoked)
		msg->revoked.lease = 33;
	n = wire_encode(msg, frame, capacity);
	ck_assert_int_gt(n, 0);
	return (size_t)n;
}

static void reply(enum wire_type type, uint64_t id)
{
	static uint8_t frame[WIRE_FRAME_MAX];

	send_bytes(frame, encode(type, id, frame, sizeof(frame)));
}

/* Queue a request; returns the call. */
static struct connection_call *request(enum wire_type type, struct result *result)
{
	struct connection_call *call;

	memset(result, 0, sizeof(*result));
	ck_assert_int_eq(
		connection_call(connection, message(type), on_done, result, &call), 0);
	return call;
}

static void send_hello(struct result *result)
{
	memset(result, 0, sizeof(*result));
	ck_assert_int_eq(connection_call(connection, message(WIRE_TYPE_hello), on_done,
					 result, NULL),
			 0);
}

static const uint8_t secret[WIRE_SECRET_BYTES] = { 1, 2, 3 };

/* Send the hello; the server accepts it, and so many requests without a reply. */
static void say_hello_told(unsigned requests_max)
{
	struct result hello;

	send_hello(&hello);
	reply(WIRE_TYPE_welcome, receive()->id);
	ck_assert_int_eq(connection_io(connection), 0);
	ck_assert_int_eq(hello.type, WIRE_TYPE_welcome);
	connection_ready(connection, requests_max, secret);
}

static void say_hello(void)
{
	say_hello_told(WIRE_REQUESTS_MAX);
}

START_TEST(hello__is_sent_before_other_requests)
{
	struct result ping, hello;

	(void)request(WIRE_TYPE_ping, &ping);
	ck_assert_int_eq(receive()->type, 0);
	send_hello(&hello);
	ck_assert_int_eq(receive()->type, WIRE_TYPE_hello);
	ck_assert_int_eq(connection_io(connection), 0);
	ck_assert_int_eq(receive()->type, 0);
	connection_ready(connection, WIRE_REQUESTS_MAX, secret);
	ck_assert_int_eq(receive()->type, WIRE_TYPE_ping);
	connection_end(connection, -ESTALE, "it is over");
	ck_assert_int_eq(hello.err, -ESTALE);
	ck_assert_int_eq(ping.err, -ESTALE);
}
END_TEST

/* A channel that connects after that is refused. */
START_TEST(secret__ends_with_the_socket)
{
	static const uint8_t none[WIRE_SECRET_BYTES];

	ck_assert_mem_eq(connection_secret(connection), none, sizeof(none));
	say_hello();
	ck_assert_mem_eq(connection_secret(connection), secret, sizeof(secret));
	connection_drop(connection);
	ck_assert_mem_eq(connection_secret(connection), none, sizeof(none));
}
END_TEST

START_TEST(replies__are_matched_in_any_order)
{
	struct result a, b, c;
	uint64_t id_a, id_b, id_c;

	say_hello();
	now_ns = 5000;
	(void)request(WIRE_TYPE_allocate, &a);
	now_ns = 6000;
	(void)request(WIRE_TYPE_ping, &b);
	(void)request(WIRE_TYPE_stat, &c);
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
	ck_assert_uint_eq(b.times, 0);
	/* the lease clock runs from the time when the request was sent */
	ck_assert_uint_eq(answered_ns, 5000);
	reply(WIRE_TYPE_ok, id_b);
	ck_assert_int_eq(connection_io(connection), 0);
	ck_assert_int_eq(b.type, WIRE_TYPE_ok);
}
END_TEST

START_TEST(frame__may_come_in_single_bytes)
{
	uint8_t frame[256];
	struct result ping;
	size_t n;

	say_hello();
	(void)request(WIRE_TYPE_ping, &ping);
	n = encode(WIRE_TYPE_ok, receive()->id, frame, sizeof(frame));
	for (size_t i = 0; i < n; i++) {
		ck_assert_uint_eq(ping.times, 0);
		send_bytes(frame + i, 1);
		ck_assert_int_eq(connection_io(connection), 0);
	}
	ck_assert_uint_eq(ping.times, 1);
}
END_TEST

static const struct {
	enum wire_type type;
	bool right_id;
} wrong_replies[] = {
	{ WIRE_TYPE_ok, false }, /* no request has this id */
	{ WIRE_TYPE_error, false },
	{ WIRE_TYPE_ping, true }, /* a request */
	{ WIRE_TYPE_hello, false },
};

START_TEST(reply__to_no_request_breaks_the_protocol)
{
	struct result ping;
	uint64_t id;

	say_hello();
	(void)request(WIRE_TYPE_ping, &ping);
	id = receive()->id;
	reply(wrong_replies[_i].type, wrong_replies[_i].right_id ? id : id + 1);
	ck_assert_int_eq(connection_io(connection), -EPROTO);
	ck_assert_uint_eq(ping.times, 0);
	/* the call waits for another connection */
	connection_drop(connection);
	ck_assert_uint_eq(ping.times, 0);
	reconnect();
	say_hello();
	ck_assert_uint_eq(receive()->id, id);
	reply(WIRE_TYPE_ok, id);
	ck_assert_int_eq(connection_io(connection), 0);
	ck_assert_uint_eq(ping.times, 1);
	/* a second reply to the same request */
	reply(WIRE_TYPE_ok, id);
	ck_assert_int_eq(connection_io(connection), -EPROTO);
}
END_TEST

START_TEST(reply__of_another_program_asks_for_the_port)
{
	struct result hello;

	send_hello(&hello);
	send_bytes((const uint8_t *)"HTTP/1.1 400 Bad Request", 24);
	ck_assert_int_eq(connection_io(connection), -EPROTO);
	ck_assert_str_eq(err_text(),
			 "a frame of 1347703880 bytes: no such frame exists; "
			 "is this the port of an rmemd?");
	connection_end(connection, -ESTALE, "it is over");
}
END_TEST

START_TEST(reply__before_its_request_breaks_the_protocol)
{
	struct result ping;

	(void)request(WIRE_TYPE_ping, &ping);
	reply(WIRE_TYPE_ok, 1);
	ck_assert_int_eq(connection_io(connection), -EPROTO);
	ck_assert_uint_eq(ping.times, 0);
	connection_end(connection, -ESTALE, "it is over");
}
END_TEST

/* Replies to an allocate that are none. */
static const struct {
	enum wire_type type;
	size_t at;
	uint8_t byte;
	const char *text;
} unreadable[] = {
	{ WIRE_TYPE_lease, 4, WIRE_TYPE_ok, "the server answers allocate with ok" },
	{ WIRE_TYPE_lease, 4, 0x7f, "message type 0x7f is unknown" },
	{ WIRE_TYPE_lease, 6, 1, "a header with reserved bits set" },
	{ WIRE_TYPE_ok, 4, WIRE_TYPE_lease, "message lease: lease is cut off" },
};

START_TEST(reply__that_nobody_can_read_fails_its_request_alone)
{
	struct result allocate, ping;
	uint8_t frame[256];
	size_t n;

	say_hello();
	(void)request(WIRE_TYPE_allocate, &allocate);
	(void)request(WIRE_TYPE_ping, &ping);
	n = encode(unreadable[_i].type, receive()->id, frame, sizeof(frame));
	frame[unreadable[_i].at] = unreadable[_i].byte;
	send_bytes(frame, n);
	ck_assert_int_eq(connection_io(connection), 0);
	ck_assert_int_eq(allocate.err, -EPROTO);
	ck_assert_msg(strstr(allocate.text, unreadable[_i].text), "%s", allocate.text);
	reply(WIRE_TYPE_ok, receive()->id);
	ck_assert_int_eq(connection_io(connection), 0);
	ck_assert_int_eq(ping.type, WIRE_TYPE_ok);
	/* it is not asked again */
	connection_drop(connection);
	reconnect();
	say_hello();
	ck_assert_int_eq(receive()->type, 0);
}
END_TEST

#define SHOWN(name, number, own, shown, text) { number, -(shown) },
static const struct {
	uint32_t code;
	int err;
} refusals[] = {
	WIRE_CODES(SHOWN)
	/* of later servers: of a group that this library knows, or not */
	{ 199, -EBUSY },
	{ 299, -ENOTSUP },
	{ 399, -EACCES },
	{ 499, -ESTALE },
	{ 599, -EDQUOT },
	{ 699, -EEXIST },
	{ 799, -EIO },
	{ 0, -EIO },
	{ 99, -EIO },
	{ 800, -EIO },
	{ UINT32_MAX, -EIO },
};

START_TEST(error__fails_its_request_alone)
{
	struct result allocate, ping;
	uint8_t frame[256];
	uint32_t code = htole32(refusals[_i].code);
	size_t n;

	say_hello();
	(void)request(WIRE_TYPE_allocate, &allocate);
	(void)request(WIRE_TYPE_ping, &ping);
	n = encode(WIRE_TYPE_error, receive()->id, frame, sizeof(frame));
	memcpy(frame + WIRE_HEADER_BYTES, &code, sizeof(code));
	send_bytes(frame, n);
	reply(WIRE_TYPE_ok, receive()->id);
	ck_assert_int_eq(connection_io(connection), 0);
	ck_assert_int_eq(allocate.err, refusals[_i].err);
	ck_assert_str_eq(allocate.text, "too much");
	ck_assert_int_eq(ping.type, WIRE_TYPE_ok);
}
END_TEST

START_TEST(welcome__that_nobody_can_read_breaks_the_protocol)
{
	struct result hello;

	send_hello(&hello);
	reply(WIRE_TYPE_ok, receive()->id);
	ck_assert_int_eq(connection_io(connection), -EPROTO);
	ck_assert_uint_eq(hello.times, 0);
	connection_drop(connection);
	ck_assert_int_eq(hello.err, -ECONNRESET);
}
END_TEST

START_TEST(calls__are_sent_again_on_the_next_connection)
{
	struct result allocate, ping, unsent, bye;
	uint64_t id;

	say_hello();
	(void)request(WIRE_TYPE_allocate, &allocate);
	(void)request(WIRE_TYPE_ping, &ping);
	(void)request(WIRE_TYPE_bye, &bye);
	id = receive()->id;
	ck_assert_int_eq(receive()->type, WIRE_TYPE_ping);
	ck_assert_int_eq(receive()->type, WIRE_TYPE_bye);
	server_close();
	ck_assert_int_eq(connection_io(connection), -ECONNRESET);
	connection_drop(connection);
	ck_assert_uint_eq(allocate.times, 0);
	ck_assert_uint_eq(ping.times, 0);
	ck_assert_int_eq(bye.err, -ECONNRESET);
	/* a call that is made meanwhile is sent behind the earlier calls */
	(void)request(WIRE_TYPE_free, &unsent);
	for (unsigned i = 0; i < 3; i++) {
		reconnect();
		say_hello();
		ck_assert_uint_eq(receive()->id, id);
		ck_assert_uint_eq(receive()->id, id + 1);
		ck_assert_int_eq(receive()->type, WIRE_TYPE_free);
		ck_assert_int_eq(receive()->type, 0);
		connection_drop(connection);
	}
	ck_assert_uint_eq(allocate.times, 0);
	ck_assert_uint_eq(unsent.times, 0);
	reconnect();
	say_hello();
	reply(WIRE_TYPE_lease, receive()->id);
	ck_assert_int_eq(connection_io(connection), 0);
	ck_assert_uint_eq(allocate.times, 1);
	ck_assert_uint_eq(allocate.lease, 77);
	connection_end(connection, -ESTALE, "it is over");
	ck_assert_int_eq(ping.err, -ESTALE);
	ck_assert_str_eq(ping.text, "it is over");
	ck_assert_int_eq(unsent.err, -ESTALE);
}
END_TEST

START_TEST(abandon__after_a_loss_keeps_an_allocation)
{
	struct connection_call *allocate, *channel;
	struct result first, second = { 0 };
	uint64_t id;

	say_hello();
	allocate = request(WIRE_TYPE_allocate, &first);
	channel = request(WIRE_TYPE_open_channel, &first);
	ck_assert_int_eq(receive()->type, WIRE_TYPE_allocate);
	ck_assert_int_eq(receive()->type, WIRE_TYPE_open_channel);
	connection_drop(connection);
	/* the server may have granted the lease */
	connection_abandon(allocate, on_done, &second);
	/* the server has ended the channel with its connection */
	connection_abandon(channel, on_done, &second);
	reconnect();
	say_hello();
	id = receive()->id;
	ck_assert_int_eq(receive()->type, 0);
	reply(WIRE_TYPE_lease, id);
	ck_assert_int_eq(connection_io(connection), 0);
	ck_assert_uint_eq(first.times, 0);
	ck_assert_uint_eq(second.times, 1);
	ck_assert_uint_eq(second.lease, 77);
}
END_TEST

START_TEST(end__refuses_new_calls)
{
	struct result ping = { 0 };

	say_hello();
	connection_end(connection, -ESTALE, "it is over");
	ck_assert_int_eq(connection_call(connection, message(WIRE_TYPE_ping), on_done,
					 &ping, NULL),
			 -ESTALE);
	ck_assert_str_eq(err_text(), "it is over");
	ck_assert_uint_eq(ping.times, 0);
}
END_TEST

START_TEST(abandon__passes_the_reply_to_the_other_callback)
{
	struct result first, second = { 0 };
	struct connection_call *call;

	say_hello();
	call = request(WIRE_TYPE_allocate, &first);
	connection_abandon(call, on_done, &second);
	reply(WIRE_TYPE_lease, receive()->id);
	ck_assert_int_eq(connection_io(connection), 0);
	ck_assert_uint_eq(first.times, 0);
	ck_assert_uint_eq(second.lease, 77);
	/* a call that was not sent yet is never sent */
	connection_drop(connection);
	call = request(WIRE_TYPE_allocate, &first);
	connection_abandon(call, on_done, &second);
	reconnect();
	say_hello();
	ck_assert_int_eq(receive()->type, 0);
	ck_assert_uint_eq(first.times, 0);
	ck_assert_uint_eq(second.times, 1);
}
END_TEST

START_TEST(calls__without_a_reply_have_a_limit)
{
	struct result first, late = { 0 };
	uint64_t id = 0;

	say_hello();
	for (unsigned i = 0; i < CONNECTION_CALLS_MAX; i++) {
		(void)request(WIRE_TYPE_stat, &first);
		if (i < WIRE_REQUESTS_MAX)
			id = receive()->id;
	}
	ck_assert_int_eq(connection_call(connection, message(WIRE_TYPE_stat), on_done,
					 &late, NULL),
			 -ETIMEDOUT);
	ck_assert_uint_eq(late.times, 0);
	reply(WIRE_TYPE_entries, id);
	ck_assert_int_eq(connection_io(connection), 0);
	(void)request(WIRE_TYPE_stat, &first);
	/* the session can resume all the same */
	connection_drop(connection);
	reconnect();
	send_hello(&late);
	ck_assert_int_eq(receive()->type, WIRE_TYPE_hello);
	connection_end(connection, -ESTALE, "it is over");
	ck_assert_int_eq(first.err, -ESTALE);
	ck_assert_int_eq(late.err, -ESTALE);
}
END_TEST

/* The server accepts no more requests: they wait, but heartbeats and the end of the session go. */
START_TEST(requests__beyond_the_limit_of_the_server_wait)
{
	uint64_t ids[WIRE_REQUESTS_MAX], id;
	const unsigned max = (unsigned)_i;
	struct result result;

	say_hello_told(max);
	for (unsigned i = 0; i < max; i++) {
		(void)request(WIRE_TYPE_stat, &result);
		ids[i] = receive()->id;
	}
	(void)request(WIRE_TYPE_renew, &result);
	ck_assert_int_eq(receive()->type, 0);
	(void)request(WIRE_TYPE_ping, &result);
	ck_assert_int_eq(receive()->type, WIRE_TYPE_ping);
	/* the ping has no reply yet either */
	reply(WIRE_TYPE_entries, ids[0]);
	ck_assert_int_eq(connection_io(connection), 0);
	ck_assert_int_eq(receive()->type, 0);
	reply(WIRE_TYPE_entries, ids[1]);
	ck_assert_int_eq(connection_io(connection), 0);
	ck_assert_int_eq(receive()->type, WIRE_TYPE_renew);
	(void)request(WIRE_TYPE_bye, &result);
	ck_assert_int_eq(receive()->type, WIRE_TYPE_bye);
	/* they are repeated as they were sent, what waits comes behind */
	(void)request(WIRE_TYPE_share, &result);
	connection_drop(connection);
	reconnect();
	say_hello_told(max);
	id = 0;
	for (unsigned i = 0; i < max; i++) {
		const struct wire_msg *msg = receive();

		ck_assert_uint_gt(msg->id, id);
		id = msg->id;
	}
	ck_assert_int_eq(receive()->type, 0);
	connection_end(connection, -ESTALE, "it is over");
}
END_TEST

START_TEST(events__reach_the_callback)
{
	say_hello();
	reply(WIRE_TYPE_revoked, 0);
	reply(WIRE_TYPE_revoked, 0);
	ck_assert_int_eq(connection_io(connection), 0);
	ck_assert_uint_eq(n_events, 2);
	ck_assert_uint_eq(event_lease, 33);
	reply(WIRE_TYPE_closing, 0);
	ck_assert_int_eq(connection_io(connection), -ESTALE);
}
END_TEST

/* A mistake of the library: a callback drops the socket from which the frame came, or (ctx)
 * replaces it. */
static int on_done_by_mistake(void *ctx, int err, const struct wire_msg *reply)
{
	(void)err;
	(void)reply;
	if (*(bool *)ctx)
		reconnect();
	else
		connection_drop(connection);
	return 0;
}

/* The next frame would be read from beyond the bytes that were received. */
START_TEST(callback__that_closes_the_socket_aborts)
{
	bool replaces = _i;

	say_hello();
	ck_assert_int_eq(connection_call(connection, message(WIRE_TYPE_ping),
					 on_done_by_mistake, &replaces, NULL),
			 0);
	reply(WIRE_TYPE_ok, receive()->id);
	(void)connection_io(connection);
}
END_TEST

/* A newer server may send unknown events. */
START_TEST(events__of_unknown_types_are_ignored)
{
	static const uint16_t types[] = { 0x89, 0xff, 0x100, 0xffff };
	uint8_t frame[WIRE_HEADER_BYTES + 3] = { sizeof(frame) };
	struct result ping;

	say_hello();
	(void)request(WIRE_TYPE_ping, &ping);
	for (unsigned i = 0; i < 4; i++) {
		frame[4] = (uint8_t)types[i];
		frame[5] = (uint8_t)(types[i] >> 8);
		send_bytes(frame, sizeof(frame));
	}
	reply(WIRE_TYPE_revoked, 0);
	reply(WIRE_TYPE_ok, receive()->id);
	ck_assert_int_eq(connection_io(connection), 0);
	ck_assert_uint_eq(n_events, 1);
	ck_assert_uint_eq(event_lease, 33);
	ck_assert_int_eq(ping.type, WIRE_TYPE_ok);
	frame[4] = 0x7f;
	frame[5] = 0;
	send_bytes(frame, sizeof(frame));
	ck_assert_int_eq(connection_io(connection), -EPROTO);
}
END_TEST

START_TEST(requests__wait_for_a_full_socket)
{
	struct result *results = calloc(4000, sizeof(*results));
	unsigned answered = 0;
	int small = 4096;

	say_hello();
	(void)setsockopt(server, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	for (unsigned i = 0; i < 4000; i++)
		(void)request(WIRE_TYPE_ping, &results[i]);
	while (answered < 4000) {
		const struct wire_msg *msg = receive();

		if (msg->type == WIRE_TYPE_ping) {
			reply(WIRE_TYPE_ok, msg->id);
			answered++;
		}
		ck_assert_int_eq(connection_io(connection), 0);
	}
	for (unsigned i = 0; i < 4000; i++)
		ck_assert_uint_eq(results[i].times, 1);
	free(results);
}
END_TEST

START_TEST(reply__takes_one_call_of_recv)
{
	struct result ping;

	say_hello();
	(void)request(WIRE_TYPE_ping, &ping);
	reply(WIRE_TYPE_ok, receive()->id);
	receives = 0;
	ck_assert_int_eq(connection_io(connection), 0);
	ck_assert_uint_eq(ping.times, 1);
	ck_assert_uint_eq(receives, 1);
	connection_end(connection, -ESTALE, "it is over");
}
END_TEST

START_TEST(garbage__ends_the_connection)
{
	unsigned seed = (unsigned)time(NULL) + (unsigned)_i;
	uint8_t buf[512];

	printf("# seed %u\n", seed);
	srand(seed);
	for (unsigned round = 0; round < 300; round++) {
		struct result ping;
		size_t n = 1 + (size_t)rand() % sizeof(buf);

		say_hello();
		(void)request(WIRE_TYPE_ping, &ping);
		for (size_t i = 0; i < n; i++)
			buf[i] = (uint8_t)rand();
		/* in some rounds a header that is nearly valid */
		if (rand() % 2 && n >= WIRE_HEADER_BYTES) {
			memset(buf, 0, WIRE_HEADER_BYTES);
			buf[0] = (uint8_t)n;
			buf[1] = (uint8_t)(n >> 8);
			buf[4] = (uint8_t)(rand() % 2 ? rand() : 0x40 + rand() % 6);
			buf[8] = (uint8_t)rand() % 8;
		}
		send_bytes(buf, n);
		server_close();
		/* the first call may read an incomplete frame, the second the end */
		if (connection_io(connection) == 0)
			ck_assert_int_lt(connection_io(connection), 0);
		connection_end(connection, -ESTALE, "it is over");
		ck_assert_uint_eq(ping.times, 1);
		connection_free(connection);
		ck_assert_int_eq(connection_create(epfd, &events, NULL, &connection),
				 0);
		reconnect();
	}
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("control", setup, teardown);

	tcase_add_test(tc, hello__is_sent_before_other_requests);
	tcase_add_test(tc, secret__ends_with_the_socket);
	tcase_add_test(tc, replies__are_matched_in_any_order);
	tcase_add_test(tc, frame__may_come_in_single_bytes);
	tcase_add_loop_test(tc, reply__to_no_request_breaks_the_protocol, 0, 4);
	tcase_add_test(tc, reply__before_its_request_breaks_the_protocol);
	tcase_add_test(tc, reply__of_another_program_asks_for_the_port);
	tcase_add_loop_test(tc, reply__that_nobody_can_read_fails_its_request_alone, 0,
			    4);
	tcase_add_loop_test(tc, error__fails_its_request_alone, 0,
			    (int)(sizeof(refusals) / sizeof(refusals[0])));
	tcase_add_test(tc, welcome__that_nobody_can_read_breaks_the_protocol);
	tcase_add_test(tc, calls__are_sent_again_on_the_next_connection);
	tcase_add_test(tc, end__refuses_new_calls);
	tcase_add_test(tc, abandon__passes_the_reply_to_the_other_callback);
	tcase_add_test(tc, abandon__after_a_loss_keeps_an_allocation);
	tcase_add_test(tc, calls__without_a_reply_have_a_limit);
	tcase_add_loop_test(tc, requests__beyond_the_limit_of_the_server_wait, 2, 4);
	tcase_add_loop_test(tc, requests__beyond_the_limit_of_the_server_wait,
			    WIRE_REQUESTS_MAX, WIRE_REQUESTS_MAX + 1);
	tcase_add_test(tc, events__reach_the_callback);
	tcase_add_loop_test_raise_signal(tc, callback__that_closes_the_socket_aborts,
					 SIGABRT, 0, 2);
	tcase_add_test(tc, events__of_unknown_types_are_ignored);
	tcase_add_test(tc, requests__wait_for_a_full_socket);
	tcase_add_test(tc, reply__takes_one_call_of_recv);
	tcase_add_loop_test(tc, garbage__ends_the_connection, 0, 3);
	return unit_main();
}

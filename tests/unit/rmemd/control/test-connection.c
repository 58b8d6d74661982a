/* SPDX-License-Identifier: BSD-3-Clause */
/* Control connections over real sockets: frames in pieces, limits, last words. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "unit/rmemd/control/connection-stage.h"
#include "unit/unit.h"
#include "wire/codec.h"

static bool drained;

/* System calls that libevent makes on its own account stand in for the C library's. */
static unsigned extra_calls;

int ioctl(int fd, unsigned long request, ...)
{
	va_list ap;
	void *arg;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	extra_calls++;
	return (int)syscall(SYS_ioctl, fd, request, arg);
}

ssize_t readv(int fd, const struct iovec *iov, int n)
{
	extra_calls++;
	return syscall(SYS_readv, fd, iov, n);
}

int epoll_ctl(int epoll_fd, int op, int fd, struct epoll_event *event)
{
	extra_calls++;
	return (int)syscall(SYS_epoll_ctl, epoll_fd, op, fd, event);
}

/* A connection; the client's end. */
static int connect_client(void)
{
	int fds[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	ck_assert_int_eq(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
	ck_assert_int_eq(connection_create(connections, fds[0], "test"), 0);
	return fds[1];
}

/* So many in a row; returns their length. */
static int pings(int n)
{
	int bytes = encode(message(WIRE_TYPE_ping), 2);

	for (int i = 1; i < n; i++)
		memcpy(frame + i * bytes, frame, (size_t)bytes);
	return n * bytes;
}

static bool silent(int fd)
{
	struct pollfd at = { .fd = fd, .events = POLLIN };

	return poll(&at, 1, 0) == 0;
}

START_TEST(frames__may_come_in_pieces)
{
	int fd = connect_client(), bytes = encode(hello(), 1);

	for (int i = 0; i < bytes; i++) {
		ck_assert(silent(fd));
		say(fd, frame + i, 1);
	}
	ck_assert(hear(fd));
	ck_assert_int_eq((int)got.type, (int)WIRE_TYPE_welcome);
	/* and several at once */
	bytes = encode(message(WIRE_TYPE_ping), 2);
	memcpy(frame + bytes, frame, (size_t)bytes);
	say(fd, frame, 2 * bytes);
	ck_assert(hear(fd) && hear(fd) && silent(fd));
	(void)close(fd);
	turn();
	ck_assert_uint_eq(sessions_in("fenced"), 1);
}
END_TEST

/* What a hundred idle sessions cost is heartbeats: each is one recv() and one send(). */
START_TEST(heartbeat__costs_no_more_calls_than_it_must)
{
	int fd = connect_client();

	open_session(fd);
	extra_calls = 0;
	for (uint64_t id = 2; id < 12; id++) {
		say(fd, frame, encode(message(WIRE_TYPE_ping), id));
		ck_assert(hear(fd));
		ck_assert_int_eq((int)got.type, (int)WIRE_TYPE_ok);
		ck_assert_uint_eq(got.id, id);
	}
	ck_assert_uint_eq(extra_calls, 0);
	ck_assert_int_eq(close(fd), 0);
	turn();
}
END_TEST

/* One client that always has something to say does not keep others waiting, and what it has
 * said behind a request that takes its time is handled when that is done. */
START_TEST(many_requests__leave_others_their_turn)
{
	int a = connect_client(), b = connect_client(), bytes, n = 0;

	open_session(a);
	open_session(b);
	bytes = pings(1000) / 1000;
	/* one and a half after the other */
	ck_assert_int_eq((int)send(a, frame, (size_t)bytes * 1000 - 8, MSG_NOSIGNAL),
			 bytes * 1000 - 8);
	ck_assert_int_eq((int)send(b, frame, (size_t)bytes, MSG_NOSIGNAL), bytes);
	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_ge(event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK),
				 0);
	ck_assert(hear(b));
	while (!silent(a) && hear(a)) {
		n++;
		turn();
	}
	ck_assert_int_eq(n, 999);
	say(a, frame + 8, 8);
	ck_assert(hear(a) && silent(a));
	ck_assert_int_eq(close(a) + close(b), 0);
	turn();
}
END_TEST

/* While its hello waits, a client's requests fill what may be kept of them, no more; the rest
 * stays in the socket and is handled later. */
START_TEST(requests__wait_in_the_socket_when_too_many)
{
	int a = connect_client(), b, bytes, n, sent = 0, answered = 0;
	struct wire_welcome welcome;
	struct wire_msg *msg;

	open_session(a);
	welcome = got.welcome;
	say(a, frame, encode(message(WIRE_TYPE_open_channel), 2));
	ck_assert(hear(a));
	b = connect_client();
	ck_assert_int_eq(fcntl(b, F_SETFL, O_NONBLOCK), 0);
	msg = hello();
	msg->hello.resume = welcome.session;
	memcpy(msg->hello.token, welcome.token, WIRE_TOKEN_BYTES);
	say(b, frame, encode(msg, 1));
	ck_assert(silent(b));
	bytes = pings(1000);
	for (; (n = (int)send(b, frame, (size_t)bytes, MSG_NOSIGNAL)) == bytes; turn())
		sent += 1000;
	sent += n > 0 ? n * 1000 / bytes : 0;
	/* it ends, and somebody has taken as much as may be kept */
	ck_assert_int_gt(sent, 2 * WIRE_FRAME_MAX / (bytes / 1000));
	fake_fabric_settle();
	turn();
	ck_assert(hear(b));
	ck_assert_int_eq((int)got.type, (int)WIRE_TYPE_welcome);
	for (unsigned i = 0; i < 10000 && answered < sent; i++) {
		while (!silent(b)) {
			ck_assert(hear(b));
			answered++;
		}
		turn();
	}
	ck_assert_int_eq(answered, sent);
	ck_assert_int_eq(close(a) + close(b), 0);
	turn();
}
END_TEST

START_TEST(lengths__that_cannot_be__end_the_connection)
{
	static const uint32_t lengths[] = { 0, 15, WIRE_FRAME_MAX + 1, UINT32_MAX };
	int fd = connect_client();

	say(fd, &lengths[_i], 4);
	ck_assert(hear(fd));
	ck_assert_int_eq((int)got.type, (int)WIRE_TYPE_error);
	ck_assert_uint_eq(got.error.code, EPROTO);
	ck_assert(!hear(fd));
	/* what still comes is thrown away until the client has seen the end */
	say(fd, frame, 1000);
	(void)close(fd);
	turn();
}
END_TEST

START_TEST(last_words__arrive_before_the_end)
{
	int fd = connect_client();

	open_session(fd);
	say(fd, frame, encode(message(WIRE_TYPE_bye), 2));
	ck_assert(hear(fd));
	ck_assert_int_eq((int)got.type, (int)WIRE_TYPE_ok);
	ck_assert(!hear(fd));
	(void)close(fd);
	turn();
	ck_assert_uint_eq(sessions_count(stage_control.sessions), 0);
}
END_TEST

/* A client that asks and never listens is cut off; memory stays bounded. */
START_TEST(answers__do_not_pile_up)
{
	int fd = connect_client(), bytes;

	open_session(fd);
	ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	bytes = pings(1000);
	for (unsigned i = 0; i < 1000 && sessions_in("active"); i++) {
		(void)send(fd, frame, (size_t)bytes, MSG_NOSIGNAL);
		turn();
	}
	ck_assert_uint_eq(sessions_in("fenced"), 1);
	(void)close(fd);
}
END_TEST

/* A session with a lease that it watches; *ret_rkey notifies of it. */
static void open_watcher(int fd, uint64_t *ret_rkey)
{
	struct wire_msg *msg;

	open_session(fd);
	say(fd, frame, encode(message(WIRE_TYPE_open_channel), 2));
	ck_assert(hear(fd));
	msg = message(WIRE_TYPE_allocate);
	msg->allocate.bytes = 100;
	msg->allocate.node = -1;
	say(fd, frame, encode(msg, 3));
	fake_fabric_settle();
	turn();
	ck_assert(hear(fd));
	ck_assert_int_eq((int)got.type, (int)WIRE_TYPE_lease);
	*ret_rkey = got.lease.keys[0].rkey;
	msg = message(WIRE_TYPE_watch);
	msg->watch.lease = got.lease.lease;
	say(fd, frame, encode(msg, 4));
	ck_assert(hear(fd));
	ck_assert_int_eq((int)got.type, (int)WIRE_TYPE_ok);
}

/* A client that does not read gets no more than there is room for, is not cut off for what
 * others send, and learns how many it missed. */
START_TEST(notifications__do_not_pile_up)
{
	const uint32_t sent = 300000;
	int fd = connect_client(), small = 4096;
	uint32_t told = 0, lost = 0, next = 0;
	uint64_t rkey;

	ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)),
			 0);
	open_watcher(fd, &rkey);
	for (uint32_t i = 0; i < sent; i++) {
		ck_assert(fake_fabric_notify(rkey, i, 0));
		sessions_deliver(stage_control.sessions);
	}
	turn();
	/* an answer finds its way past them */
	say(fd, frame, encode(message(WIRE_TYPE_ping), 5));
	while (!silent(fd)) {
		ck_assert(hear(fd));
		turn();
		if (got.type != WIRE_TYPE_notified) {
			ck_assert_uint_eq(got.id, 5);
			continue;
		}
		for (unsigned i = 0; i < got.notified.n_notices; i++) {
			lost += got.notified.notices[i].lost;
			next += got.notified.notices[i].lost;
			ck_assert_uint_eq(got.notified.notices[i].value, next++);
			told++;
		}
	}
	ck_assert_uint_eq(told + lost, sent);
	/* what the socket held, and the queue */
	ck_assert_uint_lt(told, 20000);
	ck_assert(fake_fabric_notify(rkey, 7, 0));
	sessions_deliver(stage_control.sessions);
	ck_assert(hear(fd) && silent(fd));
	ck_assert_uint_eq(got.notified.notices[0].value, 7);
	ck_assert_int_eq(close(fd), 0);
	turn();
}
END_TEST

START_TEST(strangers__have_a_limit)
{
	int a = connect_client(), b = connect_client(), c;

	/* who has a session is none */
	open_session(a);
	c = connect_client();
	ck_assert_uint_eq(stage_control.counters.connections_refused, 0);
	ck_assert_int_eq(close(connect_client()), 0);
	/* the oldest makes room */
	ck_assert_uint_eq(stage_control.counters.connections_refused, 1);
	turn();
	ck_assert(!hear(b));
	open_session(c);
	say(a, frame, encode(message(WIRE_TYPE_ping), 2));
	ck_assert(hear(a));
	ck_assert_int_eq(close(a) + close(b) + close(c), 0);
}
END_TEST

/* One that is there before the connection costs no turn of the loop. */
START_TEST(hello__is_answered_as_it_is_accepted)
{
	int fds[2], bytes = encode(hello(), 1);

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	ck_assert_int_eq((int)send(fds[1], frame, (size_t)bytes, MSG_NOSIGNAL), bytes);
	ck_assert_int_eq(connection_create(connections, fds[0], "test"), 0);
	ck_assert(hear(fds[1]));
	ck_assert_int_eq((int)got.type, (int)WIRE_TYPE_welcome);
	/* one that has ended already takes nobody's place */
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	ck_assert_int_eq(close(fds[1]), 0);
	ck_assert_int_eq(connection_create(connections, fds[0], "test"), 0);
}
END_TEST

START_TEST(requests_behind_the_hello__wait_for_it)
{
	int a = connect_client(), b, bytes;
	struct wire_welcome welcome;
	struct wire_msg *msg;

	open_session(a);
	welcome = got.welcome;
	say(a, frame, encode(message(WIRE_TYPE_open_channel), 2));
	ck_assert(hear(a));
	/* resumed by another connection, which asks on without waiting */
	b = connect_client();
	msg = hello();
	msg->hello.resume = welcome.session;
	memcpy(msg->hello.token, welcome.token, WIRE_TOKEN_BYTES);
	bytes = encode(msg, 1);
	msg = message(WIRE_TYPE_ping);
	msg->id = 2;
	bytes += wire_encode(msg, frame + bytes, sizeof(frame) - (size_t)bytes);
	say(b, frame, bytes);
	ck_assert(silent(b));
	ck_assert(!hear(a));
	fake_fabric_settle();
	turn();
	ck_assert(hear(b));
	ck_assert_int_eq((int)got.type, (int)WIRE_TYPE_welcome);
	ck_assert_uint_eq(got.welcome.resumed, 1);
	ck_assert(hear(b));
	ck_assert_int_eq((int)got.type, (int)WIRE_TYPE_ok);
	ck_assert_uint_eq(got.id, 2);
	ck_assert_int_eq(close(a) + close(b), 0);
	turn();
}
END_TEST

static void on_drained(void *ctx)
{
	(void)ctx;
	drained = true;
}

START_TEST(drain__waits_for_the_last_one)
{
	int a = connect_client(), b = connect_client();

	drained = false;
	open_session(a);
	sessions_stop(stage_control.sessions, false);
	connections_drain(connections, on_drained, NULL);
	turn();
	ck_assert(hear(a));
	ck_assert_int_eq((int)got.type, (int)WIRE_TYPE_closing);
	ck_assert(!hear(a) && !hear(b));
	ck_assert_int_eq(close(a), 0);
	turn();
	ck_assert(!drained);
	ck_assert_int_eq(close(b), 0);
	turn();
	ck_assert(drained);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("connection");
	TCase *tc = tcase_create("connection");

	(void)signal(SIGPIPE, SIG_IGN);
	tcase_add_checked_fixture(tc, connections_setup, connections_teardown);
	tcase_add_test(tc, frames__may_come_in_pieces);
	tcase_add_test(tc, heartbeat__costs_no_more_calls_than_it_must);
	tcase_add_test(tc, many_requests__leave_others_their_turn);
	tcase_add_test(tc, requests__wait_in_the_socket_when_too_many);
	tcase_add_loop_test(tc, lengths__that_cannot_be__end_the_connection, 0, 4);
	tcase_add_test(tc, last_words__arrive_before_the_end);
	tcase_add_test(tc, answers__do_not_pile_up);
	tcase_add_test(tc, notifications__do_not_pile_up);
	tcase_add_test(tc, strangers__have_a_limit);
	tcase_add_test(tc, hello__is_answered_as_it_is_accepted);
	tcase_add_test(tc, requests_behind_the_hello__wait_for_it);
	tcase_add_test(tc, drain__waits_for_the_last_one);
	/* tens of thousands of requests, slow under a sanitizer */
	tcase_set_timeout(tc, 60);
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}

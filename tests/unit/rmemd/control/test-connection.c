/* SPDX-License-Identifier: BSD-3-Clause */
/* Control connections over sockets: parts of frames, limits, closing. */
#include <event2/buffer.h>
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

#include "base/clock.h"
#include "rmemd/control/client_socket.h"
#include "unit/rmemd/control/connection-stage.h"
#include "unit/unit.h"
#include "wire/codec.h"

/* More sessions than events in a turn of the loop. */
#define PAUSED 100

/* Calls of libevent that replace those of the C library, to count them. */
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

static const struct fabric_address address = { .family = 4, .bytes = { 192, 0, 2, 1 } };

/* A connection; returns the client's end. */
static int connect_from(const struct fabric_address *from)
{
	int fds[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	ck_assert_int_eq(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
	ck_assert_int_eq(connection_accept(connections, fds[0], from), 0);
	return fds[1];
}

static int connect_client(void)
{
	return connect_from(&address);
}

/* Encode n heartbeats into `frame`; returns their size. */
static int pings(int n)
{
	int bytes = encode(message(WIRE_TYPE_ping), 2);

	for (int i = 1; i < n; i++)
		memcpy(frame + i * bytes, frame, (size_t)bytes);
	return n * bytes;
}

static bool nothing_arrived(int fd)
{
	struct pollfd at = { .fd = fd, .events = POLLIN };

	return poll(&at, 1, 0) == 0;
}

START_TEST(frames__arrive_in_parts_or_together)
{
	int fd = connect_client(), bytes = encode(hello(), 1);

	for (int i = 0; i < bytes; i++) {
		ck_assert(nothing_arrived(fd));
		client_write(fd, frame + i, 1);
	}
	expect(fd, WIRE_TYPE_welcome);
	bytes = encode(message(WIRE_TYPE_ping), 2);
	memcpy(frame + bytes, frame, (size_t)bytes);
	client_write(fd, frame, 2 * bytes);
	ck_assert(receive(fd) && receive(fd) && nothing_arrived(fd));
	disconnect(fd);
	ck_assert_uint_eq(sessions_in(WIRE_SESSION_FENCED), 1);
}
END_TEST

/* Idle sessions cause work by their heartbeats only. */
START_TEST(heartbeat__takes_one_recv_and_one_send)
{
	int fd = connect_client();

	open_session(fd);
	extra_calls = 0;
	for (uint64_t id = 2; id < 12; id++) {
		request(fd, message(WIRE_TYPE_ping), id, WIRE_TYPE_ok);
		ck_assert_uint_eq(received.id, id);
	}
	ck_assert_uint_eq(extra_calls, 0);
	disconnect(fd);
}
END_TEST

/* A client that sends many requests does not delay other clients. */
START_TEST(many_requests__do_not_delay_other_clients)
{
	int a = connect_client(), b = connect_client(), bytes, n = 0;

	open_session(a);
	open_session(b);
	bytes = pings(1000) / 1000;
	/* the last frame is not complete */
	send_bytes(a, frame, bytes * 1000 - 8);
	send_bytes(b, frame, bytes);
	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_ge(event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK),
				 0);
	ck_assert(receive(b));
	while (!nothing_arrived(a) && receive(a)) {
		n++;
		run_loop();
	}
	ck_assert_int_eq(n, 999);
	client_write(a, frame + 8, 8);
	ck_assert(receive(a) && nothing_arrived(a));
	disconnect(a);
	disconnect(b);
}
END_TEST

/* Open a session that takes time to resume, as it has a channel.  Returns the hello for it. */
static struct wire_msg *open_to_resume(int fd)
{
	struct wire_welcome welcome;
	struct wire_msg *msg;

	open_session(fd);
	welcome = received.welcome;
	request(fd, message(WIRE_TYPE_open_channel), 2, WIRE_TYPE_channel);
	msg = hello();
	msg->hello.resume = welcome.session;
	memcpy(msg->hello.token, welcome.token, WIRE_TOKEN_BYTES);
	return msg;
}

/* While its hello waits, a client's requests fill a limited buffer; later requests stay in the
 * socket. */
/* Three sessions of one tenant ask before one of another; it gets its answer in the second
 * slice. */
START_TEST(requests__are_handled_by_tenants_in_turn)
{
	int fds[4];

	for (unsigned i = 0; i < 4; i++) {
		fds[i] = connect_client();
		request(fds[i], hello_of(i < 3 ? "default" : "other"), 1,
			WIRE_TYPE_welcome);
	}
	for (unsigned i = 0; i < 4; i++) {
		send_bytes(fds[i], frame, pings(1));
		/* the turn is over, so what arrives waits */
		turn_begin(&stage_control.turn, 0);
		stage_control.turn.first_ns = 1;
		ck_assert_int_ge(event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK),
				 0);
		ck_assert(nothing_arrived(fds[i]));
	}
	slices_run(&stage_control.slices);
	slices_run(&stage_control.slices);
	expect(fds[0], WIRE_TYPE_ok);
	expect(fds[3], WIRE_TYPE_ok);
	ck_assert(nothing_arrived(fds[1]) && nothing_arrived(fds[2]));
	stage_control.turn.running = false;
	slices_run(&stage_control.slices);
	for (unsigned i = 0; i < 4; i++)
		disconnect(fds[i]);
}
END_TEST

START_TEST(requests__wait_in_the_socket_when_too_many)
{
	int a = connect_client(), b, bytes, n, sent = 0, answered = 0;
	struct wire_msg *msg = open_to_resume(a);

	b = connect_client();
	ck_assert_int_eq(fcntl(b, F_SETFL, O_NONBLOCK), 0);
	client_write(b, frame, encode(msg, 1));
	ck_assert(nothing_arrived(b));
	bytes = pings(1000);
	for (; (n = (int)send(b, frame, (size_t)bytes, MSG_NOSIGNAL)) == bytes;
	     run_loop())
		sent += 1000;
	sent += n > 0 ? n * 1000 / bytes : 0;
	/* the socket is full, and the buffer has taken its part */
	ck_assert_int_gt(sent, 2 * WIRE_FRAME_MAX / (bytes / 1000));
	fake_fabric_settle();
	run_loop();
	expect(b, WIRE_TYPE_welcome);
	for (unsigned i = 0; i < 10000 && answered < sent; i++) {
		while (!nothing_arrived(b)) {
			ck_assert(receive(b));
			answered++;
		}
		run_loop();
	}
	ck_assert_int_eq(answered, sent);
	disconnect(a);
	disconnect(b);
}
END_TEST

START_TEST(invalid_length__ends_the_connection)
{
	static const uint32_t lengths[] = { 0, 15, WIRE_FRAME_MAX + 1, UINT32_MAX };
	int fd = connect_client();

	client_write(fd, &lengths[_i], 4);
	expect(fd, WIRE_TYPE_error);
	ck_assert_uint_eq(received.error.code, WIRE_CODE_malformed);
	ck_assert(!receive(fd));
	/* bytes that arrive later are dropped */
	client_write(fd, frame, 1000);
	disconnect(fd);
}
END_TEST

START_TEST(last_reply__arrives_before_the_end)
{
	int fd = connect_client();

	open_session(fd);
	request(fd, message(WIRE_TYPE_bye), 2, WIRE_TYPE_ok);
	ck_assert(!receive(fd));
	disconnect(fd);
	ck_assert_uint_eq(sessions_count(stage_control.sessions), 0);
}
END_TEST

/* Longer than what the socket takes, with names that make them long. */
#define LISTS 1000
#define NAMED 8

/* Open a session and send LISTS requests that have long answers. */
static void ask_much(int fd)
{
	char name[201] = "";
	int bytes;

	memset(name, 'n', sizeof(name) - 1);
	open_session(fd);
	for (unsigned i = 0; i < NAMED; i++) {
		name[0] = (char)('a' + i);
		client_write(fd, frame, encode(to_allocate(100, name), 3 + i));
		fake_fabric_settle();
		run_loop();
		expect(fd, WIRE_TYPE_lease);
	}
	bytes = encode(message(WIRE_TYPE_list), 3 + NAMED);
	for (int i = 1; i < LISTS; i++)
		memcpy(frame + i * bytes, frame, (size_t)bytes);
	client_write(fd, frame, LISTS * bytes);
}

/* What waits for clients. */
static size_t output_bytes(void)
{
	size_t bytes = 0;

	list_for_each_entry(const struct client_socket, socket, &connections->active,
			    link)
		bytes += evbuffer_get_length(socket->output);
	return bytes;
}

/* Read all answers; returns their number. */
static unsigned read_answers(int fd)
{
	static uint8_t in[2 * WIRE_FRAME_MAX];
	size_t have = 0, bytes;
	unsigned n = 0;
	ssize_t got;

	while ((got = recv(fd, in + have, sizeof(in) - have, MSG_DONTWAIT)) > 0) {
		have += (size_t)got;
		while ((bytes = (size_t)wire_frame_bytes(in, have)) && bytes <= have) {
			ck_assert_int_eq(wire_decode(in, bytes, &received), 0);
			have -= bytes;
			memmove(in, in + bytes, have);
			n++;
		}
		ck_assert_uint_le(output_bytes(),
				  CONNECTION_OUTPUT_MAX + WIRE_FRAME_MAX);
		run_loop();
	}
	ck_assert_uint_eq(have, 0);
	return n;
}

/* The requests of a client that does not read wait, unread at last. */
START_TEST(unread_replies__make_requests_wait)
{
	int fd = connect_client(), bytes;
	unsigned n = 0;

	ask_much(fd);
	ck_assert_uint_gt(output_bytes(), CONNECTION_OUTPUT_MAX);
	ck_assert_uint_le(output_bytes(), CONNECTION_OUTPUT_MAX + WIRE_FRAME_MAX);
	bytes = pings(1000);
	while (send(fd, frame, (size_t)bytes, MSG_NOSIGNAL | MSG_DONTWAIT) == bytes) {
		ck_assert_uint_lt(n++, 100);
		run_loop();
	}
	ck_assert_uint_eq(sessions_in(WIRE_SESSION_ACTIVE), 1);
	ck_assert_uint_ge(read_answers(fd), LISTS + 1000 * n);
	ck_assert_uint_eq(sessions_in(WIRE_SESSION_ACTIVE), 1);
	disconnect(fd);
}
END_TEST

/* What it has sent is no sign of life. */
START_TEST(client_that_never_reads__is_fenced)
{
	int fd = connect_client();

	ask_much(fd);
	pass(STAGE_SILENCE_MS - 1);
	ck_assert_uint_eq(sessions_in(WIRE_SESSION_ACTIVE), 1);
	ck_assert_uint_eq(stage_control.counters.refused[REFUSAL_UNREAD], 0);
	client_write(fd, frame, pings(1));
	pass(1);
	ck_assert_uint_eq(sessions_in(WIRE_SESSION_FENCED), 1);
	ck_assert_uint_eq(stage_control.counters.refused[REFUSAL_UNREAD], 1);
	disconnect(fd);
}
END_TEST

/* Open a session that watches a lease; a write-notify through *ret_rkey notifies it. */
static void open_watcher(int fd, uint64_t *ret_rkey)
{
	open_session(fd);
	request(fd, message(WIRE_TYPE_open_channel), 2, WIRE_TYPE_channel);
	client_write(fd, frame, encode(to_allocate(100, ""), 3));
	fake_fabric_settle();
	run_loop();
	expect(fd, WIRE_TYPE_lease);
	*ret_rkey = received.lease.keys[0].rkey;
	request(fd, lease_message(WIRE_TYPE_watch, received.lease.lease), 4,
		WIRE_TYPE_ok);
}

/* A client that does not read gets a limited number of notifications and the number of lost ones;
 * its connection stays open. */
START_TEST(unread_notifications__are_dropped_and_counted)
{
	const uint32_t sent = 300000;
	int fd = connect_client(), small = 4096;
	uint32_t n_received = 0, lost = 0, next = 0;
	uint64_t rkey;

	ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)),
			 0);
	open_watcher(fd, &rkey);
	for (uint32_t i = 0; i < sent; i++) {
		ck_assert(fake_fabric_notify(rkey, i, 0));
		slices_run(&stage_control.slices);
	}
	run_loop();
	/* the reply to a heartbeat arrives between them */
	client_write(fd, frame, encode(message(WIRE_TYPE_ping), 5));
	while (!nothing_arrived(fd)) {
		ck_assert(receive(fd));
		run_loop();
		if (received.type != WIRE_TYPE_notified) {
			ck_assert_uint_eq(received.id, 5);
			continue;
		}
		for (unsigned i = 0; i < received.notified.n_notices; i++) {
			lost += received.notified.notices[i].lost;
			next += received.notified.notices[i].lost;
			ck_assert_uint_eq(received.notified.notices[i].value, next++);
			n_received++;
		}
	}
	ck_assert_uint_eq(n_received + lost, sent);
	/* the notifications in the socket and in the queue */
	ck_assert_uint_lt(n_received, 20000);
	ck_assert(fake_fabric_notify(rkey, 7, 0));
	slices_run(&stage_control.slices);
	ck_assert(receive(fd) && nothing_arrived(fd));
	ck_assert_uint_eq(received.notified.notices[0].value, 7);
	disconnect(fd);
}
END_TEST

START_TEST(connections_without_a_session__have_a_limit)
{
	int a = connect_client(), b = connect_client(), c;

	open_session(a);
	c = connect_client();
	ck_assert_uint_eq(stage_control.counters.connections_refused, 0);
	ck_assert_int_eq(close(connect_client()), 0);
	/* the oldest connection without a session ends */
	ck_assert_uint_eq(stage_control.counters.connections_refused, 1);
	run_loop();
	ck_assert(!receive(b));
	open_session(c);
	request(a, message(WIRE_TYPE_ping), 2, WIRE_TYPE_ok);
	ck_assert_int_eq(close(a) + close(b) + close(c), 0);
}
END_TEST

/* Silent connections give way to others of their own address, not to those of another one. */
START_TEST(connections_without_a_session__end_by_addresses)
{
	static const struct fabric_address one = { .family = 6,
						   .bytes = { 32, 1, [15] = 1 } },
					   like_one = { .family = 6,
							.bytes = { 32, 1, [15] = 2 } };
	int other = connect_client(), first = connect_from(&one),
	    second = connect_from(&like_one);

	ck_assert_uint_eq(stage_control.counters.connections_refused, 1);
	run_loop();
	ck_assert(!receive(first));
	open_session(other);
	open_session(second);
	ck_assert_int_eq(close(other) + close(first) + close(second), 0);
}
END_TEST

/* A hello that has arrived before the connection is accepted does not wait for the loop. */
START_TEST(hello__is_answered_when_the_connection_is_accepted)
{
	int fds[2], bytes = encode(hello(), 1);

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	send_bytes(fds[1], frame, bytes);
	ck_assert_int_eq(connection_accept(connections, fds[0], &address), 0);
	expect(fds[1], WIRE_TYPE_welcome);
	/* a connection that has ended already is accepted, too */
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	ck_assert_int_eq(close(fds[1]), 0);
	ck_assert_int_eq(connection_accept(connections, fds[0], &address), 0);
}
END_TEST

/* A client that gives up before the daemon accepts its connection gets no session. */
START_TEST(hello__of_a_closed_connection_is_not_served)
{
	int fds[2], bytes = encode(hello(), 1);

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	send_bytes(fds[1], frame, bytes);
	ck_assert_int_eq(_i ? shutdown(fds[1], SHUT_WR) : close(fds[1]), 0);
	ck_assert_int_eq(connection_accept(connections, fds[0], &address), 0);
	run_loop();
	ck_assert_uint_eq(stage_control.counters.sessions_opened, 0);
	/* the connection has ended */
	if (_i)
		ck_assert(!receive(fds[1]));
	ck_assert(fcntl(fds[0], F_GETFD) < 0);
	if (_i)
		ck_assert_int_eq(close(fds[1]), 0);
}
END_TEST

/* After a pause of the daemon more clients have sent something than the loop reads in a turn. */
START_TEST(sessions__with_unread_input_are_not_fenced)
{
	int fds[PAUSED];

	stage_config.sessions_max = 2 * PAUSED;
	for (int i = 0; i < PAUSED; i++) {
		fds[i] = connect_client();
		open_session(fds[i]);
	}
	for (int i = 0; i < PAUSED; i++)
		send_bytes(fds[i], frame, encode(message(WIRE_TYPE_ping), 2));
	stage_now_ms += 2 * STAGE_FENCE_MS;
	while (sessions_next_ms(stage_control.sessions) <= stage_now_ms) {
		sessions_tick(stage_control.sessions);
		ck_assert_int_ge(event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK),
				 0);
		slices_run(&stage_control.slices);
	}
	ck_assert_uint_eq(stage_control.counters.sessions_fenced, 0);
	/* a part of a frame is no sign of life */
	client_write(fds[0], frame, 1);
	pass(STAGE_FENCE_MS);
	ck_assert_uint_eq(sessions_in(WIRE_SESSION_ACTIVE), 0);
	for (int i = 0; i < PAUSED; i++)
		disconnect(fds[i]);
}
END_TEST

static uint64_t clock_that_runs(void)
{
	return ++stage_now_ms * 1000000;
}

/* The time between two turns of a client that has sent much is longer than the fence time. */
START_TEST(session__whose_input_waits_for_its_turn_is_not_fenced)
{
	int fd = connect_client();

	open_session(fd);
	send_bytes(fd, frame, pings(10));
	clock_set_source(clock_that_runs);
	ck_assert_int_ge(event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK), 0);
	pass(STAGE_FENCE_MS);
	ck_assert_uint_eq(sessions_in(WIRE_SESSION_ACTIVE), 1);
	for (int i = 0; i < 10; i++) {
		run_loop();
		expect(fd, WIRE_TYPE_ok);
	}
	pass(STAGE_FENCE_MS);
	ck_assert_uint_eq(sessions_in(WIRE_SESSION_ACTIVE), 0);
	disconnect(fd);
}
END_TEST

START_TEST(requests_after_the_hello__wait_for_it)
{
	int a = connect_client(), b, bytes;
	struct wire_msg *msg = open_to_resume(a);

	b = connect_client();
	bytes = encode(msg, 1);
	msg = message(WIRE_TYPE_ping);
	msg->id = 2;
	bytes += wire_encode(msg, frame + bytes, sizeof(frame) - (size_t)bytes);
	client_write(b, frame, bytes);
	ck_assert(nothing_arrived(b));
	ck_assert(!receive(a));
	fake_fabric_settle();
	run_loop();
	expect(b, WIRE_TYPE_welcome);
	ck_assert_uint_eq(received.welcome.resumed, 1);
	expect(b, WIRE_TYPE_ok);
	ck_assert_uint_eq(received.id, 2);
	disconnect(a);
	disconnect(b);
}
END_TEST

START_TEST(drain__waits_for_the_last_connection)
{
	int a = connect_client(), b = connect_client();

	open_session(a);
	sessions_stop(stage_control.sessions, false);
	connections_drain(connections);
	run_loop();
	expect(a, WIRE_TYPE_draining);
	expect(a, WIRE_TYPE_closing);
	ck_assert(!receive(a) && !receive(b));
	disconnect(a);
	ck_assert(!connections_drained(connections));
	disconnect(b);
	ck_assert(connections_drained(connections));
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("connection", connections_setup, connections_teardown);

	(void)signal(SIGPIPE, SIG_IGN);
	tcase_add_test(tc, frames__arrive_in_parts_or_together);
	tcase_add_test(tc, heartbeat__takes_one_recv_and_one_send);
	tcase_add_test(tc, many_requests__do_not_delay_other_clients);
	tcase_add_test(tc, requests__are_handled_by_tenants_in_turn);
	tcase_add_test(tc, requests__wait_in_the_socket_when_too_many);
	tcase_add_loop_test(tc, invalid_length__ends_the_connection, 0, 4);
	tcase_add_test(tc, last_reply__arrives_before_the_end);
	tcase_add_test(tc, unread_replies__make_requests_wait);
	tcase_add_test(tc, client_that_never_reads__is_fenced);
	tcase_add_test(tc, unread_notifications__are_dropped_and_counted);
	tcase_add_test(tc, connections_without_a_session__have_a_limit);
	tcase_add_test(tc, connections_without_a_session__end_by_addresses);
	tcase_add_test(tc, hello__is_answered_when_the_connection_is_accepted);
	tcase_add_loop_test(tc, hello__of_a_closed_connection_is_not_served, 0, 2);
	tcase_add_test(tc, sessions__with_unread_input_are_not_fenced);
	tcase_add_test(tc, session__whose_input_waits_for_its_turn_is_not_fenced);
	tcase_add_test(tc, requests_after_the_hello__wait_for_it);
	tcase_add_test(tc, drain__waits_for_the_last_connection);
	return unit_main();
}

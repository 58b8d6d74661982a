/* SPDX-License-Identifier: BSD-3-Clause */
/* Listeners of control connections: whom they take, when, and what is in their way. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "unit/rmemd/control/connection-stage.h"
#include "rmemd/control/listener.h"
#include "unit/unit.h"

static struct listener *listen_on(const char *text, uint16_t port, int expected)
{
	struct listener *listener = NULL;
	struct fabric_address address;

	ck_assert_int_eq(listener_parse(text, port, &address), 0);
	ck_assert_int_eq(
		listener_open(base, &stage_control, connections, &address, &listener),
		expected);
	return listener;
}

static int dial(const struct listener *listener)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	unsigned port;

	ck_assert_int_eq(sscanf(listener_name(listener), "127.0.0.1:%u", &port), 1);
	to.sin_port = htons((uint16_t)port);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

/* Who has said something is accepted. */
static int knock(const struct listener *listener)
{
	int fd = dial(listener), bytes = encode(hello(), 1);

	ck_assert_int_eq((int)send(fd, frame, (size_t)bytes, MSG_NOSIGNAL), bytes);
	return fd;
}

/* Segments that the client got. */
static unsigned segments(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t bytes = sizeof(info);

	ck_assert_int_eq(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes), 0);
	return info.tcpi_segs_in;
}

START_TEST(listener__acknowledges_by_its_answers)
{
	struct listener *listener = listen_on("127.0.0.1", 0, 0);
	int fd = knock(listener);

	turn();
	ck_assert(hear(fd));
	/* the connection and the welcome */
	ck_assert_uint_eq(segments(fd), 2);
	ck_assert_int_eq(close(fd), 0);
	turn();
	listener_close(listener);
}
END_TEST

START_TEST(listener__accepts)
{
	struct listener *listener = listen_on("127.0.0.1", 0, 0);
	int fd = dial(listener);

	turn();
	open_session(fd);
	ck_assert_uint_eq(stage_control.counters.connections, 1);
	ck_assert_int_eq(close(fd), 0);
	turn();
	listener_close(listener);
}
END_TEST

START_TEST(listener__leaves_who_is_silent_to_the_kernel)
{
	struct listener *listener = listen_on("127.0.0.1", 0, 0);
	int silent_fd = dial(listener), fd = knock(listener);

	turn();
	ck_assert(hear(fd));
	ck_assert_uint_eq(stage_control.counters.connections, 1);
	open_session(silent_fd);
	ck_assert_uint_eq(stage_control.counters.connections, 2);
	ck_assert_int_eq(close(fd) + close(silent_fd), 0);
	turn();
	listener_close(listener);
}
END_TEST

/* A crowd at the door does not keep those inside waiting. */
START_TEST(listener__accepts_so_many_a_turn)
{
	struct listener *listener = listen_on("127.0.0.1", 0, 0);
	uint64_t before;
	int fds[60];

	for (unsigned i = 0; i < 60; i++)
		fds[i] = knock(listener);
	for (unsigned i = 0; i < 20; i++) {
		before = stage_control.counters.connections;
		ck_assert_int_ge(event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK),
				 0);
		ck_assert_uint_le(stage_control.counters.connections, before + 16);
	}
	ck_assert_uint_eq(stage_control.counters.connections, 60);
	for (unsigned i = 0; i < 60; i++)
		ck_assert_int_eq(close(fds[i]), 0);
	turn();
	listener_close(listener);
}
END_TEST

START_TEST(listener__names_what_is_in_the_way)
{
	struct listener *listener = listen_on("127.0.0.1", 0, 0);
	struct fabric_address address;
	unsigned port;

	ck_assert_int_eq(sscanf(listener_name(listener), "127.0.0.1:%u", &port), 1);
	ck_assert_ptr_null(listen_on("127.0.0.1", (uint16_t)port, -EADDRINUSE));
	ck_assert_ptr_nonnull(strstr(err_text(), listener_name(listener)));
	ck_assert_ptr_nonnull(strstr(err_text(), "[server] port"));
	ck_assert_ptr_null(listen_on("192.0.2.1", 0, -EADDRNOTAVAIL));
	ck_assert_int_eq(listener_parse("localhost", 1, &address), -EINVAL);
	ck_assert_int_eq(listener_parse("::1", 1, &address), 0);
	ck_assert(listener_skips(&address, -EADDRNOTAVAIL));
	ck_assert(!listener_skips(&address, -EADDRINUSE));
	ck_assert_int_eq(listener_parse("127.0.0.1", 1, &address), 0);
	ck_assert(!listener_skips(&address, -EADDRNOTAVAIL));
	listener_close(listener);
}
END_TEST

/* Without descriptors it rests instead of spinning, and goes on later. */
START_TEST(listener__survives_a_lack_of_descriptors)
{
	struct listener *listener = listen_on("127.0.0.1", 0, 0);
	struct rlimit limit, none;
	int fd = knock(listener);

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 3;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	turn();
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_assert_uint_eq(stage_control.counters.connections, 0);
	while (!stage_control.counters.connections)
		ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
	ck_assert(hear(fd));
	ck_assert_int_eq((int)got.type, (int)WIRE_TYPE_welcome);
	ck_assert_int_eq(close(fd), 0);
	turn();
	listener_close(listener);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("listener");
	TCase *tc = tcase_create("listener");

	(void)signal(SIGPIPE, SIG_IGN);
	tcase_add_checked_fixture(tc, connections_setup, connections_teardown);
	tcase_add_test(tc, listener__acknowledges_by_its_answers);
	tcase_add_test(tc, listener__accepts);
	tcase_add_test(tc, listener__leaves_who_is_silent_to_the_kernel);
	tcase_add_test(tc, listener__accepts_so_many_a_turn);
	tcase_add_test(tc, listener__names_what_is_in_the_way);
	tcase_add_test(tc, listener__survives_a_lack_of_descriptors);
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}

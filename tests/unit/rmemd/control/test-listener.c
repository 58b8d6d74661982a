/* SPDX-License-Identifier: BSD-3-Clause */
/* Listeners of control connections: when they accept, and their errors. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
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
#include "rmemd/control/client_socket.h"
#include "rmemd/control/listener.h"
#include "tls/stream.h"
#include "unit/unit.h"

/* That of libevent, or a failure of it for descriptors. */
static bool watch_fails;
int event_add(struct event *event, const struct timeval *timeout)
{
	int (*add)(struct event *, const struct timeval *) = NULL;

	*(void **)&add = dlsym(RTLD_NEXT, "event_add");
	return watch_fails && event_get_events(event) & EV_READ ? -1
								: add(event, timeout);
}

static struct listener *listen_on(const char *text, uint16_t port, int expected)
{
	struct listener *listener = NULL;
	struct fabric_address address;

	ck_assert_int_eq(fabric_address_parse(text, &address), 0);
	address.port = port;
	ck_assert_int_eq(listener_open(&stage_control, &address, &listener), expected);
	return listener;
}

static struct listener *listener; /* of a free port of the loopback */

static void setup(void)
{
	connections_setup();
	listener = listen_on("127.0.0.1", 0, 0);
}

static void teardown(void)
{
	listener_close(listener);
	connections_teardown();
}

static uint16_t listener_port(void)
{
	unsigned port;

	ck_assert_int_eq(sscanf(listener->name, "127.0.0.1:%u", &port), 1);
	return (uint16_t)port;
}

/* From 127.0.0.LAST. */
static int connect_from(unsigned last)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in from = { .sin_family = AF_INET,
				    .sin_addr.s_addr =
					    htonl(INADDR_LOOPBACK - 1 + last) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	to.sin_port = htons(listener_port());
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

static int connect_client(void)
{
	return connect_from(1);
}

/* The kernel hands over a connection when its client has sent something. */
static int connect_with_hello(void)
{
	int fd = connect_client(), bytes = encode(hello(), 1);

	send_bytes(fd, frame, bytes);
	return fd;
}

/* The number of TCP segments that the client received. */
static unsigned segments(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t bytes = sizeof(info);

	ck_assert_int_eq(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes), 0);
	return info.tcpi_segs_in;
}

START_TEST(listener__acknowledges_with_its_reply)
{
	int fd = connect_with_hello();

	run_loop();
	ck_assert(receive(fd));
	/* the connection and the welcome */
	ck_assert_uint_eq(segments(fd), 2);
	disconnect(fd);
}
END_TEST

START_TEST(listener__accepts)
{
	int fd = connect_client();

	run_loop();
	open_session(fd);
	ck_assert_uint_eq(stage_control.counters.connections, 1);
	disconnect(fd);
}
END_TEST

START_TEST(listener__does_not_accept_before_the_first_byte)
{
	int without_hello = connect_client(), fd = connect_with_hello();

	run_loop();
	ck_assert(receive(fd));
	ck_assert_uint_eq(stage_control.counters.connections, 1);
	open_session(without_hello);
	ck_assert_uint_eq(stage_control.counters.connections, 2);
	disconnect(fd);
	disconnect(without_hello);
}
END_TEST

/* Many new connections do not delay clients that are connected. */
START_TEST(listener__accepts_a_limited_number_per_turn)
{
	uint64_t before;
	int fds[60];

	for (unsigned i = 0; i < 60; i++)
		fds[i] = connect_with_hello();
	while (stage_control.counters.connections < 60) {
		before = stage_control.counters.connections;
		ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
		slices_run(&stage_control.slices);
		ck_assert_uint_le(stage_control.counters.connections, before + 16);
	}
	for (unsigned i = 0; i < 60; i++)
		disconnect(fds[i]);
}
END_TEST

START_TEST(listener__names_address_and_key_in_errors)
{
	struct fabric_address address;

	ck_assert_ptr_null(listen_on("127.0.0.1", listener_port(), -EADDRINUSE));
	ck_assert_ptr_nonnull(strstr(err_text(), listener->name));
	ck_assert_ptr_nonnull(strstr(err_text(), "[server] port"));
	ck_assert_int_eq(fabric_address_parse("::1", &address), 0);
	ck_assert(listener_skips(&address, -EADDRNOTAVAIL));
	ck_assert(!listener_skips(&address, -EADDRINUSE));
	ck_assert_int_eq(fabric_address_parse("127.0.0.1", &address), 0);
	ck_assert(!listener_skips(&address, -EADDRNOTAVAIL));
}
END_TEST

/* Without free descriptors the listener pauses, and accepts later. */
START_TEST(listener__accepts_later_without_descriptors)
{
	struct rlimit limit, none;
	int fd = connect_with_hello();

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 3;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	run_loop();
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_assert_uint_eq(stage_control.counters.connections, 0);
	while (!stage_control.counters.connections)
		ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
	expect(fd, WIRE_TYPE_welcome);
	disconnect(fd);
}
END_TEST

/* A listener that nobody watches would accept nobody. */
START_TEST(listener__fails_if_it_cannot_be_watched)
{
	watch_fails = true;
	ck_assert_ptr_null(listen_on("127.0.0.1", 0, -ENOMEM));
	ck_assert_ptr_nonnull(strstr(err_text(), "127.0.0.1"));
	watch_fails = false;
}
END_TEST

/* Without memory or watches of epoll the listener tries again later. */
START_TEST(listener__accepts_later_if_it_cannot_be_watched)
{
	const struct timeval at_once = { 0 };
	int fd = connect_with_hello();

	ck_assert_int_eq(event_del(listener->readable), 0);
	watch_fails = true;
	ck_assert_int_eq(event_add(listener->resume, &at_once), 0);
	run_loop();
	watch_fails = false;
	while (!stage_control.counters.connections)
		ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
	expect(fd, WIRE_TYPE_welcome);
	disconnect(fd);
}
END_TEST

/* ---- handshakes of TLS beyond the limit of connections ---- */

#define HANDSHAKES 6

static struct stream streams[HANDSHAKES];

static struct tls_context *key_context(int (*open)(struct tls_params *params,
						   struct tls_context **ret))
{
	static const uint8_t key[32] = { 1 };
	struct tls_params params = { 0 };
	struct tls_context *context;

	ck_assert_int_eq(tls_keys_of("default", key, sizeof(key), &params.keys), 0);
	ck_assert_int_eq(open(&params, &context), 0);
	return context;
}

static int open_server(struct tls_params *params, struct tls_context **ret)
{
	return tls_context_server(params, ret);
}

static int open_client(struct tls_params *params, struct tls_context **ret)
{
	return tls_context_client(params, "localhost", ret);
}

static void setup_tls(void)
{
	setup();
	stage_control.tls = key_context(open_server);
	stage_control.newcomers_max = HANDSHAKES - stage_config.connections_max;
}

static void teardown_tls(void)
{
	for (unsigned i = 0; i < HANDSHAKES; i++)
		stream_close(&streams[i]);
	run_loop();
	teardown();
	tls_context_unref(stage_control.tls);
}

/* Clients whose first messages have been sent, from addresses that rise by `step`. */
static void handshakes_begin(unsigned step)
{
	struct tls_context *context = key_context(open_client);

	for (unsigned i = 0; i < HANDSHAKES; i++) {
		int fd = connect_from(1 + i * step);

		ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
		ck_assert_int_eq(stream_tls(&streams[i], fd, context), 0);
		ck_assert_int_eq(stream_handshake(&streams[i]), -EAGAIN);
	}
	tls_context_unref(context);
}

static void run_until_connected(unsigned n)
{
	while (stage_control.counters.connections < n)
		ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
	run_loop();
}

static void run_until_refused(unsigned n)
{
	while (stage_control.counters.refused[REFUSAL_SLOT] < n) {
		ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
		slices_run(&stage_control.slices);
	}
}

static void run_until_active(unsigned n)
{
	while (sessions_in(WIRE_SESSION_ACTIVE) < n) {
		ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
		slices_run(&stage_control.slices);
	}
}

static void handshake_end(struct stream *stream)
{
	int err;

	while ((err = stream_handshake(stream)) == -EAGAIN)
		run_loop();
	ck_assert_int_eq(err, 0);
}

static void open_session_of(struct stream *stream)
{
	unsigned n = sessions_in(WIRE_SESSION_ACTIVE);
	int bytes = encode(hello(), 1);

	handshake_end(stream);
	ck_assert_int_eq((int)stream_send(stream, frame, (size_t)bytes), bytes);
	run_until_active(n + 1);
}

/* A rack comes back, behind one address or with one for each client: all get in. */
START_TEST(listener__lets_newcomers_wait_while_it_is_full)
{
	handshakes_begin((unsigned)_i);
	run_until_connected(HANDSHAKES);
	/* a slot that is left is enough */
	ck_assert_int_eq(event_del(connections->stuck), 0);
	for (unsigned i = 0; i < HANDSHAKES; i++)
		open_session_of(&streams[i]);
	ck_assert_uint_eq(stage_control.counters.connections_refused, 0);
}
END_TEST

/* Clients that begin handshakes and do nothing more keep out others for a short time. */
START_TEST(listener__ends_handshakes_that_do_not_go_on)
{
	unsigned max = stage_config.connections_max;

	handshakes_begin((unsigned)_i);
	run_until_connected(HANDSHAKES);
	ck_assert_uint_eq(stage_control.counters.connections_refused, 0);
	for (unsigned n = max; n < HANDSHAKES; n += max) {
		stage_now_ms += 300;
		run_until_refused(n);
		run_loop();
		ck_assert_uint_eq(stage_control.counters.refused[REFUSAL_SLOT], n);
	}
	for (unsigned i = HANDSHAKES - max; i < HANDSHAKES; i++)
		open_session_of(&streams[i]);
}
END_TEST

/* One address has all slots, with handshakes that do not go on, and all that wait for one: that of
 * another address gets one of each, and those that are left go on. */
START_TEST(listener__gives_each_address_its_share)
{
	struct tls_context *context = key_context(open_client);
	struct stream newcomer;
	int fd;

	handshakes_begin(0);
	run_until_connected(HANDSHAKES);
	fd = connect_from(2);
	ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	ck_assert_int_eq(stream_tls(&newcomer, fd, context), 0);
	tls_context_unref(context);
	open_session_of(&newcomer);
	/* the oldest one gave way, and the newest one had waited */
	ck_assert_uint_eq(stage_control.counters.refused[REFUSAL_SLOT], 2);
	for (unsigned i = 1; i + 1 < HANDSHAKES; i++)
		open_session_of(&streams[i]);
	stream_close(&newcomer);
}
END_TEST

/* It waits as long as it would have for its hello. */
START_TEST(listener__lets_newcomers_wait_for_a_time)
{
	struct slot *first;
	unsigned n = 0;

	handshakes_begin(0);
	run_until_connected(HANDSHAKES);
	while ((first = slots_first(&connections->slots))) {
		struct event *deadline =
			container_of(first, struct client_socket, slot)->deadline;

		ck_assert(event_pending(deadline, EV_TIMEOUT, NULL));
		event_active(deadline, EV_TIMEOUT, 0);
		run_loop();
		n++;
	}
	ck_assert_uint_eq(n, HANDSHAKES - stage_config.connections_max);
	ck_assert_uint_eq(stage_control.counters.refused[REFUSAL_SLOT], n);
}
END_TEST

/* A client that has given up costs no handshake. */
START_TEST(listener__does_not_answer_a_client_that_has_left)
{
	handshakes_begin(1);
	for (unsigned i = 0; i + 1 < HANDSHAKES; i++)
		stream_close(&streams[i]);
	run_until_connected(HANDSHAKES);
	ck_assert_uint_eq(stage_control.counters.connections_refused, 0);
	handshake_end(&streams[HANDSHAKES - 1]);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("listener", setup, teardown);

	(void)signal(SIGPIPE, SIG_IGN);
	tcase_add_test(tc, listener__acknowledges_with_its_reply);
	tcase_add_test(tc, listener__accepts);
	tcase_add_test(tc, listener__does_not_accept_before_the_first_byte);
	tcase_add_test(tc, listener__accepts_a_limited_number_per_turn);
	tcase_add_test(tc, listener__names_address_and_key_in_errors);
	tcase_add_test(tc, listener__accepts_later_without_descriptors);
	tcase_add_test(tc, listener__fails_if_it_cannot_be_watched);
	tcase_add_test(tc, listener__accepts_later_if_it_cannot_be_watched);
	tc = unit_case("handshakes", setup_tls, teardown_tls);
	tcase_add_loop_test(tc, listener__lets_newcomers_wait_while_it_is_full, 0, 2);
	tcase_add_loop_test(tc, listener__ends_handshakes_that_do_not_go_on, 0, 2);
	tcase_add_test(tc, listener__gives_each_address_its_share);
	tcase_add_test(tc, listener__lets_newcomers_wait_for_a_time);
	tcase_add_test(tc, listener__does_not_answer_a_client_that_has_left);
	return unit_main();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Control connections that a reload finds at each stage of their beginning. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>

#include "tls/context.h"
#include "tls/stream.h"
#include "unit/rmemd/control/connection-stage.h"
#include "unit/unit.h"
#include "wire/codec.h"

static const uint8_t old_key[32] = { 1 }, new_key[32] = { 2 };
static const struct fabric_address address = { .family = 4, .bytes = { 192, 0, 2, 1 } };
static struct tls_context *client_context;
static struct stream client;

static struct tls_keys *keys_of(const uint8_t key[32])
{
	struct tls_keys *keys;

	ck_assert_int_eq(tls_keys_of("default", key, 32, &keys), 0);
	return keys;
}

/* The daemon loads a file with this key alone. */
static void load(const uint8_t key[32])
{
	const struct tls_params params = { .keys = keys_of(key) };

	tls_context_unref(stage_control.tls);
	ck_assert_int_eq(tls_context_server(&params, &stage_control.tls), 0);
	connections_recheck(connections);
	run_loop();
}

static void setup(void)
{
	const struct tls_params params = { .keys = keys_of(old_key) };

	connections_setup();
	load(old_key);
	ck_assert_int_eq(tls_context_client(&params, "server", &client_context), 0);
}

static void teardown(void)
{
	stream_close(&client);
	tls_context_unref(client_context);
	run_loop();
	connections_teardown();
	tls_context_unref(stage_control.tls);
	stage_control.tls = NULL;
}

static void connect_client(void)
{
	int fds[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	ck_assert_int_eq(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
	ck_assert_int_eq(connection_accept(connections, fds[0], &address), 0);
	ck_assert_int_eq(stream_tls(&client, fds[1], client_context), 0);
}

static void send_hello(void)
{
	int bytes = encode(hello(), 1);

	(void)stream_send(&client, frame, (size_t)bytes);
	run_loop();
}

/* The beginning of a connection. */
enum stage { CONNECTED, BEGUN, HANDSHAKEN, GREETED, STAGES };

static void advance(enum stage stage)
{
	connect_client();
	if (stage >= BEGUN) {
		ck_assert_int_eq(stream_handshake(&client), -EAGAIN);
		run_loop();
	}
	if (stage >= HANDSHAKEN) {
		ck_assert_int_eq(stream_handshake(&client), 0);
		run_loop();
	}
	if (stage >= GREETED)
		send_hello();
}

/* A key does not open a session after it was removed, however far the connection was. */
START_TEST(removed_key__opens_no_session)
{
	uint8_t answer[256];
	ssize_t n;

	advance((enum stage)_i);
	ck_assert_uint_eq(sessions_count(stage_control.sessions), _i >= GREETED);
	load(new_key);
	if (stream_handshake(&client) == 0 && _i < GREETED)
		send_hello();
	ck_assert_uint_eq(sessions_count(stage_control.sessions), _i >= GREETED);
	do {
		n = stream_receive(&client, answer, sizeof(answer));
	} while (n > 0);
	/* the end of the connection */
	ck_assert_msg(n == 0 || n == -ECONNRESET || n == -EPIPE, "%zd", n);
	ck_assert_uint_eq(stage_control.counters.sessions_fenced, _i >= GREETED);
}
END_TEST

/* A client that broke the protocol is told, and its connection ends later. */
START_TEST(removed_key__ends_the_session_of_a_closed_connection)
{
	advance(GREETED);
	send_hello();
	ck_assert_uint_eq(stage_control.counters.sessions_fenced, 0);
	load(new_key);
	ck_assert_uint_eq(stage_control.counters.sessions_fenced, 1);
}
END_TEST

START_TEST(same_key__goes_on_after_a_reload)
{
	uint8_t answer[WIRE_FRAME_MAX];

	advance(GREETED);
	ck_assert_int_gt(stream_receive(&client, answer, sizeof(answer)), 0);
	load(old_key);
	ck_assert_int_eq(stream_receive(&client, answer, sizeof(answer)), -EAGAIN);
	ck_assert_uint_eq(stage_control.counters.sessions_fenced, 0);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("connection-reload", setup, teardown);

	(void)signal(SIGPIPE, SIG_IGN);
	tcase_add_loop_test(tc, removed_key__opens_no_session, CONNECTED, STAGES);
	tcase_add_test(tc, removed_key__ends_the_session_of_a_closed_connection);
	tcase_add_test(tc, same_key__goes_on_after_a_reload);
	return unit_main();
}

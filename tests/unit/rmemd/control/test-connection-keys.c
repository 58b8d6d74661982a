/* SPDX-License-Identifier: BSD-3-Clause */
/* Control connections under TLS whose keys are removed by a reload. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "tls/stream.h"
#include "rmemd/control/client_socket.h"
#include "rmemd/control/handshakes.h"
#include "unit/rmemd/control/connection-stage.h"
#include "unit/unit.h"
#include "wire/codec.h"

#define CLIENTS 20

static const uint8_t key_a[32] = { 1 }, key_b[32] = { 2 };
static struct stream streams[CLIENTS];

static struct tls_params params_of(const char *tenant, const uint8_t key[32])
{
	struct tls_params params = { 0 };

	ck_assert_int_eq(tls_keys_of(tenant, key, 32, &params.keys), 0);
	return params;
}

/* The configuration has this key alone from now on. */
static void server_key(const char *tenant, const uint8_t key[32])
{
	const struct tls_params params = params_of(tenant, key);

	tls_context_unref(stage_control.tls);
	ck_assert_int_eq(tls_context_server(&params, &stage_control.tls), 0);
}

static void setup(void)
{
	connections_setup();
	stage_config.connections_max = 2 * CLIENTS;
	stage_config.sessions_max = 2 * CLIENTS;
	for (unsigned i = 0; i < CLIENTS; i++)
		streams[i].fd = -1;
	server_key("default", key_a);
}

static void teardown(void)
{
	for (unsigned i = 0; i < CLIENTS; i++)
		stream_close(&streams[i]);
	connections_teardown();
	tls_context_unref(stage_control.tls);
}

static void connect_client(struct stream *stream, const char *tenant,
			   const uint8_t key[32])
{
	static const struct fabric_address address = { .family = 4 };
	const struct tls_params params = params_of(tenant, key);
	struct tls_context *context;
	int fds[2], err = -EAGAIN;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	ck_assert_int_eq(tls_context_client(&params, "localhost", &context), 0);
	ck_assert_int_eq(stream_tls(stream, fds[1], context), 0);
	tls_context_unref(context);
	ck_assert_int_eq(connection_accept(connections, fds[0], &address), 0);
	while (err == -EAGAIN) {
		err = stream_handshake(stream);
		run_loop();
	}
	ck_assert_int_eq(err, 0);
}

static void open_tls_session(struct stream *stream, const char *tenant)
{
	int bytes = encode(hello_of(tenant), 1);

	ck_assert_int_eq((int)stream_send(stream, frame, (size_t)bytes), bytes);
	run_loop();
}

/* The type of the next message; 0: the end. */
static enum wire_type next_type(struct stream *stream)
{
	static uint8_t msg[WIRE_FRAME_MAX];
	int bytes, n = (int)stream_receive(stream, msg, WIRE_HEADER_BYTES);

	if (n == 0)
		return 0;
	ck_assert_int_eq(n, WIRE_HEADER_BYTES);
	bytes = wire_frame_bytes(msg, WIRE_HEADER_BYTES) - WIRE_HEADER_BYTES;
	if (bytes > 0)
		ck_assert_int_eq((int)stream_receive(stream, msg + WIRE_HEADER_BYTES,
						     (size_t)bytes),
				 bytes);
	return wire_frame_type(msg);
}

static uint64_t clock_that_runs(void)
{
	return ++stage_now_ms * 1000000;
}

/* However many keys are removed, a turn of the loop is short. */
START_TEST(removed_key__ends_its_sessions_in_slices)
{
	unsigned turns = 0;

	for (unsigned i = 0; i < CLIENTS; i++) {
		connect_client(&streams[i], "default", key_a);
		open_tls_session(&streams[i], "default");
	}
	ck_assert_uint_eq(sessions_in(WIRE_SESSION_ACTIVE), CLIENTS);
	server_key("other", key_b);
	/* each look at the clock takes all the time of a turn */
	clock_set_source(clock_that_runs);
	turn_begin(&stage_control.turn, 0);
	connections_recheck(connections);
	ck_assert_uint_eq(sessions_in(WIRE_SESSION_FENCED), 0);
	for (unsigned fenced = 0; fenced < CLIENTS; turns++) {
		unsigned before = fenced;

		turn_begin(&stage_control.turn, 0);
		slices_run(&stage_control.slices);
		fenced = sessions_in(WIRE_SESSION_FENCED);
		ck_assert_uint_le(fenced, before + 1);
	}
	/* the sockets of the fenced ones have their turns between */
	ck_assert_uint_le(turns, 2 * CLIENTS);
	ck_assert_uint_eq(stage_control.counters.refused[REFUSAL_REMOVED], CLIENTS);
	stage_control.turn.running = false;
	run_loop();
	for (unsigned i = 0; i < CLIENTS; i++) {
		ck_assert_int_eq((int)next_type(&streams[i]), WIRE_TYPE_welcome);
		ck_assert_int_eq((int)next_type(&streams[i]), WIRE_TYPE_fenced);
		ck_assert_int_eq((int)next_type(&streams[i]), 0);
	}
}
END_TEST

START_TEST(other_keys__keep_their_sessions)
{
	server_key("other", key_b);
	connect_client(&streams[0], "other", key_b);
	open_tls_session(&streams[0], "other");
	server_key("other", key_b);
	connections_recheck(connections);
	run_loop();
	ck_assert_uint_eq(sessions_in(WIRE_SESSION_ACTIVE), 1);
	ck_assert_uint_eq(stage_control.counters.refused[REFUSAL_REMOVED], 0);
}
END_TEST

/* ---- by threads ---- */

static pthread_t loop;
static atomic_uint of_loop; /* calls for the daemon's ends */

int __real_stream_handshake(struct stream *stream);
int __wrap_stream_handshake(struct stream *stream);
int __wrap_stream_handshake(struct stream *stream)
{
	bool of_client = stream >= streams && stream < streams + CLIENTS;

	of_loop += !of_client && pthread_equal(pthread_self(), loop);
	return __real_stream_handshake(stream);
}

/* The daemon's end of a connection whose client has sent its first message. */
static void greet(struct stream *stream)
{
	static const struct fabric_address address = { .family = 4 };
	const struct tls_params params = params_of("default", key_a);
	struct tls_context *context;
	int fds[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	ck_assert_int_eq(tls_context_client(&params, "localhost", &context), 0);
	ck_assert_int_eq(stream_tls(stream, fds[1], context), 0);
	tls_context_unref(context);
	ck_assert_int_eq(stream_handshake(stream), -EAGAIN);
	ck_assert_int_eq(connection_accept(connections, fds[0], &address), 0);
}

START_TEST(handshake__is_not_done_by_the_loop)
{
	loop = pthread_self();
	for (unsigned i = 0; i < CLIENTS; i++)
		greet(&streams[i]);
	ck_assert_uint_eq(handshakes_under_way(connections->handshakes), CLIENTS);
	while (handshakes_under_way(connections->handshakes) > 0)
		run_loop();
	for (unsigned i = 0; i < CLIENTS; i++)
		ck_assert_int_eq(stream_handshake(&streams[i]), 0);
	ck_assert_uint_eq(of_loop, 0);
}
END_TEST

/* The end of the daemon, a reload or a stop, while threads have handshakes. */
START_TEST(handshake__may_be_under_way_at_the_end)
{
	for (unsigned i = 0; i < CLIENTS; i++)
		greet(&streams[i]);
	if (_i == 0)
		return;
	if (_i == 1) {
		server_key("default", key_b);
		connections_recheck(connections);
	} else {
		connections_drain(connections);
	}
	run_loop();
	while (handshakes_under_way(connections->handshakes) > 0)
		run_loop();
	ck_assert(connections_drained(connections));
	for (unsigned i = 0; i < CLIENTS; i++)
		ck_assert(stream_handshake(&streams[i]) < 0 ||
			  stream_receive(&streams[i], frame, 1) <= 0);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("keys", setup, teardown);

	(void)signal(SIGPIPE, SIG_IGN);
	tcase_add_test(tc, removed_key__ends_its_sessions_in_slices);
	tcase_add_test(tc, other_keys__keep_their_sessions);
	tcase_add_test(tc, handshake__is_not_done_by_the_loop);
	tcase_add_loop_test(tc, handshake__may_be_under_way_at_the_end, 0, 3);
	return unit_main();
}

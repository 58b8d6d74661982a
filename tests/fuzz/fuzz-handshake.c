/* SPDX-License-Identifier: BSD-3-Clause */
/* Control connections of a daemon that asks for pre-shared keys: any bytes in any pieces instead of
 * a handshake, or a client's own with changed bytes, and keys that are removed meanwhile, beside an
 * honest client, which is served.  Without the key there is no session. */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz/target.h"
#include "fuzz/tls-kit.h"
#include "tls/stream.h"
#include "unit/rmemd/control/connection-stage.h"
#include "wire/codec.h"

#define PEERS 3
#define PEERS_LAST 1
#define HONEST_LAST 2
#define STEPS_MAX 48
#define TRIES 10u

const unsigned fuzz_rounds = 400;

/* The first byte of a step; the next one is the peer. */
enum step {
	STEP_SEND,   /* any bytes */
	STEP_CLIENT, /* a client with a key begins its handshake */
	STEP_PASS,   /* what the client has sent, and what it is sent */
	STEP_CHANGE, /* with one byte changed */
	STEP_HELLO,  /* the client says hello, without the last bytes */
	STEP_END,    /* the peer sends nothing more */
	STEP_CLOSE,
	STEP_REMOVE, /* the key of the peers is removed, or accepted again */
	STEPS,
};

/* The honest client's key, that of the peers, and one that the daemon never has. */
enum key { KEY_HONEST, KEY_PEERS, KEY_STRANGER };

/* Someone at a control connection; with a client its bytes pass through the input. */
static struct peer {
	int fd; /* -1: none */
	int wire;
	struct stream client; /* closed: none */
	bool stranger;
} peers[PEERS];
static struct stream honest;
static struct tls_context
	*contexts[2]; /* the daemon's: with the key of the peers, and without */
static struct tls_context *clients[TLS_KIT_KEYS];
static bool removed;

/* From 127.0.0.LAST.  The peers have one address, and the honest client another one, so that it
 * gets a place whatever they do. */
static int accepted(uint8_t last)
{
	const struct fabric_address address = { .family = 4,
						.bytes = { 127, 0, 0, last } };
	int fds[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	ck_assert_int_eq(connection_accept(connections, fds[1], &address), 0);
	run_loop();
	return fds[0];
}

/* ---- the honest client ---- */

/* Whether a request gets an answer of this type. */
static bool honest_request(struct wire_msg *msg, enum wire_type expected)
{
	static uint8_t answer[WIRE_FRAME_MAX];
	int bytes = encode(msg, 1);

	if ((int)stream_send(&honest, frame, (size_t)bytes) != bytes)
		return false;
	run_loop();
	bytes = (int)stream_receive(&honest, answer, sizeof(answer));
	return bytes >= WIRE_HEADER_BYTES && wire_frame_type(answer) == expected;
}

static bool honest_try(void)
{
	int err;

	ck_assert_int_eq(
		stream_tls(&honest, accepted(HONEST_LAST), clients[KEY_HONEST]), 0);
	while ((err = stream_handshake(&honest)) == -EAGAIN)
		run_loop();
	run_loop();
	return !err && honest_request(hello(), WIRE_TYPE_welcome);
}

/* On a machine that is busy the daemon's deadline may pass. */
static void honest_open(void)
{
	unsigned tries = 0;

	while (!honest_try()) {
		ck_assert_uint_lt(++tries, TRIES);
		stream_close(&honest);
		run_loop();
	}
}

/* ---- peers ---- */

static void peer_close(struct peer *peer)
{
	stream_close(&peer->client);
	if (peer->wire >= 0)
		(void)close(peer->wire);
	if (peer->fd >= 0)
		(void)close(peer->fd);
	peer->fd = peer->wire = -1;
	run_loop();
}

static void peer_send(struct peer *peer, const uint8_t *data, size_t bytes)
{
	if (peer->fd < 0)
		peer->fd = accepted(PEERS_LAST);
	if (bytes > 0 && send(peer->fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		peer_close(peer);
	run_loop();
}

static void peer_handshake(struct peer *peer, bool stranger)
{
	int fds[2];

	peer_close(peer);
	peer->fd = accepted(PEERS_LAST);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	peer->wire = fds[1];
	peer->stranger = stranger;
	ck_assert_int_eq(stream_tls(&peer->client, fds[0],
				    clients[stranger ? KEY_STRANGER : KEY_PEERS]),
			 0);
	(void)stream_handshake(&peer->client);
}

/* What the daemon has sent goes to the client, which acts on it. */
static void client_turn(struct peer *peer)
{
	static uint8_t data[WIRE_FRAME_MAX];
	ssize_t n = recv(peer->fd, data, sizeof(data), MSG_DONTWAIT);

	if (n > 0)
		(void)send(peer->wire, data, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (stream_handshake(&peer->client) == 0)
		(void)stream_receive(&peer->client, data, sizeof(data));
}

static void relay(struct fuzz_input *input, struct peer *peer, bool change)
{
	static uint8_t data[WIRE_FRAME_MAX];
	ssize_t n;

	if (peer->wire < 0)
		return;
	n = recv(peer->wire, data, sizeof(data), MSG_DONTWAIT);
	if (n > 0 && change)
		data[fuzz_number(input, 2) % (size_t)n] ^=
			(uint8_t)fuzz_number(input, 1);
	if (n > 0)
		peer_send(peer, data, (size_t)n);
	if (peer->wire >= 0)
		client_turn(peer);
}

static void say_hello(struct fuzz_input *input, struct peer *peer)
{
	size_t bytes = (size_t)encode(hello(), 1), cut = fuzz_number(input, 1);

	if (peer->wire >= 0 && peer->client.handshaken)
		(void)stream_send(&peer->client, frame,
				  cut < bytes ? bytes - cut : bytes);
}

static void keys_change(void)
{
	removed = !removed;
	tls_context_unref(stage_control.tls);
	stage_control.tls = tls_context_ref(contexts[removed]);
	connections_recheck(connections);
	run_loop();
}

static uint64_t sessions_active(void)
{
	return stage_control.counters.sessions_opened -
	       stage_control.counters.sessions_fenced;
}

static void step_run(struct fuzz_input *input)
{
	enum step step = (enum step)(fuzz_number(input, 1) % STEPS);
	struct peer *peer = &peers[fuzz_number(input, 1) % PEERS];
	const uint8_t *data;
	size_t n;

	switch (step) {
	case STEP_SEND:
		data = fuzz_bytes(input, fuzz_number(input, 2), &n);
		peer_send(peer, data, n);
		break;
	case STEP_CLIENT:
		peer_handshake(peer, fuzz_number(input, 1) % 4 == 0);
		break;
	case STEP_PASS:
	case STEP_CHANGE:
		relay(input, peer, step == STEP_CHANGE);
		break;
	case STEP_HELLO:
		say_hello(input, peer);
		break;
	case STEP_END:
		if (peer->fd >= 0)
			(void)shutdown(peer->fd, SHUT_WR);
		run_loop();
		break;
	case STEP_CLOSE:
		peer_close(peer);
		break;
	case STEP_REMOVE:
		keys_change();
		break;
	case STEPS:
		break;
	}
	/* that of the honest client */
	if (removed)
		ck_assert_uint_eq(sessions_active(), 1);
	for (unsigned i = 0; i < PEERS; i++)
		ck_assert(!peers[i].stranger || !peers[i].client.ssl ||
			  !peers[i].client.handshaken);
}

static void contexts_make(void)
{
	if (contexts[0])
		return;
	contexts[0] = tls_kit_server(KEY_HONEST, 2);
	contexts[1] = tls_kit_server(KEY_HONEST, 1);
	for (unsigned i = 0; i < TLS_KIT_KEYS; i++)
		clients[i] = tls_kit_client(i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };

	/* as the daemon does */
	(void)signal(SIGPIPE, SIG_IGN);
	contexts_make();
	fuzz_random_reset();
	tls_random_reset();
	connections_setup();
	stage_control.tls = tls_context_ref(contexts[0]);
	removed = false;
	honest_open();
	for (unsigned i = 0; i < PEERS; i++)
		peers[i] = (struct peer){ .fd = -1, .wire = -1, .client.fd = -1 };
	for (unsigned i = 0; i < STEPS_MAX && input.left > 0; i++)
		step_run(&input);
	ck_assert(honest_request(message(WIRE_TYPE_ping), WIRE_TYPE_ok));
	stream_close(&honest);
	run_loop();
	for (unsigned i = 0; i < PEERS; i++)
		peer_close(&peers[i]);
	connections_teardown();
	tls_context_unref(stage_control.tls);
	stage_control.tls = NULL;
	return 0;
}

/* ---- valid inputs ---- */

static struct fuzz_output *out;

static void put_step(enum step step, unsigned peer)
{
	fuzz_put(out, step, 1);
	fuzz_put(out, peer, 1);
}

static void put_client(unsigned peer, bool stranger)
{
	put_step(STEP_CLIENT, peer);
	fuzz_put(out, !stranger, 1);
}

static void put_handshake(unsigned peer)
{
	put_client(peer, false);
	put_step(STEP_PASS, peer);
	put_step(STEP_PASS, peer);
}

static void put_hello(unsigned peer, unsigned cut)
{
	put_step(STEP_HELLO, peer);
	fuzz_put(out, cut, 1);
	put_step(STEP_PASS, peer);
}

static void seed_session(void)
{
	put_handshake(0);
	put_hello(0, 0);
	put_step(STEP_REMOVE, 0);
	put_step(STEP_PASS, 0);
	put_handshake(1);
	put_step(STEP_CLOSE, 1);
}

static void seed_removed(void)
{
	put_client(0, false);
	put_handshake(1);
	put_step(STEP_REMOVE, 0);
	put_step(STEP_PASS, 0);
	put_hello(1, 0);
}

static void seed_strangers(void)
{
	static const uint8_t record[] = { 22, 3, 1, 0, 5, 1, 0, 0, 1, 3 };

	put_client(0, true);
	put_step(STEP_PASS, 0);
	put_step(STEP_PASS, 0);
	put_step(STEP_SEND, 1);
	fuzz_put(out, sizeof(record), 2);
	fuzz_put_bytes(out, record, sizeof(record));
	put_handshake(2);
	put_hello(2, 9);
	put_client(1, false);
	put_step(STEP_CHANGE, 1);
	fuzz_put(out, 60, 2);
	fuzz_put(out, 1, 1);
	put_step(STEP_END, 2);
}

/* A hello without TLS, which is told what to do. */
static void seed_plain(void)
{
	size_t bytes = (size_t)encode(hello(), 1);

	put_step(STEP_SEND, 0);
	fuzz_put(out, bytes, 2);
	fuzz_put_bytes(out, frame, bytes);
}

size_t fuzz_seed(uint8_t *input, size_t max, unsigned which)
{
	static void (*const seeds[])(void) = { seed_session, seed_removed,
					       seed_strangers, seed_plain };
	struct fuzz_output output = { input, 0, max };

	if (which >= sizeof(seeds) / sizeof(seeds[0]))
		return 0;
	out = &output;
	seeds[which]();
	return output.used;
}

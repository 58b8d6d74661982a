/* SPDX-License-Identifier: BSD-3-Clause */
/* Control connections over sockets: any bytes in any pieces, from clients that read late, never or
 * not at all, beside an honest client, which is served.  At the end nothing is left. */
#include <check.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz/target.h"
#include "unit/rmemd/control/connection-stage.h"
#include "wire/codec.h"

#define PEERS 3
#define PEERS_LAST 1
#define HONEST_LAST 2
#define STEPS_MAX 48

const unsigned fuzz_rounds = 3000;

/* The first byte of a step. */
enum step {
	STEP_SEND,   /* any bytes */
	STEP_HELLO,  /* a hello of a new session, without its last bytes */
	STEP_REPEAT, /* the bytes again, many times */
	STEP_READ,
	STEP_END, /* the client sends nothing more */
	STEP_CLOSE,
	STEPS,
};

static int peers[PEERS];

static void peer_close(unsigned i)
{
	if (peers[i] >= 0)
		(void)close(peers[i]);
	peers[i] = -1;
	run_loop();
}

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

static void peer_send(unsigned i, const void *data, size_t bytes)
{
	if (peers[i] < 0)
		peers[i] = accepted(PEERS_LAST);
	if (bytes > 0 && send(peers[i], data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		peer_close(i);
	run_loop();
}

static void peer_read(unsigned i)
{
	static uint8_t sink[WIRE_FRAME_MAX];
	ssize_t n = 1;

	while (peers[i] >= 0 && n > 0)
		n = recv(peers[i], sink, sizeof(sink), MSG_DONTWAIT);
	if (n == 0)
		peer_close(i);
	run_loop();
}

static void step_send(struct fuzz_input *input, unsigned i, unsigned times)
{
	size_t n;
	const uint8_t *data = fuzz_bytes(input, fuzz_number(input, 2), &n);

	for (; times > 0; times--)
		peer_send(i, data, n);
}

static void step_hello(struct fuzz_input *input, unsigned i)
{
	size_t bytes = (size_t)encode(hello(), 1), cut = fuzz_number(input, 1);

	peer_send(i, frame, cut < bytes ? bytes - cut : bytes);
}

static void step_run(struct fuzz_input *input)
{
	enum step step = (enum step)(fuzz_number(input, 1) % STEPS);
	unsigned i = (unsigned)fuzz_number(input, 1) % PEERS;

	switch (step) {
	case STEP_SEND:
		step_send(input, i, 1);
		break;
	case STEP_HELLO:
		step_hello(input, i);
		break;
	case STEP_REPEAT:
		step_send(input, i, (unsigned)fuzz_number(input, 1));
		break;
	case STEP_READ:
		peer_read(i);
		break;
	case STEP_END:
		if (peers[i] >= 0)
			(void)shutdown(peers[i], SHUT_WR);
		run_loop();
		break;
	case STEP_CLOSE:
		peer_close(i);
		break;
	case STEPS:
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };
	int honest;

	fuzz_random_reset();
	/* as the daemon does */
	(void)signal(SIGPIPE, SIG_IGN);
	connections_setup();
	honest = accepted(HONEST_LAST);
	open_session(honest);
	memset(peers, -1, sizeof(peers));
	for (unsigned i = 0; i < STEPS_MAX && input.left > 0; i++)
		step_run(&input);
	request(honest, message(WIRE_TYPE_ping), 2, WIRE_TYPE_ok);
	disconnect(honest);
	for (unsigned i = 0; i < PEERS; i++)
		peer_close(i);
	connections_teardown();
	return 0;
}

/* ---- valid inputs ---- */

static struct fuzz_output *out;

static void put_step(enum step step, unsigned peer)
{
	fuzz_put(out, step, 1);
	fuzz_put(out, peer, 1);
}

static void put_hello(unsigned peer, unsigned cut)
{
	put_step(STEP_HELLO, peer);
	fuzz_put(out, cut, 1);
}

/* A ping with the id 2, often; `repeat` 0: once. */
static void put_ping(unsigned peer, unsigned repeat)
{
	static const uint8_t ping[] = {
		16, 0, 0, 0, WIRE_TYPE_ping, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0
	};

	put_step(repeat ? STEP_REPEAT : STEP_SEND, peer);
	if (repeat)
		fuzz_put(out, repeat, 1);
	fuzz_put(out, sizeof(ping), 2);
	fuzz_put_bytes(out, ping, sizeof(ping));
}

static void seed_session(void)
{
	put_hello(0, 0);
	put_ping(0, 0);
	put_step(STEP_READ, 0);
	put_ping(0, 200);
	put_step(STEP_END, 0);
}

static void seed_strangers(void)
{
	put_hello(0, 9);
	put_hello(1, 0);
	put_ping(1, 255);
	put_step(STEP_CLOSE, 1);
	put_ping(2, 0);
	put_step(STEP_READ, 2);
}

size_t fuzz_seed(uint8_t *input, size_t max, unsigned which)
{
	static void (*const seeds[])(void) = { seed_session, seed_strangers };
	struct fuzz_output output = { input, 0, max };

	if (which >= sizeof(seeds) / sizeof(seeds[0]))
		return 0;
	out = &output;
	seeds[which]();
	return output.used;
}

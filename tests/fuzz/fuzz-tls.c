/* SPDX-License-Identifier: BSD-3-Clause */
/* Both sides of a TLS stream (src/tls), which meet through the input: it passes on, changes, adds
 * and drops bytes in both directions.  Sides that both end the handshake know each other, and each
 * receives only what the other has sent. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "fuzz/target.h"
#include "fuzz/tls-kit.h"
#include "tls/stream.h"

#define STEPS_MAX 48
#define WIRE_BYTES 65536

const unsigned fuzz_rounds = 1500;

/* The first byte of a step; its next byte is the side. */
enum step {
	STEP_ALL,    /* pass on what the side has sent */
	STEP_SOME,   /* a part of it */
	STEP_CHANGE, /* with one byte changed */
	STEP_DROP,   /* nothing of it */
	STEP_ADD,    /* any bytes */
	STEP_SEND,   /* the side sends data */
	STEP_END,    /* the side ends the stream */
	STEPS,
};

enum mode { MODE_KEY, MODE_CERTIFICATES, MODE_OTHER_KEY, MODE_KEY_OF_NONE, MODES };

struct side {
	struct stream stream;
	int wire; /* the input's end of its socket */
	bool failed;
	uint8_t sent[WIRE_BYTES]; /* data */
	size_t n_sent, n_received;
};

static struct side sides[2]; /* server, client */

/* ---- contexts ---- */

static struct tls_context *with_certificate(const char *name, bool server)
{
	struct tls_context *context;
	char own[80], ca[80];
	const struct tls_params params = { .certificate = own, .ca = ca };

	(void)snprintf(own, sizeof(own), "%s/%s.pem", tls_kit_folder(), name);
	(void)snprintf(ca, sizeof(ca), "%s/ca.pem", tls_kit_folder());
	ck_assert_int_eq(server ? tls_context_server(&params, &context)
				: tls_context_client(&params, "server", &context),
			 0);
	return context;
}

static struct tls_context *context_of(enum mode mode, bool server)
{
	static struct tls_context *contexts[MODES][2];
	struct tls_context **at = &contexts[mode][server];

	if (*at)
		return *at;
	if (mode == MODE_CERTIFICATES || (mode == MODE_KEY_OF_NONE && server))
		*at = with_certificate(server ? "server" : "client", server);
	else if (server)
		*at = tls_kit_server(0, 2);
	else
		*at = tls_kit_client(mode == MODE_OTHER_KEY ? 2 : 1);
	return *at;
}

static void sides_open(enum mode mode)
{
	for (unsigned i = 0; i < 2; i++) {
		int pair[2];

		sides[i].failed = false;
		sides[i].n_sent = sides[i].n_received = 0;
		ck_assert_int_eq(
			socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
		sides[i].wire = pair[1];
		ck_assert_int_eq(
			stream_tls(&sides[i].stream, pair[0], context_of(mode, i == 0)),
			0);
	}
}

static void sides_close(void)
{
	for (unsigned i = 0; i < 2; i++) {
		stream_close(&sides[i].stream);
		(void)close(sides[i].wire);
	}
}

/* ---- a side's own turn ---- */

static void failure(struct side *side, ssize_t err)
{
	ck_assert_int_ne(err, 0);
	if (err == -EAGAIN)
		return;
	ck_assert_int_ne(err_text()[0], '\0');
	side->failed = true;
}

/* What comes out is what the other side has put in. */
static void receive(unsigned i)
{
	struct side *side = &sides[i], *other = &sides[!i];
	static uint8_t data[WIRE_BYTES];
	ssize_t n;

	while ((n = stream_receive(&side->stream, data, sizeof(data))) > 0) {
		ck_assert_uint_le(side->n_received + (size_t)n, other->n_sent);
		ck_assert(memcmp(data, other->sent + side->n_received, (size_t)n) == 0);
		side->n_received += (size_t)n;
	}
	if (n < 0)
		failure(side, n);
	else
		side->failed = true;
}

static void turn(unsigned i)
{
	struct side *side = &sides[i];
	int err;

	if (side->failed)
		return;
	err_clear();
	err = stream_handshake(&side->stream);
	if (err)
		failure(side, err);
	else
		receive(i);
}

static void check_sides(enum mode mode)
{
	char tenant[TLS_TENANT_MAX + 1];

	if (!sides[0].stream.handshaken || !sides[1].stream.handshaken)
		return;
	ck_assert(mode == MODE_KEY || mode == MODE_CERTIFICATES);
	ck_assert(stream_tenant(&sides[0].stream, tenant) == (mode == MODE_KEY));
	ck_assert(mode != MODE_KEY || strcmp(tenant, "default") == 0);
	ck_assert(mode == MODE_KEY ||
		  stream_certified_as(&sides[0].stream, "dns:client"));
}

/* ---- steps ---- */

static void wire_send(unsigned to, const uint8_t *data, size_t bytes)
{
	if (bytes > 0)
		(void)send(sides[to].wire, data, bytes, MSG_NOSIGNAL);
	turn(to);
}

static void step_pass(struct fuzz_input *input, unsigned from, enum step step)
{
	static uint8_t data[WIRE_BYTES];
	size_t room = step == STEP_SOME ? 1 + fuzz_number(input, 1) : sizeof(data);
	ssize_t n = recv(sides[from].wire, data, room, MSG_DONTWAIT);
	size_t at;

	if (n <= 0) {
		turn(from);
		return;
	}
	if (step == STEP_DROP)
		return;
	if (step == STEP_CHANGE) {
		at = fuzz_number(input, 2) % (size_t)n;
		data[at] ^= (uint8_t)fuzz_number(input, 1);
	}
	wire_send(!from, data, (size_t)n);
}

static void step_send(struct fuzz_input *input, unsigned i)
{
	struct side *side = &sides[i];
	size_t bytes = 1 + fuzz_number(input, 2) % 4096;
	ssize_t n;

	if (side->failed || !side->stream.handshaken ||
	    side->n_sent + bytes > sizeof(side->sent))
		return;
	memset(side->sent + side->n_sent, (int)fuzz_number(input, 1), bytes);
	n = stream_send(&side->stream, side->sent + side->n_sent, bytes);
	if (n > 0)
		side->n_sent += (size_t)n;
	else
		failure(side, n);
}

static void step_run(struct fuzz_input *input)
{
	enum step step = (enum step)(fuzz_number(input, 1) % STEPS);
	unsigned i = (unsigned)fuzz_number(input, 1) % 2;
	const uint8_t *data;
	size_t n;

	switch (step) {
	case STEP_ADD:
		data = fuzz_bytes(input, fuzz_number(input, 2), &n);
		wire_send(i, data, n);
		break;
	case STEP_SEND:
		step_send(input, i);
		break;
	case STEP_END:
		if (!sides[i].failed)
			stream_end(&sides[i].stream);
		sides[i].failed = true;
		break;
	default:
		step_pass(input, i, step);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };
	enum mode mode = (enum mode)(fuzz_number(&input, 1) % MODES);

	/* made before the sequence begins */
	(void)context_of(mode, true);
	(void)context_of(mode, false);
	tls_random_reset();
	sides_open(mode);
	turn(1);
	for (unsigned i = 0; i < STEPS_MAX && input.left > 0; i++) {
		step_run(&input);
		check_sides(mode);
	}
	sides_close();
	return 0;
}

/* ---- valid inputs ---- */

static void put_step(struct fuzz_output *output, enum step step, unsigned side)
{
	fuzz_put(output, step, 1);
	fuzz_put(output, side, 1);
}

static void put_data(struct fuzz_output *output, unsigned side)
{
	put_step(output, STEP_SEND, side);
	fuzz_put(output, 700, 2);
	fuzz_put(output, side + 1, 1);
}

size_t fuzz_seed(uint8_t *input, size_t max, unsigned which)
{
	struct fuzz_output output = { input, 0, max };

	if (which >= MODES)
		return 0;
	fuzz_put(&output, which, 1);
	put_step(&output, STEP_ALL, 1);
	put_step(&output, STEP_ALL, 0);
	put_step(&output, STEP_ALL, 1);
	for (unsigned side = 0; side < 2; side++)
		put_data(&output, side);
	put_step(&output, STEP_SOME, 0);
	fuzz_put(&output, 30, 1);
	put_step(&output, STEP_ALL, 0);
	put_step(&output, STEP_ALL, 1);
	put_step(&output, STEP_END, 1);
	put_step(&output, STEP_ALL, 1);
	return output.used;
}

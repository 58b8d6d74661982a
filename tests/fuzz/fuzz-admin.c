/* SPDX-License-Identifier: BSD-3-Clause */
/* The admin interface over a socket: any bytes of several connections, in any pieces, from peers
 * that read slowly or close.  What is answered is HTTP, and a valid request is served after. */
#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz/target.h"
#include "unit/rmemd/admin/admin-stage.h"

#define PEERS 3
#define STEPS_MAX 48
#define TURNS_MAX 64

const unsigned fuzz_rounds = 1500;

/* The first byte of a step. */
enum step {
	STEP_SEND,    /* any bytes */
	STEP_REQUEST, /* a request for a resource */
	STEP_READ,    /* what has come */
	STEP_CLOSE,
	STEP_SESSIONS, /* the number of sessions and leases changes */
	STEPS,
};

static int peers[PEERS] = { -1, -1, -1 };
static bool answered[PEERS]; /* the peer has read something */

static void loop_run(void)
{
	for (unsigned i = 0; i < TURNS_MAX; i++)
		ck_assert_int_ge(event_base_loop(base, EVLOOP_NONBLOCK), 0);
}

static void peer_close(unsigned i)
{
	if (peers[i] >= 0)
		(void)close(peers[i]);
	peers[i] = -1;
	loop_run();
}

static int peer_open(unsigned i)
{
	if (peers[i] < 0) {
		peers[i] = connect_client();
		answered[i] = false;
		ck_assert_int_ge(peers[i], 0);
		loop_run();
	}
	return peers[i];
}

static void peer_send(unsigned i, const void *data, size_t bytes)
{
	int fd = peer_open(i);

	/* the server may have closed it */
	if (send(fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		peer_close(i);
	loop_run();
}

static void peer_read(unsigned i)
{
	ssize_t n;

	if (peers[i] < 0)
		return;
	while ((n = recv(peers[i], reply, sizeof(reply) - 1, MSG_DONTWAIT)) > 0) {
		reply[n] = '\0';
		if (!answered[i])
			ck_assert_int_eq(strncmp(reply, "HTTP/1.", 7), 0);
		answered[i] = true;
		loop_run();
	}
	if (n == 0)
		peer_close(i);
}

static void step_send(struct fuzz_input *input, unsigned i)
{
	size_t n;
	const uint8_t *data = fuzz_bytes(input, fuzz_number(input, 2), &n);

	peer_send(i, data, n);
}

static void step_request(struct fuzz_input *input, unsigned i)
{
	static const char *const resources[] = { "/v1/status",  "/v1/pools",
						 "/v1/devices", "/v1/sessions",
						 "/v1/leases",  "/v1/tenants",
						 "/metrics" };
	static const char *const methods[] = { "GET", "HEAD", "POST", "DELETE" };
	unsigned which = (unsigned)fuzz_number(input, 1);
	char text[128];

	(void)snprintf(text, sizeof(text), "%s %s HTTP/1.%u\r\n%s\r\n",
		       methods[which / 7 % 4], resources[which % 7], which / 28 % 2,
		       which & 0x80 ? "Content-Length: 3\r\n" : "");
	peer_send(i, text, strlen(text));
}

static void step_run(struct fuzz_input *input)
{
	enum step step = (enum step)(fuzz_number(input, 1) % STEPS);
	unsigned i = (unsigned)fuzz_number(input, 1);

	switch (step) {
	case STEP_SEND:
		step_send(input, i % PEERS);
		break;
	case STEP_REQUEST:
		step_request(input, i % PEERS);
		break;
	case STEP_READ:
		peer_read(i % PEERS);
		break;
	case STEP_CLOSE:
		peer_close(i % PEERS);
		break;
	case STEP_SESSIONS:
		n_sessions = n_ephemeral = i;
		break;
	case STEPS:
		break;
	}
}

/* One daemon for all inputs. */
static void admin_prepare(void)
{
	static const struct tenant_params params = { .name = "default" };
	static bool ready;

	if (ready)
		return;
	ready = true;
	/* as the daemon does */
	(void)signal(SIGPIPE, SIG_IGN);
	tenants_init(&tenants);
	ck_assert_int_eq(tenants_set(&tenants, &params, 1), 0);
	admin_setup();
	(void)atexit(admin_teardown);
	open_admin();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };

	admin_prepare();
	n_sessions = 2;
	n_ephemeral = 1;
	for (unsigned i = 0; i < STEPS_MAX && input.left > 0; i++)
		step_run(&input);
	for (unsigned i = 0; i < PEERS; i++)
		peer_close(i);
	ck_assert_int_eq(request("GET", "/v1/leases"), 200);
	(void)body();
	return 0;
}

/* ---- valid inputs ---- */

static struct fuzz_output *out;

static void put(unsigned number)
{
	fuzz_put(out, number, 1);
}

static void put_step(enum step step, unsigned peer)
{
	put(step);
	put(peer);
}

static void put_text(unsigned peer, const char *text)
{
	put_step(STEP_SEND, peer);
	fuzz_put(out, strlen(text), 2);
	fuzz_put_bytes(out, text, strlen(text));
}

static void seed_resources(void)
{
	for (unsigned which = 0; which < 48; which += 5) {
		put_step(STEP_REQUEST, which % PEERS);
		put(which);
		put_step(STEP_READ, which % PEERS);
	}
}

static void seed_lists(void)
{
	put_step(STEP_SESSIONS, 200);
	for (unsigned which = 3; which < 5; which++) {
		put_step(STEP_REQUEST, which % PEERS);
		put(which + 24);
		put_step(STEP_READ, which % PEERS);
		put_step(STEP_REQUEST, which % PEERS);
		put(which);
		put_step(STEP_CLOSE, which % PEERS);
	}
}

static void seed_texts(void)
{
	put_text(0, "GET /v1/status?a=b HTTP/1.1\r\nHost: a\r\n");
	put_text(0, "Connection: keep-alive\r\n\r\nPUT / HTTP/1.1\r\n\r\n");
	put_text(1, "POST /v1/pools HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
		    "3\r\nabc\r\n0\r\n\r\n");
	put_text(2, "POST /v1/pools HTTP/1.1\r\nContent-Length: 99999999999\r\n"
		    "Expect: 100-continue\r\n\r\nabc");
	put_step(STEP_READ, 0);
	put_step(STEP_READ, 1);
	put_text(1, "GET http://h:1/%zz/../v1/leases#x HTTP/9.9\nA:b\n c\n\n");
}

size_t fuzz_seed(uint8_t *input, size_t max, unsigned which)
{
	static void (*const seeds[])(void) = { seed_resources, seed_lists, seed_texts };
	struct fuzz_output output = { input, 0, max };

	if (which >= sizeof(seeds) / sizeof(seeds[0]))
		return 0;
	out = &output;
	seeds[which]();
	return output.used;
}

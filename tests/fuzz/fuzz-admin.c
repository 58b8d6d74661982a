/* SPDX-License-Identifier: BSD-3-Clause */
/* The admin interface over a socket: any bytes of several connections, in any pieces, from peers
 * that read slowly or close.  What is answered is HTTP, and a valid request is served after. */
#include <check.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
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
	STEP_QUERY,    /* a request for a list or an action, with parameters */
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

/* The version may be that of the request. */
static void check_status_line(void)
{
	unsigned major, minor, status;

	ck_assert_int_eq(sscanf(reply, "HTTP/%u.%u %3u ", &major, &minor, &status), 3);
	ck_assert(status >= 100 && status < 600);
}

static void peer_read(unsigned i)
{
	ssize_t n;

	if (peers[i] < 0)
		return;
	while ((n = recv(peers[i], reply, sizeof(reply) - 1, MSG_DONTWAIT)) > 0) {
		reply[n] = '\0';
		if (!answered[i])
			check_status_line();
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

/* ---- queries ---- */

#define PARAMETERS_MAX 4

static const char *const lists_and_actions[] = {
	"/v1/sessions", "/v1/leases", "/v1/events",  "/v1/log-level", "/v1/reload",
	"/v1/kick",     "/v1/drain",  "/v1/undrain", "/v1/revoke",    "/v1/extents",
};
#define N_LISTS_AND_ACTIONS (sizeof(lists_and_actions) / sizeof(lists_and_actions[0]))

static const char *const parameters[] = { "tenant",      "name",  "session",
					  "older_ms",    "after", "attached",
					  "follow",      "level", "lease",
					  "deadline_ms", "x" };
#define N_PARAMETERS (sizeof(parameters) / sizeof(parameters[0]))

static const char *const values[] = {
	"",         "no",
	"yes",      "*",
	"[!a-z]*?", "data%20%26%207",
	"both",     "red",
	"info",     "18446744073709551615",
	"31",       "%ff",
	"%00",
};
#define N_VALUES (sizeof(values) / sizeof(values[0]))

enum value_kind { VALUE_KNOWN, VALUE_NUMBER, VALUE_TEXT, VALUE_KINDS };

/* Bytes that end neither the line nor the query. */
static void text_append(struct fuzz_input *input, char *query, size_t used, size_t max)
{
	size_t n;
	const uint8_t *data = fuzz_bytes(input, fuzz_number(input, 1), &n);

	for (size_t i = 0; i < n && used + 1 < max; i++)
		if (data[i] > ' ' && data[i] != '#')
			query[used++] = (char)data[i];
	query[used] = '\0';
}

/* NAME=VALUE, behind those that are there. */
static void parameter_append(struct fuzz_input *input, char *query, size_t max)
{
	unsigned kind = (unsigned)(fuzz_number(input, 1) % VALUE_KINDS);
	size_t used = strlen(query);

	used += (size_t)snprintf(query + used, max - used, "%c%s=", used ? '&' : '?',
				 parameters[fuzz_number(input, 1) % N_PARAMETERS]);
	switch ((enum value_kind)kind) {
	case VALUE_KNOWN:
		(void)snprintf(query + used, max - used, "%s",
			       values[fuzz_number(input, 1) % N_VALUES]);
		break;
	case VALUE_NUMBER:
		(void)snprintf(query + used, max - used, "%" PRIu64,
			       fuzz_number(input, 8));
		break;
	case VALUE_TEXT:
	case VALUE_KINDS:
		text_append(input, query, used, max);
		break;
	}
}

static void step_query(struct fuzz_input *input, unsigned i)
{
	bool post = fuzz_number(input, 1) & 1;
	uint64_t which = fuzz_number(input, 1) % N_LISTS_AND_ACTIONS;
	unsigned n = (unsigned)(fuzz_number(input, 1) % (PARAMETERS_MAX + 1));
	char query[PARAMETERS_MAX * 300] = "", text[sizeof(query) + 64];

	for (unsigned k = 0; k < n; k++)
		parameter_append(input, query, sizeof(query));
	(void)snprintf(text, sizeof(text), "%s %s%s HTTP/1.1\r\n\r\n",
		       post ? "POST" : "GET", lists_and_actions[which], query);
	peer_send(i, text, strlen(text));
}

/* ---- an input ---- */

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
	case STEP_QUERY:
		step_query(input, i % PEERS);
		break;
	case STEPS:
		break;
	}
}

/* The line is made, and goes nowhere: those of actions are many. */
static void line_drop(int, const char *, const struct log_ctx *, const char *)
{
}

/* What an action has changed is as before. */
static void acts_undo(void)
{
	log_set_level(LOG_NOTICE);
	n_reloads = 0;
	ck_assert_int_eq(request("POST", "/v1/undrain"), 200);
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
	log_set_sink(line_drop);
	acts_undo();
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
	acts_undo();
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

/* One parameter: a known value, a number or a text. */
static void put_query(bool post, unsigned resource, unsigned name, enum value_kind kind,
		      unsigned value)
{
	put_step(STEP_QUERY, 0);
	put(post);
	put(resource);
	put(1);
	put(kind);
	put(name);
	fuzz_put(out, value, kind == VALUE_NUMBER ? 8 : 1);
	put_step(STEP_READ, 0);
}

static void seed_filters(void)
{
	for (unsigned name = 0; name < N_PARAMETERS; name++) {
		put_query(false, name % 3, name, VALUE_KNOWN, name + 1);
		put_query(false, name % 3, name, VALUE_NUMBER, name);
	}
}

static void seed_acts(void)
{
	for (unsigned resource = 3; resource < N_LISTS_AND_ACTIONS; resource++)
		for (unsigned value = 3; value < N_VALUES; value += 4)
			put_query(true, resource, resource, VALUE_KNOWN, value);
}

size_t fuzz_seed(uint8_t *input, size_t max, unsigned which)
{
	static void (*const seeds[])(void) = { seed_resources, seed_lists, seed_texts,
					       seed_filters, seed_acts };
	struct fuzz_output output = { input, 0, max };

	if (which >= sizeof(seeds) / sizeof(seeds[0]))
		return 0;
	out = &output;
	seeds[which]();
	return output.used;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Connect requests of rdma_cm at the server, with private data and events as the input decides.
 * Only the hello of an admitted session opens a channel, and nothing is left of the others. */
#include <check.h>
#include <string.h>

#include "fuzz/cm-data.h"
#include "fuzz/target.h"
#include "unit/fabric/verbs/verbs-server-stage.h"

#define IDS 32
#define STEPS_MAX 24
_Static_assert(STEPS_MAX <= IDS, "a request in each step");
#define CM_BYTES 56 /* of the fake's own private data */

const unsigned fuzz_rounds = 1500;

/* The first byte of a step. */
enum step {
	STEP_REQUEST, /* with any private data */
	STEP_HELLO,   /* with the hello of a session, and any limits */
	STEP_EVENT,
	STEP_CLOSE, /* a channel, by the daemon */
	STEPS,
};

static struct fabric_session *session;
static struct rdma_cm_id *ids[IDS];
static unsigned n_ids;

static void request_send(const uint8_t *data, size_t bytes)
{
	unsigned admits = seen.admits;
	struct rdma_cm_id *id;

	cm_data_set(data, bytes);
	id = fake_request(0, data, bytes < CM_BYTES ? (uint8_t)bytes : CM_BYTES);
	SERVER->process(server);
	settle();
	cm_data_set(NULL, 0);
	if (fake_request_state(id) == FAKE_ACCEPTED)
		ck_assert_uint_eq(seen.admits, admits + 1);
	if (fake_id_lives(id))
		ids[n_ids++] = id;
}

static void step_request(struct fuzz_input *input)
{
	size_t n;
	const uint8_t *data = fuzz_bytes(input, fuzz_number(input, 1), &n);

	request_send(data, n);
}

static void step_hello(struct fuzz_input *input)
{
	struct fabric_hello hello = { .session = fuzz_number(input, 1),
				      .channel = (uint32_t)fuzz_number(input, 1) };
	uint8_t data[255];
	size_t n;
	const uint8_t *limits = fuzz_bytes(input, fuzz_number(input, 1) % 200, &n);

	fabric_hello_encode(&hello, data);
	memcpy(data + FABRIC_HELLO_BYTES, limits, n);
	request_send(data, FABRIC_HELLO_BYTES + n);
}

static void step_event(struct fuzz_input *input)
{
	static const enum rdma_cm_event_type events[] = {
		RDMA_CM_EVENT_ESTABLISHED,   RDMA_CM_EVENT_DISCONNECTED,
		RDMA_CM_EVENT_REJECTED,      RDMA_CM_EVENT_UNREACHABLE,
		RDMA_CM_EVENT_CONNECT_ERROR, RDMA_CM_EVENT_TIMEWAIT_EXIT,
	};
	unsigned which = (unsigned)fuzz_number(input, 1);
	struct rdma_cm_id *id = n_ids > 0 ? ids[which % n_ids] : NULL;

	which = (unsigned)fuzz_number(input, 1);
	if (!id || !fake_id_lives(id))
		return;
	fake_event(id, events[which % (sizeof(events) / sizeof(events[0]))]);
	SERVER->process(server);
	settle();
}

static void step_run(struct fuzz_input *input)
{
	switch ((enum step)(fuzz_number(input, 1) % STEPS)) {
	case STEP_REQUEST:
		step_request(input);
		break;
	case STEP_HELLO:
		step_hello(input);
		break;
	case STEP_EVENT:
		step_event(input);
		break;
	case STEP_CLOSE:
		ck_assert_int_eq(
			SERVER->channel_close(session, (uint32_t)fuzz_number(input, 1)),
			0);
		settle();
		break;
	case STEPS:
		break;
	}
}

/* A server for all inputs, as starting its threads takes long; it is empty between them. */
static void server_prepare(bool iwarp)
{
	if (server && verbs_fake.iwarp != iwarp)
		server_close();
	verbs_fake.iwarp = iwarp;
	if (!server)
		server_open();
}

/* The peers of the channels that are left disconnect, too. */
static void peers_end(void)
{
	settle();
	for (unsigned i = 0; i < n_ids; i++) {
		if (!fake_id_lives(ids[i]))
			continue;
		fake_event(ids[i], RDMA_CM_EVENT_DISCONNECTED);
		SERVER->process(server);
		settle();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };
	unsigned live;

	fuzz_random_reset();
	server_prepare(fuzz_number(&input, 1) % 2);
	live = fake_live();
	n_ids = 0;
	session = session_new(0);
	seen.admitted = session;
	for (unsigned i = 0; i < STEPS_MAX && input.left > 0; i++)
		step_run(&input);
	session_end(session);
	ck_assert_uint_eq(fake_live_qps(), 0);
	peers_end();
	ck_assert_uint_eq(fake_live(), live);
	/* no peer ends channels as fast as this */
	fake_await_polled();
	fake_forget_destroyed();
	return 0;
}

/* ---- valid inputs ---- */

static struct fuzz_output *out;

static void put(unsigned number)
{
	fuzz_put(out, number, 1);
}

static void put_hello(unsigned number, unsigned channel)
{
	static const uint8_t limits[] = { 'r', 'm', 'm', 't', 0, 4, 4, 3 };

	put(STEP_HELLO);
	put(number);
	put(channel);
	put(sizeof(limits));
	fuzz_put_bytes(out, limits, sizeof(limits));
}

static void put_event(unsigned id, unsigned event)
{
	put(STEP_EVENT);
	put(id);
	put(event);
}

size_t fuzz_seed(uint8_t *input, size_t max, unsigned which)
{
	struct fuzz_output output = { input, 0, max };

	if (which >= 2)
		return 0;
	out = &output;
	put(which);
	for (unsigned i = 0; i < 6; i++) {
		put_hello(1, i);
		put_event(i, i);
	}
	put_hello(2, 1);
	put(STEP_REQUEST);
	put(4);
	fuzz_put_bytes(out, "rmem", 4);
	put(STEP_CLOSE);
	put(0);
	put_event(0, 1);
	return output.used;
}

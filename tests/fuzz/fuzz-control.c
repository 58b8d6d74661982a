/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon's control core over its own pools and a fake fabric: frames of several clients, before
 * and after the hello, between what the fabric, the clock, the pools and a restart do.  A lease is
 * as long as was asked for, and its memory is its own.  At the end all clients are lost and all
 * times are over: no session, key, memory or count may be left. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/modular.h"
#include "fuzz/real-pools.h"
#include "fuzz/target.h"
#include "rmemd/control/request.h"
#include "rmemd/lease/attachment.h"
#include "tls/admission.h"
#include "unit/rmemd/bare-connection.h"
#include "unit/rmemd/control-pools.h"
#include "unit/rmemd/control-stage.h"
#include "wire/codec.h"

#define PEERS 3
#define STEPS_MAX 64

const unsigned fuzz_rounds = 40000;

/* The first byte of a step; the rest of a step is read by its function. */
enum step {
	STEP_FRAME,   /* a frame with a valid header */
	STEP_BYTES,   /* a frame of any bytes */
	STEP_RESUME,  /* a hello that resumes the session of a peer */
	STEP_LOSE,    /* a connection is lost */
	STEP_PASS,    /* of time */
	STEP_FABRIC,  /* an event */
	STEP_SCRUB,   /* freed memory is clean */
	STEP_ADMIT,   /* a data connection asks to be admitted */
	STEP_CHANNEL, /* an event of a data connection */
	STEP_SOCKET,  /* whether output waits, input waits, and the peer is gone */
	STEP_NOTIFY,  /* through a key */
	STEP_FAIL,    /* the fabric fails */
	STEP_POOL,    /* a pool shrinks or grows */
	STEP_RESTART,
	STEPS,
};

/* A request that makes a lease as long as it says. */
struct asked {
	uint64_t id, bytes;
};

struct peer {
	struct bare_connection bare;
	bool open; /* the connection exists */
	uint64_t last_id, highest_id;
	struct asked asked[STEPS_MAX]; /* and not answered yet */
	unsigned n_asked;
	uint64_t session; /* of the last welcome */
	uint8_t token[WIRE_TOKEN_BYTES];
	uint8_t secret[WIRE_SECRET_BYTES];
};

static struct peer peers[PEERS];
static uint8_t frame[WIRE_FRAME_MAX];

/* ---- the transport ---- */

/* A request is answered; a reply that is repeated has what the lease is then. */
static void on_answer(struct peer *peer, const struct wire_msg *msg)
{
	for (unsigned i = 0; i < peer->n_asked; i++) {
		if (peer->asked[i].id != msg->id)
			continue;
		if (msg->type == WIRE_TYPE_lease)
			ck_assert_uint_eq(msg->lease.bytes, peer->asked[i].bytes);
		peer->asked[i] = peer->asked[--peer->n_asked];
	}
}

static void on_lease(const struct wire_lease *lease)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < lease->n_segments; i++)
		sum += lease->segments[i].bytes;
	ck_assert_uint_eq(sum, lease->bytes);
}

static void on_welcome(struct peer *peer, const struct wire_welcome *welcome)
{
	peer->session = welcome->session;
	memcpy(peer->token, welcome->token, sizeof(peer->token));
	memcpy(peer->secret, welcome->secret, sizeof(peer->secret));
	/* a session that is resumed has had others' requests */
	peer->highest_id = welcome->resumed ? UINT64_MAX : peer->last_id;
}

static void on_message(struct bare_connection *bare, const struct wire_msg *msg)
{
	struct peer *peer = container_of(bare, struct peer, bare);

	ck_assert(peer->open);
	ck_assert(msg->type >= WIRE_TYPE_error);
	if (msg->type == WIRE_TYPE_welcome)
		on_welcome(peer, &msg->welcome);
	else if (msg->type == WIRE_TYPE_lease)
		on_lease(&msg->lease);
	on_answer(peer, msg);
}

static void peer_lose(struct peer *peer)
{
	if (!peer->open)
		return;
	session_connection_lost(&peer->bare.connection, "the peer closed it");
	peer->open = false;
}

/* A connection of the peer that can handle a frame; a closed one is replaced.  False: it waits. */
static bool peer_ready(struct peer *peer)
{
	if (peer->open && peer->bare.connection.closed)
		peer_lose(peer);
	if (!peer->open) {
		peer->open = true;
		peer->n_asked = 0;
		bare_connection_init(&peer->bare, &stage_control, on_message);
	}
	return !peer->bare.connection.hello_pending;
}

/* ---- the steps ---- */

static struct peer *peer_read(struct fuzz_input *input)
{
	return &peers[fuzz_number(input, 1) % PEERS];
}

/* The id is the next one, the last one, or any. */
MODULAR static uint64_t id_read(struct fuzz_input *input, struct peer *peer)
{
	uint64_t number = fuzz_number(input, 1);

	if (number == 0)
		return ++peer->last_id;
	if (number < 0xff)
		return peer->last_id - number + 1;
	peer->last_id = fuzz_number(input, 8);
	return peer->last_id;
}

static void header_write(uint32_t bytes, unsigned type, uint64_t id)
{
	struct fuzz_output output = { frame, 0, WIRE_HEADER_BYTES };

	fuzz_put(&output, bytes, 4);
	fuzz_put(&output, type, 4);
	fuzz_put(&output, id, 8);
}

static void asked_add(struct peer *peer, uint64_t id, uint64_t bytes)
{
	if (id <= peer->highest_id)
		return;
	peer->highest_id = id;
	peer->asked[peer->n_asked++] = (struct asked){ id, bytes };
}

static void dispatch(struct peer *peer, size_t bytes)
{
	static struct wire_msg request;
	/* of its exact size, so that sanitizers see reads past its end */
	uint8_t *exact = malloc(bytes);

	ck_assert_ptr_nonnull(exact);
	memcpy(exact, frame, bytes);
	if (wire_decode(exact, bytes, &request) == 0) {
		if (request.type == WIRE_TYPE_allocate)
			asked_add(peer, request.id, request.allocate.bytes);
		else if (request.type == WIRE_TYPE_resize)
			asked_add(peer, request.id, request.resize.bytes);
	}
	dispatch_frame(&peer->bare.connection, exact, bytes);
	free(exact);
}

static void step_frame(struct fuzz_input *input)
{
	struct peer *peer = peer_read(input);
	unsigned type = (unsigned)fuzz_number(input, 1);
	uint64_t id = id_read(input, peer);
	size_t n;
	const uint8_t *body = fuzz_bytes(input, fuzz_number(input, 2), &n);

	if (!peer_ready(peer) || n > sizeof(frame) - WIRE_HEADER_BYTES)
		return;
	header_write(WIRE_HEADER_BYTES + (uint32_t)n, type, id);
	memcpy(frame + WIRE_HEADER_BYTES, body, n);
	dispatch(peer, WIRE_HEADER_BYTES + n);
}

static void step_bytes(struct fuzz_input *input)
{
	struct peer *peer = peer_read(input);
	size_t n;
	const uint8_t *bytes = fuzz_bytes(input, fuzz_number(input, 1), &n);
	int whole = wire_frame_bytes(bytes, n);

	/* connections.c passes on whole frames only */
	if (whole <= 0 || (size_t)whole > n || !peer_ready(peer))
		return;
	memcpy(frame, bytes, (size_t)whole);
	dispatch(peer, (size_t)whole);
}

static void step_resume(struct fuzz_input *input)
{
	struct peer *peer = peer_read(input), *of = peer_read(input);
	unsigned tenant = (unsigned)fuzz_number(input, 1);
	struct wire_msg *request = tenant ? hello_of("other") : hello();
	int bytes;

	if (!peer_ready(peer))
		return;
	request->id = ++peer->last_id;
	request->hello.resume = of->session;
	memcpy(request->hello.token, of->token, sizeof(of->token));
	bytes = wire_encode(request, frame, sizeof(frame));
	ck_assert_int_gt(bytes, 0);
	dispatch(peer, (size_t)bytes);
}

static void step_admit(struct fuzz_input *input)
{
	const struct peer *peer = peer_read(input);
	unsigned endpoint = (unsigned)fuzz_number(input, 1) % STAGE_ENDPOINTS;
	struct fabric_hello asked = { .session = peer->session,
				      .channel = (uint32_t)fuzz_number(input, 1),
				      .peer = stage_address };
	uint8_t right[ADMISSION_BYTES];
	struct fabric_session *admitted;
	const struct session *session;

	(void)admission_token(peer->secret, asked.session, asked.channel, right);
	memcpy(asked.token, right, sizeof(right));
	asked.token[0] ^= (uint8_t)fuzz_number(input, 1);
	if (sessions_admit(stage_control.sessions, endpoint, &asked, &admitted))
		return;
	session = sessions_find(stage_control.sessions, peer->session);
	ck_assert_ptr_nonnull(session);
	ck_assert_mem_eq(asked.token, right, sizeof(right));
}

/* The core must bear more events than the fabric reports. */
static void step_channel(struct fuzz_input *input)
{
	static const struct fabric_qp_info ours = { .qpn = 42 };
	const struct peer *peer = peer_read(input);
	unsigned endpoint = (unsigned)fuzz_number(input, 1) % STAGE_ENDPOINTS;
	unsigned event = (unsigned)fuzz_number(input, 1);
	uint32_t channel = (uint32_t)fuzz_number(input, 1);
	struct session *session = sessions_find(stage_control.sessions, peer->session);
	void *cookie = session ? &session->ports[endpoint] : NULL;

	if (!session || !session->lease_client.ports[endpoint].session)
		return;
	if (event % 4 == 0)
		session_channel_down(NULL, cookie, channel, "it broke");
	else if (event % 4 == 1)
		session_channel_up(NULL, cookie, channel);
	else if (event % 4 == 2)
		session_channel_connected(NULL, cookie, channel, 0, "", &ours);
	else
		session_channel_connected(NULL, cookie, channel, -EIO, "no answer",
					  NULL);
}

static void step_socket(struct fuzz_input *input)
{
	struct peer *peer = peer_read(input);
	unsigned flags = (unsigned)fuzz_number(input, 1);
	bool idle = peer->bare.busy && !(flags & 1);

	peer->bare.busy = flags & 1;
	peer->bare.unread = flags & 2;
	peer->bare.abandoned = flags & 4;
	if (peer->open && !peer->bare.connection.closed && idle)
		session_connection_idle(&peer->bare.connection);
}

/* Keys differ between runs, so a key is meant by its place among them. */
static void step_notify(unsigned place)
{
	list_for_each_entry(const struct fabric_mr, mr, &fake_mrs, link) {
		if (place > 0) {
			place--;
			continue;
		}
		(void)fake_fabric_notify(mr->rkey, 7, 0);
		return;
	}
}

static void step_fail(struct fuzz_input *input)
{
	unsigned which = (unsigned)fuzz_number(input, 1), after = which / 5;

	switch (which % 5) {
	case 0:
		fake_fabric_fail_reg(after, -ENOMEM);
		break;
	case 1:
		fake_fabric_fail_event(after, -EIO);
		break;
	case 2:
		fake_fabric_fail_session(after % 2 ? -EIO : 0);
		break;
	case 3:
		fake_fabric_hold_connect = after % 2;
		break;
	default:
		fake_fabric_keep_channels(after % 2 ? -EIO : 0);
	}
}

static void step_pool(struct fuzz_input *input)
{
	unsigned which = (unsigned)fuzz_number(input, 1);

	real_pools_resize(which, fuzz_number(input, 4), stage_now_ms + 1000,
			  which >= 128);
	leases_reclaim(stage_control.leases);
}

static void step_restart(void)
{
	for (unsigned i = 0; i < PEERS; i++)
		peer_lose(&peers[i]);
	control_restart();
}

static void step_run(struct fuzz_input *input)
{
	switch ((enum step)(fuzz_number(input, 1) % STEPS)) {
	case STEP_FRAME:
		step_frame(input);
		break;
	case STEP_BYTES:
		step_bytes(input);
		break;
	case STEP_RESUME:
		step_resume(input);
		break;
	case STEP_LOSE:
		peer_lose(peer_read(input));
		break;
	case STEP_PASS:
		pass(fuzz_number(input, 2));
		break;
	case STEP_FABRIC:
		(void)fake_fabric_step((unsigned)fuzz_number(input, 1));
		break;
	case STEP_SCRUB:
		control_pools_scrub();
		leases_retry(stage_control.leases);
		break;
	case STEP_ADMIT:
		step_admit(input);
		break;
	case STEP_CHANNEL:
		step_channel(input);
		break;
	case STEP_SOCKET:
		step_socket(input);
		break;
	case STEP_NOTIFY:
		step_notify((unsigned)fuzz_number(input, 1));
		break;
	case STEP_FAIL:
		step_fail(input);
		break;
	case STEP_POOL:
		step_pool(input);
		break;
	case STEP_RESTART:
		step_restart();
		break;
	case STEPS:
		break;
	}
}

/* No session has a lease attached that is neither its tenant's nor shared with it. */
static void check_isolation(void)
{
	list_for_each_entry(const struct lease, lease, &stage_control.leases->all, all)
		list_for_each_entry(const struct attachment, attachment,
				    &lease->attachments, in_lease)
			ck_assert(share_covers(lease, attachment->client->tenant,
					       attachment->rights));
}

/* ---- valid inputs ---- */

static struct fuzz_output *out;

static void put(uint64_t number)
{
	fuzz_put(out, number, 1);
}

static void put_frame(unsigned peer, struct wire_msg *request)
{
	int bytes = wire_encode(request, frame, sizeof(frame)) - WIRE_HEADER_BYTES;

	ck_assert_int_ge(bytes, 0);
	put(STEP_FRAME);
	put(peer);
	put(request->type);
	put(0);
	fuzz_put(out, (uint64_t)bytes, 2);
	fuzz_put_bytes(out, frame + WIRE_HEADER_BYTES, (size_t)bytes);
}

static void put_peer_step(enum step step, unsigned peer)
{
	put(step);
	put(peer);
}

static void put_resume(unsigned peer, unsigned of, bool other)
{
	put_peer_step(STEP_RESUME, peer);
	put(of);
	put(other);
}

static void put_pass(unsigned ms)
{
	put(STEP_PASS);
	fuzz_put(out, ms, 2);
}

static void put_pool(unsigned which, uint64_t bytes)
{
	put(STEP_POOL);
	put(which);
	fuzz_put(out, bytes, 4);
}

static void put_events(unsigned n)
{
	for (; n > 0; n--)
		fuzz_put(out, STEP_FABRIC, 2);
}

/* A session with a channel through endpoint 0. */
static void put_session(unsigned peer, const char *tenant)
{
	put_frame(peer, hello_of(tenant));
	put_frame(peer, message(WIRE_TYPE_open_channel));
	put_peer_step(STEP_ADMIT, peer);
	put(0);
	put(1);
	put(0);
}

static void seed_leases(void)
{
	put_session(0, "default");
	put_frame(0, to_allocate(8000, "data"));
	put_events(2);
	put_session(1, "default");
	put_frame(1, to_attach("data"));
	put_events(2);
	put_frame(1, lease_message(WIRE_TYPE_watch, 1));
	put(STEP_NOTIFY);
	put(0);
	put_frame(1, lease_message(WIRE_TYPE_unwatch, 1));
	put_frame(0, to_resize(1, 20000));
	put_events(3);
	put_frame(0, to_rename(1, "more"));
	put_frame(0, by_name(WIRE_TYPE_stat, "more"));
	put_frame(0, message(WIRE_TYPE_list));
	put_frame(0, lease_message(WIRE_TYPE_renew, 1));
	put_frame(1, lease_message(WIRE_TYPE_fix_atomic_device, 1));
	put_frame(1, lease_message(WIRE_TYPE_detach, 1));
	put_events(2);
	put_frame(0, to_resize(1, 4000));
	put_events(2);
	put_frame(0, lease_message(WIRE_TYPE_free, 1));
	put_events(4);
	put(STEP_SCRUB);
	put_frame(0, message(WIRE_TYPE_bye));
}

static void seed_resume(void)
{
	put_session(0, "other");
	put_frame(0, to_allocate(4096, ""));
	put_peer_step(STEP_LOSE, 0);
	put_resume(1, 0, true);
	put_events(4);
	put_frame(1, to_allocate(4096, "kept"));
	put_events(1);
	put_peer_step(STEP_SOCKET, 1);
	put(7);
	put_pass(3000);
	put_resume(2, 1, true);
	put_pass(60000);
	put_events(3);
}

static void seed_restart(void)
{
	put_session(0, "default");
	put_frame(0, to_allocate(4096, "kept"));
	put_events(1);
	put(STEP_RESTART);
	put_resume(0, 0, false);
	put_frame(0, to_attach("kept"));
	put_events(1);
	put_frame(0, by_name(WIRE_TYPE_remove, "kept"));
}

static void seed_channels(void)
{
	struct wire_msg *request = hello();

	request->hello.channel = WIRE_FABRIC_VERBS;
	put_frame(0, request);
	request = message(WIRE_TYPE_join_channel);
	request->join_channel.channel = 1;
	put_frame(0, request);
	request = message(WIRE_TYPE_close_channel);
	request->close_channel.channel = 1;
	put_frame(0, request);
	put_peer_step(STEP_LOSE, 0);
	put_session(0, "default");
	put_peer_step(STEP_CHANNEL, 0);
	put(0);
	put(1);
	put(1);
	put_peer_step(STEP_CHANNEL, 0);
	put(0);
	put(0);
	put(1);
	put_frame(0, message(WIRE_TYPE_ping));
}

static void seed_faults(void)
{
	put_session(0, "default");
	put(STEP_FAIL);
	put(1);
	put_frame(0, to_allocate(500000, "large"));
	put_events(2);
	put_frame(0, to_allocate(100000, "waits"));
	put_pool(128, REAL_PAGE);
	put_pass(1000);
	put_events(3);
	put(STEP_SCRUB);
	put_pool(128, 0);
}

/* Aligned, in both pools, in stripes; longer than a pool; over a restart. */
static void seed_numbers(void)
{
	struct wire_msg *request;

	put_session(0, "default");
	for (unsigned i = 0; i < 3; i++) {
		request = to_allocate(REAL_HUGE << i, i == 0 ? "aligned" : "");
		request->allocate.align = REAL_PAGE << 4 * i;
		request->allocate.placement =
			i == 1 ? WIRE_PLACE_INTERLEAVE : WIRE_PLACE_NODE;
		put_frame(0, request);
		put_events(2);
	}
	put_frame(0, to_allocate(1, ""));
	put_events(2);
	put_frame(0, to_resize(1, 3 * REAL_HUGE));
	put_events(3);
	put(STEP_RESTART);
	put_resume(0, 0, false);
	put_frame(0, to_attach("aligned"));
	put_events(2);
	put_frame(0, to_resize(1, REAL_PAGE - 1));
	put_events(3);
	put_pool(1, REAL_HUGE);
	put(STEP_SCRUB);
	put_pool(1, 4 * REAL_HUGE - 1);
}

/* Notifications that the client has not taken when the lease is gone. */
static void seed_notices(void)
{
	put_session(0, "default");
	for (unsigned lease = 1; lease < 3; lease++) {
		put_frame(0, to_allocate(4096, lease == 1 ? "a" : "b"));
		put_events(1);
		put_frame(0, lease_message(WIRE_TYPE_watch, lease));
	}
	put_peer_step(STEP_SOCKET, 0);
	put(1);
	for (unsigned key = 0; key < 2; key++) {
		put(STEP_NOTIFY);
		put(key);
	}
	put_frame(0, lease_message(WIRE_TYPE_detach, 1));
	put_events(2);
	put_peer_step(STEP_SOCKET, 0);
	put(0);
}

/* Names as long as they may be, of characters of several bytes, in errors that are repeated after a
 * restart. */
static void seed_long_names(void)
{
	char name[WIRE_NAME_MAX + 1] = "";
	struct wire_msg *request = to_allocate(4096, "");

	for (unsigned i = 0; i + 2 < sizeof(name); i += 2)
		(void)strcpy(name + i, "\u00e9");
	put_session(0, "default");
	put_frame(0, to_allocate(4096, name));
	put_events(1);
	put_frame(0, to_allocate(4096, name));
	request->allocate.placement = WIRE_PLACE_DEVICE;
	memcpy(request->allocate.device, name, 64);
	put_frame(0, request);
	put_frame(0, to_allocate(4096, "a"));
	put_events(1);
	put_frame(0, to_rename(2, name));
	put_frame(0, lease_message(WIRE_TYPE_renew, 2));
	name[0] = 'x', name[1] = 'y';
	put_frame(0, to_attach(name));
	put_frame(0, by_name(WIRE_TYPE_stat, name));
	put_frame(0, by_name(WIRE_TYPE_remove, name));
	put(STEP_RESTART);
	put_resume(0, 0, false);
	for (unsigned back = 1; back < 10; back++) {
		put_peer_step(STEP_FRAME, 0);
		put(WIRE_TYPE_remove);
		put(back);
		fuzz_put(out, 2, 2); /* an empty name */
		fuzz_put(out, 0, 2);
	}
}

static struct wire_msg *to_share(unsigned rights)
{
	struct wire_msg *request = lease_message(WIRE_TYPE_share, 1);

	request->share.rights = (uint8_t)rights;
	(void)strcpy(request->share.tenant, "other");
	return request;
}

static struct wire_msg *attach_of_default(unsigned rights)
{
	struct wire_msg *request = to_attach("data");

	request->attach.rights = (uint8_t)rights;
	(void)strcpy(request->attach.tenant, "default");
	return request;
}

/* A share that is used, cut to reading, used again over a restart, and ended. */
static void seed_shares(void)
{
	put_session(0, "default");
	put_frame(0, to_allocate(8000, "data"));
	put_events(1);
	put_session(1, "other");
	put_frame(1, attach_of_default(WIRE_RIGHT_READ));
	put_frame(0, to_share(WIRE_RIGHT_READ | WIRE_RIGHT_WRITE));
	put_frame(1, attach_of_default(WIRE_RIGHT_READ | WIRE_RIGHT_WRITE));
	put_events(1);
	put_frame(1, lease_message(WIRE_TYPE_watch, 1));
	put_frame(0, to_share(WIRE_RIGHT_READ));
	put_events(1);
	put_frame(1, attach_of_default(WIRE_RIGHT_READ));
	put_events(1);
	put(STEP_RESTART);
	put_resume(1, 1, true);
	put_frame(1, lease_message(WIRE_TYPE_attach, 1));
	put_resume(0, 0, false);
	put_frame(0, to_share(0));
	put_events(1);
	put_frame(1, lease_message(WIRE_TYPE_attach, 1));
	put_frame(1, attach_of_default(WIRE_RIGHT_READ));
}

static void seed_bytes(void)
{
	int bytes = wire_encode(hello(), frame, sizeof(frame));

	put_peer_step(STEP_BYTES, 0);
	put((uint64_t)bytes);
	fuzz_put_bytes(out, frame, (size_t)bytes);
	put_frame(0, message(WIRE_TYPE_ping));
}

size_t fuzz_seed(uint8_t *input, size_t max, unsigned which)
{
	static void (*const seeds[])(void) = {
		seed_leases, seed_resume,     seed_restart, seed_channels, seed_faults,
		seed_bytes,  seed_long_names, seed_notices, seed_shares,   seed_numbers,
	};
	struct fuzz_output output = { input, 0, max };

	if (which >= sizeof(seeds) / sizeof(seeds[0]))
		return 0;
	out = &output;
	seeds[which]();
	return output.used;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };

	fuzz_random_reset();
	control_setup();
	stage_endpoint_info[0].flags = FABRIC_ENDPOINT_ATOMICS;
	stage_endpoint_info[1].kind = FABRIC_VERBS;
	stage_endpoint_info[1].flags = FABRIC_ENDPOINT_ATOMICS | FABRIC_ENDPOINT_DIRECT;
	(void)strcpy(stage_endpoint_info[1].device, "rxe0");
	memset(peers, 0, sizeof(peers));
	for (unsigned i = 0; i < STEPS_MAX && input.left > 0; i++) {
		step_run(&input);
		slices_run(&stage_control.slices);
		check_isolation();
		real_pools_check();
	}
	for (unsigned i = 0; i < PEERS; i++)
		peer_lose(&peers[i]);
	fake_fabric_fail_session(0);
	fake_fabric_keep_channels(0);
	fake_fabric_hold_connect = false;
	real_pools_rest();
	fake_fabric_settle();
	control_teardown();
	return 0;
}

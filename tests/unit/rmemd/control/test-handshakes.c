/* SPDX-License-Identifier: BSD-3-Clause */
/* Handshakes whose threads are this test: who waits for whom, and what the loop learns. */
#include <errno.h>
#include <event2/event.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mailbox.h"
#include "base/workers.h"
#include "rmemd/control/handshakes.h"
#include "unit/unit.h"
#include "wire/codec.h"
#include "wire/msg.h"

#define HANDSHAKES 6

static const uint8_t key[32] = { 1 };
static struct event_base *base;
static struct tls_context *context;
static struct handshakes *handshakes;
static struct handshake *made[HANDSHAKES];
static int peers[HANDSHAKES];
static unsigned n_made, n_done;

/* ---- instead of threads ---- */

static struct mailbox *mailbox;
static struct workers_job *posted;
static unsigned n_queues; /* ever */

void workers_queue_init(struct workers_queue *queue)
{
	*queue = (struct workers_queue){ .running = false };
	n_queues++;
}

int workers_start(struct workers *, const char *, unsigned, int, struct mailbox *box)
{
	mailbox = box;
	return 0;
}

void workers_stop(struct workers *)
{
}

void workers_post(struct workers *, struct workers_queue *queue,
		  struct workers_job *job)
{
	ck_assert_ptr_null(posted);
	job->queue = queue;
	posted = job;
}

/* No thread begins a job before the test does. */
bool workers_cancel(struct workers *, struct workers_job *)
{
	return true;
}

/* ---- the stage ---- */

static struct tls_params params_of(void)
{
	struct tls_params params = { 0 };

	ck_assert_int_eq(tls_keys_of("a", key, sizeof(key), &params.keys), 0);
	return params;
}

static void setup(void)
{
	const struct tls_params params = params_of();

	base = event_base_new();
	ck_assert_int_eq(tls_context_server(&params, &context), 0);
	ck_assert_int_eq(handshakes_open(base, &handshakes), 0);
}

static void teardown(void)
{
	for (unsigned i = 0; i < n_made; i++) {
		handshake_close(made[i]);
		(void)close(peers[i]);
	}
	/* without those that no thread has begun */
	ck_assert_uint_eq(handshakes_under_way(handshakes), 0);
	handshakes_close(handshakes);
	tls_context_unref(context);
	event_base_free(base);
}

static void on_done(void *)
{
	n_done++;
}

/* Its socket; the other end is its peer's. */
static int make(const struct fabric_address *address)
{
	int pair[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
	peers[n_made] = pair[1];
	ck_assert_int_eq(handshake_open(handshakes, pair[0], context, address, on_done,
					NULL, &made[n_made]),
			 0);
	n_made++;
	return pair[0];
}

static const struct handshake_state *go_on(void)
{
	struct workers_job *job;

	handshake_go_on(made[0]);
	ck_assert(handshake_is_under_way(made[0]));
	ck_assert_ptr_nonnull(posted);
	job = posted;
	posted = NULL;
	job->run(job);
	mailbox_post(mailbox, job->done);
	(void)event_base_loop(base, EVLOOP_NONBLOCK);
	ck_assert_uint_eq(n_done, 1);
	n_done = 0;
	ck_assert(!handshake_is_under_way(made[0]));
	return handshake_state(made[0]);
}

/* ---- tests ---- */

/* One address is one queue, which has one job under way at a time. */
START_TEST(address__is_one_queue)
{
	static const struct {
		struct fabric_address address;
		unsigned like; /* number of the one before it that it is like */
	} rows[HANDSHAKES] = {
		{ { .family = 4, .bytes = { 10, 0, 0, 1 }, .port = 1 }, 0 },
		{ { .family = 4, .bytes = { 10, 0, 0, 1 }, .port = 2 }, 0 },
		{ { .family = 4, .bytes = { 10, 0, 0, 2 } }, 2 },
		{ { .family = 6, .bytes = { 10, 0, 0, 1, 0, 0, 0, 1, 1 } }, 3 },
		{ { .family = 6, .bytes = { 10, 0, 0, 1, 0, 0, 0, 1, 2 } }, 3 },
		{ { .family = 6, .bytes = { 10, 0, 0, 1, 0, 0, 0, 2, 1 } }, 5 },
	};
	struct workers_queue *queues[HANDSHAKES];

	for (unsigned i = 0; i < HANDSHAKES; i++) {
		(void)make(&rows[i].address);
		handshake_go_on(made[i]);
		queues[i] = posted->queue;
		posted = NULL;
		for (unsigned before = 0; before < i; before++)
			ck_assert_int_eq(queues[i] == queues[before],
					 rows[i].like == rows[before].like);
	}
	/* each is there once */
	for (unsigned i = 0; i < HANDSHAKES; i++) {
		posted = NULL;
		handshake_go_on(made[i]);
		ck_assert_ptr_null(posted);
	}
	ck_assert_uint_eq(handshakes_under_way(handshakes), HANDSHAKES);
}
END_TEST

/* Whoever comes from ever new addresses leaves nothing behind. */
START_TEST(address__is_kept_as_long_as_its_handshakes)
{
	static const struct fabric_address address = { .family = 4 };

	n_queues = 0;
	(void)make(&address);
	(void)make(&address);
	handshake_close(made[0]);
	made[0] = NULL;
	(void)make(&address);
	ck_assert_uint_eq(n_queues, 1);
	for (unsigned i = 1; i < n_made; i++) {
		handshake_close(made[i]);
		made[i] = NULL;
	}
	(void)make(&address);
	ck_assert_uint_eq(n_queues, 2);
}
END_TEST

START_TEST(hello__without_tls_is_seen)
{
	static const struct fabric_address address = { .family = 4 };
	static struct wire_msg msg;
	uint8_t frame[1024];
	int bytes;

	(void)make(&address);
	wire_msg_init(&msg, WIRE_TYPE_hello);
	msg.id = 7;
	bytes = wire_encode(&msg, frame, sizeof(frame));
	ck_assert_int_eq(send(peers[0], frame, (size_t)bytes, 0), bytes);
	ck_assert_int_eq(go_on()->end, HANDSHAKE_PLAIN);
	ck_assert_uint_eq(handshake_state(made[0])->plain_id, 7);
}
END_TEST

/* The socket is full when the client's first message is to be answered. */
START_TEST(answer__waits_for_room)
{
	static const struct fabric_address address = { .family = 4 };
	static uint8_t bytes[4096];
	const struct tls_params params = params_of();
	const struct handshake_state *state;
	struct tls_context *client_context;
	struct stream client;
	int fd = make(&address);

	ck_assert_int_eq(tls_context_client(&params, "localhost", &client_context), 0);
	ck_assert_int_eq(stream_tls(&client, dup(peers[0]), client_context), 0);
	ck_assert_int_eq(stream_handshake(&client), -EAGAIN);
	while (send(fd, bytes, sizeof(bytes), 0) > 0)
		;
	state = go_on();
	ck_assert_int_eq(state->end, HANDSHAKE_WAITS);
	ck_assert(state->wants_out && !state->answered);
	while (recv(peers[0], bytes, sizeof(bytes), 0) > 0)
		;
	state = go_on();
	ck_assert_int_eq(state->end, HANDSHAKE_WAITS);
	ck_assert(!state->wants_out && state->answered);
	/* which is there, and the client's end makes it good */
	ck_assert_int_eq(stream_handshake(&client), 0);
	/* the client has left, but not before it was begun */
	ck_assert_int_eq(shutdown(peers[0], SHUT_WR), 0);
	ck_assert_int_eq(go_on()->end, HANDSHAKE_DONE);
	stream_close(&client);
	tls_context_unref(client_context);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("handshakes", setup, teardown);

	tcase_add_test(tc, address__is_one_queue);
	tcase_add_test(tc, address__is_kept_as_long_as_its_handshakes);
	tcase_add_test(tc, hello__without_tls_is_seen);
	tcase_add_test(tc, answer__waits_for_room);
	return unit_main();
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/handshakes.h"

#include <errno.h>
#include <event2/event.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mailbox.h"
#include "base/workers.h"
#include "fabric/crowd.h"
#include "rmemd/control/auth.h"
#include "rmemd/loop/events.h"

#define THREADS_MAX 4
#define THREADS_NICE 5
/* Handshakes that come back in one callback of the loop. */
#define DELIVER_MAX 16

/* Of whom it is the turn among the handshakes. */
struct origin {
	struct crowd crowd;
	struct workers_queue queue;
};

struct handshakes {
	struct event_base *base;
	bool started;
	struct workers workers;
	struct mailbox done;
	struct event *event; /* of `done` */
	struct list origins;
	unsigned n_under_way;
};

struct handshake {
	struct handshakes *handshakes;
	struct workers_job job;
	struct list done;
	struct origin *origin;
	const struct tls_context *context; /* the stream's */
	void (*on_done)(void *ctx);
	void *ctx;
	bool under_way;
	bool closed; /* meanwhile */
	/* the thread's while it is under way: */
	bool begun;
	struct stream stream;
	struct handshake_state state;
};

/* ---- who waits for a turn ---- */

/* NULL: no memory */
static struct origin *origin_get(struct handshakes *handshakes,
				 const struct fabric_address *address)
{
	struct crowd *crowd =
		crowd_join(&handshakes->origins, address, sizeof(struct origin));
	struct origin *origin;

	if (!crowd)
		return NULL;
	origin = container_of(crowd, struct origin, crowd);
	if (crowd->n == 1)
		workers_queue_init(&origin->queue);
	return origin;
}

/* ---- on a thread ---- */

static bool is_left(int fd)
{
	struct pollfd at = { .fd = fd, .events = POLLRDHUP };

	return poll(&at, 1, 0) > 0;
}

static enum handshake_end handshake_step(struct handshake *handshake)
{
	struct handshake_state *state = &handshake->state;
	struct stream *stream = &handshake->stream;
	int err;

	/* it has waited so long that the client tries again: its answer would be for nobody */
	if (!handshake->begun && is_left(stream->fd))
		return HANDSHAKE_LEFT;
	if (!handshake->begun && auth_plain_begins(stream->fd, &state->plain_id))
		return HANDSHAKE_PLAIN;
	handshake->begun = true;
	err = stream_handshake(stream);
	state->wants_out = stream->wants_out;
	state->answered = stream->answered;
	if (err == -EAGAIN)
		return HANDSHAKE_WAITS;
	err_save(&state->result, err);
	return err ? HANDSHAKE_FAILED : HANDSHAKE_DONE;
}

static void job_run(struct workers_job *job)
{
	struct handshake *handshake = container_of(job, struct handshake, job);

	handshake->state.end = handshake_step(handshake);
}

/* ---- on the loop ---- */

static void handshake_free(struct handshake *handshake)
{
	if (handshake->origin)
		crowd_leave(&handshake->origin->crowd);
	stream_close(&handshake->stream);
	free(handshake);
}

static void handshake_deliver(struct handshake *handshake)
{
	handshake->under_way = false;
	handshake->handshakes->n_under_way--;
	if (handshake->closed)
		handshake_free(handshake);
	else
		handshake->on_done(handshake->ctx);
}

static void deliver(struct handshakes *handshakes)
{
	struct list done = LIST_INIT(done);
	struct list *message;

	mailbox_receive_some(&handshakes->done, &done, DELIVER_MAX);
	while (!list_empty(&done)) {
		message = done.next;
		list_remove(message);
		handshake_deliver(container_of(message, struct handshake, done));
	}
}

static void on_done(evutil_socket_t, short, void *arg)
{
	struct handshakes *handshakes = arg;

	deliver(handshakes);
}

int handshakes_open(struct event_base *base, struct handshakes **ret_handshakes)
{
	struct handshakes *handshakes = calloc(1, sizeof(*handshakes));
	int err;

	if (!handshakes)
		return err_set(-ENOMEM, "no memory for the handshakes");
	handshakes->base = base;
	list_init(&handshakes->origins);
	err = mailbox_init(&handshakes->done);
	if (err) {
		free(handshakes);
		return err;
	}
	handshakes->event = event_make(base, mailbox_fd(&handshakes->done),
				       EV_READ | EV_PERSIST, on_done, handshakes);
	if (!handshakes->event || event_add(handshakes->event, NULL)) {
		handshakes_close(handshakes);
		return err_set(-ENOMEM, "no memory for the event of the handshakes");
	}
	*ret_handshakes = handshakes;
	return 0;
}

void handshakes_close(struct handshakes *handshakes)
{
	if (!handshakes)
		return;
	if (handshakes->started)
		workers_stop(&handshakes->workers);
	while (handshakes->n_under_way > 0)
		deliver(handshakes);
	event_drop(&handshakes->event);
	mailbox_destroy(&handshakes->done);
	free(handshakes);
}

unsigned handshakes_under_way(const struct handshakes *handshakes)
{
	return handshakes->n_under_way;
}

static int threads_start(struct handshakes *handshakes)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned n = cores < 1             ? 1
		     : cores > THREADS_MAX ? THREADS_MAX
					   : (unsigned)cores;
	int err;

	if (handshakes->started)
		return 0;
	err = workers_start(&handshakes->workers, "rmemd-tls", n, THREADS_NICE,
			    &handshakes->done);
	handshakes->started = !err;
	return err;
}

int handshake_open(struct handshakes *handshakes, int fd, struct tls_context *context,
		   const struct fabric_address *address, void (*done)(void *ctx),
		   void *ctx, struct handshake **ret_handshake)
{
	struct handshake *handshake = calloc(1, sizeof(*handshake));
	int err;

	if (!handshake) {
		(void)close(fd);
		return err_set(-ENOMEM, "no memory for a handshake");
	}
	handshake->handshakes = handshakes;
	handshake->context = context;
	handshake->on_done = done;
	handshake->ctx = ctx;
	handshake->job.run = job_run;
	handshake->job.done = &handshake->done;
	list_init(&handshake->job.link);
	list_init(&handshake->done);
	err = stream_tls(&handshake->stream, fd, context);
	if (!err)
		err = threads_start(handshakes);
	if (!err) {
		handshake->origin = origin_get(handshakes, address);
		if (!handshake->origin)
			err = err_set(-ENOMEM, "no memory for a handshake");
	}
	if (err) {
		handshake_free(handshake);
		return err;
	}
	*ret_handshake = handshake;
	return 0;
}

void handshake_go_on(struct handshake *handshake)
{
	if (handshake->under_way)
		return;
	handshake->under_way = true;
	handshake->handshakes->n_under_way++;
	workers_post(&handshake->handshakes->workers, &handshake->origin->queue,
		     &handshake->job);
}

bool handshake_is_under_way(const struct handshake *handshake)
{
	return handshake->under_way;
}

bool handshake_is_with(const struct handshake *handshake,
		       const struct tls_context *context)
{
	return handshake->context == context;
}

const struct handshake_state *handshake_state(const struct handshake *handshake)
{
	return &handshake->state;
}

void handshake_give(struct handshake *handshake, struct stream *ret_stream)
{
	stream_move(&handshake->stream, ret_stream);
	handshake_free(handshake);
}

void handshake_close(struct handshake *handshake)
{
	if (!handshake)
		return;
	if (handshake->under_way &&
	    workers_cancel(&handshake->handshakes->workers, &handshake->job)) {
		handshake->under_way = false;
		handshake->handshakes->n_under_way--;
	}
	if (handshake->under_way)
		handshake->closed = true;
	else
		handshake_free(handshake);
}

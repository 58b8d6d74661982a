/* SPDX-License-Identifier: BSD-3-Clause */
/* A program with its own event loop: no thread of the library, two descriptors to poll.  The one
 * of the session is readable when heartbeats or events are due, the one of the queue when
 * operations have completed.
 *
 *   eventloop rmem://HOST[:PORT] */
#include <err.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rmem/rmem.h>

#define BLOCK_BYTES 65536u
#define ROUNDS 16u

struct app {
	rmem *session;
	rmem_queue *queue;
	rmem_lease *lease;
	rmem_buffer *buffer;
	unsigned round; /* even: write next, odd: read it back */
};

/* rmem_error() tells which call failed and why.  The server frees what the process leaves. */
static _Noreturn void fail(void)
{
	errx(EXIT_FAILURE, "%s", rmem_error());
}

/* The first block of the buffer is written, the second one is read into. */
static void step_submit(const struct app *app)
{
	unsigned char *base = rmem_buffer_addr(app->buffer);
	uint64_t at = (uint64_t)(app->round / 2) * BLOCK_BYTES;
	struct rmem_op op;

	if (app->round % 2) {
		op = rmem_op_read(app->lease, at, base + BLOCK_BYTES, BLOCK_BYTES);
	} else {
		memset(base, (int)(app->round + 1), BLOCK_BYTES);
		op = rmem_op_write(app->lease, at, base, BLOCK_BYTES);
	}
	op.buffer = app->buffer;
	op.cookie = app->round;
	/* with one operation at a time the queue is never full */
	if (rmem_submit(app->queue, &op, 1) != 1)
		fail();
}

static void step_finish(struct app *app, const struct rmem_completion *done)
{
	const char *base = rmem_buffer_addr(app->buffer);

	if (done->status)
		errx(EXIT_FAILURE, "round %u: %s", (unsigned)done->cookie,
		     rmem_completion_error(app->queue, done));
	if (app->round % 2 && memcmp(base, base + BLOCK_BYTES, BLOCK_BYTES) != 0)
		errx(EXIT_FAILURE, "round %u read something else", app->round);
	app->round++;
	if (app->round < ROUNDS)
		step_submit(app);
}

/* Poll completions until there are none and the descriptor is armed. */
static void queue_serve(struct app *app)
{
	struct rmem_completion done;
	int n;

	do {
		while ((n = rmem_poll(app->queue, &done, 1)) > 0)
			step_finish(app, &done);
		if (n == 0)
			n = rmem_queue_arm(app->queue);
		if (n < 0)
			fail();
	} while (n > 0);
}

static void loop_run(struct app *app)
{
	struct pollfd pfds[] = {
		{ .fd = rmem_fd(app->session), .events = POLLIN },
		{ .fd = rmem_queue_fd(app->queue), .events = POLLIN },
	};

	if (pfds[0].fd < 0 || pfds[1].fd < 0)
		fail();
	step_submit(app);
	queue_serve(app);
	while (app->round < ROUNDS) {
		if (poll(pfds, 2, -1) < 0 && errno != EINTR)
			err(EXIT_FAILURE, "poll");
		/* a lost connection is no error: further calls resume the session */
		if (pfds[0].revents && rmem_process(app->session) == -ESTALE)
			fail();
		if (pfds[1].revents)
			queue_serve(app);
	}
}

int main(int argc, char **argv)
{
	struct rmem_options options = rmem_options_init();
	struct rmem_alloc_params alloc = rmem_alloc_params_init();
	struct rmem_buffer_params memory = rmem_buffer_params_init();
	struct app app = { 0 };

	if (argc != 2) {
		(void)fprintf(stderr, "usage: eventloop URI\n");
		return 2;
	}
	options.flags = RMEM_NO_THREAD;
	alloc.bytes = ROUNDS / 2 * BLOCK_BYTES;
	memory.bytes = 2 * BLOCK_BYTES;
	if (rmem_open(argv[1], &options, &app.session) ||
	    rmem_alloc(app.session, &alloc, &app.lease) ||
	    rmem_buffer_create(app.session, &memory, &app.buffer) ||
	    rmem_queue_create(app.session, NULL, &app.queue))
		fail();
	loop_run(&app);
	rmem_queue_free(app.queue);
	if (rmem_buffer_free(app.buffer))
		fail();
	rmem_close(app.session);
	(void)printf("eventloop: OK\n");
	return EXIT_SUCCESS;
}

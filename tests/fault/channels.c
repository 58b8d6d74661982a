/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels that break under a program that reads and writes:
 *
 *   channels URI DEATHS SEED
 *
 * Cells of a lease are written and read at random, with many operations under way, while
 * so many channels are broken one after the other, from this side, by moving what they are
 * on to its error state.  No operation may fail, and every byte read is checked: an older
 * write that arrives late would show.  The last line has the totals; the exit status is 1
 * after a mismatch, an error, or a minute without a completion.  It reaches into the
 * library, as nothing else breaks a channel and leaves the session whole. */
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rmem/rmem.h>

#include "librmem/queue.h"

#define CELL 4096u
#define CELLS 96u
#define CHANNELS 4u
#define DEPTH 64u
#define BETWEEN 200u /* completions from one death to the next */

static rmem *session;
static rmem_lease *lease;
static rmem_buffer *buffer;
static rmem_queue *queue;
static unsigned char *local; /* a place for each cell */
static unsigned char model[CELLS][CELL];
static bool busy[CELLS], writing[CELLS];
static unsigned long done, deaths, turn;
static uint64_t seed;

static void die(const char *what)
{
	(void)fprintf(stderr, "channels: %s: %s\n", what, rmem_error());
	exit(1);
}

static unsigned next_random(void)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)(seed >> 33);
}

static void open_all(const char *uri)
{
	struct rmem_alloc_params alloc = RMEM_ALLOC_INIT;
	struct rmem_buffer_params memory = RMEM_BUFFER_INIT;
	struct rmem_queue_params params = RMEM_QUEUE_INIT;

	alloc.bytes = memory.bytes = CELLS * CELL;
	params.channels = CHANNELS;
	params.depth = DEPTH;
	if (rmem_open(uri, NULL, &session) || rmem_alloc(session, &alloc, &lease) ||
	    rmem_buffer_create(session, &memory, &buffer) ||
	    rmem_queue_create(session, &params, &queue))
		die("set-up");
	local = rmem_buffer_addr(buffer);
}

static void cell_submit(unsigned cell)
{
	unsigned char *place = local + (size_t)cell * CELL;
	struct rmem_op op = {
		.opcode = RMEM_OP_READ,
		.lease = lease,
		.buffer = buffer,
		.offset = (uint64_t)cell * CELL,
		.addr = place,
		.bytes = CELL,
		.cookie = cell,
	};

	busy[cell] = true;
	writing[cell] = next_random() % 2;
	if (writing[cell]) {
		op.opcode = RMEM_OP_WRITE;
		for (unsigned i = 0; i < CELL; i += 4) {
			unsigned value = next_random();

			memcpy(place + i, &value, sizeof(value));
		}
	} else {
		memset(place, 0xa5, CELL);
	}
	if (rmem_submit(queue, &op, 1) != 1)
		die("submit");
}

static void cell_done(const struct rmem_completion *completion)
{
	unsigned cell = (unsigned)completion->cookie;
	const unsigned char *place = local + (size_t)cell * CELL;

	if (completion->status) {
		(void)fprintf(stderr, "channels: %s\n", rmem_completion_error(queue));
		exit(1);
	}
	if (writing[cell])
		memcpy(model[cell], place, CELL);
	else if (memcmp(model[cell], place, CELL) != 0) {
		(void)fprintf(stderr, "channels: cell %u has other bytes\n", cell);
		exit(1);
	}
	busy[cell] = false;
	done++;
	(void)alarm(60);
}

/* The next channel that lives.  This thread is the queue's owner, who alone frees them. */
static void channel_break(void)
{
	for (unsigned i = 0; i < CHANNELS; i++) {
		struct channel_slot *slot = &queue->channels.slots[turn++ % CHANNELS];

		if (!slot->live)
			continue;
		queue->ops->abort(slot->channel);
		deaths++;
		return;
	}
}

static void run(unsigned long wanted)
{
	struct rmem_completion completions[16];
	unsigned long due = BETWEEN;

	while (deaths < wanted || rmem_queue_outstanding(queue) > 0) {
		unsigned cell = next_random() % CELLS;
		int n;

		while (deaths < wanted && rmem_queue_outstanding(queue) < DEPTH &&
		       !busy[cell]) {
			cell_submit(cell);
			cell = next_random() % CELLS;
		}
		if (done >= due && deaths < wanted) {
			channel_break();
			due = done + BETWEEN;
		}
		n = rmem_wait(queue, completions, 16, 1, -1);
		for (int i = 0; i < n; i++)
			cell_done(&completions[i]);
	}
}

/* What lies there at the end, by another way. */
static void check_all(void)
{
	static unsigned char bytes[CELL];

	for (unsigned cell = 0; cell < CELLS; cell++) {
		if (rmem_read(lease, (uint64_t)cell * CELL, bytes, CELL))
			die("read");
		if (memcmp(bytes, model[cell], CELL) != 0) {
			(void)fprintf(stderr, "channels: cell %u is wrong at the end\n",
				      cell);
			exit(1);
		}
	}
}

int main(int argc, char **argv)
{
	if (argc != 4) {
		(void)fprintf(stderr, "usage: channels URI DEATHS SEED\n");
		return 2;
	}
	seed = strtoull(argv[3], NULL, 10);
	(void)alarm(60);
	open_all(argv[1]);
	run(strtoul(argv[2], NULL, 10));
	check_all();
	(void)printf("channels: seed %s: %lu operations over %lu deaths of channels\n",
		     argv[3], done, deaths);
	rmem_queue_free(queue);
	if (rmem_buffer_free(buffer) || rmem_free(lease))
		die("free");
	rmem_close(session);
	return 0;
}

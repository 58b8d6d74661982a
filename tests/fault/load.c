/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that reads and writes while a test breaks things under it:
 *
 *   load URI SEED TIMEOUT_MS [CELL_BYTES CELLS]
 *
 * It writes and reads random cells of a lease, or lets the server fill them and compute their
 * CRC, with many outstanding operations over several channels.  It checks every byte that it
 * reads, so an old write that arrives late would show.  An operation that fails ends the program,
 * unless a command allows it.  Commands are lines on standard input; each is answered by
 * "ok WORD NUMBER" once it is done:
 *
 *   run N     wait until N more operations have succeeded
 *   break N   N times: move the connection of a channel to its error state
 *   refuse    make the server refuse one operation; only that one may fail
 *   cut       shut the control connection down
 *   lenient   operations may end in ECONNRESET and ETIMEDOUT from now on; NUMBER: count of them
 *   strict    no operation may fail any more
 *   lost      wait until operations end in ESTALE, then submit no more
 *   fill      write every cell
 *   gap       NUMBER: the longest time without a success since the last `gap`, in milliseconds
 *   pace N    rest N milliseconds before operations are submitted, from now on
 *   leave     submit and check nothing any more; the server may be unreachable at the end
 *   check     wait for all operations, and compare the whole lease by rmem_read()
 *   state     print the state of the session on standard error
 *
 * At the end of the input it checks the lease, closes everything and ends.  A minute without
 * progress is a failure.  It uses internals of the library, because nothing else breaks a channel
 * without breaking the session. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rmem/rmem.h>

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/random.h"
#include "librmem/lease/lease.h"
#include "librmem/queue/queue.h"
#include "librmem/session/session.h"
#include "state.h"

#define CELL_BYTES 4096u
#define CELLS 96u
#define CHANNELS 4u
#define DEPTH 64u
#define BETWEEN 200u /* operations between two broken channels */
#define REFUSED \
	n_cells /* cell and cookie of the operation that the server must refuse */
#define STEP_MS 50
#define SILENCE_S 60u

static rmem *session;
static rmem_lease *lease;
static rmem_lease *forbidden; /* of REFUSED alone, as its keys are false for a moment */
static rmem_buffer *buffer;
static rmem_queue *queue;
static unsigned char *local; /* buffer memory for each cell, and for REFUSED */
static unsigned n_cells = CELLS, cell_bytes = CELL_BYTES;
static unsigned char *model; /* the expected bytes of each cell */
/* unknown: a write of the cell failed, and may have been executed or not */
static bool *busy, *writing, *unknown;
/* the server executes the operation of the cell: a fill or a CRC */
static bool *remote;
static uint32_t *crcs;
static bool lenient, idle, left;
static unsigned pace_ms; /* 0: the program never rests */
static unsigned long done, failed, stale, breaks, turn, due, break_due;
static uint64_t seed, progress_ms, gap_ms;
/* the attachment whose rkeys were falsified, and channels_sum() at that time */
static const struct attachment *refused_with;
static uint64_t refused_on;
static char verb[32];

static void die(const char *what)
{
	(void)fprintf(stderr, "load: %s: %s\n", what, rmem_error());
	exit(1);
}

static unsigned char *model_of(unsigned cell)
{
	return model + (size_t)cell * cell_bytes;
}

static void progress(void)
{
	uint64_t now_ms = clock_now_ms();

	if (progress_ms && now_ms - progress_ms > gap_ms)
		gap_ms = now_ms - progress_ms;
	progress_ms = now_ms;
	(void)alarm(SILENCE_S);
}

static unsigned next_random(void)
{
	return (unsigned)(random_next(&seed) >> 33);
}

static void open_all(const char *uri, unsigned timeout_ms)
{
	struct rmem_options options = rmem_options_init();
	struct rmem_alloc_params alloc = rmem_alloc_params_init();
	struct rmem_buffer_params memory = rmem_buffer_params_init();
	struct rmem_queue_params params = rmem_queue_params_init();

	options.timeout_ms = timeout_ms;
	alloc.bytes = (uint64_t)n_cells * cell_bytes;
	memory.bytes = ((uint64_t)n_cells + 1) * cell_bytes;
	model = calloc(n_cells, cell_bytes);
	busy = calloc(n_cells + 1, sizeof(*busy));
	writing = calloc(n_cells, sizeof(*writing));
	unknown = calloc(n_cells, sizeof(*unknown));
	remote = calloc(n_cells, sizeof(*remote));
	crcs = calloc(n_cells, sizeof(*crcs));
	if (!model || !busy || !writing || !unknown || !remote || !crcs)
		die("no memory");
	params.channels = CHANNELS;
	params.depth = DEPTH;
	if (rmem_open(uri, &options, &session) || rmem_alloc(session, &alloc, &lease))
		die("set-up");
	alloc.bytes = cell_bytes;
	if (rmem_alloc(session, &alloc, &forbidden) ||
	    rmem_buffer_create(session, &memory, &buffer) ||
	    rmem_queue_create(session, &params, &queue))
		die("set-up");
	local = rmem_buffer_addr(buffer);
}

/* The sum of the channels' numbers.  The server's numbers only rise, so the sum differs once a
 * channel was replaced. */
static uint64_t channels_sum(void)
{
	uint64_t sum = 0;

	(void)pthread_mutex_lock(&session->lock);
	for (unsigned i = 0; i < CHANNELS; i++)
		sum += queue->channels.all[i].number;
	(void)pthread_mutex_unlock(&session->lock);
	return sum;
}

/* ---- operations ---- */

/* Make the operation a fill or a CRC. */
static void remote_make(unsigned cell, struct rmem_op *op)
{
	unsigned char *place = local + (size_t)cell * cell_bytes;

	op->buffer = NULL;
	op->addr = writing[cell] ? NULL : &crcs[cell];
	op->opcode = writing[cell] ? RMEM_OP_FILL : RMEM_OP_CRC;
	if (!writing[cell])
		return;
	op->pattern = (uint64_t)next_random() << 32 | next_random();
	for (unsigned i = 0; i < cell_bytes; i += 8)
		memcpy(place + i, &op->pattern, 8);
}

static bool cell_is_right(unsigned cell)
{
	if (remote[cell])
		return crcs[cell] == crc32c(0, model_of(cell), cell_bytes);
	return memcmp(model_of(cell), local + (size_t)cell * cell_bytes, cell_bytes) ==
	       0;
}

static void cell_submit(unsigned cell)
{
	unsigned char *place = local + (size_t)cell * cell_bytes;
	struct rmem_op op = {
		.opcode = RMEM_OP_READ,
		.lease = cell == REFUSED ? forbidden : lease,
		.buffer = buffer,
		.offset = (uint64_t)(cell % n_cells) * cell_bytes,
		.addr = place,
		.bytes = cell_bytes,
		.cookie = cell,
	};

	busy[cell] = true;
	if (cell < n_cells) {
		writing[cell] = unknown[cell] || next_random() % 2;
		remote[cell] = next_random() % 4 == 0;
	}
	if (cell < n_cells && remote[cell]) {
		remote_make(cell, &op);
	} else if (cell < n_cells && writing[cell]) {
		op.opcode = RMEM_OP_WRITE;
		for (unsigned i = 0; i < cell_bytes; i += 4) {
			unsigned value = next_random();

			memcpy(place + i, &value, sizeof(value));
		}
	} else {
		memset(place, 0xa5, cell_bytes);
	}
	if (rmem_submit(queue, &op, 1) != 1)
		die("submit");
}

static void cell_failed(unsigned cell, const struct rmem_completion *completion)
{
	int status = completion->status;
	bool allowed = status == -EACCES   ? cell == REFUSED
		       : status == -ESTALE ? !strcmp(verb, "lost")
					   : lenient && (status == -ECONNRESET ||
							 status == -ETIMEDOUT);

	if (!allowed) {
		(void)fprintf(stderr, "load: an operation ended in %s; %s\n",
			      strerrorname_np(-status),
			      rmem_completion_error(queue, completion));
		state_print(stderr, session);
		exit(1);
	}
	if (cell < n_cells && writing[cell])
		unknown[cell] = true;
	if (status == -ESTALE)
		stale++;
	else if (cell < n_cells)
		failed++;
}

static void cell_done(const struct rmem_completion *completion)
{
	unsigned cell = (unsigned)completion->cookie;
	const unsigned char *place = local + (size_t)cell * cell_bytes;

	busy[cell] = false;
	if (completion->status) {
		cell_failed(cell, completion);
		return;
	}
	done++;
	progress();
	if (cell == REFUSED) {
		/* it may succeed with valid rkeys after a new attachment or, over iWARP, after
		 * the channel was lost */
		if (atomic_load(&forbidden->attachment) != refused_with ||
		    channels_sum() != refused_on)
			return;
		(void)fprintf(stderr,
			      "load: an rkey that was never granted is valid\n");
		exit(1);
	}
	if (writing[cell]) {
		memcpy(model_of(cell), place, cell_bytes);
		unknown[cell] = false;
	} else if (!cell_is_right(cell)) {
		(void)fprintf(stderr, "load: cell %u has other bytes\n", cell);
		exit(1);
	}
}

static void cells_submit(void)
{
	unsigned cell = next_random() % n_cells;

	while (!idle && rmem_queue_outstanding(queue) < DEPTH - 1 && !busy[cell]) {
		cell_submit(cell);
		cell = next_random() % n_cells;
	}
}

static void completions_wait(int timeout_ms)
{
	struct rmem_completion completions[16];
	int n = rmem_wait(queue, completions, 16, 1, timeout_ms);

	for (int i = 0; i < n; i++)
		cell_done(&completions[i]);
}

/* ---- faults ---- */

/* Break the next live channel.  This thread owns the queue, so no other thread frees it. */
static void channel_break(void)
{
	for (unsigned i = 0; i < CHANNELS; i++) {
		struct send_side *side = &queue->channels.sides[turn++ % CHANNELS];

		if (!side->live)
			continue;
		queue->ops->abort(side->fabric);
		breaks--;
		return;
	}
}

/* Post one operation with an rkey that was never granted. */
static void access_falsify(void)
{
	struct attachment *att = atomic_load(&forbidden->attachment);
	uint64_t kept[WIRE_ENDPOINTS_MAX];

	refused_with = att;
	refused_on = channels_sum();
	for (unsigned i = 0; i < WIRE_ENDPOINTS_MAX; i++) {
		kept[i] = att->keys[0][i].at.rkey;
		att->keys[0][i].at.rkey ^= 0x5a5a00;
	}
	cell_submit(REFUSED);
	for (unsigned i = 0; i < WIRE_ENDPOINTS_MAX; i++)
		att->keys[0][i].at.rkey = kept[i];
}

/* Shut down the TCP connection to the server's port. */
static void control_cut(void)
{
	uint16_t wanted = session->uri.port;

	for (int fd = 3; fd < 1024; fd++) {
		struct sockaddr_storage peer = { 0 };
		socklen_t bytes = sizeof(peer);
		uint8_t port[2];

		if (getpeername(fd, (struct sockaddr *)&peer, &bytes))
			continue;
		/* the port has this offset in both families */
		memcpy(port, (const unsigned char *)&peer + 2, sizeof(port));
		if ((peer.ss_family == AF_INET || peer.ss_family == AF_INET6) &&
		    (port[0] << 8 | port[1]) == wanted)
			(void)shutdown(fd, SHUT_RDWR);
	}
}

/* ---- the end ---- */

static void check_all(void)
{
	unsigned char *bytes = local + (size_t)n_cells * cell_bytes;

	while (rmem_queue_outstanding(queue) > 0)
		completions_wait(-1);
	for (unsigned cell = 0; cell < n_cells; cell++) {
		if (unknown[cell])
			continue;
		if (rmem_read(lease, (uint64_t)cell * cell_bytes, bytes, cell_bytes))
			die("read");
		if (memcmp(bytes, model_of(cell), cell_bytes) != 0) {
			(void)fprintf(stderr, "load: cell %u is wrong\n", cell);
			exit(1);
		}
		progress();
	}
}

static void fill_all(void)
{
	while (rmem_queue_outstanding(queue) > 0)
		completions_wait(-1);
	for (unsigned cell = 0; cell < n_cells; cell++) {
		unsigned char *bytes = model_of(cell);

		for (unsigned i = 0; i < cell_bytes; i += 4) {
			unsigned value = next_random();

			memcpy(bytes + i, &value, sizeof(value));
		}
		if (rmem_write(lease, (uint64_t)cell * cell_bytes, bytes, cell_bytes))
			die("write");
		progress();
	}
}

/* A lease that was lost or left is gone. */
static bool lease_freed(rmem_lease *of)
{
	return !rmem_destroy(of) || stale > 0 || left;
}

static void close_all(void)
{
	rmem_queue_free(queue);
	if (rmem_buffer_free(buffer) || !lease_freed(lease) || !lease_freed(forbidden))
		die("free");
	rmem_close(session);
}

/* ---- commands ---- */

static bool is(const char *name)
{
	return strcmp(verb, name) == 0;
}

static void command_begin(const char *line)
{
	unsigned long n = 1;

	if (sscanf(line, "%31s %lu", verb, &n) < 1)
		verb[0] = '\0';
	due = done + n;
	if (is("break"))
		breaks = n;
	else if (is("refuse"))
		access_falsify();
	else if (is("cut"))
		control_cut();
	else if (is("lenient") || is("strict"))
		lenient = is("lenient");
	else if (is("pace"))
		pace_ms = (unsigned)n;
	else if (is("leave"))
		idle = left = true;
	else if (is("check"))
		check_all();
	else if (is("fill"))
		fill_all();
	else if (is("state"))
		state_print(stderr, session);
	else if (!is("run") && !is("lost") && !is("gap")) {
		(void)fprintf(stderr, "load: unknown command '%s'\n", line);
		exit(2);
	}
}

static bool command_over(void)
{
	if (is("run"))
		return done >= due;
	if (is("break"))
		return breaks == 0;
	if (is("refuse"))
		return !busy[REFUSED];
	if (is("lost"))
		return idle && rmem_queue_outstanding(queue) == 0;
	return true;
}

static void command_work(void)
{
	if (breaks > 0 && done >= break_due) {
		channel_break();
		break_due = done + BETWEEN;
	}
	if (is("lost") && stale > 0)
		idle = true;
	if (!verb[0] || !command_over())
		return;
	(void)printf("ok %s %lu\n", verb,
		     is("lost")  ? stale
		     : is("run") ? done
		     : is("gap") ? gap_ms
				 : failed);
	(void)fflush(stdout);
	if (is("gap") || is("fill"))
		gap_ms = 0;
	verb[0] = '\0';
}

/* End the program with the session's state, shortly before the alarm would kill it. */
static void silence_check(void)
{
	if (clock_now_ms() - progress_ms < (SILENCE_S - 2) * 1000u)
		return;
	(void)fprintf(stderr,
		      "load: no operation succeeds during '%s', %lu failed: %s\n", verb,
		      failed, rmem_completion_error(queue, NULL));
	state_print(stderr, session);
	exit(1);
}

/* False: the input has ended. */
static bool command_read(void)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	char line[80];

	if (verb[0] || poll(&input, 1, 0) <= 0)
		return true;
	if (!fgets(line, sizeof(line), stdin))
		return false;
	command_begin(line);
	return true;
}

int main(int argc, char **argv)
{
	if (argc != 4 && argc != 6) {
		(void)fprintf(stderr,
			      "usage: load URI SEED TIMEOUT_MS [CELL_BYTES CELLS]\n");
		return 2;
	}
	if (argc == 6) {
		cell_bytes = (unsigned)strtoul(argv[4], NULL, 10);
		n_cells = (unsigned)strtoul(argv[5], NULL, 10);
	}
	/* unbuffered, so that poll() sees every line that was not read */
	(void)setvbuf(stdin, NULL, _IONBF, 0);
	seed = strtoull(argv[2], NULL, 10);
	progress();
	open_all(argv[1], (unsigned)strtoul(argv[3], NULL, 10));
	while (command_read()) {
		(void)usleep(pace_ms * 1000);
		cells_submit();
		completions_wait(STEP_MS);
		command_work();
		silence_check();
	}
	if (!idle)
		check_all();
	(void)printf("load: seed %s: %lu operations, %lu failed, %lu stale\n", argv[2],
		     done, failed, stale);
	close_all();
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmem/transfer.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "rmem/interrupt.h"
#include "rmem/options.h"
#include "rmem/session.h"
#include "rmem/visible.h"

#define CHUNK_BYTES ((size_t)512 << 10)
#define SLOTS_PER_CHANNEL 8u
#define SLOTS_MAX 64u
#define SLOTS_MIN 2u
#define GROW_MIN_BYTES (UINT64_C(4) << 20)
/* longest wait of a signal or the progress line */
#define WAIT_MS 200
/* interval at which a put that waits for a pipe checks its lease */
#define IDLE_MS 1000
/* longest time to resume the session unless --timeout says it, and the pause between attempts */
#define RESUME_MS UINT64_C(30000)
#define RESUME_PAUSE_MS 20

/* Of a chunk: free, in flight, done (a read is not written to the file yet), or lost with the
 * connection, to be submitted again. */
enum slot_state { SLOT_FREE, SLOT_BUSY, SLOT_DONE, SLOT_LOST };

struct slot {
	enum slot_state state;
	uint64_t offset, bytes;
};

struct transfer {
	rmem *session;
	struct progress *progress;
	rmem_buffer *buffer;
	rmem_queue *queue;
	rmem_lease *lease; /* of this transfer, with the opcode */
	enum rmem_opcode opcode;
	unsigned n_slots, n_lost;
	/* time of the first failure since the last success; 0: none */
	uint64_t lost_ns;
	int err;                /* of the first operation that failed */
	uint64_t done_bytes;    /* completed */
	bool wrote;             /* some of what was read has gone to the file */
	uint64_t refused_bytes; /* length that the server refused; 0: none */
	struct slot slots[SLOTS_MAX];
};

/* RLIMIT_MEMLOCK may not allow the preferred size: halve it until it does. */
static int buffer_create(struct transfer *t)
{
	struct rmem_buffer_params params = rmem_buffer_params_init();
	int err;

	for (;;) {
		params.bytes = t->n_slots * CHUNK_BYTES;
		err = rmem_buffer_create(t->session, &params, &t->buffer);
		if (err != -ENOMEM || t->n_slots / 2 < SLOTS_MIN)
			break;
		t->n_slots /= 2;
	}
	return session_result(err);
}

int transfer_create(rmem *session, struct progress *progress,
		    struct transfer **ret_transfer)
{
	struct rmem_queue_params params = rmem_queue_params_init();
	struct rmem_info info = rmem_info_init();
	struct transfer *t = calloc(1, sizeof(*t));
	int err;

	if (!t)
		return err_set(-ENOMEM, "out of memory");
	t->session = session;
	t->progress = progress;
	err = session_result(rmem_info(session, &info));
	if (err)
		goto err_free;
	t->n_slots = info.channels * SLOTS_PER_CHANNEL;
	if (t->n_slots > SLOTS_MAX)
		t->n_slots = SLOTS_MAX;
	err = buffer_create(t);
	if (err)
		goto err_free;
	params.depth = t->n_slots;
	err = session_result(rmem_queue_create(session, &params, &t->queue));
	if (err)
		goto err_free;
	*ret_transfer = t;
	return 0;

err_free:
	transfer_free(t);
	return err;
}

void transfer_free(struct transfer *t)
{
	if (!t)
		return;
	rmem_queue_free(t->queue);
	(void)rmem_buffer_free(t->buffer);
	free(t);
}

int transfer_reset(struct transfer *t)
{
	struct rmem_completion c;
	int n = rmem_cancel(t->queue, NULL);

	while (n >= 0 && rmem_queue_outstanding(t->queue) > 0)
		n = rmem_wait(t->queue, &c, 1, 1, -1);
	if (n < 0)
		return session_result(n);
	memset(t->slots, 0, sizeof(t->slots));
	t->n_lost = 0;
	t->lost_ns = 0;
	t->err = 0;
	t->done_bytes = 0;
	t->wrote = false;
	return 0;
}

bool transfer_wrote(const struct transfer *t)
{
	return t->wrote;
}

static char *slot_addr(const struct transfer *t, unsigned i)
{
	return (char *)rmem_buffer_addr(t->buffer) + i * CHUNK_BYTES;
}

static void completion_handle(struct transfer *t, const struct rmem_completion *c)
{
	struct slot *slot = &t->slots[c->cookie];

	if (c->status == 0) {
		slot->state = SLOT_DONE;
		t->done_bytes += c->bytes;
		t->lost_ns = 0;
	} else if (c->status == -ECONNRESET) {
		slot->state = SLOT_LOST;
		t->n_lost++;
	} else if (!t->err) {
		t->err = err_set(c->status, "%s", rmem_completion_error(t->queue, c));
	}
}

static int slot_submit(struct transfer *t, unsigned i)
{
	struct slot *slot = &t->slots[i];
	struct rmem_op op = {
		.opcode = (uint16_t)t->opcode,
		.lease = t->lease,
		.offset = slot->offset,
		.addr = slot_addr(t, i),
		.bytes = slot->bytes,
		.buffer = t->buffer,
		.cookie = i,
	};
	int n = session_result(rmem_submit(t->queue, &op, 1));

	if (n < 0)
		return n;
	if (n == 0) /* the queue is as deep as the number of slots */
		return err_set(-EOVERFLOW, "rmem_submit: the queue accepted nothing");
	slot->state = SLOT_BUSY;
	return 0;
}

/* Wait until the session is resumed, and submit the lost operations again.  A write may be done
 * twice: the lease has no name yet, so no other session reads it. */
static int transfer_resume(struct transfer *t)
{
	uint64_t now = clock_now_ns();
	uint64_t limit_ms = options.timeout_ms ? options.timeout_ms : RESUME_MS;
	int err;

	if (!t->lost_ns)
		t->lost_ns = now;
	else if (now - t->lost_ns > limit_ms * 1000000)
		return err_set(-ECONNRESET, "%s",
			       rmem_completion_error(t->queue, NULL));
	err = session_result(rmem_ping(t->session, NULL));
	if (err)
		return err;
	/* the server answers before the lease can be used again */
	(void)interrupt_wait(RESUME_PAUSE_MS);
	for (unsigned i = 0; i < t->n_slots; i++) {
		if (t->slots[i].state != SLOT_LOST)
			continue;
		err = slot_submit(t, i);
		if (err)
			return err;
	}
	t->n_lost = 0;
	return 0;
}

/* Handle completions; wait up to timeout_ms for the first one.  They are polled one by one,
 * because the queue keeps the error text of the last one only. */
static int reap(struct transfer *t, int timeout_ms)
{
	struct rmem_completion c;
	int n;

	for (;;) {
		n = timeout_ms ? rmem_wait(t->queue, &c, 1, 1, timeout_ms)
			       : rmem_poll(t->queue, &c, 1);
		if (n < 0)
			return session_result(n);
		if (n == 0)
			break;
		completion_handle(t, &c);
		if (t->err)
			return t->err;
		timeout_ms = 0;
	}
	progress_update(t->progress, t->done_bytes);
	if (interrupt_wait(0))
		return err_set(-EINTR, "interrupted");
	return t->n_lost > 0 ? transfer_resume(t) : 0;
}

/* Wait until `fd` can be read or written without blocking, and handle completions meanwhile: the
 * program at the other end of a pipe may be slow. */
static int await_fd(struct transfer *t, int fd, short events)
{
	int err;

	for (;;) {
		struct pollfd pfds[] = {
			{ .fd = fd, .events = events },
			{ .fd = interrupt_fd(), .events = POLLIN },
			{ .fd = -1, .events = POLLIN },
		};

		bool busy = rmem_queue_outstanding(t->queue) > 0;

		if (busy) {
			int ready = rmem_queue_arm(t->queue);

			if (ready < 0)
				return session_result(ready);
			if (ready) {
				err = reap(t, 0);
				if (err)
					return err;
				continue;
			}
			pfds[2].fd = rmem_queue_fd(t->queue);
		}
		if (poll(pfds, 3, busy ? WAIT_MS : IDLE_MS) < 0 && errno != EINTR)
			return err_errno(-errno, "poll");
		err = reap(t, 0);
		if (err)
			return err;
		if (pfds[0].revents)
			return 0;
		if (t->opcode == RMEM_OP_WRITE && rmem_lease_status(t->lease))
			return err_set(-ESTALE, "the session is lost, and with it the "
						"data written");
	}
}

static int slot_await(struct transfer *t, unsigned i)
{
	int err = 0;

	while (!err &&
	       (t->slots[i].state == SLOT_BUSY || t->slots[i].state == SLOT_LOST))
		err = reap(t, WAIT_MS);
	return err;
}

static bool blocks(int fd)
{
	struct stat st;

	return fstat(fd, &st) || !S_ISREG(st.st_mode);
}

/* Read up to a whole chunk of input. */
static int input_fill(struct transfer *t, int fd, bool may_block, char *dst,
		      uint64_t *ret_bytes)
{
	size_t filled = 0;
	ssize_t n;

	while (filled < CHUNK_BYTES) {
		int err = may_block ? await_fd(t, fd, POLLIN) : 0;

		if (err)
			return err;
		n = read(fd, dst + filled, CHUNK_BYTES - filled);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n < 0)
			return err_errno(-errno, "reading the input");
		if (n == 0)
			break;
		filled += (size_t)n;
	}
	*ret_bytes = filled;
	return 0;
}

/* How much to borrow in advance.  What is not written yet is withheld from others, so it is little:
 * a sixteenth of the length.  The number of segments of a lease is limited, and each step may take
 * one; the fewer are left, the longer are the steps, up to four times the length. */
static uint64_t grow_step(const struct transfer *t)
{
	struct rmem_layout layout = rmem_layout_init();
	unsigned left = 1;
	uint64_t step;

	if (!rmem_lease_layout(t->lease, &layout) &&
	    layout.segments < RMEM_SEGMENTS_MAX)
		left = RMEM_SEGMENTS_MAX - layout.segments;
	step = rmem_lease_bytes(t->lease) * 4 / left;
	return step < GROW_MIN_BYTES ? GROW_MIN_BYTES : step;
}

/* Grow the lease to at least `need` bytes: to exactly that at the end of the input, else a step
 * further, so that long input needs few requests.  When the server refuses, ask for less, down
 * to `need`. */
static int lease_extend(struct transfer *t, uint64_t need, bool at_end)
{
	uint64_t want = rmem_lease_bytes(t->lease) + grow_step(t);
	int err;

	if (want < need || at_end)
		want = need;
	for (;;) {
		/* a length that was refused is asked for again only if it is needed */
		if (t->refused_bytes && want >= t->refused_bytes)
			want = t->refused_bytes > need
				       ? need + (t->refused_bytes - need) / 4
				       : need;
		if (want - need < CHUNK_BYTES)
			want = need;
		err = rmem_grow(t->lease, want);
		if (!err)
			return 0;
		if ((err != -ENOSPC && err != -EDQUOT) || want == need)
			return session_result(err);
		t->refused_bytes = want;
	}
}

int transfer_put(struct transfer *t, rmem_lease *lease, int fd, uint64_t *ret_bytes)
{
	bool may_block = blocks(fd);
	uint64_t offset = 0, bytes = 0;
	unsigned i = 0;
	int err;

	t->lease = lease;
	t->opcode = RMEM_OP_WRITE;
	do {
		err = slot_await(t, i);
		if (!err)
			err = input_fill(t, fd, may_block, slot_addr(t, i), &bytes);
		if (err)
			return err;
		if (bytes == 0)
			break;
		if (offset + bytes > rmem_lease_bytes(lease))
			err = lease_extend(t, offset + bytes, bytes < CHUNK_BYTES);
		t->slots[i].offset = offset;
		t->slots[i].bytes = bytes;
		if (!err)
			err = slot_submit(t, i);
		if (!err)
			err = reap(t, 0);
		if (err)
			return err;
		offset += bytes;
		i = (i + 1) % t->n_slots;
	} while (bytes == CHUNK_BYTES);
	while (!err && (rmem_queue_outstanding(t->queue) || t->n_lost > 0))
		err = reap(t, WAIT_MS);
	if (!err)
		*ret_bytes = offset;
	return err;
}

static int output_write(struct transfer *t, int fd, bool may_block, const char *src,
			uint64_t bytes)
{
	/* a pipe that polls writable accepts PIPE_BUF bytes without blocking */
	size_t unit = may_block ? PIPE_BUF : CHUNK_BYTES;
	ssize_t n;

	while (bytes) {
		int err = may_block ? await_fd(t, fd, POLLOUT) : 0;

		if (err)
			return err;
		n = write(fd, src, bytes < unit ? bytes : unit);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n < 0)
			return err_errno(-errno, "writing the output");
		src += n;
		bytes -= (uint64_t)n;
	}
	return 0;
}

/* Wait for all slots up to `end`. */
static int slots_await(struct transfer *t, unsigned end)
{
	int err = 0;

	for (unsigned i = 0; !err && i < end; i++)
		err = slot_await(t, i);
	return err;
}

int transfer_get(struct transfer *t, rmem_lease *lease, int fd, uint64_t offset,
		 uint64_t bytes, bool text)
{
	struct visible visible = { .n_cut = 0 };
	bool may_block = blocks(fd);
	uint64_t asked = 0, written = 0;
	unsigned head = 0, tail = 0;
	int err;

	t->lease = lease;
	t->opcode = RMEM_OP_READ;
	while (written < bytes) {
		while (asked < bytes && t->slots[head].state == SLOT_FREE) {
			t->slots[head].bytes = bytes - asked < CHUNK_BYTES
						       ? bytes - asked
						       : CHUNK_BYTES;
			t->slots[head].offset = offset + asked;
			err = slot_submit(t, head);
			if (err)
				return err;
			asked += t->slots[head].bytes;
			head = (head + 1) % t->n_slots;
		}
		/* what fits is read as a whole before any of it is written */
		if (written == 0 && asked == bytes)
			err = slots_await(t, (unsigned)((bytes - 1) / CHUNK_BYTES) + 1);
		else
			err = slot_await(t, tail);
		if (err)
			return err;
		if (text &&
		    !visible_check(&visible, slot_addr(t, tail), t->slots[tail].bytes,
				   written + t->slots[tail].bytes == bytes))
			return err_set(-EINVAL,
				       "binary data would go to the terminal: give a "
				       "FILE, a pipe, or --force");
		t->wrote = true;
		err = output_write(t, fd, may_block, slot_addr(t, tail),
				   t->slots[tail].bytes);
		if (err)
			return err;
		written += t->slots[tail].bytes;
		t->slots[tail].state = SLOT_FREE;
		tail = (tail + 1) % t->n_slots;
	}
	return 0;
}

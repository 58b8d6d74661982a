/* SPDX-License-Identifier: BSD-3-Clause */
#include "cache/io.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define BATCH 64
/* of an operation: what a client gives a server that is well */
#define TIME_MS 2000
#define BYTES_A_MS 100000
#define HINTS_MAX (IO_OPS / 4)

int io_init(struct io *io, struct counters *counters)
{
	io->counters = counters;
	io->ops = calloc(IO_OPS, sizeof(*io->ops));
	io->atomics = calloc(IO_OPS, sizeof(*io->atomics));
	if (io->ops && io->atomics)
		return 0;
	io_free(io);
	return -ENOMEM;
}

void io_free(struct io *io)
{
	free(io->ops);
	free(io->atomics);
	io->ops = NULL;
	io->atomics = NULL;
}

/* Operations end by a deadline: a write that this host was stopped in does not come late. */
static void io_add(struct io *io, struct task *task, struct rmem_op op, uint64_t bytes)
{
	unsigned at = (io->head + io->n_ops) % IO_OPS;

	assert(io->n_ops < IO_OPS);
	op.cookie = (uintptr_t)task;
	op.flags = RMEM_OP_DEADLINE;
	op.timeout_ms = (uint32_t)(TIME_MS + bytes / BYTES_A_MS);
	if (task)
		task->pending++;
	if (op.opcode == RMEM_OP_CAS) {
		io->atomics[at] = (struct rmem_atomic){ task->expected, task->desired };
		op.atomic = &io->atomics[at];
	}
	io->ops[at] = op;
	io->n_ops++;
	io->outstanding++;
}

/* From or to the scratch memory. */
static void io_add_scratch(struct io *io, struct task *task, struct rmem_op op)
{
	op.buffer = io->buffer;
	io_add(io, task, op, op.bytes);
}

static uint64_t vec_bytes(const struct rmem_vec *vec, unsigned n)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < n; i++)
		bytes += vec[i].bytes;
	return bytes;
}

void io_read(struct io *io, struct task *task, uint64_t offset, void *dst,
	     uint64_t bytes)
{
	io->counters->reads++;
	io_add_scratch(io, task, rmem_op_read(io->lease, offset, dst, bytes));
}

void io_readv(struct io *io, struct task *task, uint64_t offset,
	      const struct rmem_vec *vec, unsigned n)
{
	io->counters->reads++;
	io_add(io, task, rmem_op_readv(io->lease, offset, vec, n), vec_bytes(vec, n));
}

void io_write(struct io *io, struct task *task, uint64_t offset, const void *src,
	      uint64_t bytes)
{
	io->counters->writes++;
	io_add_scratch(io, task, rmem_op_write(io->lease, offset, src, bytes));
}

void io_writev(struct io *io, struct task *task, uint64_t offset,
	       const struct rmem_vec *vec, unsigned n)
{
	io->counters->writes++;
	io_add(io, task, rmem_op_writev(io->lease, offset, vec, n), vec_bytes(vec, n));
}

void io_copy(struct io *io, struct task *task, uint64_t offset, uint64_t from,
	     uint64_t bytes)
{
	/* read by rmem_submit(), so until then it has the place of the operands of an atomic */
	unsigned at = (io->head + io->n_ops) % IO_OPS;
	struct rmem_op op = rmem_op_init(RMEM_OP_COPY, io->lease, offset, bytes);

	_Static_assert(sizeof(struct rmem_source) <= sizeof(struct rmem_atomic),
		       "their place");
	memcpy(&io->atomics[at],
	       &(struct rmem_source){ .lease = io->lease, .offset = from },
	       sizeof(struct rmem_source));
	op.source = (const struct rmem_source *)(const void *)&io->atomics[at];
	io->counters->copies++;
	io_add(io, task, op, bytes);
}

void io_swap(struct io *io, struct task *task)
{
	struct rmem_op op = rmem_op_init(RMEM_OP_CAS, io->lease, task->offset, 8);

	op.addr = task->word;
	op.buffer = io->buffer;
	io->counters->swaps++;
	io_add(io, task, op, 0);
}

void io_hint(struct io *io, uint64_t offset, const uint8_t *src)
{
	if (io->n_ops >= HINTS_MAX)
		return;
	io->counters->hints++;
	io_add_scratch(io, NULL, rmem_op_write(io->lease, offset, src, 1));
}

/* The operation has ended.  Of an atomic `unknown` says that it may have been done. */
static void op_ended(struct io *io, struct task *task, unsigned opcode, int err,
		     bool unknown)
{
	io->outstanding--;
	if (err == -ESTALE)
		io->lost = true;
	else if (err == -ETIMEDOUT || err == -ECONNRESET)
		io->slow = err;
	if (!task)
		return;
	if (opcode != RMEM_OP_CAS) {
		task_end(task, err);
		return;
	}
	task->swap_err = err;
	if (err)
		task->result = unknown ? SWAP_UNKNOWN : SWAP_LOST;
	else
		task->result = *task->word == task->expected ? SWAP_DONE : SWAP_LOST;
	task_end(task, 0);
}

static struct rmem_op ring_take(struct io *io)
{
	struct rmem_op op = io->ops[io->head];

	io->head = (io->head + 1) % IO_OPS;
	io->n_ops--;
	return op;
}

/* Whether the queue takes no more now. */
static bool ring_submit(struct io *io)
{
	unsigned n = io->n_ops;
	struct rmem_op op;
	int done;

	if (n > IO_OPS - io->head)
		n = IO_OPS - io->head;
	done = io->queue ? rmem_submit(io->queue, &io->ops[io->head], n) : -ESTALE;
	if (done == -EOVERFLOW)
		return true;
	if (done < 0) { /* its own fault */
		(void)snprintf(io->text, sizeof(io->text), "%s", rmem_error());
		op = ring_take(io);
		op_ended(io, (struct task *)(uintptr_t)op.cookie, op.opcode, done,
			 false);
		return false;
	}
	io->head = (io->head + (unsigned)done) % IO_OPS;
	io->n_ops -= (unsigned)done;
	return (unsigned)done < n && done == 0;
}

void io_flush(struct io *io)
{
	while (io->n_ops && !ring_submit(io))
		;
}

static int io_complete(struct io *io, const struct rmem_completion *done, int n)
{
	for (int i = 0; i < n; i++) {
		if (done[i].status)
			(void)snprintf(io->text, sizeof(io->text), "%s",
				       rmem_completion_error(io->queue, &done[i]));
		op_ended(io, (struct task *)(uintptr_t)done[i].cookie, done[i].opcode,
			 done[i].status, done[i].reason == RMEM_REASON_OUTCOME);
	}
	io_flush(io);
	return n;
}

int io_poll(struct io *io)
{
	struct rmem_completion done[BATCH];
	int n, total = 0;

	io_flush(io);
	while (io->queue && (n = rmem_poll(io->queue, done, BATCH)) > 0)
		total += io_complete(io, done, n);
	return total;
}

int io_wait(struct io *io, int timeout_ms)
{
	struct rmem_completion done[BATCH];
	int n;

	io_flush(io);
	n = rmem_wait(io->queue, done, BATCH, 1, timeout_ms);
	return n > 0 ? io_complete(io, done, n) : n;
}

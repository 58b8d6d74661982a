/* SPDX-License-Identifier: BSD-3-Clause */
/* The operations on the lease of one server: gathered, submitted as one batch, and completed into
 * the tasks that wait for them.  Nothing here waits.  Threads: [owner] of the cache. */
#ifndef CACHE_IO_H
#define CACHE_IO_H

#include <stdbool.h>
#include <stdint.h>
#include <rmem/rmem.h>

#include "cache/counters.h"
#include "cache/task.h"

/* as many as all that can be outstanding at once: see scratch.h */
#define IO_OPS 4096u

struct io {
	rmem_queue *queue; /* borrowed from the link; NULL: none */
	rmem_lease *lease;
	rmem_buffer *buffer; /* has the scratch memory */
	struct counters *counters;
	struct rmem_op *ops; /* a ring of those to be submitted */
	struct rmem_atomic *atomics;
	unsigned head, n_ops;
	unsigned outstanding; /* in the ring, or in the queue */
	bool lost;            /* the lease or the session has ended */
	int slow;             /* -ETIMEDOUT or the like: the server did not answer */
	char text[160];       /* of the last failure */
};

/* -ENOMEM */
int io_init(struct io *io, struct counters *counters);
void io_free(struct io *io);

/* Each adds one operation that the task waits for.  The local memory must stay until it has
 * ended. */
void io_read(struct io *io, struct task *task, uint64_t offset, void *dst,
	     uint64_t bytes);
void io_readv(struct io *io, struct task *task, uint64_t offset,
	      const struct rmem_vec *vec, unsigned n);
void io_write(struct io *io, struct task *task, uint64_t offset, const void *src,
	      uint64_t bytes);
void io_writev(struct io *io, struct task *task, uint64_t offset,
	       const struct rmem_vec *vec, unsigned n);
void io_copy(struct io *io, struct task *task, uint64_t offset, uint64_t from,
	     uint64_t bytes);
/* The task's atomic: from swap.c alone. */
void io_swap(struct io *io, struct task *task);
/* A write that nothing waits for, and that may be left out. */
void io_hint(struct io *io, uint64_t offset, const uint8_t *src);

/* Submit what was gathered. */
void io_flush(struct io *io);
/* Take completions, and go on with the tasks.  Returns the number that was taken. */
int io_poll(struct io *io);
/* As io_poll(), after waiting for one of them. */
int io_wait(struct io *io, int timeout_ms);

#endif

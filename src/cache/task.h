/* SPDX-License-Identifier: BSD-3-Clause */
/* What waits for operations: when none is outstanding any more, its next step is called.  A task is
 * a member of what it works for.  Threads: [owner] of the cache. */
#ifndef CACHE_TASK_H
#define CACHE_TASK_H

#include <stdint.h>

enum swap_result {
	SWAP_DONE,
	SWAP_LOST, /* the word was another one, and is as it was */
	SWAP_UNKNOWN,
};

struct io;

struct task {
	void (*then)(struct task *task);
	unsigned pending; /* operations outstanding */
	int err;          /* the first failure of one, atomics left out */
	/* the atomic, one at a time; see swap.h */
	struct io *io;
	void (*swapped)(struct task *task);
	enum swap_result result;
	int swap_err; /* of an atomic that failed */
	uint64_t offset, expected, desired;
	uint64_t *word; /* what was found, in registered memory */
};

/* One of the operations has ended. */
static inline void task_end(struct task *task, int err)
{
	if (err && !task->err)
		task->err = err;
	if (--task->pending == 0)
		task->then(task);
}

/* The next step, which the operations that follow lead to. */
static inline void task_then(struct task *task, void (*then)(struct task *task))
{
	task->then = then;
	task->err = 0;
}

#endif

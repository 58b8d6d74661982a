/* SPDX-License-Identifier: BSD-3-Clause */
#include "cache/swap.h"

#include "cache/format.h"

/* The word was read. */
static void swap_looked(struct task *task)
{
	uint64_t found = word_read(task->word);

	if (task->err)
		task->swap_err = task->err;
	else if (found == task->desired)
		task->result = SWAP_DONE;
	else if (found == task->expected)
		task->result = SWAP_LOST;
	if (task->result != SWAP_UNKNOWN)
		task->swap_err = 0;
	task->err = 0;
	task->swapped(task);
}

static void swap_done(struct task *task)
{
	if (task->result != SWAP_UNKNOWN) {
		task->swapped(task);
		return;
	}
	task->io->counters->unknown++;
	task_then(task, swap_looked);
	io_read(task->io, task, task->offset, task->word, sizeof(*task->word));
}

void swap_start(struct io *io, struct task *task, uint64_t offset, uint64_t expected,
		uint64_t desired, uint64_t *word, void (*swapped)(struct task *task))
{
	task->io = io;
	task->swapped = swapped;
	task->offset = offset;
	task->expected = expected;
	task->desired = desired;
	task->word = word;
	task_then(task, swap_done);
	io_swap(io, task);
}

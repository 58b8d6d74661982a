/* SPDX-License-Identifier: BSD-3-Clause */
/* A compare-and-swap of which the outcome is found out: after an error nothing is applied any more,
 * so the word tells whether it was done.  Threads: [owner] of the cache. */
#ifndef CACHE_SWAP_H
#define CACHE_SWAP_H

#include "cache/io.h"

/* When it has ended, `swapped` is called, and task->result tells the outcome.
 *   word  registered memory that is the task's until then; has the number that was found */
void swap_start(struct io *io, struct task *task, uint64_t offset, uint64_t expected,
		uint64_t desired, uint64_t *word, void (*swapped)(struct task *task));

#endif

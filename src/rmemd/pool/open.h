/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening the memory of all pools: of different nodes at the same time, a thread for each;
 * of one node one after the other, each by all of the node's CPUs; those of any node when
 * the others have what they are bound to; those of `size = auto` when these all have theirs.
 * Threads: [loop], which is where all events are called; blocks. */
#ifndef RMEMD_POOL_OPEN_H
#define RMEMD_POOL_OPEN_H

#include "rmemd/pool/memory.h"

struct opening_events {
	/* The memory of params[i] is there, and the callee's from now on, also if it
	 * fails; -errno with text ends everything. */
	int (*opened)(void *ctx, size_t i, const struct memory *memory,
		      const char *note);
	/* So many bytes of those of all pools are populated: at the beginning, about
	 * every second, whenever one is there, and so at the end. */
	void (*populating)(void *ctx, uint64_t done, uint64_t bytes);
};

/* When one fails the others stop, and what was not given to opened() is undone.
 *   of memory_open(), with the pool's name before the text
 *   -EAGAIN, -EMFILE, -ENOMEM */
int open_run(const struct pool_params *params, size_t n_params,
	     const struct opening_events *events, void *ctx);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Pools become as long as they are configured to be while they are in use.
 *
 * To grow, a pool gets memory behind what it has; that is lent when all of it is there, else the
 * pool keeps its size.  To shrink, its end is not lent any more and is reclaimed from those that
 * have leases there; after shrink_wait the pool keeps its size, or those leases end, as configured.
 * When the end is free the kernel gets it.  Nothing that is lent moves.
 *
 * Threads: [loop]; resizer.h has the thread for what takes time.  It logs. */
#ifndef RMEMD_POOL_RESIZE_H
#define RMEMD_POOL_RESIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rmemd/config/config.h"

struct ledger;
struct resizes;

struct resizes_events {
	/* What pools want back has changed, or it is time to take it. */
	void (*reclaim)(void *ctx);
	/* Name the leases that are in the way of what is wanted back of a pool.  False: there
	 * are none. */
	bool (*in_the_way)(void *ctx, uint32_t pool, char *buf, size_t buf_bytes);
};

/* Borrows all.  -ENOMEM */
int resizes_open(struct pools *pools, struct ledger *ledger,
		 const struct resizes_events *events, void *ctx,
		 struct resizes **ret_resizes);
/* A growth under way ends with pools_close(), which is to follow.  NULL: nothing. */
void resizes_close(struct resizes *resizes);

/* What the pools are to be from now on, in place of what was under way.  Pools that are not
 * configured, or not only by another size, keep theirs. */
void resizes_configure(struct resizes *resizes, const struct config *config);
/* After pools_process(), and when it is due.  True: there is more to lend. */
bool resizes_work(struct resizes *resizes);
/* How far the growth of all pools that grow together is.  False: none grows. */
bool resizes_growing(const struct resizes *resizes, uint64_t *ret_done,
		     uint64_t *ret_bytes);
/* Log it, now and then. */
void resizes_log_growth(struct resizes *resizes, uint64_t done, uint64_t bytes);
/* When it is due (clock_now_ms), UINT64_MAX: never.  NULL: never. */
uint64_t resizes_next_ms(const struct resizes *resizes);

#endif

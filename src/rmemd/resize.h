/* SPDX-License-Identifier: BSD-3-Clause */
/* Pools become as long as they are configured to be while they are in use.
 *
 * To grow, a pool gets memory behind what it has; that is lent when all of it is there, or it
 * stays as it was.  To shrink, its end is not lent any more, whoever has leases there is asked to
 * give them back, and after shrink_wait the pool stays as long as it was, or those leases end, as
 * it is configured; when the end is free the kernel gets it.  Nothing that is lent moves.
 *
 * Threads: [loop]; a thread of the pools does what takes time.  It logs. */
#ifndef RMEMD_RESIZE_H
#define RMEMD_RESIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "rmemd/config/config.h"

struct leases;
struct ledger;
struct resizes;

/* Borrows all.  -ENOMEM */
int resizes_open(struct pools *pools, struct leases *leases, struct ledger *ledger,
		 struct resizes **ret_resizes);
/* The pools stay as they are; what grows must be stopped then (pools_close()).  NULL: nothing. */
void resizes_close(struct resizes *resizes);

/* What the pools are to be from now on, in place of what was under way.  Those that are not
 * configured, or otherwise than by their size, stay as they are. */
void resizes_configure(struct resizes *resizes, const struct config *config);
/* After pools_process(), and when it is due.  True: there is more to lend. */
bool resizes_work(struct resizes *resizes);
/* How much of what pools grow by is there, of all those that grew together.  False: none grows. */
bool resizes_growing(const struct resizes *resizes, uint64_t *ret_done,
		     uint64_t *ret_bytes);
/* And a line of the log of it now and then. */
void resizes_log_growth(struct resizes *resizes, uint64_t done, uint64_t bytes);
/* When it is due (clock_now_ms), UINT64_MAX: never.  NULL: never. */
uint64_t resizes_next_ms(const struct resizes *resizes);

#endif

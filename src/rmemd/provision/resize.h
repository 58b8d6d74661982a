/* SPDX-License-Identifier: BSD-3-Clause */
/* Changing pools to what is configured while they are in use: their sizes, and which there are.
 *
 * Growing adds memory behind the pool and lends it when it is complete; on failure the pool keeps
 * its size.  Shrinking closes the pool's end and asks clients to free the leases there; after
 * shrink_wait the pool keeps its size, or these leases end, as configured.  A free end is given
 * back to the kernel.  Lent extents do not move.
 *
 * A pool that is not configured any more is leaving: it shrinks to nothing, which takes as long as
 * there are leases in it, and is removed then.  A pool that is new is added: see addition.h.
 *
 * Threads: [loop]; pools.c has a thread for slow work.  Logs. */
#ifndef RMEMD_PROVISION_RESIZE_H
#define RMEMD_PROVISION_RESIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rmemd/config/config.h"
#include "rmemd/pool/pools.h"

struct additions;
struct fdstore;
struct ledger;
struct resizes;

struct resizes_events {
	/* The memory that pools want back has changed, or a deadline has come. */
	void (*reclaim)(void *ctx);
	/* Find and describe leases that a pool wants back.  False: ask again in the next turn of
	 * the loop, as there are more to check. */
	bool (*find_leases)(void *ctx, struct pool_holders *holders, char *buf,
			    size_t buf_bytes);
	/* Pool i has been added, and is lent after this call; others were not changed. */
	void (*added)(void *ctx, unsigned i);
	/* A pool has been removed: the numbers of others may have changed. */
	void (*removed)(void *ctx);
};

/* Borrows all pointers.
 *   -ENOMEM
 *   -EBADMSG  the ledger is malformed */
int resizes_open(struct pools *pools, struct ledger *ledger, struct fdstore *store,
		 const struct resizes_events *events, void *ctx,
		 struct resizes **ret_resizes);
/* Call pools_close() next, which ends a growth under way.  NULL: no effect. */
void resizes_close(struct resizes *resizes);

/* Set the pools and their sizes from now on; borrows the configuration.  A pool that differs from
 * it in more than its size keeps its size: pools_params() has what is in force. */
void resizes_configure(struct resizes *resizes, const struct config *config);
/* The size of a pool that is in force: as configured, or what it kept since it could not follow. */
uint64_t resizes_bytes(const struct resizes *resizes, unsigned i);
/* Call it after pools_process(), and at resizes_next_ms().  True: there is more memory to lend. */
bool resizes_work(struct resizes *resizes);
/* The sum of the progress of all pools that grow or are added.  False: there are none. */
bool resizes_growing(const struct resizes *resizes, uint64_t *ret_done,
		     uint64_t *ret_bytes);
/* Log this progress, if a line is due. */
void resizes_log_growth(struct resizes *resizes, uint64_t done, uint64_t bytes);
/* The configured pools that are not there.  NULL: none. */
const struct additions *resizes_additions(const struct resizes *resizes);
/* When resizes_work() is due (clock_now_ms), UINT64_MAX: never.  NULL: never. */
uint64_t resizes_next_ms(const struct resizes *resizes);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Which pools there are to be: those of the configuration, and those that the last process had
 * with leases in them.  A pool with leases in it stays as it was; if nothing but its size is
 * another one now, it can be resized then.  Threads: [loop]. */
#ifndef RMEMD_PLAN_H
#define RMEMD_PLAN_H

#include <stdbool.h>

#include "rmemd/config/config.h"
#include "rmemd/system/fdstore.h"

struct ledger;

#define PLAN_POOLS_MAX (2 * CONFIG_POOLS_MAX)

struct plan {
	struct pool_params pools[PLAN_POOLS_MAX];
	bool fresh[PLAN_POOLS_MAX];   /* it was not there before */
	bool changed[PLAN_POOLS_MAX]; /* it was, and had other devices */
	unsigned n_pools;
	uint32_t next_id; /* of a pool */
};

/* From the configuration and the ledger.  stays() is told of each pool that is not as it is
 * configured, but for its size, or not configured at all any more.
 *   -EBADMSG  the ledger's pools are none
 *   -ENOSPC   more pools than there can be
 *   or what making their files gives */
int plan_make(struct plan *plan, const struct config *config, struct ledger *ledger,
	      struct fdstore *keep,
	      void (*stays)(const struct pool_params *params, const char *why));
/* The pools are open: those that are new are kept from now on, too, and devices that changed. */
int plan_record(const struct plan *plan, const struct pools *pools,
		struct ledger *ledger, struct fdstore *keep);
/* A pool is about to become so long: until plan_record_size() another process finds it as long
 * as it is now, however long its file is, with this in `bytes_grown`.  -ENOMEM or -ENOSPC: it
 * must not grow, as the ledger may not say how long it is. */
int plan_record_growth(const struct pools *pools, unsigned i, uint64_t bytes,
		       struct ledger *ledger);
/* A pool has become longer or shorter, or was asked to be; its file is as it says.  -ENOMEM or
 * -ENOSPC: the ledger still has what it was before. */
int plan_record_size(const struct pools *pools, unsigned i, uint64_t bytes,
		     struct ledger *ledger);

#endif

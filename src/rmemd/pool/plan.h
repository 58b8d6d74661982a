/* SPDX-License-Identifier: BSD-3-Clause */
/* Which pools there are to be: those of the configuration, and those that the last process had
 * with leases in them.  A pool with leases in it stays as it was; if only its size is configured
 * otherwise now, it can be resized then.  Threads: [loop]. */
#ifndef RMEMD_POOL_PLAN_H
#define RMEMD_POOL_PLAN_H

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

/* Whether leases of the ledger are in the pool with this id: 1, 0, or -errno. */
typedef int plan_uses_pool(const struct ledger *ledger, uint32_t id);

/* From the configuration and the ledger.  stays() is told of each pool that is not as it is
 * configured, but for its size, or not configured at all any more.
 *   -EBADMSG  the ledger's pools are none
 *   -ENOSPC   more pools than there can be
 *   or what making their files gives */
int plan_make(struct plan *plan, const struct config *config, struct ledger *ledger,
	      struct fdstore *keep, plan_uses_pool *uses_pool,
	      void (*stays)(const struct pool_params *params, const char *why));
/* The pools are open: record those that are new, and devices that changed. */
int plan_record(const struct plan *plan, const struct pools *pools,
		struct ledger *ledger, struct fdstore *keep);
/* A pool is about to grow to this: until plan_record_size() the next process finds it as long as
 * it is now, however long its file is, with this in `bytes_grown`.  -ENOMEM or -ENOSPC: it must
 * not grow. */
int plan_record_growth(const struct pools *pools, unsigned i, uint64_t bytes,
		       struct ledger *ledger);
/* A pool has this size now, or its configured one has changed.  -ENOMEM or -ENOSPC: the ledger
 * still has the former one. */
int plan_record_size(const struct pools *pools, unsigned i, uint64_t bytes,
		     struct ledger *ledger);

#endif

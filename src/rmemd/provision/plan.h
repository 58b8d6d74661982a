/* SPDX-License-Identifier: BSD-3-Clause */
/* The pools to open: configured pools, and pools of the last process that have leases.  A pool with
 * leases is opened unchanged; if only its configured size differs, it can be resized once open.
 * Threads: [loop]. */
#ifndef RMEMD_PROVISION_PLAN_H
#define RMEMD_PROVISION_PLAN_H

#include <stdbool.h>

#include "rmemd/config/config.h"
#include "rmemd/pool/pools.h"
#include "rmemd/system/fdstore.h"

struct ledger;

#define PLAN_POOLS_MAX (2 * CONFIG_POOLS_MAX)

struct plan {
	struct pool_params pools[PLAN_POOLS_MAX];
	bool fresh[PLAN_POOLS_MAX];   /* not a pool of the last process */
	bool changed[PLAN_POOLS_MAX]; /* had other devices in the last process */
	unsigned n_pools;
	uint32_t next_id; /* of the next new pool */
};

/* Whether leases of the ledger are in the pool with this id. */
typedef bool plan_uses_pool(const struct ledger *ledger, uint32_t id);

/* Make the plan from configuration and ledger.  stays() is called for each pool with leases that
 * differs from its configuration in more than its size.  One with leases that is not configured any
 * more is opened, too.
 *   -EBADMSG  a pool of the ledger is malformed
 *   -ENOSPC   too many pools
 *   or an error of creating the files */
int plan_make(struct plan *plan, const struct config *config, struct ledger *ledger,
	      struct fdstore *store, plan_uses_pool *uses_pool,
	      void (*stays)(const struct pool_params *params));
/* After the pools are open: record new pools and changed devices. */
int plan_record(const struct plan *plan, const struct pools *pools,
		struct ledger *ledger, struct fdstore *store);
/* The id of the next new pool. */
int plan_next_id(const struct ledger *ledger, uint32_t *ret_id);
/* Store and record a pool that was added, before anything is granted from it; next_id: of the next
 * one.  -ENOMEM or -ENOSPC: it is not recorded; its file may be stored: fdstore_drop_pool(). */
int plan_record_added(const struct pool_params *params,
		      const struct pool_status *status, uint32_t next_id,
		      struct ledger *ledger, struct fdstore *store);
/* Remove the record of a pool, before its memory is given back. */
void plan_forget(uint32_t id, struct ledger *ledger);
/* Record a pool's size, and its configured size.  Before it grows to `bytes_grown`: until this is
 * recorded as 0 again the next process opens the pool with `bytes`, regardless of the file's
 * length, and sets params.bytes_grown.  -ENOMEM or -ENOSPC: the ledger still has the former sizes,
 * and the pool must not grow. */
int plan_record_size(const struct pools *pools, unsigned i, uint64_t bytes,
		     uint64_t bytes_grown, struct ledger *ledger);

#endif

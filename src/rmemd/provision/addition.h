/* SPDX-License-Identifier: BSD-3-Clause */
/* Pools that are configured and not there: each gets its memory on a thread, is recorded, and then
 * lent.  One that fails is tried again when the configuration is loaded again.
 *
 * Threads: [loop]; pools.h has a thread for slow work.  Logs. */
#ifndef RMEMD_PROVISION_ADDITION_H
#define RMEMD_PROVISION_ADDITION_H

#include <stdbool.h>

#include "base/err.h"
#include "base/list.h"
#include "rmemd/config/config.h"
#include "rmemd/pool/pools.h"

struct fdstore;
struct ledger;
struct pools_added;

enum addition_state {
	ADDITION_WAITS, /* for its turn */
	ADDITION_OPENS,
	ADDITION_FAILED,
	ADDITION_STOPS /* not configured any more */
};

/* A pool that is not there. */
struct addition {
	struct list link;
	enum addition_state state;
	struct pool_params params;
	struct pool *pool;       /* ADDITION_OPENS, ADDITION_STOPS */
	struct err_saved failed; /* ADDITION_FAILED */
};

/* A member of its user. */
struct additions {
	struct pools *pools;
	struct ledger *ledger;
	struct fdstore *store;
	/* Pool i of the table has been added. */
	void (*entered)(void *ctx, unsigned i);
	void *ctx;
	struct list all;
	uint32_t next_id;
};

/* Borrows all pointers of the members before `all`, which are set.
 *   -EBADMSG  the ledger is malformed */
int additions_open(struct additions *additions);
/* Those that are opening end with pools_close(). */
void additions_close(struct additions *additions);

/* Add the pools of the configuration that are not in the table, as far as they are not being added
 * already, and stop adding others. */
void additions_configure(struct additions *additions, const struct config *config);
/* The result of one of them; its name is freed later. */
void additions_result(struct additions *additions, const struct pools_added *added);
/* Start those that wait, as far as it is their turn. */
void additions_start(struct additions *additions);

/* The sum of the progress.  False: none is being opened. */
bool additions_progress(const struct additions *additions, uint64_t *ret_done,
			uint64_t *ret_bytes);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* What a tenant may do, apart from its limits: which pools its leases are in, whether it changes
 * anything, and which names it gives.  A change holds for requests from then on.
 *
 * Threads: [loop].  The checks return 0 or -EACCES with err_text(), which names the key of the
 * configuration; each refusal is counted in the tenant. */
#ifndef RMEMD_LEASE_RIGHTS_H
#define RMEMD_LEASE_RIGHTS_H

#include "rmemd/pool/pools.h"

#define RIGHTS_NAMES_MAX 16
#define RIGHTS_NAME_BYTES 64

struct tenant;

enum rights_access { RIGHTS_READ_WRITE, RIGHTS_READ_ONLY };

struct rights {
	struct pool_names pools; /* for its leases */
	int access;              /* enum rights_access */
	/* Names that it may give to leases; a '*' at the end stands for any text.  None: all. */
	char names[RIGHTS_NAMES_MAX][RIGHTS_NAME_BYTES];
	unsigned n_names;
};

/* Reasons why requests are refused. */
enum rights_denial {
	RIGHTS_DENY_POOLS,
	RIGHTS_DENY_ACCESS,
	RIGHTS_DENY_NAMES,
	RIGHTS_DENY_SHARES, /* of leases of other tenants */
	RIGHTS_DENIALS
};

/* Whether the tenant may allocate, write, or change a lease. */
int rights_check_write(struct tenant *tenant);
/* Whether the tenant may give this name to a lease. */
int rights_check_name(struct tenant *tenant, const char *name);
/* pools_alloc() has failed with `err`: if the tenant may use some pools alone, say so and count it.
 * Returns err. */
int rights_explain_full(struct tenant *tenant, int err);

#endif

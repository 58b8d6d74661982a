/* SPDX-License-Identifier: BSD-3-Clause */
/* What a tenant may do, apart from its limits: which pools its leases are in, whether it changes
 * anything, and which names it gives.  A change holds for requests from then on.
 *
 * Threads: [loop].  The checks return 0 or -EACCES with err_text(), which names the key of the
 * configuration; each refusal is counted in the tenant. */
#ifndef RMEMD_LEASE_RIGHTS_H
#define RMEMD_LEASE_RIGHTS_H

struct tenant;

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

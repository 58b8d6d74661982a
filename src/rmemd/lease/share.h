/* SPDX-License-Identifier: BSD-3-Clause */
/* Shares: a named lease that other tenants may attach.  The tenant that owns the lease makes and
 * ends them; they end with the lease, and are in its record in the ledger.
 * Threads: [loop]. */
#ifndef RMEMD_LEASE_SHARE_H
#define RMEMD_LEASE_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "rmemd/lease/tenant.h"

#define SHARES_MAX 16 /* of one lease */

struct lease;
struct lease_status;

/* By name, as the tenant may leave and come back. */
struct share {
	char tenant[TENANT_NAME_MAX + 1];
	uint8_t rights; /* WIRE_RIGHT_*, never 0 */
};

/* Share the lease with a tenant, change the rights, or with rights 0 end the share; attachments
 * are the caller's.
 *   -EDQUOT  the lease has SHARES_MAX
 *   -ENOMEM */
int share_set(struct lease *lease, const char *tenant, unsigned rights);
/* The rights of a tenant to attach a lease of another: those of the share, as far as the owner has
 * them now. */
unsigned share_rights(const struct lease *lease, const char *tenant);
/* Whether an attachment with these rights may stay: the lease is the tenant's, or the share has
 * them.  The access that the owner has now does not count, as a reload ends no attachment. */
bool share_covers(const struct lease *lease, const struct tenant *tenant,
		  unsigned rights);

/* Find the lease that `owner`, which may be NULL, shares with `tenant` under this name, with these
 * rights.  owner_name is for the error text.  A refusal is counted in the tenant.
 *   -ENOENT  there is none; the text does not reveal whether there is such a lease
 *   -EACCES  it is shared for reading only */
int share_find(struct tenant *tenant, const struct tenant *owner,
	       const char *owner_name, const char *name, unsigned rights,
	       struct lease **ret_lease);
/* -EACCES: the lease is shared with the tenant, which may not change it.  Counted in the tenant. */
int share_check_owner(struct tenant *tenant, const struct lease *lease);

#endif

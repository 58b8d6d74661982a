/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/lease/share.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "rmemd/lease/lease_table.h"

static struct share *find(const struct lease *lease, const char *tenant)
{
	for (unsigned i = 0; i < lease->n_shares; i++)
		if (strcmp(lease->shares[i].tenant, tenant) == 0)
			return &lease->shares[i];
	return NULL;
}

/* Append a share without rights. */
static int add(struct lease *lease, const char *tenant, struct share **ret_share)
{
	struct share *shares;

	if (lease->n_shares == SHARES_MAX)
		return err_set(-EDQUOT,
			       "lease %" PRIu64 " is shared with %d tenants already",
			       lease->id, SHARES_MAX);
	shares = reallocarray(lease->shares, lease->n_shares + 1, sizeof(*shares));
	if (!shares)
		return err_set(-ENOMEM, "no memory for a share");
	lease->shares = shares;
	shares[lease->n_shares] = (struct share){ .rights = 0 };
	(void)strcpy(shares[lease->n_shares].tenant, tenant);
	*ret_share = &shares[lease->n_shares++];
	return 0;
}

int share_set(struct lease *lease, const char *tenant, unsigned rights)
{
	struct share *share = find(lease, tenant);
	int err = 0;

	if (!rights) {
		if (share)
			*share = lease->shares[--lease->n_shares];
		return 0;
	}
	if (!share)
		err = add(lease, tenant, &share);
	if (!err)
		share->rights = (uint8_t)rights;
	return err;
}

unsigned share_rights(const struct lease *lease, const char *tenant)
{
	const struct share *share = find(lease, tenant);
	unsigned rights = share ? share->rights : 0;

	if (lease->tenant->rights.access == RIGHTS_READ_ONLY)
		rights &= WIRE_RIGHT_READ;
	return rights;
}

bool share_covers(const struct lease *lease, const struct tenant *tenant,
		  unsigned rights)
{
	const struct share *share = find(lease, tenant->name);

	return lease->tenant == tenant || (share && (rights & share->rights) == rights);
}

int share_find(struct tenant *tenant, const struct tenant *owner,
	       const char *owner_name, const char *name, unsigned rights,
	       struct lease **ret_lease)
{
	struct lease *lease = owner ? leases_find_name(owner, name) : NULL;
	unsigned granted = 0;

	if (lease && lease->state == WIRE_LEASE_READY)
		granted = share_rights(lease, tenant->name);
	if (granted && !(rights & ~granted)) {
		*ret_lease = lease;
		return 0;
	}
	tenant->denied[RIGHTS_DENY_SHARES]++;
	if (granted)
		return err_set(-EACCES,
			       "tenant %s shares %s with tenant %s for reading only",
			       owner_name, QUOTED(name), tenant->name);
	return err_set(-ENOENT, "tenant %s shares no lease named %s with tenant %s",
		       owner_name, QUOTED(name), tenant->name);
}

int share_check_owner(struct tenant *tenant, const struct lease *lease)
{
	if (lease->tenant == tenant)
		return 0;
	tenant->denied[RIGHTS_DENY_SHARES]++;
	return err_set(-EACCES,
		       "lease %" PRIu64 " belongs to tenant %s, which alone may end or "
		       "change it",
		       lease->id, lease->tenant->name);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/lease/rights.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "rmemd/lease/lease_table.h"
#include "rmemd/lease/tenant.h"

int rights_check_write(struct tenant *tenant)
{
	if (tenant->rights.access == RIGHTS_READ_WRITE)
		return 0;
	tenant->denied[RIGHTS_DENY_ACCESS]++;
	return err_set(-EACCES,
		       "tenant %s may read leases and change nothing: [tenant %s] "
		       "access = read-only",
		       tenant->name, tenant->name);
}

static bool name_matches(const char *name, const char *pattern)
{
	size_t len = strlen(pattern);

	if (len && pattern[len - 1] == '*')
		return strncmp(name, pattern, len - 1) == 0;
	return strcmp(name, pattern) == 0;
}

int rights_check_name(struct tenant *tenant, const char *name)
{
	const struct rights *rights = &tenant->rights;

	for (unsigned i = 0; i < rights->n_names; i++)
		if (name_matches(name, rights->names[i]))
			return 0;
	if (!rights->n_names)
		return 0;
	tenant->denied[RIGHTS_DENY_NAMES]++;
	return err_set(-EACCES,
		       "tenant %s may not name a lease %s: [tenant %s] names allows "
		       "other names alone",
		       tenant->name, QUOTED(name), tenant->name);
}

int rights_explain_full(struct tenant *tenant, int err)
{
	if (err != -ENOSPC || !tenant->rights.pools.n)
		return err;
	tenant->denied[RIGHTS_DENY_POOLS]++;
	return err_set(err, "%s; [tenant %s] pools allows no others", err_text(),
		       tenant->name);
}

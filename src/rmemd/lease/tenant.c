/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/lease/tenant.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "base/units.h"

void tenant_init(struct tenant *tenant, const char *name,
		 const struct tenant_limits *limits)
{
	*tenant = (struct tenant){ .limits = *limits };
	(void)snprintf(tenant->name, sizeof(tenant->name), "%s", name);
	map_init(&tenant->names);
}

void tenant_destroy(struct tenant *tenant)
{
	map_destroy(&tenant->names);
}

int tenant_check_lease(const struct tenant *tenant)
{
	if (tenant->n_leases < tenant->limits.leases_max)
		return 0;
	return err_set(-EDQUOT, "tenant %s holds %" PRIu32 " leases, as many as it may",
		       tenant->name, tenant->n_leases);
}

int tenant_check_attachment(const struct tenant *tenant)
{
	uint64_t max =
		(uint64_t)tenant->limits.leases_max * TENANT_ATTACHMENTS_PER_LEASE;

	if (tenant->n_attachments < max)
		return 0;
	return err_set(-EDQUOT,
		       "tenant %s has leases attached %" PRIu64
		       " times, as often as it may",
		       tenant->name, tenant->n_attachments);
}

int tenant_check_length(const struct tenant *tenant, uint64_t bytes)
{
	uint64_t max = tenant->limits.lease_bytes_max;
	char asked[32], limit[32];

	if (!max || bytes <= max)
		return 0;
	return err_set(-EDQUOT, "a lease of %s: tenant %s may have %s in one",
		       units_format_bytes(bytes, asked, sizeof(asked)), tenant->name,
		       units_format_bytes(max, limit, sizeof(limit)));
}

int tenant_charge(struct tenant *tenant, uint64_t bytes)
{
	uint64_t max = tenant->limits.bytes_max;
	char used[32], asked[32], limit[32];

	if (max && (bytes > max || tenant->bytes > max - bytes))
		return err_set(-EDQUOT, "tenant %s holds %s; %s more exceed its %s",
			       tenant->name,
			       units_format_bytes(tenant->bytes, used, sizeof(used)),
			       units_format_bytes(bytes, asked, sizeof(asked)),
			       units_format_bytes(max, limit, sizeof(limit)));
	tenant->bytes += bytes;
	return 0;
}

void tenant_uncharge(struct tenant *tenant, uint64_t bytes)
{
	tenant->bytes -= bytes;
}

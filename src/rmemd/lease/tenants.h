/* SPDX-License-Identifier: BSD-3-Clause */
/* All tenants: those that the configuration names, and those that it has named and that
 * still have something.  Threads: [loop]. */
#ifndef RMEMD_LEASE_TENANTS_H
#define RMEMD_LEASE_TENANTS_H

#include "base/list.h"
#include "rmemd/lease/tenant.h"

/* Embedded in what owns it. */
struct tenants {
	struct list all; /* struct tenant */
};

void tenants_init(struct tenants *tenants);
/* Sessions and leases are gone already. */
void tenants_destroy(struct tenants *tenants);

/* These are the tenants from now on, under these limits: new ones appear, one that was
 * leaving is back, and the others leave.  -ENOMEM; then nothing has changed. */
int tenants_set(struct tenants *tenants, const struct tenant_params *params,
		unsigned n);
/* The tenant of that name, if it is not leaving, or NULL. */
struct tenant *tenants_find(const struct tenants *tenants, const char *name);

/* The tenant of that name, whether the configuration names it or not: then it is one that is
 * leaving, and these are its limits.  A reference, the caller's; NULL: -ENOMEM. */
struct tenant *tenants_ensure(struct tenants *tenants,
			      const struct tenant_params *params);

/* Call each() for every tenant until it returns non-zero, and return that. */
int tenants_each(const struct tenants *tenants,
		 int (*each)(const struct tenant *tenant, void *arg), void *arg);

#endif

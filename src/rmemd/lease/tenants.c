/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/lease/tenants.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

void tenants_init(struct tenants *tenants)
{
	list_init(&tenants->all);
}

static void leave(struct tenant *tenant)
{
	if (tenant->leaving)
		return;
	tenant->leaving = true;
	tenant_unref(tenant);
}

void tenants_destroy(struct tenants *tenants)
{
	list_for_each_safe(node, &tenants->all)
		leave(container_of(node, struct tenant, link));
}

/* Leaving or not. */
static struct tenant *find(const struct list *list, const char *name)
{
	list_for_each(node, list) {
		struct tenant *tenant = container_of(node, struct tenant, link);

		if (strcmp(tenant->name, name) == 0)
			return tenant;
	}
	return NULL;
}

static bool named(const struct tenant_params *params, unsigned n, const char *name)
{
	for (unsigned i = 0; i < n; i++)
		if (strcmp(params[i].name, name) == 0)
			return true;
	return false;
}

/* Those that are not in the table, into a list of their own. */
static int create_missing(const struct tenants *tenants,
			  const struct tenant_params *params, unsigned n,
			  struct list *fresh)
{
	for (unsigned i = 0; i < n; i++) {
		struct tenant *tenant;

		if (find(&tenants->all, params[i].name))
			continue;
		tenant = malloc(sizeof(*tenant));
		if (!tenant)
			return err_set(-ENOMEM, "no memory for a tenant");
		tenant_init(tenant, &params[i]);
		list_append(fresh, &tenant->link);
	}
	return 0;
}

static void take_over(struct tenant *tenant, const struct tenant_params *params)
{
	tenant->limits = params->limits;
	if (!tenant->leaving)
		return;
	tenant->leaving = false;
	tenant_ref(tenant);
}

int tenants_set(struct tenants *tenants, const struct tenant_params *params, unsigned n)
{
	struct list fresh;
	int err;

	list_init(&fresh);
	err = create_missing(tenants, params, n, &fresh);
	if (err) {
		list_for_each_safe(node, &fresh)
			tenant_unref(container_of(node, struct tenant, link));
		return err;
	}
	list_splice(&tenants->all, &fresh);
	for (unsigned i = 0; i < n; i++)
		take_over(find(&tenants->all, params[i].name), &params[i]);
	list_for_each_safe(node, &tenants->all) {
		struct tenant *tenant = container_of(node, struct tenant, link);

		if (!named(params, n, tenant->name))
			leave(tenant);
	}
	return 0;
}

struct tenant *tenants_find(const struct tenants *tenants, const char *name)
{
	struct tenant *tenant = find(&tenants->all, name);

	return tenant && !tenant->leaving ? tenant : NULL;
}

struct tenant *tenants_ensure(struct tenants *tenants,
			      const struct tenant_params *params)
{
	struct tenant *tenant = find(&tenants->all, params->name);

	if (tenant) {
		tenant_ref(tenant);
		return tenant;
	}
	tenant = malloc(sizeof(*tenant));
	if (!tenant) {
		(void)err_set(-ENOMEM, "no memory for a tenant");
		return NULL;
	}
	tenant_init(tenant, params);
	tenant->leaving = true;
	list_append(&tenants->all, &tenant->link);
	return tenant;
}

int tenants_each(const struct tenants *tenants,
		 int (*each)(const struct tenant *tenant, void *arg), void *arg)
{
	int result;

	list_for_each(node, &tenants->all) {
		result = each(container_of(node, struct tenant, link), arg);
		if (result)
			return result;
	}
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/tenant.h"

#include <stdlib.h>

#include "fabric/verbs/server/device.h"

struct verbs_tenant *verbs_tenant_get(struct verbs_device *device, const void *name)
{
	struct verbs_tenant *added;

	list_for_each_entry(struct verbs_tenant, tenant, &device->tenants, link) {
		if (tenant->name != name)
			continue;
		tenant->refs++;
		return tenant;
	}
	added = calloc(1, sizeof(*added));
	if (!added)
		return NULL;
	added->name = name;
	added->refs = 1;
	for (unsigned i = 0; i < VERBS_N_WORKERS; i++)
		verbs_worker_queue_init(&added->queues[i]);
	list_append(&device->tenants, &added->link);
	return added;
}

void verbs_tenant_put(struct verbs_tenant *tenant)
{
	if (--tenant->refs > 0)
		return;
	list_remove(&tenant->link);
	free(tenant);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* A tenant's share of a device, which its sessions there have together: its turns at the device's
 * workers, and its connections that are not established yet.  Threads: [loop]; the queues are the
 * workers'. */
#ifndef FABRIC_VERBS_SERVER_TENANT_H
#define FABRIC_VERBS_SERVER_TENANT_H

#include "base/list.h"
#include "fabric/verbs/server/worker.h"

/* The workers of a device.  To deregister memory, which ends a client's access, never waits for
 * memory that is being registered. */
enum verbs_work {
	VERBS_WORK_REGISTER,
	VERBS_WORK_DEREGISTER,
	VERBS_WORK_CONNECT, /* see direct.h */
	VERBS_N_WORKERS,
};

struct verbs_device;

struct verbs_tenant {
	struct list link; /* device->tenants */
	const void *name; /* from fabric_server_events.tenant; compared only */
	unsigned refs;    /* of its sessions */
	unsigned n_pending;
	struct verbs_worker_queue queues[VERBS_N_WORKERS];
};

/* The tenant of that name on the device, with a reference for a session, or NULL: no memory. */
struct verbs_tenant *verbs_tenant_get(struct verbs_device *device, const void *name);
/* The session has no job under way. */
void verbs_tenant_put(struct verbs_tenant *tenant);

#endif

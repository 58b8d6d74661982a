/* SPDX-License-Identifier: BSD-3-Clause */
/* An RDMA device that the server uses: its attributes, poller, workers and channel ids.  When the
 * hardware is removed, all objects on it must be released, or the kernel waits for this process.
 * The structure itself lives until its endpoints have another device.  Threads: [loop]. */
#ifndef FABRIC_VERBS_SERVER_DEVICE_H
#define FABRIC_VERBS_SERVER_DEVICE_H

#include "fabric/verbs/common/device_attr.h"
#include "fabric/verbs/common/port.h"
#include "fabric/verbs/server/poller.h"
#include "fabric/verbs/server/quarantine.h"
#include "fabric/verbs/server/server.h"

struct verbs_device;

/* Events for the endpoints of the device. */
struct verbs_device_events {
	/* A receive of the channel was flushed: its queue pair is in ERROR. */
	void (*channel_flushed)(void *channel, enum ibv_wc_status status);
	/* An asynchronous event of the channel's queue pair. */
	void (*channel_event)(void *channel, enum ibv_event_type type);
	/* The device is being removed: release all objects on it. */
	void (*removed)(struct verbs_device *device);
};

/* The workers of a device: the calls that can wait for the device, the kernel or the network.  To
 * deregister memory, which ends a client's access, never waits for memory that is being
 * registered. */
enum verbs_work {
	VERBS_WORK_REGISTER,
	VERBS_WORK_DEREGISTER,
	VERBS_WORK_CHANNEL, /* see channel_qp.h */
	VERBS_WORK_ID,      /* see ending.h */
	VERBS_N_WORKERS,
};

/* A tenant's share of a device, which its sessions there have together: its turns at the device's
 * workers, and its connections that are not established yet. */
struct verbs_tenant {
	struct list link; /* device->tenants */
	const void *name; /* from fabric_server_events.tenant; compared only */
	unsigned refs;    /* of its sessions */
	unsigned n_pending;
	struct workers_queue queues[VERBS_N_WORKERS]; /* the workers' */
};

struct verbs_device {
	const struct verbs_device_events *events;
	struct fabric_server *server;
	struct ibv_context *verbs; /* of rdma_cm, while an id is bound to the device */
	struct verbs_device_attr attr;
	struct verbs_port_cache port_cache; /* cleared by the device's events */
	struct fabric_rdma_options rdma_options;
	int node;
	struct verbs_channel_ids ids;
	struct verbs_quarantine quarantine;
	struct verbs_poller poller;
	struct workers workers[VERBS_N_WORKERS];
	/* turns at the worker of ids: of requests that are refused, and of channels' ids */
	struct workers_queue refused, ended;
	struct list tenants; /* of its sessions */
	unsigned n_pending;  /* channels that are not established */
	unsigned n_pds;      /* of sessions, not yet deallocated */
	bool own;     /* opened by discovery, not by rdma_cm, as it has no IP address */
	bool running; /* the workers run */
	bool removed; /* no object may be created any more */
	/* after a slow registration: until this time none is made on the loop */
	uint64_t slow_ns;
};

/* The number of outstanding reads and atomics that a peer gets: the number it wants, limited by the
 * device (`able`) and by the option. */
uint8_t verbs_device_depth(const struct verbs_device *device, uint8_t wanted,
			   unsigned able);

/* Add the device of `verbs` to the server, unless it was added before; on failure it is not added.
 * `port` is any of its ports. */
int verbs_device_add(struct fabric_server *server, struct ibv_context *verbs,
		     uint8_t port, const struct fabric_rdma_options *rdma_options,
		     const struct verbs_device_events *events,
		     struct verbs_device **ret_device);
/* When the server closes, after sessions and channels: end the workers, which run their last jobs;
 * and, once no queue pair is left, the poller. */
void verbs_device_finish(struct verbs_device *device);
void verbs_device_stop(struct verbs_device *device);
void verbs_device_free(struct verbs_device *device);

/* The hardware is being removed: end all sessions and channels on it, with events. */
void verbs_device_remove(struct verbs_device *device);
/* A protection domain was deallocated: if it was the last one, finish a removal. */
void verbs_device_put(struct verbs_device *device);

/* Free devices that were removed and have no endpoint any more.  False: some remain. */
bool verbs_device_retire(struct fabric_server *server);

/* The current state of a port.  `address` is the endpoint's: on RoCE its GID is served. */
void verbs_device_query_port(const struct verbs_device *device, uint8_t port,
			     const struct fabric_address *address,
			     struct fabric_port_attr *ret_port);

/* Handle the device's asynchronous events. */
void verbs_device_events(struct verbs_device *device);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* An RDMA device that serves: its poller, its registrar, its channels' numbers.  It
 * goes when the server closes or the hardware is removed; then nothing of it may stay,
 * or the kernel waits for this process.  The structure itself lives until
 * its endpoints have another one. */
#ifndef FABRIC_VERBS_SERVER_DEVICE_H
#define FABRIC_VERBS_SERVER_DEVICE_H

#include "fabric/verbs/common/device_attr.h"
#include "fabric/verbs/server/poller.h"
#include "fabric/verbs/server/mr_worker.h"
#include "fabric/verbs/server/server.h"
#include "fabric/verbs/server/channel_ids.h"
#include "fabric/verbs/common/port_cache.h"

struct verbs_device;

/* What the device tells its endpoints; all [loop]. */
struct verbs_device_events {
	/* A receive of the channel was flushed: its queue pair is in ERROR. */
	void (*channel_flushed)(void *channel);
	/* An asynchronous event of the channel's queue pair. */
	void (*channel_event)(void *channel, enum ibv_event_type type);
	/* A text for the log; port 0: of each port. */
	void (*report)(struct verbs_device *device, unsigned port, const char *text);
	/* It is being removed: end all that uses it. */
	void (*removed)(struct verbs_device *device);
	/* No protection domain of it is left: destroy the listeners. */
	void (*released)(struct verbs_device *device);
};

struct verbs_device {
	const struct verbs_device_events *events;
	struct fabric_server *server;
	struct ibv_context *verbs; /* rdma_cm's, while an id is bound to the device */
	struct verbs_device_attr attr;
	struct verbs_port_cache
		port_cache; /* as it was since it told something last; [loop] */
	struct fabric_device_attr fabric_attr;
	struct fabric_rdma_options rdma_options;
	int node;
	struct verbs_channel_ids ids;
	struct verbs_poller poller;
	struct verbs_mr_worker mr_worker;
	unsigned n_pds;   /* of sessions, not yet given back */
	bool own;         /* `verbs` was opened for it, not by rdma_cm */
	bool running;     /* the threads are there */
	bool removed;     /* removed: nothing new may start, and what was is ended */
	uint64_t slow_ns; /* registering little took long: until then not on the loop */
};

/* Of reads and atomics that a peer wants under way: so many as the device is able to, and its
 * option allows. */
uint8_t verbs_device_depth(const struct verbs_device *device, uint8_t wanted,
			   uint8_t able);

/* Add the device behind `verbs` to the server, once; on failure it is not added.  `port` is
 * any of its ports. */
int verbs_device_add(struct fabric_server *server, struct ibv_context *verbs,
		     uint8_t port, const struct fabric_rdma_options *rdma_options,
		     const struct verbs_device_events *events,
		     struct verbs_device **ret_device);
/* For server close, after sessions and channels: end the threads. */
void verbs_device_stop(struct verbs_device *device);
void verbs_device_free(struct verbs_device *device);

/* The hardware is being removed: end everything on it, with events. */
void verbs_device_remove(struct verbs_device *device);
/* A protection domain was given back: finish a removal once it was the last. */
void verbs_device_put(struct verbs_device *device);

/* Free those that were removed and have no endpoint any more.  False: not all yet. */
bool verbs_device_retire(struct fabric_server *server);

/* Take the device's asynchronous events and tell what they mean. */
void verbs_device_events(struct verbs_device *device);

#endif

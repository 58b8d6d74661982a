/* SPDX-License-Identifier: BSD-3-Clause */
/* Where clients reach the server: an address on a port of an RDMA device, with
 * rdma_cm's listener. */
#ifndef FABRIC_VERBS_SERVER_ENDPOINT_H
#define FABRIC_VERBS_SERVER_ENDPOINT_H

#include "base/list.h"
#include "base/map.h"
#include "fabric/verbs/server/server.h"

struct verbs_endpoint {
	struct verbs_cm_target target;
	struct fabric_server *server;
	unsigned number;
	struct verbs_device *device;
	unsigned port;
	bool direct; /* channels are joined; the listener only holds the device */
	bool own;    /* without an address: the device is not rdma_cm's, nor followed */
	/* NULL while its device is gone, or has no address to listen on */
	struct rdma_cm_id *listener;
	struct fabric_endpoint public;
	struct fabric_endpoint_stats stats;
	struct list sessions;
	struct map
		remote_qps; /* verbs_channel.by_end, by the peer's queue pair number */
};

/* Find the endpoints on this host's devices and listen on them.
 *   -ENODEV      none, or one of params->devices is not there
 *   -EADDRINUSE  the port is taken; the text names address and port */
int verbs_endpoint_open_all(struct fabric_server *server,
			    const struct fabric_server_params *params);

/* Let endpoints listen where their addresses have moved to, and on devices that are back.
 * True: all do. */
bool verbs_endpoint_rescan(struct fabric_server *server);

/* Stop listening. */
void verbs_endpoint_unlisten(struct verbs_endpoint *endpoint);
void verbs_endpoint_free(struct verbs_endpoint *endpoint);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* An address on a port of an RDMA device at which clients reach the server, with its rdma_cm
 * listener.  Threads: [loop]. */
#ifndef FABRIC_VERBS_SERVER_ENDPOINT_H
#define FABRIC_VERBS_SERVER_ENDPOINT_H

#include "base/list.h"
#include "base/map.h"
#include "fabric/verbs/server/device.h"
#include "fabric/verbs/server/server.h"

/* Limit of disconnected ids that wait for the peer; further ones are destroyed at once. */
#define VERBS_DISCONNECTS_MAX 1024

struct verbs_endpoint {
	struct verbs_cm_target target;
	struct fabric_server *server;
	unsigned number;
	struct verbs_device *device;
	uint8_t port;
	bool direct; /* channels connect directly; the listener only holds the device */
	/* NULL while the device is removed, or has no address to listen on */
	struct rdma_cm_id *listener;
	struct fabric_endpoint public;
	struct fabric_endpoint_stats stats;
	struct list sessions;
	/* verbs_channel.by_remote_qpn of channels that are connected directly */
	struct map remote_qps;
};

/* Listen at the address; if the endpoint is direct, only hold the device.
 *   -EADDRINUSE  the port is taken; the text names address and port */
int verbs_endpoint_listen(struct verbs_endpoint *endpoint,
			  const struct fabric_address *address);
void verbs_endpoint_unlisten(struct verbs_endpoint *endpoint);
void verbs_endpoint_free(struct verbs_endpoint *endpoint);

/* Call endpoint_event() with "RDMA device NAME" and this text, for the log. */
void verbs_endpoint_report(struct verbs_endpoint *endpoint, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Disconnect a channel whose queue pair is destroyed.  soft-RoCE looks up the destination of a
 * message when it sends it, and destroying the id removes the destination: the peer would never
 * learn of the disconnect, and the kernel's own queue pair would go to ERROR.  So the id stays
 * until the peer has answered, or a delay is over. */
void verbs_endpoint_disconnect(struct verbs_endpoint *endpoint, struct rdma_cm_id *id);
/* Destroy an id at once; a failure is reported. */
void verbs_endpoint_destroy_id(struct verbs_endpoint *endpoint, struct rdma_cm_id *id);
/* Destroy the disconnected ids on this device that still wait for the peer; NULL: on all
 * devices. */
void verbs_disconnects_finish(struct fabric_server *server,
			      const struct ibv_context *verbs);

#endif

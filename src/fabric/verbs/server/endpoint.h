/* SPDX-License-Identifier: BSD-3-Clause */
/* An address on a port of an RDMA device at which clients reach the server, with its rdma_cm
 * listener.  Threads: [loop]. */
#ifndef FABRIC_VERBS_SERVER_ENDPOINT_H
#define FABRIC_VERBS_SERVER_ENDPOINT_H

#include "base/list.h"
#include "base/map.h"
#include "fabric/verbs/server/device.h"
#include "fabric/verbs/server/server.h"

struct verbs_endpoint {
	struct verbs_cm_target target;
	struct fabric_server *server;
	unsigned number;
	struct verbs_device *device; /* before the first one: one that is removed */
	uint8_t port;                /* 0: any, until it has listened */
	bool direct; /* channels connect directly; the listener only holds the device */
	/* NULL while the device is removed, or has no address to listen on */
	struct rdma_cm_id *listener;
	unsigned failures; /* of attempts to listen again, in a row */
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
/* 0, or -ENODEV: its device is not there; the text names it. */
int verbs_endpoint_check(const struct verbs_endpoint *endpoint);
void verbs_endpoint_free(struct verbs_endpoint *endpoint);

/* Call endpoint_event() with "RDMA device NAME" and this text, for the log. */
void verbs_endpoint_report(struct verbs_endpoint *endpoint, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#endif

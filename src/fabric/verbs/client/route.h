/* SPDX-License-Identifier: BSD-3-Clause */
/* The local device, port and address that reach a server's GID without rdma_cm: by the IP route if
 * the GID is an IP address, else the port on the same InfiniBand subnet.  Open
 * devices are shared within the process, and closed with their last user; a device that has
 * failed is not used again.  Threads: [any]. */
#ifndef FABRIC_VERBS_CLIENT_ROUTE_H
#define FABRIC_VERBS_CLIENT_ROUTE_H

#include "fabric/verbs/common/port.h"

struct verbs_open_device;

struct verbs_route {
	struct verbs_open_device *device;
	struct ibv_context *verbs; /* the device's */
	uint8_t port;
	struct fabric_address source; /* local, on this port */
};

/* `source`: the local address to use, family 0: any that reaches the server.
 * `route_source`: the local address from which IP reaches the server, family 0: unknown.
 *   -ENODEV   no RDMA device reaches the server
 *   -ENOTSUP  only iWARP devices reach it */
int verbs_route_find(const struct fabric_address *server,
		     const struct fabric_address *source,
		     const struct fabric_address *route_source,
		     struct verbs_route *ret_route);
void verbs_route_release(struct verbs_route *route);
/* verbs_port_lookup() of the port, cached since the device's last event.  After a failure that a
 * stale cache may have caused, call verbs_route_invalidate(). */
int verbs_route_port(const struct verbs_route *route,
		     const struct fabric_rdma_options *rdma_options,
		     struct verbs_port *ret_local);
void verbs_route_invalidate(const struct verbs_route *route);
/* Whether the device has reported that it failed, or is being removed. */
bool verbs_route_device_failed(const struct verbs_route *route);

#endif

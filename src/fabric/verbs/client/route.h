/* SPDX-License-Identifier: BSD-3-Clause */
/* The client's device, port and address that lead to a server's, without rdma_cm: by IP's
 * own routes where the server's GID is an IP address, else the port on the same InfiniBand
 * subnet.  Devices that are open are shared within the process, and closed with their last
 * user; one that has failed is not handed out again.  Threads: [any]. */
#ifndef FABRIC_VERBS_CLIENT_ROUTE_H
#define FABRIC_VERBS_CLIENT_ROUTE_H

#include "fabric/verbs/common/port.h"

/* `source`: the address of this host that is asked for, family 0: any that leads there.
 * `near`: the one from which IP sends there, family 0: it is not known.
 * *ret_source is the one found, for verbs_route_port().  Give the device back with
 * verbs_route_release().
 *   -ENODEV   no RDMA device leads there
 *   -ENOTSUP  there is none but iWARP's */
int verbs_route_find(const struct fabric_address *server,
		     const struct fabric_address *source,
		     const struct fabric_address *near, struct ibv_context **ret_verbs,
		     uint8_t *ret_port, struct fabric_address *ret_source);
void verbs_route_release(struct ibv_context *verbs);
/* The place there, as the device has told of it last: verbs_port_lookup().  Where what relies on
 * it fails, it is to be looked at anew. */
int verbs_route_port(const struct ibv_context *verbs, uint8_t port,
		     const struct fabric_address *source,
		     const struct fabric_rdma_options *rdma_options,
		     struct verbs_port *ret_local);
void verbs_route_invalidate(const struct ibv_context *verbs);
/* Whether the device has told by now that it has failed, or is being removed. */
bool verbs_route_device_failed(const struct ibv_context *verbs);

#endif

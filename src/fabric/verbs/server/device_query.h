/* SPDX-License-Identifier: BSD-3-Clause */
/* What an RDMA device can do, found out by asking and by trying, and how a port of it
 * stands.  Threads: [any]. */
#ifndef FABRIC_VERBS_SERVER_DEVICE_QUERY_H
#define FABRIC_VERBS_SERVER_DEVICE_QUERY_H

#include <infiniband/verbs.h>

#include "fabric/fabric.h"

/* The port decides between RoCE and InfiniBand.  -errno with text; what merely cannot be
 * tried is left at 0. */
int verbs_device_query(struct ibv_context *verbs, uint8_t port,
		       struct fabric_device_attr *ret_attr);

/* `address` is the endpoint's: on RoCE its GID is the one that is served. */
void verbs_device_query_port(struct ibv_context *verbs, uint8_t port,
			     const struct fabric_address *address,
			     struct fabric_port_attr *ret_port);

#endif

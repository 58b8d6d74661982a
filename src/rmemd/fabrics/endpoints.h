/* SPDX-License-Identifier: BSD-3-Clause */
/* Where data connections are served: the endpoints of all fabrics under one numbering,
 * which is the protocol's.  Filled by the daemon, constant while it runs.
 * Threads: [loop]. */
#ifndef RMEMD_FABRICS_ENDPOINTS_H
#define RMEMD_FABRICS_ENDPOINTS_H

#include "fabric/fabric.h"
#include "rmemd/pool/pools.h"
#include "wire/msg.h"

struct endpoint {
	const struct fabric_server_ops *ops;
	struct fabric_server *server;
	unsigned local; /* its number in that server */
	const struct fabric_endpoint *facts;
};

struct endpoints {
	struct endpoint at[WIRE_ENDPOINTS_MAX];
	unsigned n;
};

/* Through which a pool is lent, a bit each: those of its devices, and those that are of none
 * (TCP). */
unsigned endpoints_of_pool(const struct endpoints *endpoints,
			   const struct pool_params *pool);
/* One of the pool's devices that none of them is of, or NULL. */
const char *endpoints_missing(const struct endpoints *endpoints,
			      const struct pool_params *pool);
/* All of them, a bit each. */
unsigned endpoints_all(const struct endpoints *endpoints);

/* The node of a device that is served; -1: unknown.  -ENODEV */
int endpoints_node(const struct endpoints *endpoints, const char *device,
		   int *ret_node);

/* What every device that is there can register at once, in bytes; 0: no limit. */
uint64_t endpoints_segment_max(const struct endpoints *endpoints);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* A port of a device: its attributes and GIDs, and its role as the end of channels without rdma_cm.
 * Threads: [any], a cache one at a time. */
#ifndef FABRIC_VERBS_COMMON_PORT_H
#define FABRIC_VERBS_COMMON_PORT_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "fabric/fabric.h"
#include "fabric/rdma_options.h"

/* The attributes and GIDs of a device's ports, queried once and cached until the owner clears
 * the cache: after an asynchronous event of the device, and after a failure that stale attributes
 * may have caused.  A cache is empty when all members but `verbs` are zero; a query allocates
 * memory. */
struct verbs_port_cache {
	struct ibv_context *verbs;
	struct ibv_gid_entry *gids; /* of all ports; NULL: not queried */
	unsigned n_gids;
	uint8_t port; /* of `attr`; 0: none queried */
	struct ibv_port_attr attr;
};

/* Empty the cache, and free its memory. */
void verbs_port_cache_clear(struct verbs_port_cache *port_cache);
/* The port's attributes; the cache owns *ret_attr.  -errno. */
int verbs_port_cache_attr(struct verbs_port_cache *port_cache, uint8_t port,
			  const struct ibv_port_attr **ret_attr);
/* The valid GIDs of all ports, owned by the cache, and their number; 0: unknown. */
unsigned verbs_port_cache_gids(struct verbs_port_cache *port_cache,
			       const struct ibv_gid_entry **ret_gids);

bool verbs_port_is_active(struct ibv_context *verbs, uint8_t port);

/* The highest MTU of at most `bytes`, else the lowest. */
enum ibv_mtu verbs_mtu_of(unsigned bytes);
unsigned verbs_mtu_bytes(enum ibv_mtu mtu); /* 0: no such MTU */

/* Whether a GID of this type serves channels: RoCE v2, as with rdma_cm, or InfiniBand. */
bool verbs_gid_usable(uint32_t type, bool infiniband);

/* This side's end of channels without rdma_cm.  Not for iWARP. */
struct verbs_port {
	struct ibv_context *verbs;
	uint8_t port;
	bool infiniband;
	uint8_t gid_index;
	uint16_t pkey_index;
	/* sent to peers */
	uint8_t gid[16];
	uint16_t lid;
	uint16_t pkey;
	unsigned mtu; /* bytes */
};

/* The current state of the port, from the cache.  Its GID has the index in rdma_options, or is
 * `address`, or, on InfiniBand, is the first one.
 *   -ENOTSUP        iWARP
 *   -ENETDOWN       the port is not active
 *   -EADDRNOTAVAIL  the port has no such GID
 *   -EINVAL         no such P_Key */
int verbs_port_lookup(struct verbs_port_cache *port_cache, uint8_t port,
		      const struct fabric_address *address,
		      const struct fabric_rdma_options *rdma_options,
		      struct verbs_port *ret_local);
/* As above, without a cache. */
int verbs_port_query(struct ibv_context *verbs, uint8_t port,
		     const struct fabric_address *address,
		     const struct fabric_rdma_options *rdma_options,
		     struct verbs_port *ret_local);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* What the ports of a device and their GIDs are.  It is asked for once and remembered until
 * its owner has it forgotten: when the device tells that something has changed, and when
 * something fails that relied on it.  Threads: one at a time. */
#ifndef FABRIC_VERBS_COMMON_PORT_CACHE_H
#define FABRIC_VERBS_COMMON_PORT_CACHE_H

#include <infiniband/verbs.h>

struct verbs_port_cache {
	struct ibv_context *verbs;
	struct ibv_gid_entry *gids; /* of all ports; NULL: not asked for */
	unsigned n_gids;
	uint8_t port; /* the one asked for last, 0: none */
	struct ibv_port_attr attr;
};

/* A table that knows nothing yet; it takes no memory before it is asked. */
static inline struct verbs_port_cache verbs_port_cache_of(struct ibv_context *verbs)
{
	return (struct verbs_port_cache){ .verbs = verbs };
}

/* Forget everything; frees its memory. */
void verbs_port_cache_clear(struct verbs_port_cache *port_cache);
/* The port; *ret_attr is the table's.  -errno. */
int verbs_port_cache_attr(struct verbs_port_cache *port_cache, uint8_t port,
			  const struct ibv_port_attr **ret_attr);
/* The valid GIDs of all ports, which are the table's, and how many; 0: they cannot be had. */
unsigned verbs_port_cache_gids(struct verbs_port_cache *port_cache,
			       const struct ibv_gid_entry **ret_gids);

#endif

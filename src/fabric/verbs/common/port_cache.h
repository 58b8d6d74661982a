/* SPDX-License-Identifier: BSD-3-Clause */
/* The attributes and GIDs of a device's ports, queried once and cached until the owner clears
 * the cache: after an asynchronous event of the device, and after a failure of something that
 * relied on them.  Threads: one at a time. */
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

/* An empty cache; it allocates memory only when it is used. */
static inline struct verbs_port_cache verbs_port_cache_of(struct ibv_context *verbs)
{
	return (struct verbs_port_cache){ .verbs = verbs };
}

/* Forget everything; frees its memory. */
void verbs_port_cache_clear(struct verbs_port_cache *port_cache);
/* The port; *ret_attr is the cache's.  -errno. */
int verbs_port_cache_attr(struct verbs_port_cache *port_cache, uint8_t port,
			  const struct ibv_port_attr **ret_attr);
/* The valid GIDs of all ports, owned by the cache, and their number; 0: unknown. */
unsigned verbs_port_cache_gids(struct verbs_port_cache *port_cache,
			       const struct ibv_gid_entry **ret_gids);

#endif

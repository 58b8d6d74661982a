/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/common/port_cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Asked for at first, as the kernel clears room for all; and at last. */
#define GIDS_FEW 32
#define GIDS_ALL 1024

void verbs_port_cache_clear(struct verbs_port_cache *port_cache)
{
	free(port_cache->gids);
	port_cache->gids = NULL;
	port_cache->n_gids = 0;
	port_cache->port = 0;
}

int verbs_port_cache_attr(struct verbs_port_cache *port_cache, uint8_t port,
			  const struct ibv_port_attr **ret_attr)
{
	int err;

	if (port_cache->port != port) {
		port_cache->port = 0;
		memset(&port_cache->attr, 0, sizeof(port_cache->attr));
		err = ibv_query_port(port_cache->verbs, port, &port_cache->attr);
		if (err)
			return -abs(err);
		port_cache->port = port;
	}
	*ret_attr = &port_cache->attr;
	return 0;
}

static void gids_read(struct verbs_port_cache *port_cache)
{
	struct ibv_gid_entry *gids;
	unsigned room = GIDS_FEW;
	ssize_t n;

	for (;;) {
		gids = malloc(room * sizeof(*gids));
		n = gids ? ibv_query_gid_table(port_cache->verbs, gids, room, 0)
			 : -ENOMEM;
		if (n >= 0 || room == GIDS_ALL)
			break;
		/* perhaps there are more */
		free(gids);
		room = GIDS_ALL;
	}
	/* one that has none may be about to get one */
	if (n <= 0) {
		free(gids);
		return;
	}
	port_cache->gids = gids;
	port_cache->n_gids = (unsigned)n;
}

unsigned verbs_port_cache_gids(struct verbs_port_cache *port_cache,
			       const struct ibv_gid_entry **ret_gids)
{
	if (!port_cache->gids)
		gids_read(port_cache);
	*ret_gids = port_cache->gids;
	return port_cache->n_gids;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/common/port_cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Asked for at first, as the kernel clears room for all; and at last. */
#define GIDS_FEW 32
#define GIDS_ALL 1024

void verbs_table_forget(struct verbs_table *table)
{
	free(table->gids);
	table->gids = NULL;
	table->n_gids = 0;
	table->port = 0;
}

int verbs_table_port(struct verbs_table *table, uint8_t port,
		     const struct ibv_port_attr **ret_attr)
{
	int err;

	if (table->port != port) {
		table->port = 0;
		memset(&table->attr, 0, sizeof(table->attr));
		err = ibv_query_port(table->verbs, port, &table->attr);
		if (err)
			return -abs(err);
		table->port = port;
	}
	*ret_attr = &table->attr;
	return 0;
}

static void gids_read(struct verbs_table *table)
{
	struct ibv_gid_entry *gids;
	unsigned room = GIDS_FEW;
	ssize_t n;

	for (;;) {
		gids = malloc(room * sizeof(*gids));
		n = gids ? ibv_query_gid_table(table->verbs, gids, room, 0) : -ENOMEM;
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
	table->gids = gids;
	table->n_gids = (unsigned)n;
}

unsigned verbs_table_gids(struct verbs_table *table,
			  const struct ibv_gid_entry **ret_gids)
{
	if (!table->gids)
		gids_read(table);
	*ret_gids = table->gids;
	return table->n_gids;
}

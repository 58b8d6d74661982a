/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/admin/view.h"
#include "rmemd/daemon.h"
#include "rmemd/pool/pools.h"

static json_t *pool_view(const struct pool_status *pool)
{
	json_t *object = json_object();

	view_text(&object, "name", pool->name);
	view_node(&object, "node_asked", pool->node_asked);
	view_node(&object, "node", pool->node_got);
	view_text(&object, "pages_asked", pool_pages_name(pool->pages_asked));
	view_text(&object, "pages", pool_pages_name(pool->pages_got));
	view_number(&object, "page_bytes", pool->page_bytes);
	view_number(&object, "bytes", pool->bytes);
	view_number(&object, "lent_bytes", pool->lent);
	view_number(&object, "scrubbing_bytes", pool->scrubbing);
	view_number(&object, "free_bytes", pool->free);
	view_number(&object, "largest_free_bytes", pool->largest_free);
	view_number(&object, "scrubbed_ever_bytes", pool->scrubbed_ever);
	return object;
}

json_t *view_pools(struct daemon *daemon)
{
	const struct pools *pools = daemon_pools(daemon);
	json_t *object = json_object(), *array = json_array();

	for (unsigned i = 0; i < pools_count(pools); i++) {
		struct pool_status status;

		pools_status(pools, i, &status);
		view_append(&array, pool_view(&status));
	}
	view_add(&object, "pools", array);
	return object;
}

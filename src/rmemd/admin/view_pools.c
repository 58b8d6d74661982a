/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/admin/admin.h"
#include "rmemd/admin/view.h"
#include "rmemd/pool/pools.h"

/* How much of what is free is not in the largest piece, in per cent: rounded up, so that 0
 * means one piece.  Where nothing is free there is nothing to say. */
static json_t *fragmentation(const struct pool_status *pool)
{
	uint64_t rest = pool->free - pool->largest_free;

	/* a pool has far less than the 2^57 bytes that would be too many here */
	return pool->free ? json_integer((json_int_t)((rest * 100 + pool->free - 1) /
						      pool->free))
			  : json_null();
}

static const char *state(enum pool_resizing resizing)
{
	switch (resizing) {
	case POOL_GROWS:
		return "growing";
	case POOL_RECLAIMS:
	case POOL_SHRINKS:
		return "shrinking";
	case POOL_RESTS:
		break;
	}
	return "ready";
}

/* Where there is a change under way. */
static void view_resizing(json_t **object, const struct pool_status *pool)
{
	view_text(object, "state", state(pool->resizing));
	view_add(object, "bytes_to",
		 pool->resizing == POOL_RESTS
			 ? json_null()
			 : json_integer((json_int_t)pool->bytes_to));
	view_number(object, "populated_bytes", pool->populated);
	view_number(object, "closed_bytes", pool->closed);
	view_number(object, "recalled_bytes", pool->reclaimed);
}

/* Those it was to be lent through; none: all. */
static json_t *devices_view(const struct pool_params *params)
{
	json_t *array = json_array();

	for (unsigned i = 0; i < params->n_devices; i++)
		view_append(&array, json_string(params->devices[i]));
	return array;
}

static json_t *pool_view(const struct pool_status *pool,
			 const struct pool_params *params, int node)
{
	json_t *object = json_object();

	view_text(&object, "name", pool->name);
	view_node(&object, "node_asked", pool->node_asked);
	view_node(&object, "node", node);
	view_text(&object, "pages_asked", pool_pages_name(pool->pages_asked));
	view_text(&object, "pages", pool_pages_name(pool->pages_got));
	view_number(&object, "page_bytes", pool->page_bytes);
	view_add(&object, "bytes_asked",
		 pool->bytes_asked == POOL_BYTES_AUTO
			 ? json_null()
			 : json_integer((json_int_t)pool->bytes_asked));
	view_number(&object, "bytes", pool->bytes);
	view_resizing(&object, pool);
	view_number(&object, "lent_bytes", pool->lent);
	view_number(&object, "scrubbing_bytes", pool->scrubbing);
	view_number(&object, "free_bytes", pool->free);
	view_number(&object, "largest_free_bytes", pool->largest_free);
	view_add(&object, "fragmentation_percent", fragmentation(pool));
	view_add(&object, "devices", devices_view(params));
	view_number(&object, "scrubbed_ever_bytes", pool->scrubbed_ever);
	return object;
}

json_t *view_pools(const struct admin_sources *from)
{
	const struct pools *pools = from->pools;
	json_t *object = json_object(), *array = json_array();

	for (unsigned i = 0; i < pools_count(pools); i++) {
		struct pool_status status;

		pools_status(pools, i, &status);
		view_append(&array, pool_view(&status, pools_params(pools, i),
					      pools_node(pools, i)));
	}
	view_add(&object, "pools", array);
	return object;
}

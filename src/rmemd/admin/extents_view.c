/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/admin/extents_view.h"

#include <errno.h>
#include <event2/buffer.h>
#include <jansson.h>
#include <stdlib.h>

#include "rmemd/admin/admin.h"
#include "rmemd/admin/http.h"
#include "rmemd/admin/stream.h"
#include "rmemd/control/control.h"
#include "rmemd/pool/map.h"
#include "rmemd/pool/pools.h"

/* Of one slice, which takes a fraction of a millisecond. */
#define EXTENTS_PER_SLICE 1024
#define CELLS_PER_SLICE 32

struct extents_view {
	const struct pools *pools;
	unsigned pool; /* the next one, or that of the map */
	char name[POOL_NAME_MAX + 1];
	bool begun, has_map, has_cell;
	struct pool_map map;
};

static json_t *owners_json(const struct pool_map_cell *cell)
{
	json_t *array = json_array();

	for (unsigned i = 0; array && i < cell->n_owners; i++) {
		const struct pool_map_owner *owner = &cell->owners[i];

		if (json_array_append_new(array, json_pack("{s:s, s:I}", "tenant",
							   owner->name, "bytes",
							   (json_int_t)owner->bytes))) {
			json_decref(array);
			array = NULL;
		}
	}
	return array;
}

static json_t *cell_json(const char *pool, const struct pool_map_cell *cell)
{
	return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "pool", pool,
			 "offset", (json_int_t)cell->offset, "bytes",
			 (json_int_t)cell->bytes, "lent_bytes", (json_int_t)cell->lent,
			 "scrubbing_bytes", (json_int_t)cell->scrubbing, "closed_bytes",
			 (json_int_t)cell->closed, "free_bytes", (json_int_t)cell->free,
			 "tenants", owners_json(cell));
}

static int body_write(const char *text, size_t bytes, void *ctx)
{
	return evbuffer_add(ctx, text, bytes);
}

static int cell_write(struct extents_view *view, const struct pool_map_cell *cell,
		      struct evbuffer *body)
{
	json_t *json = cell_json(view->name, cell);
	int err = 0;

	if (!json || (view->has_cell && evbuffer_add(body, ",", 1)) ||
	    json_dump_callback(json, body_write, body, JSON_COMPACT))
		err = -ENOMEM;
	view->has_cell = true;
	json_decref(json);
	return err;
}

/* Pools may come and go between the slices: then one may be left out, or be there twice. */
static bool map_begin(struct extents_view *view)
{
	if (view->has_map)
		return true;
	if (view->pool >= pools_count(view->pools))
		return false;
	(void)snprintf(view->name, sizeof(view->name), "%s",
		       pools_params(view->pools, view->pool)->name);
	pool_map_begin(view->pools, view->pool, &view->map);
	view->has_map = true;
	return true;
}

static void map_end(struct extents_view *view)
{
	if (view->has_map)
		pool_map_end(&view->map);
	view->has_map = false;
	view->pool++;
}

static int view_part(void *ctx, struct evbuffer *body)
{
	unsigned left = EXTENTS_PER_SLICE, cells = 0;
	struct extents_view *view = ctx;
	int err = 0;

	if (!view->begun && evbuffer_add_printf(body, "{\"extents\":[") < 0)
		return -ENOMEM;
	view->begun = true;
	while (!err && left > 0 && cells < CELLS_PER_SLICE && map_begin(view)) {
		const struct pool_map_cell *cell = pool_map_next(&view->map, &left);

		if (cell) {
			err = cell_write(view, cell, body);
			cells++;
		} else if (left > 0) {
			map_end(view);
		}
	}
	if (err || left == 0 || cells == CELLS_PER_SLICE)
		return err ? err : STREAM_GOES_ON;
	return evbuffer_add_printf(body, "]}\n") < 0 ? -ENOMEM : STREAM_ENDS;
}

static void view_free(void *ctx)
{
	struct extents_view *view = ctx;

	map_end(view);
	free(view);
}

static const struct stream_source view_source = {
	.type = HTTP_TYPE_JSON,
	.part = view_part,
	.end = view_free,
};

void extents_view_send(struct evhttp_request *request, const struct admin_sources *from,
		       struct slice_queue *queue)
{
	struct extents_view *view = calloc(1, sizeof(*view));

	if (!view) {
		http_send_no_memory(request);
		return;
	}
	view->pools = from->control->pools;
	(void)stream_start(request, &view_source, view, &from->control->slices, queue);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/admin/resource.h"

#include <errno.h>
#include <event2/buffer.h>
#include <stdlib.h>
#include <string.h>

#include "rmemd/admin/admin.h"
#include "rmemd/admin/extents_view.h"
#include "rmemd/admin/http.h"
#include "rmemd/admin/metrics_resource.h"
#include "rmemd/admin/page.h"
#include "rmemd/admin/stream.h"
#include "rmemd/admin/view.h"
#include "rmemd/control/control.h"

/* A resource has one of view, pages and send. */
struct resource {
	const char *path;
	json_t *(*view)(const struct admin_sources *from);
	bool (*pages)(const struct admin_sources *from, struct view_page *page);
	const char *list;
	void (*send)(struct evhttp_request *request, const struct admin_sources *from,
		     struct slice_queue *queue);
};

static void page_resource(struct evhttp_request *request, const struct admin_sources *,
			  struct slice_queue *)
{
	page_send(request);
}

static void metrics_resource(struct evhttp_request *request,
			     const struct admin_sources *from,
			     struct slice_queue *queue)
{
	metrics_send(request, from->metrics, queue);
}

static const struct resource resources[] = {
	{ .path = PAGE_PATH, .send = page_resource },
	{ .path = "/v1/status", .view = view_status },
	{ .path = "/v1/pools", .view = view_pools },
	{ .path = "/v1/devices", .view = view_devices },
	{ .path = "/v1/sessions", .pages = view_sessions, .list = "sessions" },
	{ .path = "/v1/leases", .pages = view_leases, .list = "leases" },
	{ .path = "/v1/tenants", .view = view_tenants },
	{ .path = "/v1/extents", .send = extents_view_send },
	{ .path = METRICS_PATH, .send = metrics_resource },
};

/* A list that is being sent. */
struct list_stream {
	const struct admin_sources *from;
	const struct resource *resource;
	uint64_t after; /* the id of the last item sent */
	bool begun;
};

const struct resource *resource_find(const char *path)
{
	for (size_t i = 0; i < sizeof(resources) / sizeof(resources[0]); i++)
		if (path && strcmp(resources[i].path, path) == 0)
			return &resources[i];
	return NULL;
}

static int body_write(const char *text, size_t bytes, void *ctx)
{
	return evbuffer_add(ctx, text, bytes);
}

/* Takes the JSON over; NULL, or no memory for its text, is an internal error. */
void reply_json(struct evhttp_request *request, int code, const char *reason,
		json_t *json)
{
	struct evbuffer *body = evbuffer_new();

	if (!json || !body ||
	    json_dump_callback(json, body_write, body, JSON_COMPACT) ||
	    evbuffer_add(body, "\n", 1) || http_set_type(request, HTTP_TYPE_JSON))
		http_send_no_memory(request);
	else
		evhttp_send_reply(request, code, reason, body);
	if (body)
		evbuffer_free(body);
	json_decref(json);
}

void reply_error(struct evhttp_request *request, int code, const char *reason,
		 const char *text)
{
	reply_json(request, code, reason,
		   json_pack("{s:i, s:s}", "status", code, "error", text));
}

/* ---- lists ---- */

/* The JSON of a page in the body of the answer; brackets are around all pages. */
static int page_dump(struct list_stream *list, const struct view_page *page, bool last,
		     struct evbuffer *body)
{
	int err = 0;

	if (!page->array)
		return -ENOMEM;
	if (!list->begun)
		err = evbuffer_add_printf(body, "{\"%s\":[", list->resource->list) < 0;
	else if (json_array_size(page->array) > 0)
		err = evbuffer_add(body, ",", 1);
	list->begun = true;
	if (!err)
		err = json_dump_callback(page->array, body_write, body,
					 JSON_COMPACT | JSON_EMBED);
	if (!err && last)
		err = evbuffer_add(body, "]}\n", 3);
	return err ? -ENOMEM : 0;
}

static int list_part(void *ctx, struct evbuffer *body)
{
	struct list_stream *list = ctx;
	struct view_page page = { .array = json_array(), .after = list->after };
	bool more = list->resource->pages(list->from, &page);
	int err = page_dump(list, &page, !more, body);

	list->after = page.after;
	json_decref(page.array);
	return err ? err : more;
}

static const struct stream_source list_source = {
	.type = HTTP_TYPE_JSON,
	.part = list_part,
	.end = free,
};

static void list_send(const struct resource *resource, struct evhttp_request *request,
		      const struct admin_sources *from, struct slice_queue *queue)
{
	struct list_stream *list = malloc(sizeof(*list));

	if (!list) {
		http_send_no_memory(request);
		return;
	}
	*list = (struct list_stream){ .from = from, .resource = resource };
	stream_start(request, &list_source, list, &from->control->slices, queue);
}

void resource_send(const struct resource *resource, struct evhttp_request *request,
		   const struct admin_sources *from, struct slice_queue *queue)
{
	if (resource->view)
		reply_json(request, HTTP_OK, "OK", resource->view(from));
	else if (resource->pages)
		list_send(resource, request, from, queue);
	else
		resource->send(request, from, queue);
}

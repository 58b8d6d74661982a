/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/admin/resource.h"

#include <errno.h>
#include <event2/buffer.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "rmemd/admin/admin.h"
#include "rmemd/admin/extents_view.h"
#include "rmemd/admin/filter.h"
#include "rmemd/admin/followers.h"
#include "rmemd/admin/http.h"
#include "rmemd/admin/list.h"
#include "rmemd/admin/metrics_resource.h"
#include "rmemd/admin/page.h"
#include "rmemd/admin/stream.h"
#include "rmemd/admin/view.h"
#include "rmemd/control/control.h"

/* A resource has one of view, list and send. */
struct resource {
	const char *path;
	json_t *(*view)(const struct admin_sources *from);
	struct list_resource list;
	unsigned filters; /* the parameters that the query of a view or list may have */
	bool of_page;     /* the status page reads it, or it is the page */
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
	{ .path = PAGE_PATH, .of_page = true, .send = page_resource },
	{ .path = "/v1/status", .of_page = true, .view = view_status },
	{ .path = "/v1/pools", .of_page = true, .view = view_pools },
	{ .path = "/v1/devices", .of_page = true, .view = view_devices },
	{ .path = "/v1/sessions",
	  .of_page = true,
	  .list = { "sessions", view_sessions },
	  .filters = FILTER_TENANT | FILTER_NAME | FILTER_SESSION | FILTER_OLDER },
	{ .path = "/v1/leases",
	  .of_page = true,
	  .list = { "leases", view_leases },
	  .filters = FILTER_TENANT | FILTER_NAME | FILTER_SESSION | FILTER_OLDER |
		     FILTER_ATTACHED },
	{ .path = "/v1/tenants", .of_page = true, .view = view_tenants },
	{ .path = "/v1/events",
	  .of_page = true,
	  .list = { "events", view_events },
	  .filters = FILTER_TENANT | FILTER_NAME | FILTER_SESSION | FILTER_AFTER |
		     FILTER_FOLLOW },
	{ .path = "/v1/log-level", .view = view_log_level },
	{ .path = "/v1/extents", .of_page = true, .send = extents_view_send },
	{ .path = METRICS_PATH, .send = metrics_resource },
};

const struct resource *resource_find(const char *path)
{
	for (size_t i = 0; i < sizeof(resources) / sizeof(resources[0]); i++)
		if (path && strcmp(resources[i].path, path) == 0)
			return &resources[i];
	return NULL;
}

bool resource_is_of_page(const struct resource *resource)
{
	return resource->of_page;
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

/* Send events as they come. */
static void follow(struct followers *followers, struct evhttp_request *request,
		   const struct filter *filter)
{
	int err = followers ? followers_add(followers, request, filter)
			    : err_set(-EBUSY, "events are followed over the admin "
					      "socket alone");

	switch (err) {
	case -EBUSY:
		reply_error(request, HTTP_SERVUNAVAIL, "Service Unavailable",
			    err_text());
		break;
	case -ENOMEM:
		http_send_no_memory(request);
		break;
	}
}

void resource_send(const struct resource *resource, struct evhttp_request *request,
		   const struct admin_sources *from, struct followers *followers,
		   struct slice_queue *queue)
{
	const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(request);
	struct filter filter;

	if (resource->send)
		resource->send(request, from, queue);
	else if (filter_parse(evhttp_uri_get_query(uri), resource->filters, &filter))
		reply_error(request, HTTP_BADREQUEST, "Bad Request", err_text());
	else if (resource->view)
		reply_json(request, HTTP_OK, "OK", resource->view(from));
	else if (filter.follow)
		follow(followers, request, &filter);
	else
		list_reply(request, &resource->list, &filter, from, queue);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/admin/list.h"

#include <errno.h>
#include <stdlib.h>

#include "rmemd/admin/admin.h"
#include "rmemd/admin/http.h"
#include "rmemd/admin/stream.h"
#include "rmemd/control/control.h"

struct list_reply {
	const struct list_resource *resource;
	const struct admin_sources *from;
	struct filter filter;
	struct view_page page;
	bool begun;
};

static int list_part(void *ctx, struct evbuffer *body)
{
	struct list_reply *reply = ctx;
	struct view_page *page = &reply->page;
	bool more;

	if (!reply->begun &&
	    evbuffer_add_printf(body, "{\"%s\":[", reply->resource->name) < 0)
		return -ENOMEM;
	reply->begun = true;
	page->body = body;
	page->rows = page->seen = 0;
	more = reply->resource->page(reply->from, page);
	if (!page->err && !more && evbuffer_add_printf(body, "]}\n") < 0)
		return -ENOMEM;
	if (page->err)
		return page->err;
	return more ? STREAM_GOES_ON : STREAM_ENDS;
}

static const struct stream_source list_source = {
	.type = HTTP_TYPE_JSON,
	.part = list_part,
	.end = free,
};

void list_reply(struct evhttp_request *request, const struct list_resource *resource,
		const struct filter *filter, const struct admin_sources *from,
		struct slice_queue *queue)
{
	struct list_reply *reply = calloc(1, sizeof(*reply));

	if (!reply) {
		http_send_no_memory(request);
		return;
	}
	reply->resource = resource;
	reply->from = from;
	reply->filter = *filter;
	reply->page.filter = &reply->filter;
	reply->page.after = filter->after;
	(void)stream_start(request, &list_source, reply, &from->control->slices, queue);
}

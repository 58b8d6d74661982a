/* SPDX-License-Identifier: BSD-3-Clause */
/* A list of the daemon as the answer to a request, {"NAME": [...]}: in pages, each with the state
 * at its time.  Threads: [loop]. */
#ifndef RMEMD_ADMIN_LIST_H
#define RMEMD_ADMIN_LIST_H

#include <event2/http.h>

#include "rmemd/admin/filter.h"
#include "rmemd/admin/view.h"
#include "rmemd/loop/slices.h"

struct list_resource {
	const char *name;
	/* Add a page.  False: it is the last one. */
	bool (*page)(const struct admin_sources *from, struct view_page *page);
};

/* Answer the request.  The resource is constant, the filter is copied, the rest borrowed. */
void list_reply(struct evhttp_request *request, const struct list_resource *resource,
		const struct filter *filter, const struct admin_sources *from,
		struct slice_queue *queue);

#endif

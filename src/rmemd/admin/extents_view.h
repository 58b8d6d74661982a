/* SPDX-License-Identifier: BSD-3-Clause */
/* The extents of all pools as JSON: for each pool a limited number of cells, in the order of their
 * offsets, however many extents there are.  Threads: [loop]. */
#ifndef RMEMD_ADMIN_EXTENTS_VIEW_H
#define RMEMD_ADMIN_EXTENTS_VIEW_H

#include <event2/http.h>

#include "rmemd/loop/slices.h"

struct admin_sources;

/* Answer the request.  Borrows all pointers. */
void extents_view_send(struct evhttp_request *request, const struct admin_sources *from,
		       struct slice_queue *queue);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* What can be read of the daemon over HTTP: the status page, the metrics, and views as JSON, on the
 * admin socket and on the address of the metrics.  Threads: [loop]. */
#ifndef RMEMD_ADMIN_RESOURCE_H
#define RMEMD_ADMIN_RESOURCE_H

#include <event2/http.h>
#include <jansson.h>
#include <stdbool.h>

#include "rmemd/loop/slices.h"

struct admin_sources;
struct followers;
struct resource;

/* NULL: there is none of this path, which may be NULL. */
const struct resource *resource_find(const char *path);
/* Whether it is the status page, or what that reads. */
bool resource_is_of_page(const struct resource *resource);
/* Answer a request that reads the resource; what is long is sent in slices.  followers NULL: events
 * are not followed here.  Borrows all. */
void resource_send(const struct resource *resource, struct evhttp_request *request,
		   const struct admin_sources *from, struct followers *followers,
		   struct slice_queue *queue);

/* Answer with JSON, which it takes over; NULL is an internal error. */
void reply_json(struct evhttp_request *request, int code, const char *reason,
		json_t *json);
/* ... that has the status and a text. */
void reply_error(struct evhttp_request *request, int code, const char *reason,
		 const char *text);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* What a request tells about a browser: pages of others may make it ask, and must neither act nor
 * read the answer.  A browser hides answers without headers of CORS, which there are none of, from
 * pages of other names; so a page must not get a name of its own for this host (DNS rebinding).
 * Threads: [loop]. */
#ifndef RMEMD_ADMIN_VISITOR_H
#define RMEMD_ADMIN_VISITOR_H

#include <event2/http.h>
#include <stdbool.h>

struct config;

/* Whether the request is to a name that nobody else can have: an IP address, a name without a dot,
 * that of this host, one of [metrics] names, or none at all. */
bool visitor_names_host(struct evhttp_request *request, const struct config *config);
/* Whether a page in a browser makes the request. */
bool visitor_is_page(struct evhttp_request *request);

#endif

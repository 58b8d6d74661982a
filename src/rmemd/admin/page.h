/* SPDX-License-Identifier: BSD-3-Clause */
/* The status page: one file of HTML with its style and script, which reads the resources of the
 * address where it is.  Threads: [loop]. */
#ifndef RMEMD_ADMIN_PAGE_H
#define RMEMD_ADMIN_PAGE_H

#include <event2/http.h>

#define PAGE_PATH "/"

/* Answer the request with the page, and a policy that lets nothing run there but its own script. */
void page_send(struct evhttp_request *request);

#endif

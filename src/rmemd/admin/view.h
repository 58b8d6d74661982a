/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon's state as JSON, a view per resource.  Ids are strings, as they have 64 bits; sizes
 * are in bytes, times in milliseconds; what is not known or has no limit is null.
 * Threads: [loop]. */
#ifndef RMEMD_ADMIN_VIEW_H
#define RMEMD_ADMIN_VIEW_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct admin_sources;

/* Each returns an object that is the caller's, or NULL when there is no memory for it. */
json_t *view_status(const struct admin_sources *from);
json_t *view_pools(const struct admin_sources *from);
json_t *view_devices(const struct admin_sources *from);
json_t *view_tenants(const struct admin_sources *from);

/* The present drain; null: there is none. */
json_t *view_drain(const struct admin_sources *from);

/* A part of a list that may be too long for one turn of the loop. */
#define VIEW_PAGE_ITEMS 32
struct view_page {
	json_t *array;  /* the caller's; NULL: no memory */
	uint64_t after; /* the id of the last item */
};

/* Add the items behind page->after.  False: it has the last ones. */
bool view_sessions(const struct admin_sources *from, struct view_page *page);
bool view_leases(const struct admin_sources *from, struct view_page *page);

#endif

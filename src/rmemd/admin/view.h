/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon's state as JSON, a view per resource.  Ids are strings, as they have 64 bits; sizes
 * are in bytes, times in milliseconds; what is not known or has no limit is null.
 * Threads: [loop]. */
#ifndef RMEMD_ADMIN_VIEW_H
#define RMEMD_ADMIN_VIEW_H

#include <event2/buffer.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct admin_sources;
struct filter;
struct recent_event;

/* Each returns an object that is the caller's, or NULL when there is no memory for it. */
json_t *view_status(const struct admin_sources *from);
json_t *view_pools(const struct admin_sources *from);
json_t *view_devices(const struct admin_sources *from);
json_t *view_tenants(const struct admin_sources *from);

/* The level of the log in force, and that of the configuration. */
json_t *view_log_level(const struct admin_sources *from);

/* The present drain; null: there is none. */
json_t *view_drain(const struct admin_sources *from);

/* A part of a list that may be too long for one turn of the loop.  Zero before the first one, but
 * for the filter and the body. */
#define VIEW_PAGE_ITEMS 32
struct view_page {
	const struct filter *filter; /* borrowed */
	struct evbuffer *body;       /* the JSON of its items is appended; borrowed */
	int err;                     /* -ENOMEM: the list ends without its end */
	/* Of this page: rows of text, and items that it has looked at. */
	unsigned rows, seen;
	/* Of all pages so far. */
	uint64_t after; /* the id of the last item */
	bool any;       /* there was an item */
	bool open; /* the list of sessions of that item, a lease, is not complete */
	uint64_t within; /* the id of the last of these */
	uint64_t missed; /* events since the last item that are not kept any more */
};

/* Add the items behind page->after, in the order of their ids.  False: it has the last ones. */
bool view_sessions(const struct admin_sources *from, struct view_page *page);
/* The sessions that have a lease attached may be many, so a page may end in the middle of them. */
bool view_leases(const struct admin_sources *from, struct view_page *page);

/* The recent events, by their numbers. */
bool view_events(const struct admin_sources *from, struct view_page *page);
/* One of them; `missed` events before it were not sent. */
json_t *view_event(const struct recent_event *event, uint64_t missed);
bool view_event_matches(const struct recent_event *event, const struct filter *filter);

#endif

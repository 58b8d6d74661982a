/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon's state as JSON, a view per resource.  Ids are strings, as they have 64 bits; sizes
 * are in bytes, times in milliseconds; what is not known or has no limit is null.
 * Threads: [loop]. */
#ifndef RMEMD_ADMIN_VIEW_H
#define RMEMD_ADMIN_VIEW_H

#include <jansson.h>

struct admin_sources;

/* Each returns an object that is the caller's, or NULL when there is no memory for it. */
json_t *view_status(const struct admin_sources *from);
json_t *view_pools(const struct admin_sources *from);
json_t *view_devices(const struct admin_sources *from);
json_t *view_sessions(const struct admin_sources *from);
json_t *view_leases(const struct admin_sources *from);
json_t *view_tenants(const struct admin_sources *from);

#endif

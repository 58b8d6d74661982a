/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon's state as JSON, a file per resource.  Ids are strings, as they have 64 bits;
 * sizes are in bytes, times in milliseconds; what is not known is null.
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
json_t *view_sessions(const struct admin_sources *from);
json_t *view_leases(const struct admin_sources *from);
json_t *view_tenants(const struct admin_sources *from);

/* What these are made with.  Where memory is short the object is freed and becomes NULL;
 * with NULL nothing is done, so only the end must be looked at. */
void view_add(json_t **object, const char *key, json_t *value); /* takes value over */
void view_append(json_t **array, json_t *value);                /* takes value over */
void view_text(json_t **object, const char *key, const char *text); /* NULL: null */
void view_number(json_t **object, const char *key, uint64_t number);
void view_flag(json_t **object, const char *key, bool flag);
void view_id(json_t **object, const char *key, uint64_t id);
void view_node(json_t **object, const char *key, int node); /* -1: null */

#endif

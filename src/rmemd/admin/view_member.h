/* SPDX-License-Identifier: BSD-3-Clause */
/* Members of JSON objects, for the views.
 *
 * Where memory is short the object or array is freed and becomes NULL.  Jansson takes NULL for an
 * object, an array or a value, and fails then, so a caller checks only the result.
 * Threads: [any]. */
#ifndef RMEMD_ADMIN_VIEW_MEMBER_H
#define RMEMD_ADMIN_VIEW_MEMBER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Both take the value over. */
void view_add(json_t **object, const char *key, json_t *value);
void view_append(json_t **array, json_t *value);

/* A text that may be anything, such as the name of a client; JSON is UTF-8.  NULL: null */
void view_text(json_t **object, const char *key, const char *text);
void view_number(json_t **object, const char *key, uint64_t number);
void view_flag(json_t **object, const char *key, bool flag);
/* As a string.  0: null */
void view_id(json_t **object, const char *key, uint64_t id);
/* A node, or an option of a device.  -1: null */
void view_optional(json_t **object, const char *key, int number);
/* 0: null */
void view_known(json_t **object, const char *key, uint64_t number);

/* A list of n texts, each of which has this many bytes. */
json_t *texts_view(const char *texts, size_t bytes, unsigned n);
/* An object with one member, which it takes over. */
json_t *list_view(const char *key, json_t *array);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/admin/view.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void view_add(json_t **object, const char *key, json_t *value)
{
	if (!*object) {
		json_decref(value);
	} else if (json_object_set_new(*object, key, value)) {
		/* which also refuses NULL */
		json_decref(*object);
		*object = NULL;
	}
}

void view_append(json_t **array, json_t *value)
{
	if (!*array) {
		json_decref(value);
	} else if (json_array_append_new(*array, value)) {
		json_decref(*array);
		*array = NULL;
	}
}

/* JSON is UTF-8; what a client calls itself need not be. */
static json_t *text_plain(const char *text)
{
	char *plain = strdup(text);
	json_t *value;

	if (!plain)
		return NULL;
	for (char *c = plain; *c; c++)
		if ((unsigned char)*c >= 0x80)
			*c = '?';
	value = json_string(plain);
	free(plain);
	return value;
}

void view_text(json_t **object, const char *key, const char *text)
{
	json_t *value = text ? json_string(text) : json_null();

	view_add(object, key, value ? value : text_plain(text));
}

void view_number(json_t **object, const char *key, uint64_t number)
{
	view_add(object, key, json_integer((json_int_t)number));
}

void view_flag(json_t **object, const char *key, bool flag)
{
	view_add(object, key, json_boolean(flag));
}

void view_id(json_t **object, const char *key, uint64_t id)
{
	view_add(object, key, json_sprintf("%" PRIu64, id));
}

void view_node(json_t **object, const char *key, int node)
{
	view_add(object, key, node < 0 ? json_null() : json_integer(node));
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/admin/view_member.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

void view_add(json_t **object, const char *key, json_t *value)
{
	if (json_object_set_new(*object, key, value)) {
		json_decref(*object);
		*object = NULL;
	}
}

void view_append(json_t **array, json_t *value)
{
	if (json_array_append_new(*array, value)) {
		json_decref(*array);
		*array = NULL;
	}
}

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

	if (text && !value)
		value = text_plain(text);
	view_add(object, key, value);
}

void view_number(json_t **object, const char *key, uint64_t number)
{
	view_add(object, key, json_integer(json_number(number)));
}

void view_flag(json_t **object, const char *key, bool flag)
{
	view_add(object, key, json_boolean(flag));
}

void view_id(json_t **object, const char *key, uint64_t id)
{
	view_add(object, key, id ? json_sprintf("%" PRIu64, id) : json_null());
}

void view_optional(json_t **object, const char *key, int number)
{
	view_add(object, key, number < 0 ? json_null() : json_integer(number));
}

void view_known(json_t **object, const char *key, uint64_t number)
{
	view_add(object, key, number ? json_integer(json_number(number)) : json_null());
}

json_t *texts_view(const char *texts, size_t bytes, unsigned n)
{
	json_t *array = json_array();

	for (unsigned i = 0; i < n; i++)
		view_append(&array, json_string(texts + i * bytes));
	return array;
}

json_t *list_view(const char *key, json_t *array)
{
	json_t *object = json_object();

	view_add(&object, key, array);
	return object;
}

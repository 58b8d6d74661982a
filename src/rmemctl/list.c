/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemctl/list.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/nearest.h"
#include "base/units.h"

static const char *tenant, *name, *session, *sort;
static uint64_t older_ms;

static int session_parse(const char *text, void *value)
{
	const char **to = value;
	uint64_t id;

	if (units_parse_u64(text, 1, UINT64_MAX, &id))
		return err_set(-EINVAL, "--session: %s", err_text());
	*to = text;
	return 0;
}

const struct option_row list_sort_options[] = {
	{ "sort", 0, OPTION_TEXT, &sort, .argument = "COLUMN",
	  .help = "sort by this column, as its title says or as in" OPTION_INDENT
		  "the JSON; -COLUMN: the largest first" },
	{ .more = options_table },
	{ 0 },
};

const struct option_row list_options[] = {
	{ "tenant", 't', OPTION_TEXT, &tenant, .argument = "TENANT",
	  .help = "only those of this tenant" },
	{ "name", 'n', OPTION_TEXT, &name, .argument = "PATTERN",
	  .help = "only those with such a name: * stands for any text," OPTION_INDENT
		  "? for a character" },
	{ "session", 0, OPTION_OTHER, &session, .parse = session_parse,
	  .argument = "SESSION", .help = "only those of the session with this number" },
	{ "older", 0, OPTION_MS, &older_ms, .min = 0, .max = INT64_MAX,
	  .argument = "TIME", .help = "only those of at least this age, as 90min" },
	{ .more = list_sort_options },
	{ 0 },
};

void list_parameters(struct client_parameter ret_parameters[LIST_PARAMETERS])
{
	static char older[24];
	unsigned n = 0;

	ret_parameters[n++] = (struct client_parameter){ "tenant", tenant };
	ret_parameters[n++] = (struct client_parameter){ "name", name };
	ret_parameters[n++] = (struct client_parameter){ "session", session };
	(void)snprintf(older, sizeof(older), "%" PRIu64, older_ms);
	ret_parameters[n++] =
		(struct client_parameter){ "older_ms", older_ms ? older : NULL };
	ret_parameters[n] = (struct client_parameter){ 0 };
}

/* ---- sorting ---- */

struct row {
	json_t *item;
	size_t place; /* rows with equal values keep their order */
};

static const char *sort_key;
static bool sort_down;

/* A number, also one that is a string. */
static bool number_of(const json_t *value, uint64_t *ret_number)
{
	const char *text = json_string_value(value);
	char *end;

	if (json_is_integer(value)) {
		*ret_number = (uint64_t)json_integer_value(value);
		return true;
	}
	if (!text || *text < '0' || *text > '9')
		return false;
	*ret_number = strtoull(text, &end, 10);
	return *end == '\0';
}

/* What is missing comes first, then numbers, then texts. */
static int values_compare(const json_t *a, const json_t *b)
{
	uint64_t x = 0, y = 0;
	bool x_is = number_of(a, &x), y_is = number_of(b, &y);

	if (x_is && y_is)
		return x < y ? -1 : x > y;
	if (json_is_string(a) && json_is_string(b) && !x_is && !y_is)
		return strcmp(json_string_value(a), json_string_value(b));
	return (x_is                ? 1
		: json_is_string(a) ? 2
				    : 0) -
	       (y_is                ? 1
		: json_is_string(b) ? 2
				    : 0);
}

static int rows_compare(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	int order = values_compare(json_object_get(x->item, sort_key),
				   json_object_get(y->item, sort_key));

	if (order)
		return sort_down ? -order : order;
	return x->place < y->place ? -1 : 1;
}

const char *list_key(const struct column *columns, const char *text)
{
	struct nearest nearest;

	nearest_init(&nearest, text);
	for (const struct column *column = columns; column->title; column++) {
		/* a title in brackets is that of several columns */
		if (strcmp(column->key, text) == 0 ||
		    (*column->title != '(' && strcasecmp(column->title, text) == 0))
			return column->key;
		nearest_offer(&nearest, column->key);
	}
	(void)nearest_unknown(&nearest, "column");
	return NULL;
}

bool list_is_sorted(void)
{
	return sort != NULL;
}

int list_sort_by(json_t *array, const char *key, bool down)
{
	size_t n = json_array_size(array);
	struct row *rows = calloc(n + 1, sizeof(*rows));

	if (!rows)
		return err_errno(-ENOMEM, "list");
	sort_key = key;
	sort_down = down;
	for (size_t i = 0; i < n; i++)
		rows[i] = (struct row){ json_incref(json_array_get(array, i)), i };
	qsort(rows, n, sizeof(*rows), rows_compare);
	for (size_t i = 0; i < n; i++)
		/* takes the reference over; the place exists, so that it cannot fail */
		(void)json_array_set_new(array, i, rows[i].item);
	free(rows);
	return 0;
}

int list_sort_check(const struct column *columns)
{
	if (!sort)
		return 0;
	sort_down = *sort == '-';
	sort_key = list_key(columns, sort + sort_down);
	return sort_key ? 0 : err_set(-EINVAL, "--sort: %s", err_text());
}

int list_sort(json_t *array)
{
	return sort ? list_sort_by(array, sort_key, sort_down) : 0;
}

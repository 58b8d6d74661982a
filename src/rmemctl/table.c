/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemctl/table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/units.h"
#include "base/utf8.h"

#define COLUMNS_MAX 16
#define GAP 2

/* Characters on the screen: bytes of UTF-8 that begin a character. */
static size_t text_width(const char *text)
{
	size_t width = 0;

	for (; *text; text++)
		width += ((unsigned char)*text & 0xc0) != 0x80;
	return width;
}

/* Copy, with '?' for characters that may not be shown; a text that is too long is cut between
 * characters.  Returns the number of bytes of text that were copied. */
static size_t text_copy(const char *text, char buf[CELL_CHARS])
{
	size_t bytes = strlen(text), used = 0, i = 0;

	while (i < bytes) {
		bool clean;
		size_t len = utf8_next(text + i, bytes - i, &clean);

		if (used + (clean ? len : 1) >= CELL_CHARS)
			break;
		if (clean)
			memcpy(buf + used, text + i, len);
		else
			buf[used] = '?';
		used += clean ? len : 1;
		i += len;
	}
	buf[used] = '\0';
	return i;
}

void text_print(FILE *out, const char *text)
{
	char part[CELL_CHARS];
	size_t copied;

	while ((copied = text_copy(text, part)) > 0) {
		(void)fputs(part, out);
		text += copied;
	}
}

const char *time_format(json_int_t ms, char buf[CELL_CHARS])
{
	static const struct {
		const char *name;
		json_int_t ms;
	} units[] = {
		{ "d", 86400000 }, { "h", 3600000 }, { "min", 60000 }, { "s", 1000 }
	};
	const size_t n = sizeof(units) / sizeof(units[0]);

	for (size_t i = 0; i < n; i++) {
		json_int_t whole = ms / units[i].ms, rest = ms % units[i].ms;

		if (whole == 0)
			continue;
		if (i + 1 < n && rest >= units[i + 1].ms)
			(void)snprintf(buf, CELL_CHARS,
				       "%" JSON_INTEGER_FORMAT
				       "%s %" JSON_INTEGER_FORMAT "%s",
				       whole, units[i].name, rest / units[i + 1].ms,
				       units[i + 1].name);
		else
			(void)snprintf(buf, CELL_CHARS, "%" JSON_INTEGER_FORMAT "%s",
				       whole, units[i].name);
		return buf;
	}
	(void)snprintf(buf, CELL_CHARS, "%" JSON_INTEGER_FORMAT "ms", ms);
	return buf;
}

/* "0: 32 MiB, 1: 32 MiB", truncated if too long; "": no shares. */
static void shares_format(const json_t *shares, char buf[CELL_CHARS])
{
	size_t used = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < json_array_size(shares) && used < CELL_CHARS; i++) {
		const json_t *share = json_array_get(shares, i);
		char node[CELL_CHARS], bytes[CELL_CHARS];

		(void)cell_format(json_object_get(share, "node"), CELL_NUMBER, "?",
				  node);
		(void)cell_format(json_object_get(share, "bytes"), CELL_BYTES, "?",
				  bytes);
		used += (size_t)snprintf(buf + used, CELL_CHARS - used, "%s%s: %s",
					 i ? ", " : "", node, bytes);
	}
}

/* "a, b", truncated if too long. */
static void list_format(const json_t *list, char buf[CELL_CHARS])
{
	size_t used = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < json_array_size(list) && used < CELL_CHARS; i++) {
		char item[CELL_CHARS];

		(void)cell_format(json_array_get(list, i), CELL_TEXT, "?", item);
		used += (size_t)snprintf(buf + used, CELL_CHARS - used, "%s%s",
					 i ? ", " : "", item);
	}
}

const char *cell_format(const json_t *value, enum cell cell, const char *null,
			char buf[CELL_CHARS])
{
	json_int_t number = json_integer_value(value);

	if (cell == CELL_TEXT && json_is_string(value))
		text_copy(json_string_value(value), buf);
	else if (cell == CELL_NUMBER && json_is_integer(value))
		(void)snprintf(buf, CELL_CHARS, "%" JSON_INTEGER_FORMAT, number);
	else if (cell == CELL_BYTES && json_is_integer(value))
		(void)units_format_bytes((uint64_t)number, buf, CELL_CHARS);
	else if (cell == CELL_PERCENT && json_is_integer(value))
		(void)snprintf(buf, CELL_CHARS, "%" JSON_INTEGER_FORMAT "%%", number);
	else if (cell == CELL_TIME && json_is_integer(value))
		(void)time_format(number, buf);
	else if (cell == CELL_SHARES && json_array_size(value) > 0)
		shares_format(value, buf);
	else if (cell == CELL_LIST && json_array_size(value) > 0)
		list_format(value, buf);
	else
		(void)snprintf(buf, CELL_CHARS, "%s", null);
	return buf;
}

/* Text is aligned left, numbers right; no blanks follow the last column. */
static void cell_print(FILE *out, const struct column *column, const char *text,
		       size_t width)
{
	bool last = !column[1].title;
	size_t pad = width - text_width(text);

	if (column->cell != CELL_TEXT && column->cell != CELL_SHARES &&
	    column->cell != CELL_LIST)
		(void)fprintf(out, "%*s%s", (int)pad, "", text);
	else
		(void)fprintf(out, "%s%*s", text, last ? 0 : (int)pad, "");
	(void)fprintf(out, "%*s", last ? 0 : GAP, "");
	if (last)
		(void)fputc('\n', out);
}

int table_print(FILE *out, const struct column *columns, const json_t *array)
{
	size_t widths[COLUMNS_MAX] = { 0 }, n_columns = 0,
	       n_rows = json_array_size(array);
	char(*cells)[CELL_CHARS];

	while (columns[n_columns].title)
		n_columns++;
	cells = calloc(n_rows * n_columns + 1, CELL_CHARS);
	if (!cells)
		return err_errno(-ENOMEM, "table");
	for (size_t j = 0; j < n_columns; j++)
		widths[j] = text_width(columns[j].title);
	for (size_t i = 0; i < n_rows * n_columns; i++) {
		const struct column *column = &columns[i % n_columns];
		const json_t *row = json_array_get(array, i / n_columns);
		size_t width =
			text_width(cell_format(json_object_get(row, column->key),
					       column->cell, column->null, cells[i]));

		if (width > widths[i % n_columns])
			widths[i % n_columns] = width;
	}
	for (size_t j = 0; j < n_columns; j++)
		cell_print(out, &columns[j], columns[j].title, widths[j]);
	for (size_t i = 0; i < n_rows * n_columns; i++)
		cell_print(out, &columns[i % n_columns], cells[i],
			   widths[i % n_columns]);
	free(cells);
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemctl/table.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/units.h"
#include "base/utf8.h"

#define COLUMNS_MAX 24
#define GAP 2
#define TEXT_MIN 8 /* texts are not cut to fewer characters */
#define DOTS 3

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

	if (!text)
		text = "-";
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
	} units[] = { { "d", 86400000 },
		      { "h", 3600000 },
		      { "min", 60000 },
		      { "s", 1000 },
		      { "ms", 1 } };
	const size_t n = sizeof(units) / sizeof(units[0]);
	json_int_t rest;
	size_t i = 0;
	int used;

	while (i + 1 < n && ms < units[i].ms)
		i++;
	used = snprintf(buf, CELL_CHARS, "%" JSON_INTEGER_FORMAT "%s", ms / units[i].ms,
			units[i].name);
	/* milliseconds are not shown beside seconds */
	rest = i + 2 < n ? ms % units[i].ms / units[i + 1].ms : 0;
	if (rest)
		(void)snprintf(buf + used, CELL_CHARS - (size_t)used,
			       " %" JSON_INTEGER_FORMAT "%s", rest, units[i + 1].name);
	return buf;
}

static bool is_list(enum cell cell)
{
	return cell == CELL_SHARES || cell == CELL_LIST;
}

/* "a, b", or with the number of a node before each "0: 32 MiB, 1: 32 MiB"; truncated if too
 * long. */
static void list_format(const json_t *list, bool shares, char buf[CELL_CHARS])
{
	size_t used = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < json_array_size(list) && used < CELL_CHARS; i++) {
		const json_t *item = json_array_get(list, i),
			     *bytes = json_object_get(item, "bytes");
		char node[CELL_CHARS], text[CELL_CHARS];

		(void)cell_format(json_object_get(item, "node"), CELL_NUMBER, "?",
				  node);
		(void)cell_format(shares ? bytes : item,
				  shares ? CELL_BYTES : CELL_TEXT, "?", text);
		used += (size_t)snprintf(buf + used, CELL_CHARS - used, "%s%s%s%s",
					 i ? ", " : "", shares ? node : "",
					 shares ? ": " : "", text);
	}
}

const char *cell_format(const json_t *value, enum cell cell, const char *null,
			char buf[CELL_CHARS])
{
	json_int_t number = json_integer_value(value);

	if ((cell == CELL_TEXT || cell == CELL_ID) && json_is_string(value))
		text_copy(json_string_value(value), buf);
	else if (cell == CELL_NUMBER && json_is_integer(value))
		(void)snprintf(buf, CELL_CHARS, "%" JSON_INTEGER_FORMAT, number);
	else if (cell == CELL_BYTES && json_is_integer(value))
		(void)units_format_bytes((uint64_t)number, buf, CELL_CHARS);
	else if (cell == CELL_PERCENT && json_is_integer(value))
		(void)snprintf(buf, CELL_CHARS, "%" JSON_INTEGER_FORMAT "%%", number);
	else if (cell == CELL_TIME && json_is_integer(value))
		(void)time_format(number, buf);
	else if (cell == CELL_HEX && json_is_integer(value))
		(void)snprintf(buf, CELL_CHARS, "0x%04x", (unsigned)number);
	else if (is_list(cell) && json_array_size(value) > 0)
		list_format(value, cell == CELL_SHARES, buf);
	else if (cell != (json_is_true(value) ? CELL_UNLESS : CELL_IF))
		(void)snprintf(buf, CELL_CHARS, "%s", null);
	else
		buf[0] = '\0';
	return buf;
}

void fields_print(FILE *out, const struct field *fields, const json_t *object)
{
	for (; fields->before; fields++) {
		const json_t *from = object, *value;
		char text[CELL_CHARS] = "";

		if (fields->object)
			from = json_object_get(object, fields->object);
		value = fields->key ? json_object_get(from, fields->key) : NULL;
		if (fields->key && !fields->null && !json_is_integer(value))
			continue;
		if (fields->key)
			(void)cell_format(value, fields->cell, fields->null, text);
		(void)fprintf(out, "%s%s", fields->before, text);
	}
}

static bool is_text(enum cell cell)
{
	return cell == CELL_TEXT || cell == CELL_ID || is_list(cell);
}

/* Text is aligned left, numbers right; no blanks follow the last column. */
static void cell_print(FILE *out, enum cell cell, bool last, const char *text,
		       size_t width)
{
	size_t pad = width - text_width(text);

	if (is_text(cell))
		(void)fprintf(out, "%s%*s", text, last ? 0 : (int)pad, "");
	else
		(void)fprintf(out, "%*s%s", (int)pad, "", text);
	(void)fprintf(out, "%*s", last ? 0 : GAP, "");
	if (last)
		(void)fputc('\n', out);
}

/* Cut a text to `width` characters; dots stand for the rest. */
static void text_cut(char *text, size_t width)
{
	size_t characters = 0;

	if (text_width(text) <= width)
		return;
	for (; *text; text++) {
		characters += ((unsigned char)*text & 0xc0) != 0x80;
		if (characters > width - DOTS)
			break;
	}
	memcpy(text, "...", DOTS + 1);
}

/* The columns that are shown, and the cells, row by row; the titles are the first row. */
struct table {
	const struct column *columns[COLUMNS_MAX];
	size_t widths[COLUMNS_MAX];
	size_t n_columns, n_cells;
	char (*cells)[CELL_CHARS];
};

static size_t table_width(const struct table *table)
{
	size_t width = GAP * (table->n_columns - 1);

	for (size_t j = 0; j < table->n_columns; j++)
		width += table->widths[j];
	return width;
}

/* The widest column whose texts may be cut further; n_columns: there is none. */
static size_t column_to_cut(const struct table *table)
{
	size_t found = table->n_columns, widest = TEXT_MIN;

	for (size_t j = 0; j < table->n_columns; j++) {
		enum cell cell = table->columns[j]->cell;

		if (!is_text(cell) || cell == CELL_ID || table->widths[j] <= widest)
			continue;
		widest = table->widths[j];
		found = j;
	}
	return found;
}

static void table_fit(struct table *table)
{
	size_t j;

	while (table_width(table) > TABLE_CHARS &&
	       (j = column_to_cut(table)) < table->n_columns)
		table->widths[j]--;
	for (size_t i = 0; i < table->n_cells; i++) {
		j = i % table->n_columns;
		if (is_text(table->columns[j]->cell))
			text_cut(table->cells[i], table->widths[j]);
	}
}

static int table_fill(struct table *table, const json_t *array)
{
	table->n_cells = (json_array_size(array) + 1) * table->n_columns;
	table->cells = calloc(table->n_cells, CELL_CHARS);
	if (!table->cells)
		return err_errno(-ENOMEM, "table");
	for (size_t i = 0; i < table->n_cells; i++) {
		size_t row = i / table->n_columns, j = i % table->n_columns, width;
		const struct column *column = table->columns[j];
		const json_t *value = NULL;

		if (row > 0)
			value = json_object_get(json_array_get(array, row - 1),
						column->key);
		width = text_width(cell_format(value, column->cell,
					       row > 0 ? column->null : column->title,
					       table->cells[i]));
		if (width > table->widths[j])
			table->widths[j] = width;
	}
	return 0;
}

int table_print(FILE *out, const struct column *columns, bool wide, const json_t *array)
{
	struct table table = { 0 };
	int err;

	for (const struct column *column = columns; column->title; column++)
		if (wide || column->where != COLUMN_WIDE)
			table.columns[table.n_columns++] = column;
	err = table_fill(&table, array);
	if (err)
		return err;
	if (!wide)
		table_fit(&table);
	for (size_t i = 0; i < table.n_cells; i++) {
		size_t j = i % table.n_columns;

		cell_print(out, table.columns[j]->cell, j + 1 == table.n_columns,
			   table.cells[i], table.widths[j]);
	}
	free(table.cells);
	return 0;
}

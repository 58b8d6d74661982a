/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints JSON objects as text, and lists of them as aligned tables.  Control characters in
 * clients' texts do not reach the terminal.
 * Threads: [main]. */
#ifndef RMEMCTL_TABLE_H
#define RMEMCTL_TABLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

enum cell {
	CELL_TEXT,
	CELL_ID, /* a text that is never cut */
	CELL_NUMBER,
	CELL_BYTES,
	CELL_TIME,
	CELL_PERCENT,
	CELL_SHARES, /* bytes per node: a list of objects */
	CELL_LIST,   /* of texts; an empty list is printed as `null` */
	CELL_HEX,    /* a number of 16 bits */
	CELL_IF,     /* `null` if the value is true, else nothing */
	CELL_UNLESS, /* `null` unless the value is true */
};

/* A value in running text. */
struct field {
	const char *before; /* printed first; NULL ends the fields */
	/* member of the printed object that has the value; NULL: the object itself */
	const char *object;
	const char *key; /* NULL: there is no value */
	enum cell cell;
	const char *null; /* printed for a missing value; NULL: neither is `before` */
};

/* Which tables a column is in. */
enum column_where { COLUMN_ALWAYS, COLUMN_WIDE };

struct column {
	const char *title; /* NULL ends the columns */
	const char *key;
	enum cell cell;
	const char *null; /* printed for a missing value */
	enum column_where where;
};

#define CELL_CHARS 96

/* One value into buf; returns buf.  A missing value, or one of another type, becomes `null`. */
const char *cell_format(const json_t *value, enum cell cell, const char *null,
			char buf[CELL_CHARS]);

void fields_print(FILE *out, const struct field *fields, const json_t *object);

/* Print a text of any length; what may not be shown becomes '?', and NULL a '-'. */
void text_print(FILE *out, const char *text);

/* "3d 4h", "250ms": the two largest units. */
const char *time_format(json_int_t ms, char buf[CELL_CHARS]);

#define TABLE_CHARS 100

/* Print a title line and a line per object.  Unless the table may be wide, it has the columns
 * without COLUMN_WIDE alone, and texts are cut so that a line has at most TABLE_CHARS characters.
 * -ENOMEM.  The caller checks ferror(out). */
int table_print(FILE *out, const struct column *columns, bool wide,
		const json_t *array);

#endif

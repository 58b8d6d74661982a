/* SPDX-License-Identifier: BSD-3-Clause */
/* JSON for people: aligned tables of lists of objects.  What comes from clients cannot
 * steer the terminal.  Threads: none but main. */
#ifndef RMEMCTL_TABLE_H
#define RMEMCTL_TABLE_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

enum cell {
	CELL_TEXT,
	CELL_NUMBER,
	CELL_BYTES,
	CELL_TIME,
	CELL_PERCENT,
	CELL_SHARES, /* bytes per node: a list of objects */
	CELL_LIST,   /* of texts; of none `null` is shown */
};

struct column {
	const char *title; /* NULL ends the columns */
	const char *key;
	enum cell cell;
	const char *null; /* for null */
};

#define CELL_CHARS 96

/* One value into buf; returns buf.  Missing and odd values become `null`. */
const char *cell_format(const json_t *value, enum cell cell, const char *null,
			char buf[CELL_CHARS]);

/* Print a text of any length; control characters become '?'. */
void text_print(FILE *out, const char *text);

/* "3d 4h", "250ms": the two largest units. */
const char *time_format(json_int_t ms, char buf[CELL_CHARS]);

/* Print a title line and one for every object of the array.  -ENOMEM.  Errors of `out`
 * are the caller's to look for. */
int table_print(FILE *out, const struct column *columns, const json_t *array);

#endif

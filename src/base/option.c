/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/option.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/units.h"

#define ROWS_MAX 32
#define LONG_BASE 256 /* what getopt_long() returns for row 0; above all letters */

struct table {
	const struct option_row *rows[ROWS_MAX];
	unsigned n;
	struct option longs[ROWS_MAX + 1];
	char letters[2 * ROWS_MAX + 3];
};

static bool has_value(const struct option_row *row)
{
	return row->kind != OPTION_FLAG && row->kind != OPTION_LAST;
}

static void table_add(struct table *table, const struct option_row *rows)
{
	for (const struct option_row *row = rows; row->name || row->more; row++) {
		int has_arg = has_value(row) ? required_argument : no_argument;

		if (row->more) {
			table_add(table, row->more);
			continue;
		}

		table->longs[table->n] = (struct option){ row->name, has_arg, NULL,
							  LONG_BASE + (int)table->n };
		table->rows[table->n++] = row;
		if (row->letter)
			table->letters[strlen(table->letters)] = row->letter;
		if (row->letter && has_value(row))
			table->letters[strlen(table->letters)] = ':';
	}
}

static const struct option_row *table_find(const struct table *table, int result)
{
	if (result >= LONG_BASE)
		return table->rows[result - LONG_BASE];
	for (unsigned i = 0; i < table->n; i++)
		if (table->rows[i]->letter == result)
			return table->rows[i];
	return NULL;
}

/* getopt_long() returned '?' or ':'. */
static int option_error(const struct table *table, int result, char *const *argv)
{
	const char *arg = argv[optind - 1];

	if (result == ':')
		return err_set(-EINVAL, "%s needs a value", arg);
	if (optopt == 0)
		return err_set(-EINVAL, "unknown option %s", arg);
	/* the option is known, so it was given a value that it does not take */
	if (table_find(table, optopt))
		return err_set(-EINVAL, "%s: the option takes no value", arg);
	return err_set(-EINVAL, "unknown option -%c", optopt);
}

int option_number(const char *name, const char *text, uint64_t min, uint64_t max,
		  unsigned *ret_value)
{
	uint64_t value;

	if (units_parse_u64(text, min, max, &value))
		return err_set(-EINVAL, "%s: %s", name, err_text());
	*ret_value = (unsigned)value;
	return 0;
}

int option_wide_parse(const char *text, void *value)
{
	if (strcmp(text, "wide") != 0)
		return err_set(-EINVAL, "--output: '%s' is not wide", text);
	*(bool *)value = true;
	return 0;
}

/* A size or a time. */
static int quantity_parse(const struct option_row *row, const char *text)
{
	uint64_t value;

	if (row->kind == OPTION_BYTES ? units_parse_bytes(text, &value)
				      : units_parse_ms(text, &value))
		return err_set(-EINVAL, "--%s: %s", row->name, err_text());
	if (value < row->min || value > row->max)
		return err_set(-EINVAL, "--%s: %s is out of its range", row->name,
			       text);
	*(uint64_t *)row->value = value;
	return 0;
}

static int value_parse(const struct option_row *row, const char *text)
{
	char name[32];

	switch (row->kind) {
	case OPTION_FLAG:
	case OPTION_LAST:
		*(bool *)row->value = true;
		return row->kind == OPTION_LAST ? OPTION_ENDED : 0;
	case OPTION_TEXT:
		*(const char **)row->value = text;
		return 0;
	case OPTION_NUMBER:
		(void)snprintf(name, sizeof(name), "--%s", row->name);
		return option_number(name, text, row->min, row->max, row->value);
	case OPTION_BYTES:
	case OPTION_MS:
		return quantity_parse(row, text);
	case OPTION_OTHER:
		break;
	}
	return row->parse(text, row->value);
}

int option_parse(const struct option_row *rows, bool first, int argc, char **argv)
{
	/* with ':' getopt_long() prints no error of its own */
	struct table table = { .letters = ":" };
	int result, err = 0;

	if (first)
		(void)strcpy(table.letters, "+:");
	table_add(&table, rows);
	optind = 0; /* restart getopt, which may have parsed another part */
	while (!err && (result = getopt_long(argc, argv, table.letters, table.longs,
					     NULL)) != -1) {
		if (result == '?' || result == ':')
			return option_error(&table, result, argv);
		err = value_parse(table_find(&table, result), optarg);
	}
	return err;
}

void option_help(const struct option_row *rows)
{
	for (const struct option_row *row = rows; row->name || row->more; row++) {
		char head[64], letter[8] = "";

		if (row->more) {
			option_help(row->more);
			continue;
		}
		if (row->letter)
			(void)snprintf(letter, sizeof(letter), "-%c, ", row->letter);
		(void)snprintf(head, sizeof(head), "%s--%s%s%s", letter, row->name,
			       has_value(row) ? " " : "",
			       has_value(row) ? row->argument : "");
		(void)printf("  %-19s %s\n", head, row->help);
	}
}

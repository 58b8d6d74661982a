/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of a command line, described by tables: parsed with getopt_long(), and listed for
 * --help.  Threads: [main], as getopt(3). */
#ifndef BASE_OPTION_H
#define BASE_OPTION_H

#include <stdbool.h>
#include <stdint.h>

enum option_kind {
	OPTION_FLAG,   /* sets a bool */
	OPTION_LAST,   /* sets a bool, and ends the parsing, as --help */
	OPTION_TEXT,   /* a const char *, which points into argv */
	OPTION_NUMBER, /* an unsigned from min to max */
	OPTION_BYTES,  /* a uint64_t from min to max, as 64K */
	OPTION_MS,     /* a uint64_t from min to max, as 200ms */
	OPTION_OTHER,  /* parse() sets the value */
};

struct option_row {
	const char *name; /* without dashes; a row of zeros ends the table */
	char letter;      /* 0: none */
	enum option_kind kind;
	void *value;
	uint64_t min, max;
	int (*parse)(const char *text, void *value); /* -EINVAL with text */
	const char *argument; /* the name of the value in --help */
	const char *help;     /* indent further lines with OPTION_INDENT */
	/* options of another table, instead of this one */
	const struct option_row *more;
};

/* Indents a further line of a help text. */
#define OPTION_INDENT "\n                      "

#define OPTION_ENDED 1

/* Parse the options of argv; optind is then the first argument.  With `first` the options end at
 * the first argument, otherwise they may stand between arguments.  OPTION_ENDED after an
 * OPTION_LAST; -EINVAL with text. */
int option_parse(const struct option_row *rows, bool first, int argc, char **argv);

/* Parse a number, named in the error text.  -EINVAL with text. */
int option_number(const char *name, const char *text, uint64_t min, uint64_t max,
		  unsigned *ret_value);

/* Parse the value of --output, which can only be "wide", into a bool.  -EINVAL with text. */
int option_wide_parse(const char *text, void *value);

/* Print a line or more for each option. */
void option_help(const struct option_row *rows);

#endif

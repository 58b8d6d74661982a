/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/err.h"
#include "base/units.h"
#include "rmem/command.h"
#include "rmem/entry.h"
#include "rmem/session.h"

#define NAME_CHARS 49 /* what 100 columns leave for a name */

static bool longer, wide, json;

static int by_name(const void *a, const void *b)
{
	const struct rmem_stat *left = a, *right = b;

	return strcmp(left->name, right->name);
}

/* Print a name of a table; a long one is cut between characters unless all is to be shown. */
static void name_print(const char *name)
{
	size_t bytes = 0, characters = 0;

	while (name[bytes]) {
		characters += ((unsigned char)name[bytes] & 0xc0) != 0x80;
		if (!wide && characters > NAME_CHARS)
			break;
		bytes++;
	}
	/* three characters make room for the dots */
	for (int cut = 3; name[bytes] && cut > 0 && bytes > 0; bytes--)
		cut -= ((unsigned char)name[bytes - 1] & 0xc0) != 0x80;
	(void)printf("%.*s%s\n", (int)bytes, name, name[bytes] ? "..." : "");
}

static void table_print(const struct entries *entries)
{
	char size[32], age[32], ttl[32];

	(void)printf("%10s %15s %6s %6s %8s  ", "SIZE", "BYTES", "AGE", "TTL",
		     "SESSIONS");
	if (wide)
		(void)printf("%8s %20s  ", "SEGMENTS", "ID");
	(void)puts("NAME");
	for (size_t i = 0; i < entries->n; i++) {
		const struct rmem_stat *s = &entries->stats[i];

		(void)printf("%10s %15" PRIu64 " %6s %6s %8" PRIu32 "  ",
			     units_format_bytes(s->bytes, size, sizeof(size)), s->bytes,
			     entry_duration(s->age_ms, age, sizeof(age)),
			     s->ttl_ms ? entry_duration(s->ttl_ms, ttl, sizeof(ttl))
				       : "-",
			     s->sessions);
		if (wide)
			(void)printf("%8" PRIu32 " %20" PRIu64 "  ", s->segments,
				     s->id);
		name_print(s->name);
	}
}

static int array_print(const struct entries *entries)
{
	json_t *array = json_array();

	for (size_t i = 0; i < entries->n; i++)
		if (json_array_append_new(array, entry_json(&entries->stats[i]))) {
			json_decref(array);
			array = NULL;
			break;
		}
	return json_print(array);
}

static int entries_print(struct entries *entries)
{
	if (entries->n)
		qsort(entries->stats, entries->n, sizeof(*entries->stats), by_name);
	if (json)
		return array_print(entries);
	if (longer || wide)
		table_print(entries);
	else
		for (size_t i = 0; i < entries->n; i++)
			(void)puts(entries->stats[i].name);
	return 0;
}

static int ls_run(rmem *session, char **args)
{
	struct entries entries = { 0 };
	int err = entries_list(session, args[0], &entries);

	if (!err)
		err = entries_print(&entries);
	free(entries.stats);
	return err;
}

/* Nothing begins with what can be no part of a name. */
static int ls_check(char **args)
{
	return args[0] && *args[0] ? session_name_check(args[0]) : 0;
}

static int output_parse(const char *text, void *value)
{
	if (strcmp(text, "wide") != 0)
		return err_set(-EINVAL, "--output: '%s' is not wide", text);
	*(bool *)value = true;
	return 0;
}

static const struct option_row ls_options[] = {
	{ "long", 'l', OPTION_FLAG, &longer,
	  .help = "a table with length, age, time to live, sessions" },
	{ "output", 'o', OPTION_OTHER, &wide, .parse = output_parse,
	  .argument = "FORMAT",
	  .help = "wide: a table with more columns, and whole names" },
	{ "json", 0, OPTION_FLAG, &json, .help = "an array of objects" },
	{ .more = options_table },
	{ 0 },
};

const struct command ls_command = {
	.name = "ls",
	.synopsis = "ls [-l] [-o wide] [--json] [PREFIX]",
	.summary = "list stored names, or those that start with PREFIX",
	.options = ls_options,
	.args_max = 1,
	.args = "at most one PREFIX",
	.check = ls_check,
	.run = ls_run,
};

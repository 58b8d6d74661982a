/* SPDX-License-Identifier: BSD-3-Clause */
/* rmem ls and stat: what is stored under names. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/checked.h"
#include "base/err.h"
#include "base/units.h"
#include "rmem/command.h"
#include "rmem/entry.h"
#include "rmem/session.h"

#define NAME_CHARS 49 /* what 100 columns leave for a name */

static bool longer, wide; /* of ls */
static bool json;

/* duration_format() into a buffer that lives as long as the enclosing block. */
#define DURATION(ms) duration_format((ms), (char[32]){ 0 }, 32)

/* "12s", "5min", "3h", "2d": one number, in the largest unit. */
static const char *duration_format(uint64_t ms, char *buf, size_t buf_bytes)
{
	uint64_t s = ms / 1000;

	if (s < 60)
		(void)snprintf(buf, buf_bytes, "%" PRIu64 "s", s);
	else if (s < 3600)
		(void)snprintf(buf, buf_bytes, "%" PRIu64 "min", s / 60);
	else if (s < 86400)
		(void)snprintf(buf, buf_bytes, "%" PRIu64 "h", s / 3600);
	else
		(void)snprintf(buf, buf_bytes, "%" PRIu64 "d", s / 86400);
	return buf;
}

/* As rmemctl --json shows a lease: ids are texts, and what is not limited is null.  NULL: no
 * memory. */
static json_t *entry_json(const struct rmem_stat *stat)
{
	json_t *ttl =
		stat->ttl_ms ? json_integer(json_number(stat->ttl_ms)) : json_null();

	return json_pack("{s:s, s:o, s:I, s:I, s:o, s:I, s:I}", "name", stat->name,
			 "id", json_sprintf("%" PRIu64, stat->id), "bytes",
			 json_number(stat->bytes), "age_ms", json_number(stat->age_ms),
			 "ttl_ms", ttl, "sessions", (json_int_t)stat->sessions,
			 "segments", (json_int_t)stat->segments);
}

static json_t *array;

static int entry_add(const struct rmem_stat *stat)
{
	if (json_array_append_new(array, entry_json(stat)))
		return err_set(-ENOMEM, "out of memory");
	return 0;
}

/* ---- ls ---- */

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
	(void)printf("%10s %15s %6s %6s %8s  ", "SIZE", "BYTES", "AGE", "TTL",
		     "SESSIONS");
	if (wide)
		(void)printf("%8s %20s  ", "SEGMENTS", "ID");
	(void)puts("NAME");
	for (size_t i = 0; i < entries->n; i++) {
		const struct rmem_stat *s = &entries->stats[i];

		(void)printf("%10s %15" PRIu64 " %6s %6s %8" PRIu32 "  ",
			     UNITS_BYTES(s->bytes), s->bytes, DURATION(s->age_ms),
			     s->ttl_ms ? DURATION(s->ttl_ms) : "-", s->sessions);
		if (wide)
			(void)printf("%8" PRIu32 " %20" PRIu64 "  ", s->segments,
				     s->id);
		name_print(s->name);
	}
}

static int entries_print(struct entries *entries)
{
	int err = 0;

	if (entries->n)
		qsort(entries->stats, entries->n, sizeof(*entries->stats), by_name);
	if (json) {
		array = json_array();
		for (size_t i = 0; !err && i < entries->n; i++)
			err = entry_add(&entries->stats[i]);
		return err ? err : json_print(array);
	}
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

static const struct option_row ls_options[] = {
	{ "long", 'l', OPTION_FLAG, &longer,
	  .help = "a table with length, age, time to live, sessions" },
	{ "output", 'o', OPTION_OTHER, &wide, .parse = option_wide_parse,
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

/* ---- stat ---- */

static bool printed; /* an empty line parts the entries */

static void entry_print(const struct rmem_stat *stat)
{
	(void)printf("%sname      %s\n", printed ? "\n" : "", stat->name);
	(void)printf("id        %" PRIu64 "\n", stat->id);
	(void)printf("bytes     %" PRIu64 " (%s)\n", stat->bytes,
		     UNITS_BYTES(stat->bytes));
	(void)printf("age       %s\n", DURATION(stat->age_ms));
	(void)printf("ttl       %s\n", stat->ttl_ms ? DURATION(stat->ttl_ms) : "none");
	(void)printf("sessions  %" PRIu32 "\n", stat->sessions);
	(void)printf("segments  %" PRIu32 "\n", stat->segments);
	printed = true;
}

static int stat_one(rmem *session, const char *name)
{
	struct rmem_stat stat = rmem_stat_init();
	int err = session_result(rmem_stat(session, name, &stat));

	if (!err && json)
		err = entry_add(&stat);
	else if (!err)
		entry_print(&stat);
	return err;
}

static int stat_run(rmem *session, char **args)
{
	int err, failed;

	if (!json)
		return names_each(session, "stat", args, stat_one);
	array = json_array();
	failed = names_each(session, "stat", args, stat_one);
	err = json_print(array);
	return failed ? failed : err;
}

static const struct option_row stat_options[] = {
	{ "json", 0, OPTION_FLAG, &json, .help = "an array of objects" },
	{ .more = options_table },
	{ 0 },
};

const struct command stat_command = {
	.name = "stat",
	.synopsis = "stat [--json] NAME...",
	.summary = "show length, age and time to live of what is stored",
	.options = stat_options,
	.args_min = 1,
	.args_max = COMMAND_ARGS_ANY,
	.args = "at least one NAME",
	.names = COMMAND_ARGS_ANY,
	.run = stat_run,
};

/* SPDX-License-Identifier: BSD-3-Clause */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/err.h"
#include "base/units.h"
#include "rmem/command.h"
#include "rmem/session.h"

struct listing {
	struct rmem_stat *stats;
	size_t n, room;
};

static int stat_collect(const struct rmem_stat *stat, void *arg)
{
	struct listing *listing = arg;

	if (listing->n == listing->room) {
		size_t room = listing->room ? 2 * listing->room : 64;
		struct rmem_stat *stats =
			reallocarray(listing->stats, room, sizeof(*stats));

		if (!stats)
			return -ENOMEM;
		listing->stats = stats;
		listing->room = room;
	}
	listing->stats[listing->n++] = *stat;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	const struct rmem_stat *left = a, *right = b;

	return strcmp(left->name, right->name);
}

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

static void table_print(const struct listing *listing)
{
	char size[32], age[32], ttl[32];

	(void)printf("%10s %15s %6s %6s %8s  %s\n", "SIZE", "BYTES", "AGE", "TTL",
		     "SESSIONS", "NAME");
	for (size_t i = 0; i < listing->n; i++) {
		const struct rmem_stat *s = &listing->stats[i];

		(void)printf("%10s %15" PRIu64 " %6s %6s %8" PRIu32 "  %s\n",
			     units_format_bytes(s->bytes, size, sizeof(size)), s->bytes,
			     duration_format(s->age_ms, age, sizeof(age)),
			     s->ttl_ms ? duration_format(s->ttl_ms, ttl, sizeof(ttl))
				       : "-",
			     s->sessions, s->name);
	}
}

/* In a name that is not UTF-8, "?" replaces each byte that is not ASCII. */
static json_t *name_json(const char *name)
{
	char ascii[RMEM_NAME_MAX + 1];
	json_t *json = json_string(name);
	size_t i;

	if (json)
		return json;
	for (i = 0; name[i]; i++)
		ascii[i] = isascii((unsigned char)name[i]) ? name[i] : '?';
	ascii[i] = '\0';
	return json_string(ascii);
}

static int json_print(const struct listing *listing)
{
	json_t *array = json_array();
	int err = array ? 0 : -ENOMEM;

	for (size_t i = 0; !err && i < listing->n; i++) {
		const struct rmem_stat *s = &listing->stats[i];
		json_t *item = json_pack(
			"{s:o, s:I, s:I, s:I, s:I, s:I, s:I}", "name",
			name_json(s->name), "id", (json_int_t)s->id, "bytes",
			(json_int_t)s->bytes, "age_ms", (json_int_t)s->age_ms, "ttl_ms",
			(json_int_t)s->ttl_ms, "sessions", (json_int_t)s->sessions,
			"segments", (json_int_t)s->segments);

		if (json_array_append_new(array, item))
			err = -ENOMEM;
	}
	if (!err && json_dumpf(array, stdout, JSON_INDENT(2)))
		err = -EIO;
	if (!err)
		(void)putchar('\n');
	json_decref(array);
	return err ? err_errno(err, "printing the list") : 0;
}

static bool longer, json;

static int listing_print(struct listing *listing)
{
	if (listing->n)
		qsort(listing->stats, listing->n, sizeof(*listing->stats), by_name);
	if (json)
		return json_print(listing);
	if (longer)
		table_print(listing);
	else
		for (size_t i = 0; i < listing->n; i++)
			(void)puts(listing->stats[i].name);
	return 0;
}

static int ls_run(rmem *session, char **args)
{
	struct listing listing = { 0 };
	int err = rmem_list(session, args[0], stat_collect, &listing);

	if (err == -ENOMEM)
		(void)err_set(err, "out of memory");
	else if (err)
		(void)session_failed(err);
	else
		err = listing_print(&listing);
	free(listing.stats);
	return err;
}

static const struct option_row ls_options[] = {
	{ "long", 'l', OPTION_FLAG, &longer,
	  .help = "a table with length, age, time to live, sessions" },
	{ "json", 0, OPTION_FLAG, &json, .help = "an array of objects" },
	{ 0 },
};

const struct command ls_command = {
	.name = "ls",
	.synopsis = "ls [-l] [--json] [PREFIX]",
	.summary = "list stored names, or those that start with PREFIX",
	.options = ls_options,
	.args_max = 1,
	.args = "at most one PREFIX",
	.run = ls_run,
};

/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmem/entry.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "rmem/session.h"

static int stat_collect(const struct rmem_stat *stat, void *arg)
{
	struct entries *entries = arg;

	if (entries->pattern && fnmatch(entries->pattern, stat->name, 0))
		return 0;
	if (entries->n == entries->room) {
		size_t room = entries->room ? 2 * entries->room : 64;
		struct rmem_stat *stats =
			reallocarray(entries->stats, room, sizeof(*stats));

		if (!stats)
			return -ENOMEM;
		entries->stats = stats;
		entries->room = room;
	}
	entries->stats[entries->n++] = *stat;
	return 0;
}

int entries_list(rmem *session, const char *prefix, struct entries *entries)
{
	int err = rmem_list(session, prefix, stat_collect, entries);

	return err == -ENOMEM ? err_set(err, "out of memory") : session_result(err);
}

const char *entry_duration(uint64_t ms, char *buf, size_t buf_bytes)
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

json_t *entry_json(const struct rmem_stat *stat)
{
	json_t *ttl =
		stat->ttl_ms ? json_integer((json_int_t)stat->ttl_ms) : json_null();

	return json_pack("{s:o, s:o, s:I, s:I, s:o, s:I, s:I}", "name",
			 name_json(stat->name), "id",
			 json_sprintf("%" PRIu64, stat->id), "bytes",
			 (json_int_t)stat->bytes, "age_ms", (json_int_t)stat->age_ms,
			 "ttl_ms", ttl, "sessions", (json_int_t)stat->sessions,
			 "segments", (json_int_t)stat->segments);
}

int json_print(json_t *value)
{
	int err = 0;

	if (!value)
		return err_set(-ENOMEM, "out of memory");
	if (json_dumpf(value, stdout, JSON_INDENT(2)) || putchar('\n') == EOF)
		err = err_errno(-EIO, "writing the output");
	json_decref(value);
	return err;
}

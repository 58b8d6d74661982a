/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmem/entry.h"

#include <errno.h>
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

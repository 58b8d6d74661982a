/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmem/entry.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "rmem/session.h"

/* A server may not make the tool grow without end. */
#define ENTRIES_MAX 262144

static int stat_collect(const struct rmem_stat *stat, void *arg)
{
	struct entries *entries = arg;

	if (entries->pattern && fnmatch(entries->pattern, stat->name, 0))
		return 0;
	if (entries->n == ENTRIES_MAX)
		return -E2BIG;
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

	switch (err) {
	case -ENOMEM:
		return err_set(err, "out of memory");
	case -E2BIG:
		return err_set(err,
			       "there are more than %d names: give a longer beginning "
			       "of those that you mean",
			       ENTRIES_MAX);
	default:
		return session_result(err);
	}
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

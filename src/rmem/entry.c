/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmem/entry.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/standard_fds.h"
#include "rmem/session.h"

/* A server may not make the tool grow without end. */
#define ENTRIES_MAX 262144

static int entry_add(struct entries *entries, const struct rmem_stat *stat)
{
	if (entries->n == ENTRIES_MAX)
		return err_set(-E2BIG,
			       "there are more than %d names: give a longer beginning "
			       "of those that you mean",
			       ENTRIES_MAX);
	if (entries->n == entries->room) {
		size_t room = entries->room ? 2 * entries->room : 64;
		struct rmem_stat *stats =
			reallocarray(entries->stats, room, sizeof(*stats));

		if (!stats)
			return err_set(-ENOMEM, "out of memory");
		entries->stats = stats;
		entries->room = room;
	}
	entries->stats[entries->n++] = *stat;
	return 0;
}

static int stat_collect(const struct rmem_stat *stat, void *arg)
{
	struct entries *entries = arg;

	if (!entries->pattern || fnmatch(entries->pattern, stat->name, 0) == 0)
		entries->err = entry_add(entries, stat);
	return entries->err;
}

int entries_list(rmem *session, const char *prefix, struct entries *entries)
{
	int err = rmem_list(session, prefix, stat_collect, entries);

	/* the library and the server have the same errors, with a text of their own */
	return entries->err ? entries->err : session_result(err);
}

int json_print(json_t *value)
{
	char *text = value ? json_dumps(value, JSON_INDENT(2)) : NULL;
	int err;

	json_decref(value);
	if (!text)
		return err_set(-ENOMEM, "out of memory");
	err = standard_output_text(text);
	/* standard_output_close() finds an error */
	(void)putchar('\n');
	free(text);
	return err;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* rmem rm.  An argument with * ? or [ that is not a stored name is a pattern; what it matches is
 * shown and removed after a confirmation. */
#include <errno.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "rmem/command.h"
#include "rmem/names.h"
#include "rmem/session.h"

#define WILDCARDS "*?["
#define SHOWN_MAX 20 /* names that the question shows */

struct matches {
	const char *pattern;
	char **names; /* ends with NULL */
	size_t n, room;
};

static bool force;

static int match_collect(const struct rmem_stat *stat, void *arg)
{
	struct matches *matches = arg;

	if (fnmatch(matches->pattern, stat->name, 0))
		return 0;
	if (matches->n + 1 >= matches->room) {
		size_t room = matches->room ? 2 * matches->room : 64;
		char **names = reallocarray(matches->names, room, sizeof(*names));

		if (!names)
			return -ENOMEM;
		matches->names = names;
		matches->room = room;
	}
	matches->names[matches->n] = strdup(stat->name);
	if (!matches->names[matches->n])
		return -ENOMEM;
	matches->names[++matches->n] = NULL;
	return 0;
}

static void matches_free(struct matches *matches)
{
	for (size_t i = 0; i < matches->n; i++)
		free(matches->names[i]);
	free(matches->names);
}

/* The names that match; the server leaves out those without the pattern's plain beginning. */
static int matches_find(rmem *session, struct matches *matches)
{
	size_t plain = strcspn(matches->pattern, WILDCARDS "\\");
	char prefix[RMEM_NAME_MAX + 1];
	int err;

	memcpy(prefix, matches->pattern, plain);
	prefix[plain] = '\0';
	err = rmem_list(session, prefix, match_collect, matches);
	if (err == -ENOMEM)
		return err_set(err, "out of memory");
	if (err)
		return session_failed(err);
	if (matches->n == 0)
		return err_set(-ENOENT, "no name matches '%s'", matches->pattern);
	return 0;
}

/* Ask on the terminal, where the names are shown.  -ECANCELED: the answer is not yes. */
static int confirm(const struct matches *matches)
{
	char answer[16];

	if (isatty(STDIN_FILENO) != 1 || isatty(STDERR_FILENO) != 1)
		return err_set(-ECANCELED,
			       "'%s' matches %zu name%s, and there is no terminal to "
			       "ask whether to remove them: give --force",
			       matches->pattern, matches->n,
			       matches->n == 1 ? "" : "s");
	for (size_t i = 0; i < matches->n && i < SHOWN_MAX; i++)
		(void)fprintf(stderr, "%s\n", matches->names[i]);
	if (matches->n > SHOWN_MAX)
		(void)fprintf(stderr, "... and %zu more\n", matches->n - SHOWN_MAX);
	(void)fprintf(stderr, "Remove %zu name%s? [y/N] ", matches->n,
		      matches->n == 1 ? "" : "s");
	if (!fgets(answer, sizeof(answer), stdin) ||
	    (answer[0] != 'y' && answer[0] != 'Y'))
		return err_set(-ECANCELED, "'%s': nothing was removed",
			       matches->pattern);
	return 0;
}

static int remove_one(rmem *session, const char *name)
{
	int err = rmem_remove(session, name);

	return err ? session_failed(err) : 0;
}

static int remove_matches(rmem *session, const char *pattern)
{
	struct matches matches = { .pattern = pattern };
	int err = matches_find(session, &matches);

	if (!err && !force)
		err = confirm(&matches);
	for (size_t i = 0; !err && i < matches.n; i++) {
		err = rmem_remove(session, matches.names[i]);
		/* somebody else has removed it */
		if (err == -ENOENT)
			err = 0;
		else if (err)
			err = session_failed(err);
	}
	matches_free(&matches);
	return err;
}

static int rm_one(rmem *session, const char *arg)
{
	struct rmem_stat stat = rmem_stat_init();
	int err;

	if (!strpbrk(arg, WILDCARDS))
		return remove_one(session, arg);
	/* a name with these characters can be removed like any other */
	err = rmem_stat(session, arg, &stat);
	if (!err)
		return remove_one(session, arg);
	return err == -ENOENT ? remove_matches(session, arg) : session_failed(err);
}

static int rm_run(rmem *session, char **args)
{
	return names_each(session, "rm", args, rm_one);
}

static const struct option_row rm_options[] = {
	{ "force", 'y', OPTION_FLAG, &force,
	  .help = "do not ask before what a pattern matches is removed" },
	{ 0 },
};

const struct command rm_command = {
	.name = "rm",
	.synopsis = "rm [-y] NAME|PATTERN...",
	.summary = "remove what is stored under names, or under those that match",
	.options = rm_options,
	.args_min = 1,
	.args_max = COMMAND_ARGS_ANY,
	.args = "at least one NAME",
	.check = names_check,
	.run = rm_run,
};

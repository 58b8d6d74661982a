/* SPDX-License-Identifier: BSD-3-Clause */
/* rmem mv, touch and rm: commands that change which names there are, and how long they last. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "rmem/command.h"
#include "rmem/entry.h"
#include "rmem/lease_options.h"
#include "rmem/session.h"

#define WILDCARDS "*?["
#define SHOWN_MAX 20 /* names that the question shows */

/* ---- mv ---- */

static int mv_run(rmem *session, char **args)
{
	rmem_lease *lease;
	int err = session_result(
		rmem_attach(session, args[0], RMEM_READ | RMEM_WRITE, &lease));

	return err ? err : naming_give(lease, args[1]);
}

const struct command mv_command = {
	.name = "mv",
	.synopsis = "mv [--if-absent] SOURCE NAME",
	.summary = "give what is stored another name",
	.options = naming_options,
	.args_min = 2,
	.args_max = 2,
	.args = "SOURCE and NAME",
	.names = 2,
	.run = mv_run,
};

/* ---- touch ---- */

static uint64_t ttl_ms = RMEM_TTL_SAME;

static int touch_one(rmem *session, const char *name)
{
	rmem_lease *lease;
	int err = session_result(
		rmem_attach(session, name, RMEM_READ | RMEM_WRITE, &lease));

	if (err)
		return err;
	err = session_result(rmem_renew(lease, ttl_ms));
	/* cannot fail: no operation is outstanding */
	(void)rmem_detach(lease);
	return err;
}

static int touch_run(rmem *session, char **args)
{
	return names_each(session, "touch", args, touch_one);
}

static const struct option_row touch_options[] = {
	{ "ttl", 0, OPTION_MS, &ttl_ms, 1, OPTIONS_TTL_MAX_MS, .argument = "T",
	  .help = "a new time to live, as 90s or 7d (default: as long" OPTION_INDENT
		  "as was given last)" },
	{ .more = options_table },
	{ 0 },
};

const struct command touch_command = {
	.name = "touch",
	.synopsis = "touch [--ttl T] NAME...",
	.summary = "start the time to live of what is stored again",
	.options = touch_options,
	.args_min = 1,
	.args_max = COMMAND_ARGS_ANY,
	.args = "at least one NAME",
	.names = COMMAND_ARGS_ANY,
	.run = touch_run,
};

/* ---- rm ---- */

/* An argument with * ? or [ that is not a stored name is a pattern; what it matches is shown and
 * removed after a confirmation. */
static bool force;

/* The server leaves out names without the pattern's plain beginning. */
static int matches_find(rmem *session, struct entries *matches)
{
	const char *pattern = matches->pattern;
	size_t plain = strcspn(pattern, WILDCARDS "\\");
	char prefix[RMEM_NAME_MAX + 1];
	int err;

	memcpy(prefix, pattern, plain);
	prefix[plain] = '\0';
	err = entries_list(session, prefix, matches);
	if (!err && matches->n == 0)
		err = err_set(-ENOENT, "no name matches '%s'", pattern);
	return err;
}

/* Ask on the terminal, where the names are shown.  -ECANCELED: the answer is not yes. */
static int confirm(const struct entries *matches)
{
	const char *pattern = matches->pattern;
	const char *plural = matches->n == 1 ? "" : "s";
	char answer[16];

	if (isatty(STDIN_FILENO) != 1 || isatty(STDERR_FILENO) != 1)
		return err_set(-ECANCELED,
			       "'%s' matches %zu name%s, and there is no terminal to "
			       "ask whether to remove them: give --force",
			       pattern, matches->n, plural);
	for (size_t i = 0; i < matches->n && i < SHOWN_MAX; i++)
		(void)fprintf(stderr, "%s\n", matches->stats[i].name);
	if (matches->n > SHOWN_MAX)
		(void)fprintf(stderr, "... and %zu more\n", matches->n - SHOWN_MAX);
	(void)fprintf(stderr, "Remove %zu name%s? [y/N] ", matches->n, plural);
	if (!fgets(answer, sizeof(answer), stdin) ||
	    (answer[0] != 'y' && answer[0] != 'Y'))
		return err_set(-ECANCELED, "'%s': nothing was removed", pattern);
	return 0;
}

static int remove_matches(rmem *session, const char *pattern)
{
	struct entries matches = { .pattern = pattern };
	int err = matches_find(session, &matches);

	if (!err && !force)
		err = confirm(&matches);
	for (size_t i = 0; !err && i < matches.n; i++) {
		err = session_result(rmem_remove(session, matches.stats[i].name));
		/* somebody else has removed it */
		if (err == -ENOENT)
			err = 0;
	}
	free(matches.stats);
	return err;
}

/* A name with wildcards can be removed like any other. */
static int rm_one(rmem *session, const char *arg)
{
	struct rmem_stat stat = rmem_stat_init();

	if (strpbrk(arg, WILDCARDS) && rmem_stat(session, arg, &stat) == -ENOENT)
		return remove_matches(session, arg);
	return session_result(rmem_remove(session, arg));
}

static int rm_run(rmem *session, char **args)
{
	return names_each(session, "rm", args, rm_one);
}

static const struct option_row rm_options[] = {
	{ "force", 'y', OPTION_FLAG, &force,
	  .help = "do not ask before what a pattern matches is removed" },
	{ .more = options_table },
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
	.names = COMMAND_ARGS_ANY,
	.run = rm_run,
};

/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>

#include "base/err.h"
#include "rmem/options.h"
#include "rmem/session.h"

/* All names are tried; each failure is printed on a line of its own. */
static int names_remove(struct options *options, rmem *session, char **names, int n)
{
	int failed = 0;

	for (int i = 0; i < n; i++) {
		int err = rmem_remove(session, names[i]);

		if (!err)
			continue;
		failed = session_failed(err);
		(void)fprintf(stderr, "rmem: rm: %s\n", err_text());
		options->reported = true;
	}
	return failed;
}

static int rm_run(struct options *options, int argc, char **argv)
{
	rmem *session;
	int err = options_parse(options, argc, argv);

	if (err)
		return err;
	if (argc == optind)
		return options_usage(options, "it takes at least one NAME");
	err = session_open(options, &session);
	if (err)
		return err;
	err = names_remove(options, session, argv + optind, argc - optind);
	rmem_close(session);
	return err;
}

const struct command rm_command = {
	.name = "rm",
	.synopsis = "rm NAME...",
	.summary = "remove what is stored under names",
	.details = "",
	.run = rm_run,
};

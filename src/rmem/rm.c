/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>

#include "base/err.h"
#include "rmem/command.h"
#include "rmem/session.h"

/* All names are tried; each failure is printed on a line of its own. */
static int rm_run(rmem *session, char **args)
{
	int failed = 0;

	for (; *args; args++) {
		int err = rmem_remove(session, *args);

		if (!err)
			continue;
		failed = session_failed(err);
		(void)fprintf(stderr, "rmem: rm: %s\n", err_text());
		options.reported = true;
	}
	return failed;
}

const struct command rm_command = {
	.name = "rm",
	.synopsis = "rm NAME...",
	.summary = "remove what is stored under names",
	.args_min = 1,
	.args_max = COMMAND_ARGS_ANY,
	.args = "at least one NAME",
	.run = rm_run,
};

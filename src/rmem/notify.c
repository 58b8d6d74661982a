/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>

#include "base/err.h"
#include "rmem/command.h"
#include "rmem/session.h"

static unsigned value;

static int notify_check(char **args)
{
	if (option_number("VALUE", args[1], 0, UINT32_MAX, &value))
		return options_usage("%s", err_text());
	return 0;
}

static int notify_run(rmem *session, char **args)
{
	rmem_lease *lease;
	int err = rmem_attach(session, args[0], RMEM_READ | RMEM_WRITE, &lease);

	if (!err)
		err = rmem_write_notify(lease, 0, NULL, 0, value);
	return session_result(err);
}

const struct command notify_command = {
	.name = "notify",
	.synopsis = "notify NAME VALUE",
	.summary = "send a number to the sessions that watch NAME",
	.options = options_table,
	.args_min = 2,
	.args_max = 2,
	.args = "a NAME and a VALUE",
	.names = 1,
	.check = notify_check,
	.run = notify_run,
};

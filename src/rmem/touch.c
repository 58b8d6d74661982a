/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmem/command.h"
#include "rmem/session.h"

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

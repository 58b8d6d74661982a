/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmem/command.h"
#include "rmem/lease_options.h"
#include "rmem/session.h"

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

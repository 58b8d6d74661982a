/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/err.h"
#include "rmem/command.h"
#include "rmem/names.h"
#include "rmem/naming.h"
#include "rmem/session.h"

static int mv_run(rmem *session, char **args)
{
	rmem_lease *lease;
	int err = rmem_attach(session, args[0], RMEM_READ | RMEM_WRITE, &lease);

	return err ? session_failed(err) : naming_give(lease, args[1]);
}

static const struct option_row mv_options[] = { NAMING_OPTION, { 0 } };

const struct command mv_command = {
	.name = "mv",
	.synopsis = "mv [--if-absent] SOURCE NAME",
	.summary = "give what is stored another name",
	.options = mv_options,
	.args_min = 2,
	.args_max = 2,
	.args = "SOURCE and NAME",
	.check = names_check,
	.run = mv_run,
};

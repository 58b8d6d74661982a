/* SPDX-License-Identifier: BSD-3-Clause */
/* rmem share and unshare: let another tenant read or write what is stored. */
#include "base/err.h"
#include "rmem/command.h"
#include "rmem/session.h"

static bool for_writing;

/* Attach the lease of that name, and share it; rights 0: no longer. */
static int share(rmem *session, char **args, unsigned rights)
{
	const char *name = args[0], *tenant = args[1];
	rmem_lease *lease;
	int err = session_result(
		rmem_attach(session, name, RMEM_READ | RMEM_WRITE, &lease));

	if (err)
		return err;
	err = session_result(rights ? rmem_share(lease, tenant, rights)
				    : rmem_unshare(lease, tenant));
	/* cannot fail: no operation is outstanding */
	(void)rmem_detach(lease);
	return err;
}

static int share_run(rmem *session, char **args)
{
	return share(session, args, RMEM_READ | (for_writing ? RMEM_WRITE : 0));
}

static int unshare_run(rmem *session, char **args)
{
	return share(session, args, 0);
}

static const struct option_row share_options[] = {
	{ "write", 'w', OPTION_FLAG, &for_writing, .help = "for writing too" },
	{ .more = options_table },
	{ 0 },
};

const struct command share_command = {
	.name = "share",
	.synopsis = "share [-w] NAME TENANT",
	.summary = "let another tenant read what is stored: its get --of",
	.options = share_options,
	.args_min = 2,
	.args_max = 2,
	.args = "NAME and TENANT",
	.names = 1,
	.run = share_run,
};

const struct command unshare_command = {
	.name = "unshare",
	.synopsis = "unshare NAME TENANT",
	.summary = "end that, at once",
	.options = options_table,
	.args_min = 2,
	.args_max = 2,
	.args = "NAME and TENANT",
	.names = 1,
	.run = unshare_run,
};

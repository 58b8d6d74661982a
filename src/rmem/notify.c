/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>

#include "base/err.h"
#include "rmem/options.h"
#include "rmem/session.h"

static int name_notify(struct options *options, const char *name, uint32_t value)
{
	rmem_lease *lease;
	rmem *session;
	int err = session_open(options, &session);

	if (err)
		return err;
	err = rmem_attach(session, name, RMEM_READ | RMEM_WRITE, &lease);
	if (!err)
		err = rmem_write_notify(lease, 0, NULL, 0, value);
	if (err)
		err = session_failed(err);
	rmem_close(session);
	return err;
}

static int notify_run(struct options *options, int argc, char **argv)
{
	unsigned value;
	int err = options_parse(options, argc, argv);

	if (err)
		return err;
	if (argc - optind != 2)
		return options_usage(options, "it takes a NAME and a VALUE");
	err = options_number(options, "VALUE", argv[optind + 1], 0, UINT32_MAX, &value);
	if (err)
		return err;
	return name_notify(options, argv[optind], value);
}

const struct command notify_command = {
	.name = "notify",
	.synopsis = "notify NAME VALUE",
	.summary = "send a number to the sessions that watch NAME",
	.details = "",
	.run = notify_run,
};

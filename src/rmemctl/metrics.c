/* SPDX-License-Identifier: BSD-3-Clause */
/* `metrics`: the daemon's numbers, in the format of Prometheus. */
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/standard_fds.h"
#include "rmemctl/client.h"
#include "rmemctl/command.h"

static int metrics_check(char **)
{
	if (options.json || options.wide)
		return err_set(-EINVAL, "it has one format, that of Prometheus");
	return 0;
}

static int metrics_run(const struct command *, char **)
{
	char *body;
	int err = client_get(options.socket, "/metrics", NULL, &body);

	if (err)
		return err;
	err = standard_output_text(body);
	free(body);
	return err;
}

const struct command metrics_command = {
	.name = "metrics",
	.synopsis = "metrics",
	.summary = "all numbers, in the format of Prometheus",
	.options = options_table,
	.args = "no argument",
	.check = metrics_check,
	.run = metrics_run,
};

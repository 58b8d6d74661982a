/* SPDX-License-Identifier: BSD-3-Clause */
/* rmemctl reload and revoke: the daemon acts. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/units.h"
#include "rmemctl/client.h"
#include "rmemctl/view.h"

/* POST to the resource that has the command's name; print the JSON of the answer if asked to,
 * otherwise what show() prints of it. */
static int act(const struct command *command, const struct client_parameter *parameters)
{
	char resource[64], *body;
	int err;

	(void)snprintf(resource, sizeof(resource), "/v1/%s", command->name);
	err = client_post(options.socket, resource, parameters, &body);
	if (err)
		return err;
	if (options.json)
		(void)fputs(body, stdout);
	else
		err = view_show(command, body, options.wide, stdout);
	free(body);
	return err;
}

/* ---- reload ---- */

/* The daemon has read its configuration again. */
static void reload_show(FILE *out, const json_t *answer)
{
	const char *keys = json_string_value(json_object_get(answer, "needs_restart"));

	if (!keys || !*keys)
		return;
	(void)fprintf(out, "needs a restart: ");
	text_print(out, keys);
	(void)fputc('\n', out);
}

static int reload_run(const struct command *command, char **)
{
	return act(command, NULL);
}

const struct command reload_command = {
	.name = "reload",
	.synopsis = "reload",
	.summary = "read the configuration again",
	.options = options_table,
	.args = "no argument",
	.run = reload_run,
	.show = reload_show,
};

/* ---- revoke ---- */

static int revoke_check(char **args)
{
	uint64_t id;

	return units_parse_u64(args[0], 1, UINT64_MAX, &id);
}

static int revoke_run(const struct command *command, char **args)
{
	const struct client_parameter parameters[] = { { "lease", args[0] }, { 0 } };

	return act(command, parameters);
}

const struct command revoke_command = {
	.name = "revoke",
	.synopsis = "revoke LEASE",
	.summary = "end the lease with this number, for all clients",
	.options = options_table,
	.args_min = 1,
	.args_max = 1,
	.args = "the number of one LEASE",
	.check = revoke_check,
	.run = revoke_run,
};

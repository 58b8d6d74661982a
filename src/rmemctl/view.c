/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemctl/view.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "rmemctl/client.h"

/* Print the array of the command's name. */
static int list_show(const struct command *command, const json_t *answer, bool wide,
		     FILE *out)
{
	const json_t *array = json_object_get(answer, command->name);

	if (!json_is_array(array))
		return err_set(-EPROTO, "rmemd's answer has no list of %s",
			       command->name);
	if (json_array_size(array) > 0)
		return table_print(out, command->columns, wide, array);
	(void)fprintf(out, "no %s\n", command->name);
	return 0;
}

int view_show(const struct command *command, const char *body, bool wide, FILE *out)
{
	json_error_t error;
	json_t *answer = json_loads(body, 0, &error);
	int err = 0;

	if (!json_is_object(answer))
		err = err_set(-EPROTO, "rmemd does not answer in JSON: %s", error.text);
	else if (command->columns)
		err = list_show(command, answer, wide, out);
	if (!err && command->show)
		command->show(out, answer);
	json_decref(answer);
	return err;
}

int view_run(const struct command *command, char **)
{
	char resource[64], *body;
	int err;

	(void)snprintf(resource, sizeof(resource), "/v1/%s", command->name);
	err = client_get(options.socket, resource, NULL, &body);
	if (err)
		return err;
	if (options.json)
		(void)fputs(body, stdout);
	else
		err = view_show(command, body, options.wide, stdout);
	free(body);
	return err;
}

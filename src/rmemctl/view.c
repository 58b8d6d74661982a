/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemctl/view.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/standard_fds.h"
#include "rmemctl/client.h"
#include "rmemctl/list.h"

/* What names each item: its first column, or the fabric of an endpoint that is no device. */
static void names_print(const struct column *columns, const json_t *array, FILE *out)
{
	for (size_t i = 0; i < json_array_size(array); i++) {
		const json_t *item = json_array_get(array, i);
		const char *name =
			json_string_value(json_object_get(item, columns->key));

		if (!name)
			name = json_string_value(json_object_get(item, "fabric"));
		text_print(out, name);
		(void)fputc('\n', out);
	}
}

static int items_show(const struct command *command, json_t *items, bool wide,
		      FILE *out)
{
	int err = list_sort(items);

	if (err)
		return err;
	if (options.names)
		names_print(command->columns, items, out);
	else if (json_array_size(items) > 0)
		return table_print(out, command->columns, wide, items);
	else
		(void)fprintf(out, "no %s\n", command->name);
	return 0;
}

static const char *list_name(const struct command *command)
{
	return command->list ? command->list : command->name;
}

/* Print the items of the list. */
static int list_show(const struct command *command, const json_t *answer, bool wide,
		     FILE *out)
{
	json_t *array = json_object_get(answer, list_name(command)), *items;
	int err;

	if (!json_is_array(array))
		return err_set(-EPROTO, "rmemd's answer has no list of %s",
			       list_name(command));
	items = command->items ? command->items(array) : json_incref(array);
	if (!items)
		return err_errno(-ENOMEM, "list");
	err = items_show(command, items, wide, out);
	json_decref(items);
	return err;
}

/* The daemon's answer unchanged, or sorted. */
static int json_show(const struct command *command, const char *body)
{
	json_t *answer, *array;
	char *text = NULL;
	int err;

	if (!command->columns || !list_is_sorted())
		return standard_output_text(body);
	answer = json_loads(body, 0, NULL);
	array = json_object_get(answer, list_name(command));
	err = json_is_array(array) ? list_sort(array)
				   : err_set(-EPROTO, "rmemd's answer has no list");
	if (!err) {
		text = json_dumps(answer, JSON_COMPACT | JSON_ENSURE_ASCII);
		err = text ? standard_output_text(text)
			   : err_errno(-ENOMEM, "the sorted answer");
	}
	/* an error is found at the end */
	(void)putchar('\n');
	free(text);
	json_decref(answer);
	return err;
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
	if (!err && command->show && !options.names)
		command->show(out, answer);
	json_decref(answer);
	return err;
}

int view_run(const struct command *command, char **)
{
	struct client_parameter parameters[LIST_PARAMETERS];
	char resource[64], *body;
	int err;

	(void)snprintf(resource, sizeof(resource), "/v1/%s", list_name(command));
	list_parameters(parameters);
	err = client_get(options.socket, resource, parameters, &body);
	if (err)
		return err;
	if (options.json)
		err = json_show(command, body);
	else
		err = view_show(command, body, options.wide, stdout);
	free(body);
	return err;
}

void fabric_show(FILE *out, const json_t *answer, const char *name)
{
	const json_t *fabric =
		json_object_get(json_object_get(answer, "fabrics"), name);
	const char *why = json_string_value(json_object_get(fabric, "why"));

	if (json_is_true(json_object_get(fabric, "serving"))) {
		(void)fprintf(out, "%-10s serving\n", name);
		return;
	}
	(void)fprintf(out, "%-10s not serving: ", name);
	text_print(out, why);
	(void)fputc('\n', out);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* rmemctl reload, log-level, revoke, kick, drain and undrain: the daemon acts. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/standard_fds.h"
#include "base/units.h"
#include "rmemctl/client.h"
#include "rmemctl/view.h"

/* POST to the resource that has the command's name; print the JSON of the answer if asked to,
 * otherwise what show() prints of it.  *ret_body, unless it is NULL, is the caller's to free. */
static int act_answered(const struct command *command,
			const struct client_parameter *parameters, char **ret_body)
{
	char resource[64], *body;
	int err;

	(void)snprintf(resource, sizeof(resource), "/v1/%s", command->name);
	err = client_post(options.socket, resource, parameters, &body);
	if (err)
		return err;
	if (options.json)
		err = standard_output_text(body);
	else
		err = view_show(command, body, options.wide, stdout);
	if (!err && ret_body)
		*ret_body = body;
	else
		free(body);
	return err;
}

static int act(const struct command *command, const struct client_parameter *parameters)
{
	return act_answered(command, parameters, NULL);
}

/* ---- reload ---- */

/* The configuration is read, but not all of it is in force. */
#define EXIT_RESTART 3

static void value_print(FILE *out, const json_t *value)
{
	const char *text = json_string_value(value);

	text_print(out, text && *text ? text : "\"\"");
}

/* "[section] key: OLD -> NEW"; "[pool NAME]: added".  The marks follow the values. */
static void change_print(FILE *out, const json_t *change, const char *old_mark,
			 const char *new_mark)
{
	const json_t *old = json_object_get(change, "old");
	const json_t *new = json_object_get(change, "new");
	const char *section = json_string_value(json_object_get(change, "section"));
	const char *key = json_string_value(json_object_get(change, "key"));

	(void)fputc('[', out);
	text_print(out, section);
	(void)fputc(']', out);
	if (!key) {
		(void)fprintf(out, ": %s%s\n",
			      json_is_string(new) ? "added" : "removed", new_mark);
		return;
	}
	(void)fputc(' ', out);
	text_print(out, key);
	(void)fprintf(out, ": ");
	value_print(out, old);
	(void)fprintf(out, "%s -> ", old_mark);
	value_print(out, new);
	(void)fprintf(out, "%s\n", new_mark);
}

static void more_print(FILE *out, const json_t *answer, const char *key,
		       const char *before)
{
	json_int_t more = json_integer_value(json_object_get(answer, key));

	if (more)
		(void)fprintf(out, "%sand %" JSON_INTEGER_FORMAT " more\n", before,
			      more);
}

/* The daemon has read its configuration again. */
static void reload_show(FILE *out, const json_t *answer)
{
	const json_t *changed = json_object_get(answer, "changed");
	const json_t *left = json_object_get(answer, "needs_restart");

	if (json_array_size(changed) + json_array_size(left) == 0)
		(void)fprintf(out, "nothing has changed\n");
	for (size_t i = 0; i < json_array_size(changed); i++)
		change_print(out, json_array_get(changed, i), "", "");
	more_print(out, answer, "changed_more", "");
	for (size_t i = 0; i < json_array_size(left); i++) {
		(void)fprintf(out, "needs a restart: ");
		change_print(out, json_array_get(left, i), " (running)",
			     " (in the file)");
	}
	more_print(out, answer, "needs_restart_more", "needs a restart: ");
}

static int reload_run(const struct command *command, char **)
{
	char *body = NULL;
	int err = act_answered(command, NULL, &body);
	json_t *answer;
	bool left;

	if (err)
		return err;
	answer = json_loads(body, 0, NULL);
	free(body);
	if (!answer)
		return err_set(-EPROTO, "rmemd's answer is not JSON");
	left = json_array_size(json_object_get(answer, "needs_restart")) > 0;
	json_decref(answer);
	return left ? EXIT_RESTART : 0;
}

const struct command reload_command = {
	.name = "reload",
	.synopsis = "reload",
	.summary = "read the configuration again; say what changed",
	.options = options_table,
	.args = "no argument",
	.run = reload_run,
	.show = reload_show,
};

/* ---- log-level ---- */

static int log_level_check(char **args)
{
	static const char *const levels[] = { "error", "warning", "notice", "info",
					      "debug" };

	for (size_t i = 0; args[0] && i < sizeof(levels) / sizeof(levels[0]); i++)
		if (strcmp(args[0], levels[i]) == 0)
			return 0;
	return args[0] ? err_set(-EINVAL,
				 "'%s' is not one of error, warning, notice, info, "
				 "debug",
				 args[0])
		       : 0;
}

static void log_level_show(FILE *out, const json_t *answer)
{
	const char *level = json_string_value(json_object_get(answer, "level"));
	const char *configured =
		json_string_value(json_object_get(answer, "configured"));

	text_print(out, level);
	if (level && configured && strcmp(level, configured) != 0) {
		(void)fprintf(out, " until the next reload or restart, then ");
		text_print(out, configured);
	}
	(void)fputc('\n', out);
}

static int log_level_run(const struct command *command, char **args)
{
	const struct client_parameter parameters[] = { { "level", args[0] }, { 0 } };

	return args[0] ? act(command, parameters) : view_run(command, args);
}

const struct command log_level_command = {
	.name = "log-level",
	.synopsis = "log-level [LEVEL]",
	.summary = "the level of its log, or another one for now",
	.options = options_table,
	.args_max = 1,
	.args = "a LEVEL or none",
	.check = log_level_check,
	.run = log_level_run,
	.show = log_level_show,
};

/* ---- revoke ---- */

static const char *tenant; /* of a name; NULL: any */

/* A number is that of a lease, unless --tenant says that it is a name. */
static bool is_id(const char *text)
{
	uint64_t id;

	return !tenant && !units_parse_u64(text, 1, UINT64_MAX, &id);
}

static int revoke_check(char **args)
{
	if (*args[0] && (!tenant || *tenant))
		return 0;
	return err_set(-EINVAL, "the name of the %s is empty",
		       *args[0] ? "tenant" : "lease");
}

static const struct field revoke_fields[] = {
	{ "revoked lease ", "revoked", "id", CELL_ID, "-" },
	{ " (", "revoked", "name", CELL_TEXT, "without a name" },
	{ ") of tenant ", "revoked", "tenant", CELL_TEXT, "-" },
	{ ": ", "revoked", "bytes", CELL_BYTES, "-" },
	{ ", sessions that had it attached: ", "revoked", "sessions", CELL_NUMBER,
	  "-" },
	{ "\n", NULL, NULL, CELL_TEXT, NULL },
	{ 0 },
};

static void revoke_show(FILE *out, const json_t *answer)
{
	fields_print(out, revoke_fields, answer);
}

static int revoke_run(const struct command *command, char **args)
{
	const struct client_parameter parameters[] = {
		{ is_id(args[0]) ? "lease" : "name", args[0] },
		{ "tenant", tenant },
		{ 0 },
	};

	return act(command, parameters);
}

static const struct option_row revoke_options[] = {
	{ "tenant", 't', OPTION_TEXT, &tenant, .argument = "TENANT",
	  .help = "the name is that of a lease of this tenant" },
	{ .more = options_table },
	{ 0 },
};

const struct command revoke_command = {
	.name = "revoke",
	.synopsis = "revoke [-t TENANT] LEASE|NAME",
	.summary = "end a lease, for all clients",
	.options = revoke_options,
	.args_min = 1,
	.args_max = 1,
	.args = "the number or name of one lease",
	.check = revoke_check,
	.run = revoke_run,
	.show = revoke_show,
};

/* ---- kick ---- */

static int kick_check(char **args)
{
	uint64_t id;

	return units_parse_u64(args[0], 1, UINT64_MAX, &id);
}

static const struct field kick_fields[] = {
	{ "ended session ", "kicked", "id", CELL_ID, "-" },
	{ " of tenant ", "kicked", "tenant", CELL_TEXT, "-" },
	{ ": ", "kicked", "client", CELL_TEXT, "-" },
	{ " at ", "kicked", "peer", CELL_TEXT, "-" },
	{ ", leases that it had attached: ", "kicked", "leases", CELL_NUMBER, "-" },
	{ "\n", NULL, NULL, CELL_TEXT, NULL },
	{ 0 },
};

static void kick_show(FILE *out, const json_t *answer)
{
	fields_print(out, kick_fields, answer);
}

static int kick_run(const struct command *command, char **args)
{
	const struct client_parameter parameters[] = { { "session", args[0] }, { 0 } };

	return act(command, parameters);
}

const struct command kick_command = {
	.name = "kick",
	.synopsis = "kick SESSION",
	.summary = "end a session; its client cannot resume it",
	.options = options_table,
	.args_min = 1,
	.args_max = 1,
	.args = "the number of one session",
	.check = kick_check,
	.run = kick_run,
	.show = kick_show,
};

/* ---- drain and undrain ---- */

#define NO_DEADLINE UINT64_MAX
#define DEADLINE_MS_MAX UINT64_C(2592000000) /* the daemon's limit, 30 days */

static uint64_t deadline_ms = NO_DEADLINE;

static const struct field draining_fields[] = {
	{ "draining: stops when the last lease is gone, leases: ", NULL, "leases",
	  CELL_NUMBER, "-" },
	{ ", sessions: ", NULL, "sessions", CELL_NUMBER, "-" },
	{ ", deadline: ", "draining", "left_ms", CELL_TIME, "none" },
	{ "\n", NULL, NULL, CELL_TEXT, NULL },
	{ 0 },
};

static void drain_show(FILE *out, const json_t *answer)
{
	if (json_is_object(json_object_get(answer, "draining")))
		fields_print(out, draining_fields, answer);
	else
		(void)fprintf(out, "serving\n");
}

static int drain_run(const struct command *command, char **)
{
	char number[24];
	const struct client_parameter parameters[] = {
		{ "deadline_ms", deadline_ms == NO_DEADLINE ? NULL : number },
		{ 0 },
	};

	(void)snprintf(number, sizeof(number), "%" PRIu64, deadline_ms);
	return act(command, parameters);
}

static const struct option_row drain_options[] = {
	{ "deadline", 'd', OPTION_MS, &deadline_ms, 0, DEADLINE_MS_MAX, .argument = "T",
	  .help = "revoke the leases that are left after T, as 10min" OPTION_INDENT
		  "(default: wait for them)" },
	{ .more = options_table },
	{ 0 },
};

const struct command drain_command = {
	.name = "drain",
	.synopsis = "drain [-d T]",
	.summary = "grant nothing new, and stop after the last lease",
	.options = drain_options,
	.args = "no argument",
	.run = drain_run,
	.show = drain_show,
};

static int undrain_run(const struct command *command, char **)
{
	return act(command, NULL);
}

const struct command undrain_command = {
	.name = "undrain",
	.synopsis = "undrain",
	.summary = "take a drain back",
	.options = options_table,
	.args = "no argument",
	.run = undrain_run,
	.show = drain_show,
};

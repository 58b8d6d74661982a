/* SPDX-License-Identifier: BSD-3-Clause */
/* rmemctl events: what the daemon did, and with --follow what it does. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/standard_fds.h"
#include "base/units.h"
#include "rmemctl/client.h"
#include "rmemctl/view.h"

/* A connection that closed is made again after this time, this often without a line between. */
#define RETRY_S 1
#define RETRIES 10

static const char *tenant, *name, *session;
static bool follow;

/* ---- a line ---- */

/* "2026-11-26T10:20:30.123+0100" */
static void time_print(FILE *out, json_int_t time_ms)
{
	const time_t seconds = (time_t)(time_ms / 1000);
	char text[64] = "", zone[16] = "";
	struct tm local;

	if (localtime_r(&seconds, &local)) {
		(void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &local);
		(void)strftime(zone, sizeof(zone), "%z", &local);
	}
	(void)fprintf(out, "%s.%03d%s", text, (int)(time_ms % 1000), zone);
}

static void event_print(FILE *out, const json_t *event)
{
	static const char *const fields[] = { "session", "lease", "pool",
					      "device",  "peer",  "tenant" };
	json_int_t missed = json_integer_value(json_object_get(event, "missed"));
	const char *said = json_string_value(json_object_get(event, "text"));
	const char *before = " [", *end = "";
	char text[CELL_CHARS];

	if (missed)
		(void)fprintf(out, "missed: %" JSON_INTEGER_FORMAT " events\n", missed);
	time_print(out, json_integer_value(json_object_get(event, "time_ms")));
	(void)fprintf(
		out, " %s",
		cell_format(json_object_get(event, "level"), CELL_TEXT, "-", text));
	(void)fprintf(
		out, " %s: ",
		cell_format(json_object_get(event, "event"), CELL_TEXT, "-", text));
	text_print(out, said);
	/* as in the log, the last brackets are of fields */
	if (said && *said && said[strlen(said) - 1] == ']')
		end = " []";
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		const json_t *value = json_object_get(event, fields[i]);

		if (!json_is_string(value))
			continue;
		(void)fprintf(out, "%s%s=%s", before, fields[i],
			      cell_format(value, CELL_TEXT, "-", text));
		before = " ";
		end = "]";
	}
	(void)fprintf(out, "%s\n", end);
}

/* ---- following ---- */

struct following {
	char after[24]; /* the number of the last event */
	unsigned tries; /* since it */
};

/* A line of the answer.  -EPROTO; -EPIPE: the output is closed */
static int on_line(const char *line, void *ctx)
{
	struct following *following = ctx;
	json_error_t error;
	json_t *event;

	if (!*line)
		return 0;
	event = json_loads(line, 0, &error);
	if (!json_is_object(event)) {
		json_decref(event);
		return err_set(-EPROTO, "rmemd does not answer in JSON: %s",
			       error.text);
	}
	following->tries = 0;
	(void)snprintf(following->after, sizeof(following->after),
		       "%" JSON_INTEGER_FORMAT,
		       json_integer_value(json_object_get(event, "number")));
	if (options.json)
		(void)fprintf(stdout, "%s\n", line);
	else
		event_print(stdout, event);
	json_decref(event);
	return fflush(stdout) ? err_errno(-errno, "writing the output") : 0;
}

/* Until there is an error, or the daemon does not come back. */
static int follow_run(void)
{
	struct following following = { 0 };
	int err;

	for (;;) {
		const struct client_parameter parameters[] = {
			{ "follow", "yes" },
			{ "after", *following.after ? following.after : NULL },
			{ "tenant", tenant },
			{ "name", name },
			{ "session", session },
			{ 0 },
		};

		err = client_follow(options.socket, "/v1/events", parameters, on_line,
				    &following);
		/* the daemon is restarted, or has closed the oldest of many connections */
		if ((err != -ECONNREFUSED && err != -EIO) ||
		    ++following.tries > RETRIES || (!*following.after && err))
			return err;
		(void)sleep(RETRY_S);
	}
}

/* ---- the command ---- */

static void events_show(FILE *out, const json_t *answer)
{
	const json_t *array = json_object_get(answer, "events");

	for (size_t i = 0; i < json_array_size(array); i++)
		event_print(out, json_array_get(array, i));
}

static int events_run(const struct command *command, char **)
{
	const struct client_parameter parameters[] = {
		{ "tenant", tenant },
		{ "name", name },
		{ "session", session },
		{ 0 },
	};
	char *body;
	int err;

	if (follow)
		return follow_run();
	err = client_get(options.socket, "/v1/events", parameters, &body);
	if (err)
		return err;
	if (options.json)
		err = standard_output_text(body);
	else
		err = view_show(command, body, options.wide, stdout);
	free(body);
	return err;
}

static int events_check(char **)
{
	uint64_t id;

	if (session && units_parse_u64(session, 1, UINT64_MAX, &id))
		return err_set(-EINVAL, "--session: %s", err_text());
	return 0;
}

static const struct option_row events_options[] = {
	{ "follow", 'f', OPTION_FLAG, &follow,
	  .help = "go on with those that come; with --json a line for each" },
	{ "tenant", 't', OPTION_TEXT, &tenant, .argument = "TENANT",
	  .help = "only those of this tenant" },
	{ "name", 'n', OPTION_TEXT, &name, .argument = "PATTERN",
	  .help = "only those with such a name, as lease-*" },
	{ "session", 0, OPTION_TEXT, &session, .argument = "SESSION",
	  .help = "only those of the session with this number" },
	{ .more = options_table },
	{ 0 },
};

const struct command events_command = {
	.name = "events",
	.synopsis = "events [-f] [OPTION...]",
	.summary = "what it did, and what it does",
	.options = events_options,
	.args = "no argument",
	.check = events_check,
	.run = events_run,
	.show = events_show,
};

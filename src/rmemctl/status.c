/* SPDX-License-Identifier: BSD-3-Clause */
/* rmemctl status: the daemon as a whole. */
#include "rmemctl/view.h"

/* The addresses for control connections. */
static void control_show(FILE *out, const json_t *answer)
{
	const json_t *names = json_object_get(answer, "control");
	char name[CELL_CHARS];

	(void)fprintf(out, "control    ");
	for (size_t i = 0; i < json_array_size(names); i++)
		(void)fprintf(
			out, "%s%s", i ? ", " : "",
			cell_format(json_array_get(names, i), CELL_TEXT, "-", name));
	(void)fprintf(out, "%s\n", json_array_size(names) ? "" : "-");
}

static const struct field status_head[] = {
	{ "rmemd      ", NULL, "version", CELL_TEXT, "-" },
	{ ", pid ", NULL, "pid", CELL_NUMBER, "-" },
	{ ", up ", NULL, "uptime_ms", CELL_TIME, "-" },
	{ "\n", NULL, NULL, CELL_TEXT, NULL },
	{ 0 },
};

static const struct field status_rest[] = {
	{ "memory     ", "memory", "bytes", CELL_BYTES, "-" },
	{ ", ", "memory", "lent_bytes", CELL_BYTES, "-" },
	{ " lent, ", "memory", "scrubbing_bytes", CELL_BYTES, "-" },
	{ " being zeroed, ", "memory", "free_bytes", CELL_BYTES, "-" },
	{ " free, pools: ", "memory", "pools", CELL_NUMBER, "-" },
	{ "\nsessions   ", "sessions", "active", CELL_NUMBER, "-" },
	{ " active, ", "sessions", "fenced", CELL_NUMBER, "-" },
	{ " fenced, channels: ", "sessions", "channels", CELL_NUMBER, "-" },
	{ ", keys: ", "sessions", "keys", CELL_NUMBER, "-" },
	{ "\nleases     ", "leases", "named", CELL_NUMBER, "-" },
	{ " named, ", "leases", "ephemeral", CELL_NUMBER, "-" },
	{ " ephemeral, together ", "leases", "bytes", CELL_BYTES, "-" },
	{ "\nstate      ", "state", "bytes", CELL_BYTES, "-" },
	{ " in the ledger, limit: ", "state", "bytes_max", CELL_BYTES, "none" },
	{ "\ngranted    ", "counters", "leases_granted", CELL_NUMBER, "-" },
	{ ", expired ", "counters", "leases_expired", CELL_NUMBER, "-" },
	{ ", waited for zeroed memory ", "counters", "leases_waited", CELL_NUMBER,
	  "-" },
	{ ", in all for ", "counters", "leases_waited_ms", CELL_TIME, "-" },
	{ "\nrequests   ", "counters", "requests", CELL_NUMBER, "-" },
	{ ", ", "counters", "requests_failed", CELL_NUMBER, "-" },
	{ " failed; sessions opened ", "counters", "sessions_opened", CELL_NUMBER,
	  "-" },
	{ ", fenced ", "counters", "sessions_fenced", CELL_NUMBER, "-" },
	{ ", resumed ", "counters", "sessions_resumed", CELL_NUMBER, "-" },
	{ "\nrefused    connections ", "counters", "connections_refused", CELL_NUMBER,
	  "-" },
	{ ", channels ", "counters", "channels_refused", CELL_NUMBER, "-" },
	{ ", of rmemctl ", "counters", "admin_views_refused", CELL_NUMBER, "-" },
	{ " to look and ", "counters", "admin_acts_refused", CELL_NUMBER, "-" },
	{ " to act, of HTTP ", "counters", "http_refused", CELL_NUMBER, "-" },
	{ "\nturns      ", "turns", "count", CELL_NUMBER, "-" },
	{ ", ", "turns", "long", CELL_NUMBER, "-" },
	{ " too long; the longest recent one took ", "turns", "wall_recent_us",
	  CELL_NUMBER, "-" },
	{ " us (of the CPU ", "turns", "cpu_recent_us", CELL_NUMBER, "-" },
	{ " us)\n", NULL, NULL, CELL_TEXT, NULL },
	{ 0 },
};

/* The reasons for which connections were refused, if there are any. */
static void refused_show(FILE *out, const json_t *answer)
{
	json_t *reasons =
		json_object_get(json_object_get(answer, "counters"), "refused");
	const char *reason, *before = "refusals   ";
	json_t *number;

	json_object_foreach(reasons, reason, number)
	{
		if (json_integer_value(number) == 0)
			continue;
		(void)fputs(before, out);
		text_print(out, reason);
		(void)fprintf(out, " %" JSON_INTEGER_FORMAT,
			      json_integer_value(number));
		before = ", ";
	}
	if (*before == ',')
		(void)fputc('\n', out);
}

static const struct field dropped_fields[] = {
	{ "log        ", "counters", "log_lines_dropped", CELL_NUMBER, "-" },
	{ " lines dropped, as nobody read them\n", NULL, NULL, CELL_TEXT, NULL },
	{ 0 },
};

static void dropped_show(FILE *out, const json_t *answer)
{
	const json_t *counters = json_object_get(answer, "counters");

	if (json_integer_value(json_object_get(counters, "log_lines_dropped")))
		fields_print(out, dropped_fields, answer);
}

static const struct field draining_fields[] = {
	{ "draining   for ", "draining", "age_ms", CELL_TIME, "-" },
	{ ", deadline: ", "draining", "left_ms", CELL_TIME, "none" },
	{ "\n", NULL, NULL, CELL_TEXT, NULL },
	{ 0 },
};

static void status_show(FILE *out, const json_t *answer)
{
	fields_print(out, status_head, answer);
	if (json_is_object(json_object_get(answer, "draining")))
		fields_print(out, draining_fields, answer);
	control_show(out, answer);
	fabric_show(out, answer, "rdma");
	fabric_show(out, answer, "tcp");
	fields_print(out, status_rest, answer);
	refused_show(out, answer);
	dropped_show(out, answer);
}

const struct command status_command = {
	.name = "status",
	.synopsis = "status",
	.summary = "the daemon as a whole",
	.options = options_table,
	.args = "no argument",
	.run = view_run,
	.show = status_show,
};

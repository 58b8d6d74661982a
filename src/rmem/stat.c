/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "base/units.h"
#include "rmem/command.h"
#include "rmem/entry.h"
#include "rmem/session.h"

static bool json;
static json_t *array;
static bool printed; /* an empty line parts the entries */

static void entry_print(const struct rmem_stat *stat)
{
	char size[32], age[32], ttl[32];

	(void)printf("%sname      %s\n", printed ? "\n" : "", stat->name);
	(void)printf("id        %" PRIu64 "\n", stat->id);
	(void)printf("bytes     %" PRIu64 " (%s)\n", stat->bytes,
		     units_format_bytes(stat->bytes, size, sizeof(size)));
	(void)printf("age       %s\n", entry_duration(stat->age_ms, age, sizeof(age)));
	(void)printf("ttl       %s\n",
		     stat->ttl_ms ? entry_duration(stat->ttl_ms, ttl, sizeof(ttl))
				  : "none");
	(void)printf("sessions  %" PRIu32 "\n", stat->sessions);
	(void)printf("segments  %" PRIu32 "\n", stat->segments);
	printed = true;
}

static int stat_one(rmem *session, const char *name)
{
	struct rmem_stat stat = rmem_stat_init();
	int err = session_result(rmem_stat(session, name, &stat));

	if (err)
		return err;
	if (!json)
		entry_print(&stat);
	else if (json_array_append_new(array, entry_json(&stat)))
		return err_set(-ENOMEM, "out of memory");
	return 0;
}

static int stat_run(rmem *session, char **args)
{
	int err, failed;

	if (!json)
		return names_each(session, "stat", args, stat_one);
	array = json_array();
	failed = names_each(session, "stat", args, stat_one);
	err = json_print(array);
	return failed ? failed : err;
}

static const struct option_row stat_options[] = {
	{ "json", 0, OPTION_FLAG, &json, .help = "an array of objects" },
	{ .more = options_table },
	{ 0 },
};

const struct command stat_command = {
	.name = "stat",
	.synopsis = "stat [--json] NAME...",
	.summary = "show length, age and time to live of what is stored",
	.options = stat_options,
	.args_min = 1,
	.args_max = COMMAND_ARGS_ANY,
	.args = "at least one NAME",
	.names = COMMAND_ARGS_ANY,
	.run = stat_run,
};

/* SPDX-License-Identifier: BSD-3-Clause */
/* The commands of rmem.  main.c parses the options, counts the arguments, opens the session and
 * closes it.  The process runs one command, so the variables of its options are static.
 * Threads: [main]. */
#ifndef RMEM_COMMAND_H
#define RMEM_COMMAND_H

#include <limits.h>

#include "rmem/options.h"

#define COMMAND_ARGS_ANY INT_MAX

struct command {
	const char *name;
	const char *synopsis;
	const char *summary;
	const struct option_row *options; /* all, with options_table */
	int args_min, args_max;
	const char *args; /* description of the arguments, for the error text */
	int names; /* number of arguments, from the first one on, for session_name_check() */
	/* Check the other arguments, then; NULL: nothing to check.  -errno with err_text(). */
	int (*check)(char **args);
	/* `args` ends with NULL.  -errno with err_text(). */
	int (*run)(rmem *session, char **args);
	/* Instead of run(), of a command that opens its sessions itself: it may also return an exit
	 * status above 2. */
	int (*run_alone)(char **args);
};

extern const struct command put_command, get_command, ls_command, rm_command,
	mv_command, stat_command, touch_command, copy_command, fill_command,
	crc_command, ping_command, bench_command, watch_command, notify_command,
	share_command, unshare_command, doctor_command, cache_command;

#endif

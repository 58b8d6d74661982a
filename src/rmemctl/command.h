/* SPDX-License-Identifier: BSD-3-Clause */
/* The commands of rmemctl.  main.c parses the options, counts the arguments, and runs the command.
 * The process runs one command, so the variables of its options are static.
 * Threads: [main]. */
#ifndef RMEMCTL_COMMAND_H
#define RMEMCTL_COMMAND_H

#include <jansson.h>
#include <stdio.h>

#include "rmemctl/options.h"
#include "rmemctl/table.h"

struct command {
	const char *name;
	const char *synopsis; /* the name, options and arguments */
	const char *summary;
	const struct option_row *options; /* all, with options_table */
	int args_min, args_max;
	const char *args; /* description of the arguments, for the error text */
	/* Check the arguments, which end with NULL, and the values of options together; NULL:
	 * nothing to check.  -EINVAL with text. */
	int (*check)(char **args);
	/* 0; an exit status above EXIT_USAGE, which the page of rmemctl has; -errno with text. */
	int (*run)(const struct command *command, char **args);

	/* Of a command that shows what the daemon answers, see view.h: */
	const struct column *columns; /* of the list; NULL: the answer has none */
	const char *list; /* of the daemon; NULL: it has the name of the command */
	/* The items of the table, made from the list, as a new reference; NULL: those of the list.
	 * Returns NULL without memory. */
	json_t *(*items)(json_t *list);
	/* Print more of the answer, below the table; NULL: no more. */
	void (*show)(FILE *out, const json_t *answer);
};

extern const struct command status_command, pools_command, devices_command,
	sessions_command, leases_command, holders_command, events_command, top_command,
	tenants_command, reload_command, log_level_command, revoke_command,
	kick_command, drain_command, undrain_command, keygen_command, doctor_command,
	metrics_command;

/* Ends with NULL. */
extern const struct command *const commands[];

/* -EINVAL with text that suggests the nearest name. */
int command_find(const char *name, const struct command **ret_command);

#endif

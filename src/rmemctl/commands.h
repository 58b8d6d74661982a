/* SPDX-License-Identifier: BSD-3-Clause */
/* The commands of rmemctl: the resource that each command requests, and the format of its output.
 * Threads: [main]. */
#ifndef RMEMCTL_COMMANDS_H
#define RMEMCTL_COMMANDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "rmemctl/table.h"

struct command {
	const char *name, *summary;
	const char *resource;
	/* Print the array of this name in the answer, in these columns.  NULL: call show(). */
	const char *list;
	const struct column *columns;
	/* Print details below the table; NULL: none. */
	void (*detail)(FILE *out, const json_t *array);
	/* Print an answer without a list.  0 or -errno with text. */
	int (*show)(FILE *out, const json_t *answer);
};

/* Ends with a command without a name. */
extern const struct command commands[];

/* -EINVAL with text that suggests the nearest name. */
int command_find(const char *name, const struct command **ret_command);
/* Print an answer, with all columns of a table if it may be wide.  -EPROTO: malformed, -ENOMEM. */
int command_show(const struct command *command, const char *body, bool wide, FILE *out);

#endif

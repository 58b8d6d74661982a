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
	/* also of the resource of the daemon, and of the list in its answer */
	const char *name;
	const char *summary;
	const struct column *columns; /* of the list; NULL: the answer has none */
	/* Print more of the answer, below the table; NULL: no more. */
	void (*show)(FILE *out, const json_t *answer);
	bool acts;         /* the daemon acts, and shows nothing */
	const char *takes; /* the name of a number that it needs; NULL: none */
};

/* Ends with a command without a name. */
extern const struct command commands[];

/* -EINVAL with text that suggests the nearest name. */
int command_find(const char *name, const struct command **ret_command);
/* Print an answer, with all columns of a table if it may be wide.  -EPROTO: malformed, -ENOMEM. */
int command_show(const struct command *command, const char *body, bool wide, FILE *out);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The commands of rmemctl in one table: which resource each asks for, and how it is shown
 * to people.  Threads: none but main. */
#ifndef RMEMCTL_COMMANDS_H
#define RMEMCTL_COMMANDS_H

#include <jansson.h>
#include <stdio.h>

#include "rmemctl/table.h"

struct command {
	const char *name, *summary;
	const char *resource;
	/* A list: the array of this name in the answer, in these columns. */
	const char *list;
	const struct column *columns;
	/* What the table has no room for, below it; may be NULL. */
	void (*detail)(FILE *out, const json_t *array);
	/* Anything else.  0 or -errno with text. */
	int (*show)(FILE *out, const json_t *answer);
};

/* Ends with one that has no name. */
extern const struct command commands[];

/* -EINVAL with text that offers the nearest. */
int command_find(const char *name, const struct command **ret_command);
/* Show a daemon's answer; -EPROTO when it is not what it should be, -ENOMEM. */
int command_show(const struct command *command, const char *body, FILE *out);

#endif

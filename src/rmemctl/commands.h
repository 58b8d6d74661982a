/* SPDX-License-Identifier: BSD-3-Clause */
/* The commands of rmemctl: the resource that each one requests, and how it is printed.
 * Threads: [main]. */
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
	/* Print details below the table; optional. */
	void (*detail)(FILE *out, const json_t *array);
	/* Print an answer that is no list.  0 or -errno with text. */
	int (*show)(FILE *out, const json_t *answer);
};

/* The last one has no name. */
extern const struct command commands[];

/* -EINVAL with text that suggests the nearest name. */
int command_find(const char *name, const struct command **ret_command);
/* Print an answer; -EPROTO: it is not as expected; -ENOMEM. */
int command_show(const struct command *command, const char *body, FILE *out);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Shows what the daemon answers: a table of the list that has the command's name, and what the
 * command's show() prints.  Threads: [main]. */
#ifndef RMEMCTL_VIEW_H
#define RMEMCTL_VIEW_H

#include <stdbool.h>
#include <stdio.h>

#include "rmemctl/command.h"

/* struct command: show the daemon's answer for the resource that has the command's name, or print
 * its JSON. */
int view_run(const struct command *command, char **args);

/* Print an answer, with all columns of a table if it may be wide.  -EPROTO: malformed, -ENOMEM. */
int view_show(const struct command *command, const char *body, bool wide, FILE *out);

/* Print whether a fabric is served, and if not, why: a line. */
void fabric_show(FILE *out, const json_t *answer, const char *name);

#endif

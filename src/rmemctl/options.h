/* SPDX-License-Identifier: BSD-3-Clause */
/* The options that all commands have.  They may come before or after the command.
 * Threads: [main]. */
#ifndef RMEMCTL_OPTIONS_H
#define RMEMCTL_OPTIONS_H

#include <stdbool.h>

#include "base/option.h"

#define OPTIONS_SOCKET RUNSTATEDIR "/rmemd/admin.sock" /* without --socket */

struct options {
	const char *socket; /* the path of the admin socket */
	bool wide;          /* tables with all columns */
	bool json;
	bool names;   /* of lists, the names alone */
	bool help;    /* --help was given */
	bool version; /* --version was given */
};
extern struct options options;
extern const struct option_row options_table[];

/* Check the values.  -EINVAL with text. */
int options_check(void);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Commands that do something to each of several names.  Threads: [main]. */
#ifndef RMEM_NAMES_H
#define RMEM_NAMES_H

#include <rmem/rmem.h>

/* Check all names, which end with NULL, as session_name_check(); a `check` of a command. */
int names_check(char **names);

/* Call `each` for every name, also after one failed.  Each failure is printed on a line of its own;
 * the last one is returned. */
int names_each(rmem *session, const char *command, char **names,
	       int (*each)(rmem *session, const char *name));

#endif

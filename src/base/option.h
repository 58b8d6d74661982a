/* SPDX-License-Identifier: BSD-3-Clause */
/* Error texts for wrong options; those of getopt_long() begin with the path of the program.
 * Threads: [main], as getopt(3). */
#ifndef BASE_OPTION_H
#define BASE_OPTION_H

/* getopt_long() returned '?' or ':'.  `letters` begins with ':', so that it printed nothing.
 * -EINVAL with text that names the option. */
int option_error(int result, const char *letters, char *const *argv);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* What is wrong with a command line, in this project's words instead of getopt's, which
 * name the program by its whole path.  Threads: [main], as getopt(3). */
#ifndef BASE_OPTION_H
#define BASE_OPTION_H

/* getopt_long() returned '?' or ':' for these letters, which begin with ':', so that it
 * printed nothing itself.  -EINVAL with text that names the option. */
int option_error(int result, const char *letters, char *const *argv);

#endif

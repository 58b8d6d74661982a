/* SPDX-License-Identifier: BSD-3-Clause */
/* The session of the tool.  Threads: [main]. */
#ifndef RMEM_SESSION_H
#define RMEM_SESSION_H

#include <rmem/rmem.h>

/* Open the session; with -v print its fabric and the reason to stderr.  The caller calls
 * rmem_close().  -errno with err_text(). */
int session_open(rmem **ret_session);

/* Returns the result of a librmem call; if it failed, copies its text to err_text(). */
int session_result(int result);

/* Refuse, before anything is done, a name that the server would refuse: empty, too long, with
 * control characters or not UTF-8.  -EINVAL as options_usage(). */
int session_name_check(const char *name);

/* Call `each` for every name, also after one failed.  Each failure is printed on a line of its own;
 * the last one is returned. */
int names_each(rmem *session, const char *command, char **names,
	       int (*each)(rmem *session, const char *name));

/* "rdma" or "tcp". */
const char *session_fabric_name(enum rmem_fabric fabric);

#endif

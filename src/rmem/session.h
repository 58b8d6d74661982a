/* SPDX-License-Identifier: BSD-3-Clause */
/* The tool's session with the server.  Threads: none but main. */
#ifndef RMEM_SESSION_H
#define RMEM_SESSION_H

#include "rmem/options.h"

/* Open the session; with -v say on stderr which fabric it got and why.  The caller ends
 * it with rmem_close().  -errno with err_text(). */
int session_open(struct options *options, rmem **ret_session);

/* Hand a failure of a librmem call on: its text becomes err_text(); returns err. */
int session_failed(int err);

/* "rdma" or "tcp". */
const char *session_fabric_name(enum rmem_fabric fabric);

/* Refuse what the server would refuse only after all bytes have been moved: a name that
 * is empty, too long, or has control characters.  -EINVAL with err_text(). */
int session_name_check(const char *name);

#endif

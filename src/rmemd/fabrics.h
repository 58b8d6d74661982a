/* SPDX-License-Identifier: BSD-3-Clause */
/* Which fabrics the daemon serves: those that the configuration asks for.  Threads: [loop]. */
#ifndef RMEMD_FABRICS_H
#define RMEMD_FABRICS_H

#include <stddef.h>

struct control;

/* Serve what control->config asks for; control_close() ends it, also after a failure.  Where RDMA
 * is not served although it may be, why is logged and written to `missing`, else "".
 *   -ENODEV      verbs = yes and no device, or nothing at all to serve
 *   -EADDRINUSE  a port is taken; the text names it and the remedy */
int fabrics_open(struct control *control, char *missing, size_t missing_bytes);

#endif

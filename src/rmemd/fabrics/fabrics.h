/* SPDX-License-Identifier: BSD-3-Clause */
/* The fabrics the daemon serves, opened as the configuration says; their news go to the
 * sessions and leases.  Threads: [loop]. */
#ifndef RMEMD_FABRICS_FABRICS_H
#define RMEMD_FABRICS_FABRICS_H

#include <event2/event.h>

#include "fabric/fabric.h"
#include "rmemd/config/config.h"
#include "rmemd/control/control.h"

struct fabrics;

/* Open what the configuration asks for.  Borrows base and control, whose sessions must be
 * open before the loop runs.  Logs why RDMA is not served when it need not be.
 *   -ENODEV      verbs = yes and no device, or nothing at all to serve
 *   -EADDRINUSE  a port is taken; the text names it and the remedy */
int fabrics_open(struct event_base *base, const struct config *config,
		 struct control *control, struct fabrics **ret_fabrics);
/* End them; no news comes any more.  NULL: nothing. */
void fabrics_close(struct fabrics *fabrics);

const struct endpoints *fabrics_endpoints(const struct fabrics *fabrics);
/* Why RDMA is not served; NULL when it is. */
const char *fabrics_verbs_missing(const struct fabrics *fabrics);

#endif

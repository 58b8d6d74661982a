/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the RDMA devices and addresses of this host that the server serves, at the start and
 * again when they change: devices that were removed come back, and addresses move.  The kernel
 * reports changes of addresses.  No report that a device is back exists in all kernel versions, so
 * while an endpoint does not serve, the host is scanned at intervals.
 * Threads: [loop]. */
#ifndef FABRIC_VERBS_SERVER_DISCOVERY_H
#define FABRIC_VERBS_SERVER_DISCOVERY_H

#include "fabric/verbs/server/server.h"

/* Opens server->route_fd.  -EMFILE, -ENFILE, -ENOMEM ... with text. */
int verbs_discovery_init(struct fabric_server *server);

/* Find the endpoints of server->params on this host's devices, and listen on them.
 *   -ENODEV      there is none, or a device of params->devices is missing
 *   -EADDRINUSE  the port is taken; the text names address and port */
int verbs_discovery_open(struct fabric_server *server);

/* An endpoint stopped to serve, or may have to move: scan after a delay. */
void verbs_discovery_schedule(struct fabric_server *server);
/* Read server->route_fd, and schedule a scan if addresses changed. */
void verbs_discovery_process(struct fabric_server *server);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon in a process of a test: sessions, leases, ledger and pools over the fabrics that the
 * test supplies, started and closed as in src/rmemd/daemon.c, without sockets.  One at a time. */
#ifndef TESTS_UNIT_BARE_DAEMON_H
#define TESTS_UNIT_BARE_DAEMON_H

#include "rmemd/control/control.h"

/* The caller has set base, config, fdstore and first_id, and all else is zero; the ledger is in
 * this file; fabrics end with NULL.  After an error the program ends. */
int bare_daemon_open(struct control *control, int ledger_fd,
		     const struct fabric_server_ops *const *fabrics);
void bare_daemon_close(struct control *control);

#endif

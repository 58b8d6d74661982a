/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions and the answers they were given in the ledger, so that their clients may come back
 * to another process.  Here they are staged; who answers a request commits.
 * Threads: [loop]. */
#ifndef RMEMD_CONTROL_SESSION_RECORD_H
#define RMEMD_CONTROL_SESSION_RECORD_H

#include "rmemd/control/session_table.h"

/* -ENOMEM, -ENOSPC */
int session_record(const struct session *session);
/* With its answers. */
void session_unrecord(const struct session *session);

/* Without memory it is not there after a restart, as it may be dropped at any time. */
void reply_record(const struct session *session, const struct reply *answer,
		  const char *text);
/* Room for it.  -ENOMEM, -ENOSPC */
int reply_record_reserve(const struct session *session);
void reply_unrecord(const struct session *session, uint64_t id);

#endif

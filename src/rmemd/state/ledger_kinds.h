/* SPDX-License-Identifier: BSD-3-Clause */
/* What is in the daemon's ledger, and under which keys.  Numbers stay what they are once a
 * release has written them. */
#ifndef RMEMD_LEDGER_KINDS_H
#define RMEMD_LEDGER_KINDS_H

enum ledger_kind {
	LEDGER_POOL = 1,       /* pool id */
	LEDGER_LEASE = 2,      /* lease id */
	LEDGER_ATTACHMENT = 3, /* session id, lease id */
	LEDGER_SESSION = 4,    /* session id */
	LEDGER_ANSWER = 5,     /* session id, request id */
	LEDGER_IDS = 6,        /* those that are not used again */
};

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Empty writes that wake the server's siw (soft-iWARP, the kernel's iWARP in software).  While it
 * accepts a connection, siw can miss the arrival of a message, which then stays in the socket until
 * another one arrives; and the server must not send first.  So the client posts a few empty writes
 * after it has connected.
 * Threads: [any], one at a time. */
#ifndef FABRIC_VERBS_CLIENT_IWARP_WAKEUP_H
#define FABRIC_VERBS_CLIENT_IWARP_WAKEUP_H

#include <infiniband/verbs.h>

#include "fabric/verbs/client/send_queue.h"

/* Limit of empty writes; send and completion queue have room for them.  The last is posted 13 s
 * after the first: a server that is busy or was stopped while it accepted must not leave the
 * channel dead. */
#define VERBS_WAKEUPS_MAX 6u

/* The wr_id of an empty write, whose completion is ignored. */
#define VERBS_WAKEUP_WR_ID VERBS_WR_ID_OTHER

struct verbs_wakeup {
	int timer_fd;
	int fd; /* readable when a write is due, or `other` is readable; -1: not started */
	unsigned sent;
};
#define VERBS_WAKEUP_NONE ((struct verbs_wakeup){ .timer_fd = -1, .fd = -1 })

/* -errno with text. */
int verbs_wakeup_start(struct verbs_wakeup *wakeup, int other);
/* Post the next empty write, if it is due. */
void verbs_wakeup_send(struct verbs_wakeup *wakeup, struct ibv_qp *qp);
void verbs_wakeup_stop(struct verbs_wakeup *wakeup);

#endif

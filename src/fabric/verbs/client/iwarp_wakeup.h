/* SPDX-License-Identifier: BSD-3-Clause */
/* Empty writes that wake an accepting siw.  siw can miss what the client sends before the
 * accepting side is ready, and leaves it in the socket until more arrives; the server must not
 * send first.  So the client sends a few empty writes after connecting.
 * Threads: [any], one at a time. */
#ifndef FABRIC_VERBS_CLIENT_IWARP_WAKEUP_H
#define FABRIC_VERBS_CLIENT_IWARP_WAKEUP_H

#include <infiniband/verbs.h>

#include "fabric/verbs/client/send_queue.h"

/* So many are sent at most, and take that much room in send and completion queue. */
#define VERBS_WAKEUPS_MAX 4u

/* The wr_id of an empty write; what becomes of it is of no interest. */
#define VERBS_WAKEUP_WR_ID VERBS_WR_ID_OTHER

struct verbs_wakeup {
	int timer_fd;
	int fd; /* readable when a write is due, or `other` is readable; -1: not started */
	unsigned sent;
};
#define VERBS_WAKEUP_NONE ((struct verbs_wakeup){ .timer_fd = -1, .fd = -1 })

/* -errno with text. */
int verbs_wakeup_start(struct verbs_wakeup *wakeup, int other);
/* Send it, if it is due. */
void verbs_wakeup_send(struct verbs_wakeup *wakeup, struct ibv_qp *qp);
void verbs_wakeup_stop(struct verbs_wakeup *wakeup);

#endif

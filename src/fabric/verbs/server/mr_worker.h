/* SPDX-License-Identifier: BSD-3-Clause */
/* The thread that registers and deregisters memory on a device, which takes time in proportion to
 * the size.  The loop posts jobs; the thread runs them in order and returns them through the
 * server's mailbox. */
#ifndef FABRIC_VERBS_SERVER_MR_WORKER_H
#define FABRIC_VERBS_SERVER_MR_WORKER_H

#include <pthread.h>
#include <stdbool.h>

#include "base/mailbox.h"
#include "fabric/verbs/server/server.h"

struct verbs_mr_job {
	struct list link;
	void (*run)(struct verbs_mr_job *job); /* [mr_worker] */
	struct verbs_message done;             /* posted after run() */
};

struct verbs_mr_worker {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct list jobs;
	bool stop;
	struct mailbox *mailbox;
	pthread_t thread;
};

/* Borrows the mailbox.  -errno with text.  [loop] */
int verbs_mr_worker_start(struct verbs_mr_worker *mr_worker, struct mailbox *mailbox);
/* Run the jobs that were posted, then join the thread.  [loop] */
void verbs_mr_worker_stop(struct verbs_mr_worker *mr_worker);
/* The mr_worker owns the job until its message is delivered.  [loop] */
void verbs_mr_worker_post(struct verbs_mr_worker *mr_worker, struct verbs_mr_job *job);

#endif

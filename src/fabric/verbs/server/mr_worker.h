/* SPDX-License-Identifier: BSD-3-Clause */
/* The thread that makes and destroys a device's registrations: they take time by the
 * mebibyte, and the loop has none.  It holds no state of its own: jobs come from the
 * loop, are run in order and go back through the server's mailbox. */
#ifndef FABRIC_VERBS_SERVER_MR_WORKER_H
#define FABRIC_VERBS_SERVER_MR_WORKER_H

#include <pthread.h>
#include <stdbool.h>

#include "base/mailbox.h"
#include "fabric/verbs/server/message.h"

struct verbs_mr_job {
	struct list link;
	void (*run)(struct verbs_mr_job *job); /* [registrar] */
	struct verbs_message done;             /* posted when it has run */
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
/* Run what was asked for, then join the thread.  [loop] */
void verbs_mr_worker_stop(struct verbs_mr_worker *mr_worker);
/* The job is the registrar's until its message is delivered.  [loop] */
void verbs_mr_worker_post(struct verbs_mr_worker *mr_worker, struct verbs_mr_job *job);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread that runs jobs one after the other, and posts each to a mailbox when it is done. */
#ifndef RMEMD_POOL_WORKER_H
#define RMEMD_POOL_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/mailbox.h"

/* Embedded in the owner. */
struct worker {
	pthread_t thread;
	/* mailbox to which jobs are posted; the caller keeps them alive until they are done */
	struct mailbox jobs;
	struct mailbox *done;
	struct list stop_message; /* wakes the thread for `stop` */
	atomic_bool stop;
	int node;
	bool (*run)(struct worker *worker, struct list *job);
};

/* node  to run on; -1: anywhere
 * run   called on the thread; false: `stop` is set, and the job is dropped
 * done  borrowed
 *   -EAGAIN, -EMFILE, -ENOMEM  with text */
int worker_start(struct worker *worker, const char *name, int node,
		 bool (*run)(struct worker *worker, struct list *job),
		 struct mailbox *done);
/* Join the thread; jobs not begun are dropped. */
void worker_stop(struct worker *worker);

#endif

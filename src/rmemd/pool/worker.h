/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread that works off jobs, one after the other, and posts them to a mailbox when they are
 * done. */
#ifndef RMEMD_POOL_WORKER_H
#define RMEMD_POOL_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/mailbox.h"

/* Embedded in what owns it. */
struct worker {
	pthread_t thread;
	struct mailbox jobs;
	struct mailbox *done;
	struct list stop_message; /* wakes the thread for `stop` */
	atomic_bool stop;
	int node;
	bool (*run)(struct worker *worker, struct list *job);
};

/* node  to run on; -1: anywhere
 * run   on the thread; false: it was told to stop, and the job is dropped
 * done  borrowed
 *   -EAGAIN, -EMFILE, -ENOMEM  with text */
int worker_start(struct worker *worker, const char *name, int node,
		 bool (*run)(struct worker *worker, struct list *job),
		 struct mailbox *done);
/* Join; jobs not begun are dropped. */
void worker_stop(struct worker *worker);
/* Whoever posts a job keeps it alive until it is back.  [any] */
void worker_post(struct worker *worker, struct list *job);

#endif

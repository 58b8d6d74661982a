/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread that does slow work on a device: registering or deregistering memory, which takes time
 * in proportion to the size, or connecting a queue pair, which may wait for a host that does not
 * answer.  The loop posts jobs, each to the queue of a tenant; the thread takes the next job from
 * the queue that has used the least of its time, and returns it through the server's mailbox.  So a
 * tenant waits for the job that is being done and for its own jobs, however many others post. */
#ifndef FABRIC_VERBS_SERVER_WORKER_H
#define FABRIC_VERBS_SERVER_WORKER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/mailbox.h"
#include "fabric/verbs/server/server.h"

/* The jobs of one tenant.  All members belong to the worker, under its lock. */
struct verbs_worker_queue {
	struct list link; /* in worker->queues while it has jobs */
	struct list jobs;
	uint64_t used_ns; /* the thread's time */
};

struct verbs_job {
	struct list link; /* in a queue, until the thread takes it */
	struct verbs_worker_queue *queue;
	void (*run)(struct verbs_job *job); /* [worker] */
	struct verbs_message done;          /* posted after run() */
};

struct verbs_worker {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct list queues;
	/* of the queue served last, with its job if no other waited: a queue that had no jobs saves
	 * up no time */
	uint64_t used_ns;
	bool stop;
	struct mailbox *mailbox;
	pthread_t thread;
};

void verbs_worker_queue_init(struct verbs_worker_queue *queue);

/* Borrows the mailbox.  -errno with text.  [loop] */
int verbs_worker_start(struct verbs_worker *worker, const char *name,
		       struct mailbox *mailbox);
/* Run the jobs that were posted, then join the thread.  [loop] */
void verbs_worker_stop(struct verbs_worker *worker);
/* The worker owns the job until its message is delivered.  The queue must exist until then.
 * [loop] */
void verbs_worker_post(struct verbs_worker *worker, struct verbs_worker_queue *queue,
		       struct verbs_job *job);
/* Take a job back that the thread has not begun: it is not run, and its message is not posted.
 * False: no effect, as the job is not waiting.  [loop] */
bool verbs_worker_cancel(struct verbs_worker *worker, struct verbs_job *job);

#endif

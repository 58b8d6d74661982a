/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that do slow work for a loop, as an RDMA device's, or the handshakes of TLS.  The loop
 * posts jobs, each to the queue of whoever it is done for; a thread takes the next job from the
 * queue that has used the least time, and returns it through a mailbox.  A queue has one job under
 * way at a time.  So none starves: each job waits for those of its queue and for at most one of
 * another, however many others post. */
#ifndef BASE_WORKERS_H
#define BASE_WORKERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct mailbox;

#define WORKERS_THREADS_MAX 8

/* All members belong to the workers, under their lock. */
struct workers_queue {
	/* link in workers->queues, while it has jobs and none is under way */
	struct list link;
	struct list jobs;
	bool running;     /* a job of it is under way */
	uint64_t used_ns; /* the threads' time */
};

struct workers_job {
	struct list link; /* in a queue, until a thread takes it */
	struct workers_queue *queue;
	void (*run)(struct workers_job *job); /* [worker] */
	struct list *done;                    /* a message, posted after run() */
};

struct workers {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct list queues;
	/* of the queue served last, with its job if no other waited: a queue that had no jobs saves
	 * up no time */
	uint64_t used_ns;
	bool stop;
	int nice;
	struct mailbox *mailbox;
	unsigned n_threads;
	pthread_t threads[WORKERS_THREADS_MAX];
};

void workers_queue_init(struct workers_queue *queue);

/* Borrows the mailbox.
 * nice  how much lower the threads' priority is than that of the caller
 *   -EAGAIN  with text  [loop] */
int workers_start(struct workers *workers, const char *name, unsigned n_threads,
		  int nice, struct mailbox *mailbox);
/* Run the jobs that were posted, then join the threads.  [loop] */
void workers_stop(struct workers *workers);
/* The workers own the job until its message is delivered.  The queue must exist until then.
 * [loop] */
void workers_post(struct workers *workers, struct workers_queue *queue,
		  struct workers_job *job);
/* Take a job back that no thread has begun: it is not run, and its message is not posted.  False:
 * no effect, as the job is not waiting.  [loop] */
bool workers_cancel(struct workers *workers, struct workers_job *job);

#endif

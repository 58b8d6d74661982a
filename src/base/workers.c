/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/workers.h"

#include <sys/resource.h>

#include "base/clock.h"
#include "base/mailbox.h"
#include "base/thread.h"

/* The time that each job counts for at least: queues take turns on work that needs none. */
#define JOB_NS 1000

void workers_queue_init(struct workers_queue *queue)
{
	*queue = (struct workers_queue){ .used_ns = 0 };
	list_init(&queue->link);
	list_init(&queue->jobs);
}

static struct workers_queue *queue_next(struct workers *workers)
{
	struct workers_queue *next = NULL;

	list_for_each_entry(struct workers_queue, queue, &workers->queues, link) {
		if (!next || queue->used_ns < next->used_ns)
			next = queue;
	}
	return next;
}

static void job_remove(struct workers_job *job)
{
	list_remove(&job->link);
	if (list_empty(&job->queue->jobs))
		list_remove(&job->queue->link);
}

static struct workers_job *job_wait(struct workers *workers)
{
	struct workers_queue *queue;
	struct workers_job *job = NULL;

	(void)pthread_mutex_lock(&workers->lock);
	while (!(queue = queue_next(workers)) && !workers->stop)
		(void)pthread_cond_wait(&workers->wake, &workers->lock);
	if (queue) {
		workers->used_ns = queue->used_ns;
		job = list_first(&queue->jobs, struct workers_job, link);
		job_remove(job);
		list_remove(&queue->link);
		queue->running = true;
	}
	(void)pthread_mutex_unlock(&workers->lock);
	return job;
}

/* The queue may have another job under way. */
static void job_charge(struct workers *workers, struct workers_queue *queue,
		       uint64_t used_ns)
{
	(void)pthread_mutex_lock(&workers->lock);
	queue->used_ns += used_ns + JOB_NS;
	queue->running = false;
	/* nobody waited for this job: it takes no turn from the queue */
	if (list_empty(&workers->queues))
		workers->used_ns = queue->used_ns;
	if (!list_empty(&queue->jobs))
		list_append(&workers->queues, &queue->link);
	(void)pthread_mutex_unlock(&workers->lock);
}

static void *worker_run(void *arg)
{
	struct workers *workers = arg;
	struct workers_job *job;
	uint64_t begin_ns;

	/* of this thread alone; with a priority that cannot be lowered it works as well */
	if (workers->nice)
		(void)setpriority(PRIO_PROCESS, 0,
				  getpriority(PRIO_PROCESS, 0) + workers->nice);
	while ((job = job_wait(workers))) {
		begin_ns = clock_now_ns();
		job->run(job);
		job_charge(workers, job->queue, clock_now_ns() - begin_ns);
		mailbox_post(workers->mailbox, job->done);
	}
	return NULL;
}

void workers_stop(struct workers *workers)
{
	(void)pthread_mutex_lock(&workers->lock);
	workers->stop = true;
	(void)pthread_cond_broadcast(&workers->wake);
	(void)pthread_mutex_unlock(&workers->lock);
	while (workers->n_threads > 0)
		(void)pthread_join(workers->threads[--workers->n_threads], NULL);
	(void)pthread_cond_destroy(&workers->wake);
	(void)pthread_mutex_destroy(&workers->lock);
}

int workers_start(struct workers *workers, const char *name, unsigned n_threads,
		  int nice, struct mailbox *mailbox)
{
	int err = 0;

	*workers = (struct workers){ .nice = nice, .mailbox = mailbox };
	list_init(&workers->queues);
	/* default attributes cannot fail */
	(void)pthread_mutex_init(&workers->lock, NULL);
	(void)pthread_cond_init(&workers->wake, NULL);
	while (!err && workers->n_threads < n_threads) {
		err = thread_start(name, worker_run, workers,
				   &workers->threads[workers->n_threads]);
		if (!err)
			workers->n_threads++;
	}
	if (err)
		workers_stop(workers);
	return err;
}

void workers_post(struct workers *workers, struct workers_queue *queue,
		  struct workers_job *job)
{
	(void)pthread_mutex_lock(&workers->lock);
	if (list_empty(&queue->jobs) && !queue->running) {
		if (queue->used_ns < workers->used_ns)
			queue->used_ns = workers->used_ns;
		list_append(&workers->queues, &queue->link);
	}
	job->queue = queue;
	list_append(&queue->jobs, &job->link);
	(void)pthread_mutex_unlock(&workers->lock);
	/* after the lock is released, or the thread would wake only to wait for it */
	(void)pthread_cond_signal(&workers->wake);
}

bool workers_cancel(struct workers *workers, struct workers_job *job)
{
	bool waits;

	(void)pthread_mutex_lock(&workers->lock);
	waits = !list_empty(&job->link);
	if (waits)
		job_remove(job);
	(void)pthread_mutex_unlock(&workers->lock);
	return waits;
}

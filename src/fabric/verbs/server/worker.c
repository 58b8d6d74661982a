/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/worker.h"

#include "base/clock.h"
#include "base/thread.h"

/* The time that each job counts for at least: queues take turns on a device that needs none. */
#define JOB_NS 1000

void verbs_worker_queue_init(struct verbs_worker_queue *queue)
{
	list_init(&queue->link);
	list_init(&queue->jobs);
	queue->used_ns = 0;
}

static struct verbs_worker_queue *queue_next(struct verbs_worker *worker)
{
	struct verbs_worker_queue *next = NULL;

	list_for_each_entry(struct verbs_worker_queue, queue, &worker->queues, link) {
		if (!next || queue->used_ns < next->used_ns)
			next = queue;
	}
	return next;
}

static void job_remove(struct verbs_job *job)
{
	list_remove(&job->link);
	if (list_empty(&job->queue->jobs))
		list_remove(&job->queue->link);
}

static struct verbs_job *job_wait(struct verbs_worker *worker)
{
	struct verbs_worker_queue *queue;
	struct verbs_job *job = NULL;

	(void)pthread_mutex_lock(&worker->lock);
	while (!(queue = queue_next(worker)) && !worker->stop)
		(void)pthread_cond_wait(&worker->wake, &worker->lock);
	if (queue) {
		worker->used_ns = queue->used_ns;
		job = list_first(&queue->jobs, struct verbs_job, link);
		job_remove(job);
	}
	(void)pthread_mutex_unlock(&worker->lock);
	return job;
}

static void *worker_run(void *arg)
{
	struct verbs_worker *worker = arg;
	struct verbs_job *job;
	uint64_t begin_ns;

	while ((job = job_wait(worker))) {
		begin_ns = clock_now_ns();
		job->run(job);
		(void)pthread_mutex_lock(&worker->lock);
		job->queue->used_ns += clock_now_ns() - begin_ns + JOB_NS;
		/* nobody waited for this job: it takes no turn from the queue */
		if (list_empty(&worker->queues))
			worker->used_ns = job->queue->used_ns;
		(void)pthread_mutex_unlock(&worker->lock);
		mailbox_post(worker->mailbox, &job->done.link);
	}
	return NULL;
}

int verbs_worker_start(struct verbs_worker *worker, const char *name,
		       struct mailbox *mailbox)
{
	int err;

	*worker = (struct verbs_worker){ .mailbox = mailbox };
	list_init(&worker->queues);
	/* default attributes cannot fail */
	(void)pthread_mutex_init(&worker->lock, NULL);
	(void)pthread_cond_init(&worker->wake, NULL);
	err = thread_start(name, worker_run, worker, &worker->thread);
	if (err) {
		(void)pthread_cond_destroy(&worker->wake);
		(void)pthread_mutex_destroy(&worker->lock);
	}
	return err;
}

void verbs_worker_stop(struct verbs_worker *worker)
{
	(void)pthread_mutex_lock(&worker->lock);
	worker->stop = true;
	(void)pthread_cond_signal(&worker->wake);
	(void)pthread_mutex_unlock(&worker->lock);
	(void)pthread_join(worker->thread, NULL);
	(void)pthread_cond_destroy(&worker->wake);
	(void)pthread_mutex_destroy(&worker->lock);
}

void verbs_worker_post(struct verbs_worker *worker, struct verbs_worker_queue *queue,
		       struct verbs_job *job)
{
	(void)pthread_mutex_lock(&worker->lock);
	if (list_empty(&queue->jobs)) {
		if (queue->used_ns < worker->used_ns)
			queue->used_ns = worker->used_ns;
		list_append(&worker->queues, &queue->link);
	}
	job->queue = queue;
	list_append(&queue->jobs, &job->link);
	(void)pthread_mutex_unlock(&worker->lock);
	/* after the lock is released, or the thread would wake only to wait for it */
	(void)pthread_cond_signal(&worker->wake);
}

bool verbs_worker_cancel(struct verbs_worker *worker, struct verbs_job *job)
{
	bool waits;

	(void)pthread_mutex_lock(&worker->lock);
	waits = !list_empty(&job->link);
	if (waits)
		job_remove(job);
	(void)pthread_mutex_unlock(&worker->lock);
	return waits;
}

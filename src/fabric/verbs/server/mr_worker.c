/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/mr_worker.h"

#include "base/thread.h"

static struct verbs_mr_job *job_wait(struct verbs_mr_worker *mr_worker)
{
	struct verbs_mr_job *job;

	(void)pthread_mutex_lock(&mr_worker->lock);
	while (list_empty(&mr_worker->jobs) && !mr_worker->stop)
		(void)pthread_cond_wait(&mr_worker->wake, &mr_worker->lock);
	job = list_first(&mr_worker->jobs, struct verbs_mr_job, link);
	if (job)
		list_remove(&job->link);
	(void)pthread_mutex_unlock(&mr_worker->lock);
	return job;
}

static void *mr_worker_run(void *arg)
{
	struct verbs_mr_worker *mr_worker = arg;
	struct verbs_mr_job *job;

	while ((job = job_wait(mr_worker))) {
		job->run(job);
		mailbox_post(mr_worker->mailbox, &job->done.link);
	}
	return NULL;
}

int verbs_mr_worker_start(struct verbs_mr_worker *mr_worker, struct mailbox *mailbox)
{
	int err;

	*mr_worker = (struct verbs_mr_worker){ .mailbox = mailbox };
	list_init(&mr_worker->jobs);
	/* default attributes cannot fail */
	(void)pthread_mutex_init(&mr_worker->lock, NULL);
	(void)pthread_cond_init(&mr_worker->wake, NULL);
	err = thread_start("rmem-register", mr_worker_run, mr_worker,
			   &mr_worker->thread);
	if (err) {
		(void)pthread_cond_destroy(&mr_worker->wake);
		(void)pthread_mutex_destroy(&mr_worker->lock);
	}
	return err;
}

void verbs_mr_worker_stop(struct verbs_mr_worker *mr_worker)
{
	(void)pthread_mutex_lock(&mr_worker->lock);
	mr_worker->stop = true;
	(void)pthread_cond_signal(&mr_worker->wake);
	(void)pthread_mutex_unlock(&mr_worker->lock);
	(void)pthread_join(mr_worker->thread, NULL);
	(void)pthread_cond_destroy(&mr_worker->wake);
	(void)pthread_mutex_destroy(&mr_worker->lock);
}

void verbs_mr_worker_post(struct verbs_mr_worker *mr_worker, struct verbs_mr_job *job)
{
	(void)pthread_mutex_lock(&mr_worker->lock);
	list_append(&mr_worker->jobs, &job->link);
	(void)pthread_mutex_unlock(&mr_worker->lock);
	/* after the lock is released, or the thread would wake only to wait for it */
	(void)pthread_cond_signal(&mr_worker->wake);
}

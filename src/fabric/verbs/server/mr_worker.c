/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/mr_worker.h"

#include "base/thread.h"

static struct verbs_job *job_wait(struct verbs_registrar *registrar)
{
	struct verbs_job *job;

	(void)pthread_mutex_lock(&registrar->lock);
	while (list_empty(&registrar->jobs) && !registrar->stop)
		(void)pthread_cond_wait(&registrar->wake, &registrar->lock);
	job = list_first(&registrar->jobs, struct verbs_job, link);
	if (job)
		list_remove(&job->link);
	(void)pthread_mutex_unlock(&registrar->lock);
	return job;
}

static void *registrar_run(void *arg)
{
	struct verbs_registrar *registrar = arg;
	struct verbs_job *job;

	while ((job = job_wait(registrar))) {
		job->run(job);
		mailbox_post(registrar->mailbox, &job->done.link);
	}
	return NULL;
}

int verbs_registrar_start(struct verbs_registrar *registrar, struct mailbox *mailbox)
{
	int err;

	*registrar = (struct verbs_registrar){ .mailbox = mailbox };
	list_init(&registrar->jobs);
	/* default attributes cannot fail */
	(void)pthread_mutex_init(&registrar->lock, NULL);
	(void)pthread_cond_init(&registrar->wake, NULL);
	err = thread_start("rmem-register", registrar_run, registrar,
			   &registrar->thread);
	if (err) {
		(void)pthread_cond_destroy(&registrar->wake);
		(void)pthread_mutex_destroy(&registrar->lock);
	}
	return err;
}

void verbs_registrar_stop(struct verbs_registrar *registrar)
{
	(void)pthread_mutex_lock(&registrar->lock);
	registrar->stop = true;
	(void)pthread_cond_signal(&registrar->wake);
	(void)pthread_mutex_unlock(&registrar->lock);
	(void)pthread_join(registrar->thread, NULL);
	(void)pthread_cond_destroy(&registrar->wake);
	(void)pthread_mutex_destroy(&registrar->lock);
}

void verbs_registrar_post(struct verbs_registrar *registrar, struct verbs_job *job)
{
	(void)pthread_mutex_lock(&registrar->lock);
	list_append(&registrar->jobs, &job->link);
	(void)pthread_mutex_unlock(&registrar->lock);
	/* or the thread would wake to wait for the lock */
	(void)pthread_cond_signal(&registrar->wake);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "simulate/threads.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "base/err.h"
#include "base/mailbox.h"
#include "base/thread.h"
#include "base/workers.h"
#include "rmemd/pool/worker.h"
#include "simulate/daemon.h"
#include "simulate/sim.h"

#define THREADS_MAX 16

struct thread {
	struct worker *worker;
	uint64_t due_ns; /* of its next job */
};

static struct thread threads[THREADS_MAX];
static unsigned n_threads;

int __wrap_worker_start(struct worker *worker, const char *name, int node,
			bool (*run)(struct worker *worker, struct list *job),
			struct mailbox *done);
void __wrap_worker_stop(struct worker *worker);
int __wrap_workers_start(struct workers *workers, const char *name, unsigned n_threads,
			 int nice, struct mailbox *mailbox);
void __wrap_workers_stop(struct workers *workers);
void __wrap_workers_post(struct workers *workers, struct workers_queue *queue,
			 struct workers_job *job);
bool __wrap_workers_cancel(struct workers *workers, struct workers_job *job);
int __wrap_thread_start(const char *name, void *(*run)(void *ctx), void *ctx,
			pthread_t *ret_thread);
int __wrap_pthread_join(pthread_t thread, void **ret_value);

int __wrap_worker_start(struct worker *worker, const char *name, int node,
			bool (*run)(struct worker *worker, struct list *job),
			struct mailbox *done)
{
	int err;

	if (strcmp(name, "rmemd-resize") == 0 &&
	    sim_now_ns < sim_faults.daemon_memory_ns && sim_chance(2))
		return err_set(-EAGAIN, "cannot start thread %s", name);
	if (n_threads == THREADS_MAX)
		sim_fail("more than %d threads", THREADS_MAX);
	worker->node = node;
	worker->run = run;
	worker->done = done;
	atomic_init(&worker->stop, false);
	list_init(&worker->stop_message);
	err = mailbox_init(&worker->jobs);
	if (err)
		return err;
	threads[n_threads++] = (struct thread){ worker, 0 };
	return 0;
}

void __wrap_worker_stop(struct worker *worker)
{
	struct list dropped = LIST_INIT(dropped);
	unsigned i = 0;

	while (threads[i].worker != worker)
		i++;
	atomic_store(&worker->stop, true);
	/* a job that was not begun leaves the list, as its owner frees it */
	mailbox_receive(&worker->jobs, &dropped);
	list_for_each_safe(job, &dropped)
		list_remove(job);
	mailbox_destroy(&worker->jobs);
	n_threads--;
	for (; i < n_threads; i++)
		threads[i] = threads[i + 1];
}

int __wrap_workers_start(struct workers *workers, const char *, unsigned, int,
			 struct mailbox *mailbox)
{
	*workers = (struct workers){ .mailbox = mailbox };
	return 0;
}

void __wrap_workers_stop(struct workers *)
{
}

/* A handshake is done at once; the daemon hears of it when it looks into its mailbox. */
void __wrap_workers_post(struct workers *workers, struct workers_queue *,
			 struct workers_job *job)
{
	job->run(job);
	mailbox_post(workers->mailbox, job->done);
}

bool __wrap_workers_cancel(struct workers *, struct workers_job *)
{
	return false;
}

/* Threads that only fill memory have done it at once. */
int __wrap_thread_start(const char *, void *(*run)(void *ctx), void *ctx,
			pthread_t *ret_thread)
{
	(void)run(ctx);
	*ret_thread = pthread_self();
	return 0;
}

int __wrap_pthread_join(pthread_t, void **)
{
	return 0;
}

static bool has_job(const struct thread *thread)
{
	return !list_empty(&thread->worker->jobs.messages);
}

static void thread_run(struct thread *thread)
{
	struct worker *worker = thread->worker;
	struct list jobs = LIST_INIT(jobs);
	struct list *job;

	mailbox_receive_some(&worker->jobs, &jobs, 1);
	job = jobs.next;
	thread->due_ns = sim_now_ns + sim_random(2000000);
	if (sim_now_ns < sim_faults.slow_scrub_ns)
		thread->due_ns += sim_random(1500) * SIM_MS;
	list_remove(job);
	if (worker->run(worker, job))
		mailbox_post(worker->done, job);
}

bool threads_step(void)
{
	struct thread *picked = NULL;
	unsigned n = 0;

	for (unsigned i = 0; i < n_threads; i++)
		if (has_job(&threads[i]) && threads[i].due_ns <= sim_now_ns &&
		    sim_chance(++n))
			picked = &threads[i];
	if (!picked)
		return false;
	thread_run(picked);
	return true;
}

bool threads_run(void)
{
	for (unsigned i = 0; i < n_threads; i++) {
		if (!has_job(&threads[i]))
			continue;
		thread_run(&threads[i]);
		return true;
	}
	return false;
}

uint64_t threads_due_ns(void)
{
	uint64_t due = SIM_NEVER;

	for (unsigned i = 0; i < n_threads; i++)
		if (has_job(&threads[i]) && threads[i].due_ns < due)
			due = threads[i].due_ns;
	return due;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/session/tasks.h"

#include <pthread.h>

#include "base/err.h"
#include "base/thread.h"

struct tasks {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct list waiting;
	unsigned n_waiting;
	unsigned n_threads;
	unsigned n_idle; /* threads that have started, and taken no task yet */
};

#define TASKS_INIT                                   \
	{                                            \
		.lock = PTHREAD_MUTEX_INITIALIZER,   \
		.changed = PTHREAD_COND_INITIALIZER, \
		.waiting = LIST_INIT(tasks.waiting), \
	}

static struct tasks tasks = TASKS_INIT;

void tasks_lock(void)
{
	(void)pthread_mutex_lock(&tasks.lock);
}

void tasks_unlock(void)
{
	(void)pthread_mutex_unlock(&tasks.lock);
}

bool task_take_back(struct task *task)
{
	bool waits = !list_empty(&task->link);

	list_remove(&task->link);
	tasks.n_waiting -= waits;
	return waits;
}

static void *tasks_run(void *arg)
{
	struct task *task;

	(void)arg;
	tasks_lock();
	tasks.n_idle--;
	while ((task = list_first(&tasks.waiting, struct task, link))) {
		(void)task_take_back(task);
		tasks_unlock();
		task->run(task);
		tasks_lock();
	}
	tasks.n_threads--;
	tasks_unlock();
	return NULL;
}

int task_post(struct task *task)
{
	pthread_t thread;
	int err = 0;

	list_append(&tasks.waiting, &task->link);
	tasks.n_waiting++;
	if (tasks.n_idle >= tasks.n_waiting || tasks.n_threads >= TASKS_THREADS_MAX)
		return 0;
	err = thread_start("rmem-task", tasks_run, NULL, &thread);
	if (!err) {
		(void)pthread_detach(thread);
		tasks.n_threads++;
		tasks.n_idle++;
	} else if (tasks.n_threads == 0) {
		(void)task_take_back(task);
		return err;
	}
	return 0;
}

void tasks_changed(void)
{
	(void)pthread_cond_broadcast(&tasks.changed);
}

void tasks_wait(void)
{
	(void)pthread_cond_wait(&tasks.changed, &tasks.lock);
}

void tasks_reset(void)
{
	const struct tasks none = TASKS_INIT;

	/* threads of the parent may wait for these objects: do not destroy them */
	tasks = none;
}

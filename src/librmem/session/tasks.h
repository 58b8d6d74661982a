/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads for what blocks in the kernel or in a library: they start when there is a task, up to 16,
 * and end when there is none.  Tasks begin in the order in which they were posted.  Threads: [any],
 * with the lock where that is said. */
#ifndef LIBRMEM_SESSION_TASKS_H
#define LIBRMEM_SESSION_TASKS_H

#include <stdbool.h>

#include "base/list.h"

#define TASKS_THREADS_MAX 16u

struct task {
	struct list link;               /* while it waits */
	void (*run)(struct task *task); /* [worker], without the lock */
};

/* Guards also what the owner of a task shares with its run().  Acquired after a session's lock. */
void tasks_lock(void);
void tasks_unlock(void);

/* Post a task.  Under the lock.  -EAGAIN, with text: there is no thread */
int task_post(struct task *task);
/* Take a task back that no thread has begun.  False: there is none.  Under the lock. */
bool task_take_back(struct task *task);
/* Something has changed for tasks_wait().  Under the lock. */
void tasks_changed(void);
/* Wait for a change.  Under the lock, which is released meanwhile. */
void tasks_wait(void);

/* In the child of a fork(), which the parent's thread with the lock has made: there are no threads
 * and no tasks; the lock is free. */
void tasks_reset(void);

#endif

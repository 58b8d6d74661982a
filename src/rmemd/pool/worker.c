/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/pool/worker.h"

#include <poll.h>
#include <stddef.h>

#include "base/node_cpus.h"
#include "base/thread.h"

static void *worker_run(void *ctx)
{
	struct worker *worker = ctx;
	struct pollfd pollfd = { .fd = mailbox_fd(&worker->jobs), .events = POLLIN };
	struct list jobs;

	list_init(&jobs);
	node_cpus_use(worker->node);
	while (!atomic_load(&worker->stop)) {
		/* cannot fail: all signals are blocked, and one descriptor is within the limits */
		(void)poll(&pollfd, 1, -1);
		mailbox_receive(&worker->jobs, &jobs);
		list_for_each_safe(job, &jobs) {
			/* the flag is set before the message of stop() arrives */
			if (atomic_load(&worker->stop) || !worker->run(worker, job))
				break;
			list_remove(job);
			mailbox_post(worker->done, job);
		}
	}
	return NULL;
}

int worker_start(struct worker *worker, const char *name, int node,
		 bool (*run)(struct worker *worker, struct list *job),
		 struct mailbox *done)
{
	int err;

	worker->node = node;
	worker->run = run;
	worker->done = done;
	atomic_init(&worker->stop, false);
	list_init(&worker->stop_message);
	err = mailbox_init(&worker->jobs);
	if (err)
		return err;
	err = thread_start(name, worker_run, worker, &worker->thread);
	if (err)
		mailbox_destroy(&worker->jobs);
	return err;
}

void worker_stop(struct worker *worker)
{
	atomic_store(&worker->stop, true);
	mailbox_post(&worker->jobs, &worker->stop_message);
	(void)pthread_join(worker->thread, NULL);
	mailbox_destroy(&worker->jobs);
}

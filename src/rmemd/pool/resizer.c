/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/pool/resizer.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/thread.h"
#include "rmemd/pool/host.h"

struct resizer {
	pthread_t thread;
	struct mailbox jobs;
	struct mailbox *done;
	struct list stop_message; /* wakes the thread for `stop` */
	atomic_bool stop;
};

static int job_grow(struct resize_job *job)
{
	_Atomic(uint64_t) room;
	uint64_t available;

	/* a kernel that does not tell must be believed when populating */
	if (host_available(-1, &available))
		available = UINT64_MAX;
	atomic_init(&room, available);
	job->work.room = &room;
	return memory_grow(&job->memory, job->bytes, job->node, &job->work, job->note,
			   sizeof(job->note));
}

static void job_run(struct resize_job *job)
{
	job->work.watch.stop = &job->stop;
	if (job->bytes < job->memory.bytes)
		job->err = memory_cut(&job->memory, job->bytes);
	else if (atomic_load(&job->stop))
		job->err = err_set(-ECANCELED, "told to stop");
	else
		job->err = job_grow(job);
	if (job->err)
		(void)snprintf(job->text, sizeof(job->text), "%s", err_text());
}

static void *resizer_run(void *ctx)
{
	struct resizer *resizer = ctx;
	struct pollfd pollfd = { .fd = mailbox_fd(&resizer->jobs), .events = POLLIN };
	struct list jobs;

	list_init(&jobs);
	while (!atomic_load(&resizer->stop)) {
		/* all signals are blocked, and one descriptor is within the limits */
		(void)poll(&pollfd, 1, -1);
		mailbox_take(&resizer->jobs, &jobs);
		list_for_each_safe(node, &jobs) {
			struct resize_job *job =
				container_of(node, struct resize_job, link);

			/* stop() has set the flag before its message can be here */
			if (atomic_load(&resizer->stop))
				break;
			list_remove(node);
			job_run(job);
			mailbox_post(resizer->done, node);
		}
	}
	return NULL;
}

int resizer_start(struct mailbox *done, struct resizer **ret_resizer)
{
	struct resizer *resizer = calloc(1, sizeof(*resizer));
	int err;

	if (!resizer)
		return err_errno(-ENOMEM, "resizing pools");
	resizer->done = done;
	list_init(&resizer->stop_message);
	err = mailbox_init(&resizer->jobs);
	if (err)
		goto err_free;
	err = thread_start("rmemd-resize", resizer_run, resizer, &resizer->thread);
	if (err)
		goto err_mailbox;
	*ret_resizer = resizer;
	return 0;

err_mailbox:
	mailbox_destroy(&resizer->jobs);
err_free:
	free(resizer);
	return err;
}

void resizer_stop(struct resizer *resizer)
{
	if (!resizer)
		return;
	atomic_store(&resizer->stop, true);
	mailbox_post(&resizer->jobs, &resizer->stop_message);
	(void)pthread_join(resizer->thread, NULL);
	mailbox_destroy(&resizer->jobs);
	free(resizer);
}

void resizer_post(struct resizer *resizer, struct resize_job *job)
{
	mailbox_post(&resizer->jobs, &job->link);
}

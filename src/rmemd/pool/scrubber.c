/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/pool/scrubber.h"

#include <errno.h>
#include <numa.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/thread.h"
#include "base/zero.h"
#include "rmemd/pool/host.h"

/* So much is zeroed between two looks at whether to stop, or to rest. */
#define SLICE_BYTES (UINT64_C(1) << 20)
/* Who rests looks so often whether he still has to. */
#define REST_NS 10000000
#define NS_PER_S 1e9

struct scrubber {
	int node;
	pthread_t thread;
	struct mailbox jobs;
	struct mailbox *done;
	struct list stop_message; /* wakes the thread for `stop` */
	atomic_bool stop, hurry;
	_Atomic uint64_t rate;
	/* The last slice: when it began, and its size.  The thread's. */
	uint64_t slice_ns, slice_bytes;
};

static bool rests(const struct scrubber *scrubber)
{
	uint64_t rate = atomic_load(&scrubber->rate);
	double past_s = (double)(clock_now_ns() - scrubber->slice_ns) / NS_PER_S;

	return rate > 0 && !atomic_load(&scrubber->hurry) &&
	       !atomic_load(&scrubber->stop) &&
	       past_s * (double)rate < (double)scrubber->slice_bytes;
}

/* Until the rate allows another slice. */
static void rest(struct scrubber *scrubber, uint64_t slice_bytes)
{
	const struct timespec pause = { .tv_nsec = REST_NS };

	while (rests(scrubber))
		(void)nanosleep(&pause, NULL);
	scrubber->slice_ns = clock_now_ns();
	scrubber->slice_bytes = slice_bytes;
}

static bool job_run(struct scrubber *scrubber, const struct scrub_job *job)
{
	char *addr = job->addr;

	for (uint64_t offset = 0; offset < job->bytes; offset += SLICE_BYTES) {
		uint64_t bytes = job->bytes - offset;

		if (bytes > SLICE_BYTES)
			bytes = SLICE_BYTES;
		rest(scrubber, bytes);
		if (atomic_load(&scrubber->stop))
			return false;
		zero_stream(addr + offset, bytes);
	}
	return true;
}

/* The mailbox's descriptor does not block, so wait for it to be readable. */
static void jobs_await(struct scrubber *scrubber, struct list *jobs)
{
	struct pollfd pollfd = { .fd = mailbox_fd(&scrubber->jobs), .events = POLLIN };

	/* all signals are blocked, and one descriptor is always within the limits */
	(void)poll(&pollfd, 1, -1);
	mailbox_take(&scrubber->jobs, jobs);
}

static void *scrubber_run(void *ctx)
{
	struct scrubber *scrubber = ctx;
	struct list jobs;

	list_init(&jobs);
	/* farther CPUs only take longer */
	if (scrubber->node >= 0 && host_has_nodes())
		(void)numa_run_on_node(scrubber->node);
	while (!atomic_load(&scrubber->stop)) {
		jobs_await(scrubber, &jobs);
		list_for_each_safe(node, &jobs) {
			/* stop() has set the flag before its message can be here */
			if (atomic_load(&scrubber->stop) ||
			    !job_run(scrubber,
				     container_of(node, struct scrub_job, link)))
				break;
			list_remove(node);
			mailbox_post(scrubber->done, node);
		}
	}
	return NULL;
}

int scrubber_start(int node, struct mailbox *done, struct scrubber **ret_scrubber)
{
	struct scrubber *scrubber = calloc(1, sizeof(*scrubber));
	char name[32];
	int err;

	if (!scrubber)
		return err_errno(-ENOMEM, "scrubber");
	scrubber->node = node;
	scrubber->done = done;
	list_init(&scrubber->stop_message);
	err = mailbox_init(&scrubber->jobs);
	if (err)
		goto err_free;
	(void)snprintf(name, sizeof(name), node < 0 ? "rmemd-scrub" : "rmemd-scrub%d",
		       node);
	err = thread_start(name, scrubber_run, scrubber, &scrubber->thread);
	if (err)
		goto err_mailbox;
	*ret_scrubber = scrubber;
	return 0;

err_mailbox:
	mailbox_destroy(&scrubber->jobs);
err_free:
	free(scrubber);
	return err;
}

void scrubber_stop(struct scrubber *scrubber)
{
	if (!scrubber)
		return;
	atomic_store(&scrubber->stop, true);
	mailbox_post(&scrubber->jobs, &scrubber->stop_message);
	(void)pthread_join(scrubber->thread, NULL);
	mailbox_destroy(&scrubber->jobs);
	free(scrubber);
}

void scrubber_post(struct scrubber *scrubber, struct scrub_job *job)
{
	mailbox_post(&scrubber->jobs, &job->link);
}

void scrubber_set_rate(struct scrubber *scrubber, uint64_t rate)
{
	atomic_store(&scrubber->rate, rate);
}

void scrubber_hurry(struct scrubber *scrubber, bool hurry)
{
	atomic_store(&scrubber->hurry, hurry);
}

int scrubber_node(const struct scrubber *scrubber)
{
	return scrubber->node;
}

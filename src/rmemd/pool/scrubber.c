/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/pool/scrubber.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/zero.h"
#include "rmemd/pool/worker.h"

/* The number of bytes zeroed between two looks at whether to stop, or to rest. */
#define SLICE_BYTES (UINT64_C(1) << 20)
/* How often a resting scrubber looks whether it still has to rest. */
#define REST_NS 10000000
#define NS_PER_S 1e9

struct scrubber {
	struct worker worker;
	atomic_bool hurry;
	_Atomic uint64_t rate;
	/* The last slice: when it began, and its size.  The thread's. */
	uint64_t slice_ns, slice_bytes;
};

static bool rests(const struct scrubber *scrubber)
{
	uint64_t rate = atomic_load(&scrubber->rate);
	double past_s = (double)(clock_now_ns() - scrubber->slice_ns) / NS_PER_S;

	return rate > 0 && !atomic_load(&scrubber->hurry) &&
	       !atomic_load(&scrubber->worker.stop) &&
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

static bool job_run(struct worker *worker, struct list *node)
{
	const struct scrub_job *job = container_of(node, struct scrub_job, link);
	struct scrubber *scrubber = container_of(worker, struct scrubber, worker);
	char *addr = job->addr;

	for (uint64_t offset = 0; offset < job->bytes; offset += SLICE_BYTES) {
		uint64_t bytes = job->bytes - offset;

		if (bytes > SLICE_BYTES)
			bytes = SLICE_BYTES;
		rest(scrubber, bytes);
		if (atomic_load(&worker->stop))
			return false;
		zero_stream(addr + offset, bytes);
	}
	return true;
}

int scrubber_start(int node, struct mailbox *done, struct scrubber **ret_scrubber)
{
	struct scrubber *scrubber = calloc(1, sizeof(*scrubber));
	char name[32];
	int err;

	if (!scrubber)
		return err_errno(-ENOMEM, "scrubber");
	(void)snprintf(name, sizeof(name), node < 0 ? "rmemd-scrub" : "rmemd-scrub%d",
		       node);
	err = worker_start(&scrubber->worker, name, node, job_run, done);
	if (err) {
		free(scrubber);
		return err;
	}
	*ret_scrubber = scrubber;
	return 0;
}

void scrubber_stop(struct scrubber *scrubber)
{
	if (!scrubber)
		return;
	worker_stop(&scrubber->worker);
	free(scrubber);
}

void scrubber_post(struct scrubber *scrubber, struct scrub_job *job)
{
	worker_post(&scrubber->worker, &job->link);
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
	return scrubber->worker.node;
}

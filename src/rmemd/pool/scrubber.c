/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/pool/scrubber.h"

#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/zero.h"

/* The number of bytes zeroed between two checks whether to stop or to rest. */
#define SLICE_BYTES (UINT64_C(1) << 20)
/* How often a resting scrubber checks whether it still has to rest. */
#define REST_NS 10000000
#define NS_PER_S 1e9

static bool must_rest(const struct scrubber *scrubber)
{
	uint64_t rate = atomic_load(&scrubber->rate);
	double past_s = (double)(clock_now_ns() - scrubber->slice_ns) / NS_PER_S;

	return rate > 0 && !atomic_load(&scrubber->hurry) &&
	       !atomic_load(&scrubber->worker.stop) &&
	       past_s * (double)rate < (double)scrubber->slice_bytes;
}

/* Rest until the rate allows another slice. */
static void rest_if_needed(struct scrubber *scrubber, uint64_t slice_bytes)
{
	const struct timespec pause = { .tv_nsec = REST_NS };

	while (must_rest(scrubber))
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
		rest_if_needed(scrubber, bytes);
		if (atomic_load(&worker->stop))
			return false;
		zero_stream(addr + offset, bytes);
	}
	return true;
}

int scrubber_start(struct scrubber *scrubber, int node, struct mailbox *done)
{
	char name[32];

	(void)snprintf(name, sizeof(name), node < 0 ? "rmemd-scrub" : "rmemd-scrub%d",
		       node);
	return worker_start(&scrubber->worker, name, node, job_run, done);
}

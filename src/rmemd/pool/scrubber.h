/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread that zeroes memory on one NUMA node, at a limited rate.  It holds no lock meanwhile. */
#ifndef RMEMD_POOL_SCRUBBER_H
#define RMEMD_POOL_SCRUBBER_H

#include <stdint.h>

#include "rmemd/pool/worker.h"

/* A block is zeroed in pieces of this size, each of which is lent again without waiting for the
 * rest: some 10 ms of work. */
#define SCRUB_PIECE_BYTES (UINT64_C(64) << 20)

/* One range to zero, in whole pages. */
struct scrub_job {
	struct list link; /* in worker.jobs */
	void *addr;
	uint64_t bytes;
};

struct scrubber {
	struct worker worker;
	_Atomic uint64_t rate; /* limit in bytes a second; 0: none */
	atomic_bool hurry;     /* a request waits for clean memory: ignore the rate */
	/* [thread] when the last slice began, and its size */
	uint64_t slice_ns, slice_bytes;
};

/* Zeroed ranges are posted to `done`, which is borrowed.  node -1: run anywhere.  worker_stop()
 * drops jobs not begun and cuts short the one under way.
 *   -EAGAIN, -EMFILE, -ENOMEM  with text */
int scrubber_start(struct scrubber *scrubber, int node, struct mailbox *done);

#endif

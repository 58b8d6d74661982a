/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread that zeroes memory on one NUMA node, no faster than it is told.  It holds no lock
 * while it does. */
#ifndef RMEMD_POOL_SCRUBBER_H
#define RMEMD_POOL_SCRUBBER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/mailbox.h"

struct scrubber;

/* One range to zero, in whole pages.  Whoever posts it keeps it alive until it is back. */
struct scrub_job {
	struct list link;
	void *addr;
	uint64_t bytes;
};

/* Zeroed ranges are posted to `done`, which is borrowed.  node -1: run anywhere.
 *   -EAGAIN, -EMFILE, -ENOMEM  with text */
int scrubber_start(int node, struct mailbox *done, struct scrubber **ret_scrubber);
/* Join; jobs not begun are dropped, the one under way is cut short.  NULL: nothing. */
void scrubber_stop(struct scrubber *scrubber);

/* [any] */
void scrubber_post(struct scrubber *scrubber, struct scrub_job *job);
/* Bytes a second at most, from now on; 0: as many as it can.  [any] */
void scrubber_set_rate(struct scrubber *scrubber, uint64_t rate);
/* Somebody waits for clean memory: until told otherwise the rate does not count.  [any] */
void scrubber_hurry(struct scrubber *scrubber, bool hurry);
int scrubber_node(const struct scrubber *scrubber);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread that zeroes memory on one NUMA node.  It holds no lock while it does. */
#ifndef RMEMD_POOL_SCRUBBER_H
#define RMEMD_POOL_SCRUBBER_H

#include <stdint.h>

#include "base/mailbox.h"

struct scrubber;

/* One range to zero.  Whoever posts it keeps it alive until it is back. */
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
int scrubber_node(const struct scrubber *scrubber);

#endif

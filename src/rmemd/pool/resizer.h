/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread that makes pools longer and shorter, one after the other: to populate, and to give
 * back, takes the kernel minutes where there is much of it. */
#ifndef RMEMD_POOL_RESIZER_H
#define RMEMD_POOL_RESIZER_H

#include "base/mailbox.h"
#include "rmemd/pool/memory.h"

#define RESIZE_NOTE_BYTES 512
#define RESIZE_TEXT_BYTES 512

struct resizer;

/* Whoever posts it keeps it alive until it is back. */
struct resize_job {
	struct list link;
	struct memory memory; /* a copy: as it is then, when it is back */
	int node;             /* that it is bound to, or POOL_NODE_ANY */
	uint64_t bytes;       /* that it is to have, whole pages */
	struct memory_work work;
	atomic_bool stop; /* growing is given up */
	int err;          /* of memory_grow() or memory_cut() */
	char text[RESIZE_TEXT_BYTES];
	char note[RESIZE_NOTE_BYTES]; /* of memory_grow() */
};

/* What is done is posted to `done`, which is borrowed.  -EAGAIN, -EMFILE, -ENOMEM, with text */
int resizer_start(struct mailbox *done, struct resizer **ret_resizer);
/* Join, when the job under way is done, or stopped; those not begun are dropped.
 * NULL: nothing. */
void resizer_stop(struct resizer *resizer);

/* [any] */
void resizer_post(struct resizer *resizer, struct resize_job *job);

#endif

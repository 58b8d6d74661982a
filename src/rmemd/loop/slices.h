/* SPDX-License-Identifier: BSD-3-Clause */
/* Work of the main loop that may be too long for one turn: it goes on in slices, round robin over
 * the tenants, until the turn is over, and then in the next turn.  Threads: [loop]. */
#ifndef RMEMD_LOOP_SLICES_H
#define RMEMD_LOOP_SLICES_H

#include <stdbool.h>

#include "base/list.h"
#include "rmemd/loop/turn.h"

/* The work of one tenant, which is served in turn with the others. */
struct slice_queue {
	struct list link; /* in slices->queues, while it has work */
	struct list work;
};

struct slice_work {
	/* Do a part that takes a fraction of a millisecond.  True: there is more.  False: it is
	 * done, and may be freed, as may its queue. */
	bool (*run)(struct slice_work *work);
	struct list link;          /* in queue->work */
	struct slice_queue *queue; /* while it waits */
};

struct slices {
	struct turn *turn;
	struct list queues; /* with work */
	const struct slice_work *running;
	/* slices_run() is to be called in the next turn. */
	void (*wake)(void *ctx);
	void *ctx;
};

void slices_init(struct slices *slices, struct turn *turn, void (*wake)(void *ctx),
		 void *ctx);
void slice_queue_init(struct slice_queue *queue);
void slice_work_init(struct slice_work *work, bool (*run)(struct slice_work *work));

/* Whether other work waits or runs, or the turn is over: then new work waits too. */
bool slices_busy(const struct slices *slices);
/* Run the work now unless slices_busy(), and what is left of it in slices.  No effect if it waits
 * or runs already.  The queue must outlive the work. */
void slices_start(struct slices *slices, struct slice_queue *queue,
		  struct slice_work *work);
/* As slices_start(), but the work waits in any case. */
void slices_add(struct slices *slices, struct slice_queue *queue,
		struct slice_work *work);
/* Forget the work; no effect if it does not wait. */
void slices_remove(struct slice_work *work);
bool slice_waits(const struct slice_work *work);

/* Run one slice of each tenant in turn, at least one slice, until the turn is over. */
void slices_run(struct slices *slices);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Work of the main loop that may be too long for one turn: it goes on in slices until the turn is
 * over, and then in the next turn.  Each slice is of the queue that has used the least time: so
 * tenants get equal shares, whatever a slice of theirs takes, and none starves.
 * Threads: [loop]. */
#ifndef RMEMD_LOOP_SLICES_H
#define RMEMD_LOOP_SLICES_H

#include <stdbool.h>

#include "base/list.h"
#include "base/tree.h"
#include "rmemd/loop/turn.h"

/* How often the time of a queue counts.  Those that have not shown who they are share one queue,
 * and get an eighth of what a tenant gets. */
#define SLICE_TENANT 1
#define SLICE_STRANGERS 8

struct slices;

/* The work of one tenant, or of others that share a queue. */
struct slice_queue {
	struct slices *slices; /* NULL: it had no work yet */
	unsigned weight;
	uint64_t used_ns; /* of the loop, as often as it counts */
	struct list work;
	/* node of slices->queues, while it has work and is not served */
	struct tree_node node;
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
	struct tree queues; /* with work, by used_ns and by when they were added */
	uint64_t n_added;   /* to the tree */
	uint64_t used_ns;   /* of the queue served last: an idle one saves up no time */
	struct slice_queue *served; /* queue of the work that runs, if it lives */
	const struct slice_work *running;
	bool woken; /* wake() was called, or slices_run() runs */
	/* slices_run() is to be called in the next turn. */
	void (*wake)(void *ctx);
	void *ctx;
};

void slices_init(struct slices *slices, struct turn *turn, void (*wake)(void *ctx),
		 void *ctx);
void slice_queue_init(struct slice_queue *queue, unsigned weight);
/* Its work has ended or was removed: it may be freed, also by its own work. */
void slice_queue_end(struct slice_queue *queue);
void slice_work_init(struct slice_work *work, bool (*run)(struct slice_work *work));

/* Whether other work waits or runs, or the turn is over: then new work waits too. */
bool slices_busy(const struct slices *slices);
/* Whether work waits. */
bool slices_wait(const struct slices *slices);
/* Run the work now, unless slices_busy() or its queue has lately used more time than others; and
 * what is left of it in slices.  No effect if it waits or runs already.  The queue must outlive the
 * work. */
void slices_start(struct slices *slices, struct slice_queue *queue,
		  struct slice_work *work);
/* As slices_start(), but the work waits in any case. */
void slices_add(struct slices *slices, struct slice_queue *queue,
		struct slice_work *work);
/* Forget the work; no effect if it does not wait. */
void slices_remove(struct slice_work *work);
bool slice_waits(const struct slice_work *work);

/* Run slices, at least one, until the turn is over. */
void slices_run(struct slices *slices);

#endif

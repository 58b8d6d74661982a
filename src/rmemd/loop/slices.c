/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/loop/slices.h"

#include <assert.h>
#include <stddef.h>

#include "base/clock.h"

/* The time that each slice counts for at least: queues take turns in work that needs none. */
#define SLICE_NS 1000
/* A queue that is so far ahead of the one served last does not run work at once: the events of
 * others in this turn are not known yet. */
#define AHEAD_NS 200000

void slices_init(struct slices *slices, struct turn *turn, void (*wake)(void *ctx),
		 void *ctx)
{
	*slices = (struct slices){ .turn = turn, .wake = wake, .ctx = ctx };
}

void slice_queue_init(struct slice_queue *queue, unsigned weight)
{
	*queue = (struct slice_queue){ .weight = weight };
	list_init(&queue->work);
}

void slice_queue_end(struct slice_queue *queue)
{
	if (queue->slices && queue->slices->served == queue)
		queue->slices->served = NULL;
}

void slice_work_init(struct slice_work *work, bool (*run)(struct slice_work *work))
{
	work->run = run;
	list_init(&work->link);
}

bool slices_wait(const struct slices *slices)
{
	return slices->queues.root;
}

bool slices_busy(const struct slices *slices)
{
	/* it may end the turn */
	bool over = turn_over(slices->turn);

	return over || slices->running || slices_wait(slices);
}

static void slices_wake(struct slices *slices)
{
	if (slices->woken)
		return;
	slices->woken = true;
	slices->wake(slices->ctx);
}

/* The queue takes part: the time for which it had no work is not kept for it. */
static void queue_join(struct slices *slices, struct slice_queue *queue)
{
	queue->slices = slices;
	if (queue->used_ns < slices->used_ns)
		queue->used_ns = slices->used_ns;
}

static void queue_wait(struct slices *slices, struct slice_queue *queue)
{
	tree_insert(&slices->queues, &queue->node, queue->used_ns, ++slices->n_added);
	slices_wake(slices);
}

void slices_add(struct slices *slices, struct slice_queue *queue,
		struct slice_work *work)
{
	bool waits = !list_empty(&queue->work) || queue == slices->served;

	if (slice_waits(work) || work == slices->running)
		return;
	work->queue = queue;
	list_append(&queue->work, &work->link);
	if (waits)
		return;
	queue_join(slices, queue);
	queue_wait(slices, queue);
}

/* Run a slice of a queue that is not in the tree. */
static void queue_serve(struct slices *slices, struct slice_queue *queue,
			struct slice_work *work)
{
	uint64_t begin_ns = clock_now_ns();
	bool more;

	assert(!slices->served && !slices->running);
	slices->served = queue;
	slices->running = work;
	more = work->run(work);
	slices->running = NULL;
	/* the work may have freed it */
	if (!slices->served)
		return;
	slices->served = NULL;
	queue->used_ns += (clock_now_ns() - begin_ns + SLICE_NS) * queue->weight;
	if (more)
		list_append(&queue->work, &work->link);
	if (!list_empty(&queue->work))
		queue_wait(slices, queue);
}

void slices_start(struct slices *slices, struct slice_queue *queue,
		  struct slice_work *work)
{
	if (slice_waits(work) || work == slices->running)
		return;
	queue_join(slices, queue);
	work->queue = queue;
	if (slices_busy(slices) || queue->used_ns - slices->used_ns >= AHEAD_NS)
		slices_add(slices, queue, work);
	else
		queue_serve(slices, queue, work);
}

void slices_remove(struct slice_work *work)
{
	struct slice_queue *queue = work->queue;

	if (!slice_waits(work))
		return;
	list_remove(&work->link);
	if (list_empty(&queue->work) && queue != queue->slices->served)
		tree_remove(&queue->slices->queues, &queue->node);
}

bool slice_waits(const struct slice_work *work)
{
	return !list_empty(&work->link);
}

/* Run a slice of the queue that has used the least time. */
static void run_next(struct slices *slices)
{
	struct slice_queue *queue = container_of(tree_above(&slices->queues, 0, 0),
						 struct slice_queue, node);
	struct slice_work *work = list_first(&queue->work, struct slice_work, link);

	assert(work && slices->used_ns <= queue->used_ns);
	tree_remove(&slices->queues, &queue->node);
	list_remove(&work->link);
	slices->used_ns = queue->used_ns;
	queue_serve(slices, queue, work);
}

void slices_run(struct slices *slices)
{
	slices->woken = true;
	while (slices_wait(slices)) {
		run_next(slices);
		if (turn_over(slices->turn))
			break;
	}
	slices->woken = false;
	if (slices_wait(slices))
		slices_wake(slices);
}

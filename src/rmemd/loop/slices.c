/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/loop/slices.h"

#include <stddef.h>

void slices_init(struct slices *slices, struct turn *turn, void (*wake)(void *ctx),
		 void *ctx)
{
	*slices = (struct slices){ .turn = turn, .wake = wake, .ctx = ctx };
	list_init(&slices->queues);
}

void slice_queue_init(struct slice_queue *queue)
{
	list_init(&queue->link);
	list_init(&queue->work);
}

void slice_work_init(struct slice_work *work, bool (*run)(struct slice_work *work))
{
	work->run = run;
	list_init(&work->link);
}

bool slices_busy(const struct slices *slices)
{
	/* it may end the turn */
	bool over = turn_over(slices->turn);

	return over || slices->running || !list_empty(&slices->queues);
}

static void work_append(struct slices *slices, struct slice_queue *queue,
			struct slice_work *work)
{
	work->queue = queue;
	list_append(&queue->work, &work->link);
	if (list_empty(&queue->link))
		list_append(&slices->queues, &queue->link);
}

void slices_add(struct slices *slices, struct slice_queue *queue,
		struct slice_work *work)
{
	bool idle = list_empty(&slices->queues);

	if (slice_waits(work) || work == slices->running)
		return;
	work_append(slices, queue, work);
	if (idle)
		slices->wake(slices->ctx);
}

/* Whether there is more; if not, the work may be freed. */
static bool work_run(struct slices *slices, struct slice_work *work)
{
	bool more;

	slices->running = work;
	more = work->run(work);
	slices->running = NULL;
	return more;
}

void slices_start(struct slices *slices, struct slice_queue *queue,
		  struct slice_work *work)
{
	if (slice_waits(work) || work == slices->running)
		return;
	if (slices_busy(slices) || work_run(slices, work))
		slices_add(slices, queue, work);
}

void slices_remove(struct slice_work *work)
{
	if (!slice_waits(work))
		return;
	list_remove(&work->link);
	if (list_empty(&work->queue->work))
		list_remove(&work->queue->link);
}

bool slice_waits(const struct slice_work *work)
{
	return !list_empty(&work->link);
}

/* Run a slice of the queue that is next. */
static void run_next(struct slices *slices)
{
	struct slice_queue *queue =
		list_first(&slices->queues, struct slice_queue, link);
	struct slice_work *work = list_first(&queue->work, struct slice_work, link);

	list_remove(&queue->link);
	list_remove(&work->link);
	if (!list_empty(&queue->work))
		list_append(&slices->queues, &queue->link);
	if (work_run(slices, work))
		work_append(slices, queue, work);
}

void slices_run(struct slices *slices)
{
	/* the turn's work begins here, unless others have begun it */
	(void)turn_over(slices->turn);
	while (!list_empty(&slices->queues)) {
		run_next(slices);
		if (turn_over(slices->turn))
			break;
	}
	if (!list_empty(&slices->queues))
		slices->wake(slices->ctx);
}

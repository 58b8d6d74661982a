/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/queue/runs.h"

/* A struct op for an operation of a run, whose only fragment is on a connection. */
static struct fragment *op_make(struct rmem_queue *queue, const struct posted_run *run,
				const struct posted_op *posted)
{
	struct op *op = optable_acquire(&queue->table);

	op->todo = (struct rmem_op){ .opcode = 0 };
	memcpy(&op->todo, &run->head, sizeof(run->head));
	memcpy(&op->todo.offset, posted, sizeof(*posted));
	op->inflight = run->inflight;
	op->deadline_ns = run->deadline_ns;
	op->state = OP_POSTED;
	op->started = true;
	op->fence = false;
	op->fragments = 1;
	op->in_flight = 1;
	op->own.generation = run->generation;
	op->own.state = FRAGMENT_POSTED;
	op->own.bytes = (uint32_t)posted->bytes;
	return &op->own;
}

struct fragment *runs_pop(struct rmem_queue *queue, struct send_side *side)
{
	const struct posted_run *run = channel_set_run(&queue->channels, side, 0);
	struct fragment *fragment = run->fragment;

	if (!fragment)
		fragment = op_make(queue, run, &side->posted[side->first]);
	channel_set_pop(&queue->channels, side, 1);
	return fragment;
}

void runs_split(struct rmem_queue *queue, struct send_side *side)
{
	const struct channel_set *set = &queue->channels;
	unsigned k = side->in_flight;

	/* from the last on: the kth operation's place among the runs is not before its run's */
	while (side->n_runs > 0) {
		struct posted_run run = *channel_set_run(set, side, --side->n_runs);

		for (; run.n > 0; run.n--) {
			struct fragment *fragment = run.fragment;

			k--;
			if (!fragment)
				fragment = op_make(
					queue, &run,
					&side->posted[(side->first + k) & set->mask]);
			*channel_set_run(set, side, k) =
				(struct posted_run){ .fragment = fragment, .n = 1 };
		}
	}
	side->n_runs = side->in_flight;
}

void runs_split_all(struct rmem_queue *queue)
{
	sides_for_each(side, &queue->channels)
		runs_split(queue, side);
}

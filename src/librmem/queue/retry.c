/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/queue/retry.h"

#include <errno.h>

#include "librmem/queue/inband.h"
#include "librmem/lease/lease.h"
#include "librmem/session/session.h"
#include "librmem/queue/complete.h"

/* How often a fragment is posted again after the server gave other keys. */
#define REFUSALS_MAX 4

/* The server has been asked about the fragment's lease. */
static void doubt_resolve(struct rmem_queue *queue, struct fragment *fragment)
{
	struct op *op = fragment->op;
	const struct attachment *att =
		atomic_load_explicit(&op->todo.lease->attachment, memory_order_acquire);

	if (inband_stale(op)) {
		complete_error(queue, op, -ESTALE, "the lease has ended", 0);
	} else if (++fragment->refusals > REFUSALS_MAX ||
		   (fragment->att == att && op->todo.opcode != RMEM_OP_COPY)) {
		complete_error(queue, op, -EACCES, "the server refuses the access", 0);
	} else {
		list_remove(&fragment->node);
		fragment_again(&queue->table, fragment);
	}
	complete_check(queue, op);
}

static bool doubt_over(const struct fragment *fragment)
{
	const struct op *op = fragment->op;

	return inband_stale(op) ||
	       (lease_verified(op->todo.lease, fragment->verify) &&
		(op->todo.opcode != RMEM_OP_COPY ||
		 lease_verified(op->inband.source.lease, fragment->verify_source)));
}

/* Settling an operation takes others of its fragments out of the list, so it is always the first
 * that is looked at. */
static void doubts_resolve(struct rmem_queue *queue)
{
	struct list due = LIST_INIT(due);
	struct fragment *fragment;

	list_splice(&due, &queue->table.doubt);
	while ((fragment = list_first(&due, struct fragment, node))) {
		if (doubt_over(fragment)) {
			doubt_resolve(queue, fragment);
			continue;
		}
		list_remove(&fragment->node);
		list_append(&queue->table.doubt, &fragment->node);
	}
}

/* The channel that the fragment was lost with is dead, or nothing can be known of it. */
static void lost_resolve(struct rmem_queue *queue, struct fragment *fragment,
			 int burial)
{
	struct op *op = fragment->op;

	if (burial == PEER_END_UNKNOWN) {
		/* a session that has ended takes the question with it */
		if (session_usable(queue->session, queue->now_ns) == -ESTALE)
			complete_error(queue, op, -ESTALE, "the session has ended", 0);
		else
			complete_error(queue, op, -ECONNRESET, "its channel died", 0);
		complete_check(queue, op);
		return;
	}
	/* where refusals look like lost connections, other keys may be what it takes */
	if (fragment->losses > 1)
		(void)lease_verify(op->todo.lease);
	list_remove(&fragment->node);
	fragment_again(&queue->table, fragment);
}

static void losts_resolve(struct rmem_queue *queue)
{
	struct list due = LIST_INIT(due);
	struct fragment *fragment;

	list_splice(&due, &queue->table.lost);
	while ((fragment = list_first(&due, struct fragment, node))) {
		int burial = atomic_load_explicit(&fragment->channel->peer_end,
						  memory_order_acquire);

		if (burial != PEER_END_OPEN) {
			lost_resolve(queue, fragment, burial);
			continue;
		}
		list_remove(&fragment->node);
		list_append(&queue->table.lost, &fragment->node);
	}
}

void retry_resolve(struct rmem_queue *queue)
{
	doubts_resolve(queue);
	losts_resolve(queue);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/limbo.h"

#include <errno.h>

#include "librmem/inband.h"
#include "librmem/lease.h"
#include "librmem/session.h"
#include "librmem/settle.h"

/* How often a piece is posted again after the server gave other keys. */
#define REFUSALS_MAX 4

void limbo_doubt(struct rmem_queue *queue, struct piece *piece)
{
	queue_unbounce(queue, piece);
	piece->state = PIECE_DOUBT;
	piece->verify = lease_verify(piece->op->todo.lease);
	if (piece->op->todo.opcode == RMEM_OP_COPY)
		piece->verify_source = lease_verify(piece->op->inband.source.lease);
	list_append(&queue->table.doubt, &piece->node);
}

void limbo_lose(struct rmem_queue *queue, struct channel_slot *slot,
		struct piece *piece)
{
	queue_unbounce(queue, piece);
	piece->state = PIECE_LOST;
	piece->slot = slot;
	piece->losses++;
	list_append(&queue->table.lost, &piece->node);
}

/* The server has been asked about the piece's lease. */
static void doubt_resolve(struct rmem_queue *queue, struct piece *piece)
{
	struct op *op = piece->op;
	const struct attachment *att =
		atomic_load_explicit(&op->todo.lease->attachment, memory_order_acquire);

	if (inband_stale(op)) {
		settle_error(queue, op, -ESTALE, "the lease has ended", 0);
	} else if (++piece->refusals > REFUSALS_MAX ||
		   (piece->att == att && op->todo.opcode != RMEM_OP_COPY)) {
		settle_error(queue, op, -EACCES, "the server refuses the access", 0);
	} else {
		list_remove(&piece->node);
		piece_again(&queue->table, piece);
	}
	settle(queue, op);
}

static bool doubt_over(const struct piece *piece)
{
	const struct op *op = piece->op;

	return inband_stale(op) ||
	       (lease_verified(op->todo.lease, piece->verify) &&
		(op->todo.opcode != RMEM_OP_COPY ||
		 lease_verified(op->inband.source.lease, piece->verify_source)));
}

/* Settling an operation takes others of its pieces out of the list, so it is always the first
 * that is looked at. */
static void doubts_resolve(struct rmem_queue *queue)
{
	struct list due = LIST_INIT(due);
	struct piece *piece;

	list_splice(&due, &queue->table.doubt);
	while ((piece = list_first(&due, struct piece, node))) {
		if (doubt_over(piece)) {
			doubt_resolve(queue, piece);
			continue;
		}
		list_remove(&piece->node);
		list_append(&queue->table.doubt, &piece->node);
	}
}

/* The channel that the piece was lost with is dead, or nothing can be known of it. */
static void lost_resolve(struct rmem_queue *queue, struct piece *piece, int burial)
{
	struct op *op = piece->op;

	if (burial == BURIAL_FAILED) {
		/* a session that has ended takes the question with it */
		if (session_usable(queue->session, queue->now_ns) == -ESTALE)
			settle_error(queue, op, -ESTALE, "the session has ended", 0);
		else
			settle_error(queue, op, -ECONNRESET, "its channel died", 0);
		settle(queue, op);
		return;
	}
	/* where refusals look like lost connections, other keys may be what it takes */
	if (piece->losses > 1)
		(void)lease_verify(op->todo.lease);
	list_remove(&piece->node);
	piece_again(&queue->table, piece);
}

static void losts_resolve(struct rmem_queue *queue)
{
	struct list due = LIST_INIT(due);
	struct piece *piece;

	list_splice(&due, &queue->table.lost);
	while ((piece = list_first(&due, struct piece, node))) {
		int burial = atomic_load_explicit(&piece->slot->burial,
						  memory_order_acquire);

		if (burial != BURIAL_DUE) {
			lost_resolve(queue, piece, burial);
			continue;
		}
		list_remove(&piece->node);
		list_append(&queue->table.lost, &piece->node);
	}
}

void limbo_resolve(struct rmem_queue *queue)
{
	doubts_resolve(queue);
	losts_resolve(queue);
}

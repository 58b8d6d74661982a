/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/op.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "librmem/lease.h"

const struct op_kind op_kinds[] = {
	[RMEM_OP_READ] = { "read", FABRIC_READ, RMEM_READ },
	[RMEM_OP_WRITE] = { "write", FABRIC_WRITE, RMEM_WRITE },
	[RMEM_OP_CAS] = { "compare-and-swap", FABRIC_CAS, RMEM_READ | RMEM_WRITE },
	[RMEM_OP_FETCH_ADD] = { "fetch-and-add", FABRIC_FETCH_ADD,
				RMEM_READ | RMEM_WRITE },
	[RMEM_OP_READV] = { "vectored read", FABRIC_READ, RMEM_READ },
	[RMEM_OP_WRITEV] = { "vectored write", FABRIC_WRITE, RMEM_WRITE },
	[RMEM_OP_FILL] = { "fill", FABRIC_FILL, RMEM_WRITE },
	[RMEM_OP_COPY] = { "copy", FABRIC_COPY, RMEM_WRITE },
	[RMEM_OP_CRC] = { "CRC-32C", FABRIC_CRC, RMEM_READ },
	[RMEM_OP_PING] = { "ping", FABRIC_PING, 0 },
	[RMEM_OP_WRITE_NOTIFY] = { "write with notification", FABRIC_WRITE,
				   RMEM_WRITE },
};

static void lists_start(struct optable *table)
{
	list_init(&table->pending);
	list_init(&table->stalled);
	for (unsigned i = 0; i < LANE_KINDS * table->n_sets; i++) {
		list_init(&table->lanes[i].node);
		list_init(&table->lanes[i].again);
		list_init(&table->lanes[i].ops);
	}
	list_init(&table->free_pieces);
	list_init(&table->doubt);
	list_init(&table->lost);
	for (unsigned i = 0; i < table->n_ops; i++) {
		struct op *op = &table->ops[i];

		list_init(&op->node);
		op->own.op = op;
		list_init(&op->own.node);
		optable_give(table, op);
	}
	for (unsigned i = 0; i < table->n_shared; i++)
		list_append(&table->free_pieces, &table->pieces[i].node);
}

int optable_create(unsigned n_ops, unsigned n_shared, unsigned endpoints,
		   struct optable *ret_table)
{
	struct optable *table = ret_table;
	unsigned n_sets = 1;

	while (n_sets <= endpoints)
		n_sets *= 2;
	*table = (struct optable){
		.n_ops = n_ops,
		.n_shared = n_shared,
		.ops = calloc(n_ops, sizeof(*table->ops)),
		.pieces = calloc(n_shared, sizeof(*table->pieces)),
		.free = calloc(n_ops, sizeof(struct op *)),
		.done = calloc(n_ops, sizeof(struct op *)),
		.endpoints = endpoints,
		.n_sets = n_sets,
		.lanes = calloc((size_t)LANE_KINDS * n_sets, sizeof(*table->lanes)),
	};
	if (!table->ops || !table->pieces || !table->free || !table->done ||
	    !table->lanes) {
		optable_destroy(table);
		return err_set(-ENOMEM, "no memory for %u operations", n_ops);
	}
	table->plain = optable_lane(table, LANE_PLAIN, endpoints);
	lists_start(table);
	return 0;
}

void optable_destroy(struct optable *table)
{
	free(table->lanes);
	free(table->done);
	free(table->free);
	free(table->ops);
	free(table->pieces);
}

static void lane_stall(struct optable *table, struct lane *lane)
{
	if (list_empty(&lane->node))
		list_append(&table->stalled, &lane->node);
}

/* What is there in a lease is lent through these. */
static unsigned place_reach(const struct rmem_lease *lease, uint64_t at)
{
	const struct attachment *att =
		atomic_load_explicit(&lease->attachment, memory_order_acquire);

	/* behind the end there is nothing to wait for */
	if (!att->bound || at >= att->bytes)
		return ~0u;
	return att->endpoints[attachment_segment(att, at)];
}

unsigned op_reach(const struct op *op, uint64_t offset)
{
	unsigned reach = place_reach(op->todo.lease, op->todo.offset + offset);

	if (op->todo.opcode == RMEM_OP_COPY)
		reach &= place_reach(op->inband.source.lease,
				     op->inband.source.offset + offset);
	return reach;
}

struct lane *op_lane(const struct optable *table, const struct op *op, uint64_t offset,
		     enum lane_kind kind)
{
	return optable_lane(table, kind, op_reach(op, offset) & table->endpoints);
}

/* The lane of what is on no channel, and is cut already. */
static struct lane *piece_lane(struct optable *table, const struct piece *piece)
{
	const struct op *op = piece->op;
	struct lane *lane;

	if (opcode_is_atomic(op->todo.opcode))
		lane = optable_lane(table, LANE_ATOMIC, op->endpoints);
	else
		lane = op_lane(table, op, piece->offset,
			       piece_is_request(piece) ? LANE_REQUEST : LANE_PLAIN);
	lane_stall(table, lane);
	return lane;
}

void piece_again(struct optable *table, struct piece *piece)
{
	piece->state = PIECE_AGAIN;
	list_append(&piece_lane(table, piece)->again, &piece->node);
}

void piece_again_first(struct optable *table, struct piece *piece)
{
	piece->state = PIECE_AGAIN;
	list_prepend(&piece_lane(table, piece)->again, &piece->node);
}

void op_wait(struct optable *table, struct op *op, struct lane *lane)
{
	list_remove(&op->node);
	list_append(&lane->ops, &op->node);
	lane_stall(table, lane);
}

void piece_wait(struct optable *table, struct piece *piece, struct lane *lane)
{
	list_remove(&piece->node);
	list_append(&lane->again, &piece->node);
	lane_stall(table, lane);
}

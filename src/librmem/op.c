/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/op.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"

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
	for (unsigned i = 0; i < LANES; i++) {
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

int optable_create(unsigned n_ops, unsigned n_shared, struct optable *ret_table)
{
	struct optable *table = ret_table;

	*table = (struct optable){
		.n_ops = n_ops,
		.n_shared = n_shared,
		.ops = calloc(n_ops, sizeof(*table->ops)),
		.pieces = calloc(n_shared, sizeof(*table->pieces)),
		.free = calloc(n_ops, sizeof(struct op *)),
		.done = calloc(n_ops, sizeof(struct op *)),
	};
	if (!table->ops || !table->pieces || !table->free || !table->done) {
		optable_destroy(table);
		return err_set(-ENOMEM, "no memory for %u operations", n_ops);
	}
	lists_start(table);
	return 0;
}

void optable_destroy(struct optable *table)
{
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

/* The lane of what is on no channel, and is cut already. */
static struct lane *piece_lane(struct optable *table, const struct piece *piece)
{
	unsigned number = LANE_PLAIN;

	if (piece_is_request(piece))
		number = LANE_REQUEST;
	else if (opcode_is_atomic(piece->op->todo.opcode))
		number = LANE_ATOMIC + (unsigned)__builtin_ctz(piece->op->endpoints);
	lane_stall(table, &table->lanes[number]);
	return &table->lanes[number];
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

void op_wait(struct optable *table, struct op *op, unsigned lane)
{
	list_remove(&op->node);
	list_append(&table->lanes[lane].ops, &op->node);
	lane_stall(table, &table->lanes[lane]);
}

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

unsigned op_lane(const struct optable *table, const struct op *op, uint64_t offset,
		 bool request)
{
	unsigned bound = op_reach(op, offset) & table->endpoints;

	/* through none: it ends as soon as it is looked at */
	if (bound == table->endpoints || bound == 0)
		return request ? LANE_REQUEST : LANE_PLAIN;
	return (request ? LANE_BOUND_REQUEST : LANE_BOUND) +
	       (unsigned)__builtin_ctz(bound);
}

/* The lane of what is on no channel, and is cut already. */
static struct lane *piece_lane(struct optable *table, const struct piece *piece)
{
	const struct op *op = piece->op;
	unsigned number;

	if (!piece_is_request(piece) && opcode_is_atomic(op->todo.opcode))
		number = LANE_ATOMIC + (unsigned)__builtin_ctz(op->endpoints);
	else
		number = op_lane(table, op, piece->offset, piece_is_request(piece));
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

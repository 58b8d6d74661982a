/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/queue/op.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "librmem/lease/lease.h"

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
	list_init(&table->done);
	list_init(&table->await_atomic_device);
	list_init(&table->stalled);
	for (unsigned i = 0; i < WAIT_KINDS * table->n_sets; i++) {
		list_init(&table->wait_lists[i].node);
		list_init(&table->wait_lists[i].reposts);
		list_init(&table->wait_lists[i].ops);
	}
	list_init(&table->free_fragments);
	list_init(&table->refused);
	list_init(&table->lost);
	ops_for_each(op, table) {
		list_init(&op->node);
		op->own.op = op;
		list_init(&op->own.node);
		optable_release(table, op);
	}
	for (unsigned i = 0; i < table->n_shared; i++)
		list_append(&table->free_fragments, &table->fragments[i].node);
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
		.fragments = calloc(n_shared, sizeof(*table->fragments)),
		.unused = calloc(n_ops, sizeof(struct op *)),
		.endpoints = endpoints,
		.n_sets = n_sets,
		.wait_lists =
			calloc((size_t)WAIT_KINDS * n_sets, sizeof(*table->wait_lists)),
	};
	if (!table->ops || !table->fragments || !table->unused || !table->wait_lists) {
		optable_destroy(table);
		return err_set(-ENOMEM, "no memory for %u operations", n_ops);
	}
	table->plain = optable_wait_list(table, WAIT_PLAIN, endpoints);
	lists_start(table);
	return 0;
}

void optable_destroy(struct optable *table)
{
	free(table->wait_lists);
	free(table->unused);
	free(table->ops);
	free(table->fragments);
}

static void wait_list_stall(struct optable *table, struct wait_list *list)
{
	if (list_empty(&list->node))
		list_append(&table->stalled, &list->node);
}

/* Bit mask of the endpoints that lend the segment at the lease offset `at`. */
static unsigned place_reach(const struct rmem_lease *lease, uint64_t at)
{
	const struct attachment *att = lease_attachment(lease);

	/* an offset behind the end waits for no endpoint */
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
	/* 0: the atomic device is not known yet */
	if (opcode_is_atomic(op->todo.opcode) && op->endpoints)
		reach &= op->endpoints;
	return reach;
}

struct wait_list *op_wait_list(const struct optable *table, const struct op *op,
			       uint64_t offset, enum wait_kind kind)
{
	return optable_wait_list(table, kind, op_reach(op, offset) & table->endpoints);
}

void fragment_requeue(struct optable *table, struct fragment *fragment, bool ahead)
{
	struct wait_list *list = op_wait_list(table, fragment->op, fragment->offset,
					      fragment_wait_kind(fragment));

	fragment->state = FRAGMENT_RETRY;
	wait_list_stall(table, list);
	list_append(ahead ? list->reposts.next : &list->reposts, &fragment->node);
}

void op_wait(struct optable *table, struct op *op, struct wait_list *list)
{
	list_move(&list->ops, &op->node);
	wait_list_stall(table, list);
}

void fragment_wait(struct optable *table, struct fragment *fragment,
		   struct wait_list *list)
{
	list_move(&list->reposts, &fragment->node);
	wait_list_stall(table, list);
}

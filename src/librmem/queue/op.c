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

/* A set that has not come up before, if there is room. */
static struct wait_set *set_add(struct optable *table, unsigned endpoints)
{
	struct wait_set *set = &table->sets[table->n_sets++];

	set->endpoints = endpoints;
	for (unsigned i = 0; i < WAIT_KINDS; i++) {
		struct wait_list *list = &set->lists[i];

		list_init(&list->node);
		list_init(&list->reposts);
		list_init(&list->ops);
		list->endpoints =
			table->n_sets < WAIT_SETS_MAX ? endpoints : table->endpoints;
	}
	return set;
}

/* Of a subset of the table's endpoints. */
static struct wait_set *set_find(struct optable *table, unsigned endpoints)
{
	for (unsigned i = 0; i < table->n_sets; i++)
		if (table->sets[i].endpoints == endpoints)
			return &table->sets[i];
	return table->n_sets < WAIT_SETS_MAX ? set_add(table, endpoints)
					     : &table->sets[WAIT_SETS_MAX - 1];
}

static void lists_start(struct optable *table)
{
	list_init(&table->pending);
	list_init(&table->done);
	list_init(&table->await_atomic_device);
	list_init(&table->stalled);
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

	*table = (struct optable){
		.n_ops = n_ops,
		.n_shared = n_shared,
		.ops = calloc(n_ops, sizeof(*table->ops)),
		.fragments = calloc(n_shared, sizeof(*table->fragments)),
		.unused = calloc(n_ops, sizeof(struct op *)),
		.endpoints = endpoints,
		.sets = calloc(WAIT_SETS_MAX, sizeof(*table->sets)),
	};
	if (!table->ops || !table->fragments || !table->unused || !table->sets) {
		optable_destroy(table);
		return err_set(-ENOMEM, "no memory for %u operations", n_ops);
	}
	table->plain = &set_add(table, endpoints)->lists[WAIT_PLAIN];
	lists_start(table);
	return 0;
}

void optable_destroy(struct optable *table)
{
	free(table->sets);
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

struct wait_list *op_wait_list(struct optable *table, const struct op *op,
			       uint64_t offset, enum wait_kind kind)
{
	unsigned endpoints = op_reach(op, offset) & table->endpoints;

	return &set_find(table, endpoints)->lists[kind];
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

/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/op.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"

int optable_create(unsigned n_ops, unsigned n_pieces, struct optable *ret_table)
{
	struct optable *table = ret_table;
	struct op *ops = calloc(n_ops, sizeof(*ops));
	struct piece *pieces = calloc(n_pieces, sizeof(*pieces));

	if (!ops || !pieces) {
		free(ops);
		free(pieces);
		return err_set(-ENOMEM, "no memory for %u operations", n_ops);
	}
	table->n_ops = n_ops;
	table->n_pieces = n_pieces;
	table->ops = ops;
	table->pieces = pieces;
	list_init(&table->free);
	list_init(&table->pending);
	list_init(&table->done);
	list_init(&table->free_pieces);
	list_init(&table->again);
	list_init(&table->doubt);
	for (unsigned i = 0; i < n_ops; i++)
		list_append(&table->free, &ops[i].node);
	for (unsigned i = 0; i < n_pieces; i++)
		list_append(&table->free_pieces, &pieces[i].node);
	return 0;
}

void optable_destroy(struct optable *table)
{
	free(table->ops);
	free(table->pieces);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The operations of a queue and the pieces they are cut into: two tables whose sizes are
 * fixed when the queue is made.  Threads: [owner of the queue]. */
#ifndef LIBRMEM_OP_H
#define LIBRMEM_OP_H

#include <stdbool.h>
#include <stdint.h>

#include <rmem/rmem.h>

#include "base/list.h"
#include "librmem/attachment.h"
#include "librmem/channelset.h"

enum op_state {
	OP_FREE,
	OP_PENDING, /* not all of it is cut */
	OP_FLYING,  /* nothing more will be cut */
	OP_DONE,    /* complete, the caller has not taken it yet */
};

struct op {
	struct list node; /* free, pending or done */
	enum op_state state;
	bool started;
	bool fence; /* waits for all before it; passed on when it ends without starting */
	struct rmem_op todo;
	uint64_t deadline_ns;
	uint64_t
		patience_ns; /* the deadline is so far behind its last progress; 0: fixed */
	uint64_t cursor;     /* bytes cut */
	uint64_t piece_max; /* bytes; so that all channels carry it */
	unsigned pieces;    /* that exist */
	unsigned in_flight; /* of them on a channel */
	int verdict;        /* -ETIMEDOUT or -ECANCELED was passed; 0: none */
	int status;         /* the first error; the result when done */
	uint32_t vendor;
	const char *why; /* static text with the error */
};

enum piece_state {
	PIECE_FREE,
	PIECE_FLYING, /* on a channel, or in its batch */
	PIECE_AGAIN,  /* was not posted: goes to another channel */
	PIECE_DOUBT,  /* was refused: waits for what the server says of the lease */
};

struct piece {
	struct list node; /* free, again or doubt */
	enum piece_state state;
	struct op *op;
	struct channel_slot *slot;
	uint64_t offset; /* into the operation, bytes */
	uint32_t bytes;
	unsigned char *chunk;      /* of the bounce buffer; NULL: none */
	struct attachment_key key; /* it was posted with */
	unsigned verify; /* what lease_verify() gave when it came into doubt */
	unsigned refusals;
};

struct optable {
	unsigned n_ops, n_pieces;
	struct op *ops;
	struct piece *pieces;
	struct list free, pending, done;       /* ops */
	struct list free_pieces, again, doubt; /* pieces */
};

/* -ENOMEM. */
int optable_create(unsigned n_ops, unsigned n_pieces, struct optable *ret_table);
void optable_destroy(struct optable *table);

#endif

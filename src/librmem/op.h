/* SPDX-License-Identifier: BSD-3-Clause */
/* The operations of a queue and the pieces they are cut into: two tables whose sizes are
 * fixed when the queue is made.  Threads: [owner of the queue]. */
#ifndef LIBRMEM_OP_H
#define LIBRMEM_OP_H

#include <stdbool.h>
#include <stdint.h>

#include <rmem/rmem.h>

#include "base/list.h"
#include "fabric/fabric.h"
#include "librmem/attachment.h"
#include "librmem/buffer.h"
#include "librmem/channelset.h"
#include "librmem/lease.h"
#include "librmem/use.h"

enum op_state {
	OP_FREE,
	OP_PENDING, /* not all of it is cut */
	OP_FLYING,  /* nothing more will be cut */
	OP_DONE,    /* complete, the caller has not taken it yet */
};

enum piece_state {
	PIECE_FREE,
	PIECE_FLYING, /* on a channel, or put there */
	/* on no channel: */
	PIECE_AGAIN, /* was not posted: goes to another channel */
	PIECE_DOUBT, /* was refused: waits for what the server says of the lease */
	PIECE_LOST, /* its channel died: waits until the server's end of that is dead */
};

struct piece {
	struct list node; /* free, in a lane, in doubt or lost */
	struct op *op;
	const struct attachment *att; /* whose keys it was posted with */
	struct channel_slot *slot;    /* whose channel it was lost with */
	/* all but `verify` are 0 in a free piece, and stay so while its operation is
	 * whole */
	enum piece_state state;
	uint32_t bytes;
	uint64_t offset;      /* into the operation, bytes */
	unsigned char *chunk; /* of the bounce buffer; NULL: none */
	bool bounces;         /* has one while it is on a channel */
	uint8_t refusals, losses;
	unsigned verify; /* what lease_verify() gave when it came into doubt */
	union {
		unsigned verify_source; /* of a copy: likewise */
		uint32_t answer;        /* to a request */
	};
};

/* All 0 in a free operation, and in one that is whole. */
struct op_end {
	uint64_t left;   /* bytes not cut yet */
	int verdict;     /* -ETIMEDOUT or -ECANCELED was passed; 0: none */
	int status;      /* the first error; the result when done */
	const char *why; /* static text with the error */
	uint32_t vendor;
};

/* The caller's list of local memory, and where it was looked at last. */
struct op_vec {
	const struct rmem_vec *list;
	unsigned n;
	unsigned at;    /* an entry, */
	uint64_t start; /* and the offset of its first byte */
};

/* What an in-band operation works with. */
struct op_inband {
	bool message; /* one is still to be sent, when all else is done */
	union {
		struct rmem_place source;
		uint64_t pattern;
		uint32_t value;
	};
};

struct op {
	struct piece own; /* its first, or only one */
	struct list node; /* while pending: as such, or in a lane */
	struct rmem_op todo;
	struct use *use; /* of its lease and buffer; NULL: these count it */
	uint64_t deadline_ns;
	uint64_t piece_max; /* bytes; so that all channels carry it */
	uint8_t state;      /* enum op_state */
	bool started;
	bool fence;      /* waits for all before it; passed on when it ends without
			     * starting */
	bool whole;      /* flies as its own piece, and nothing else is known of it */
	uint16_t pieces; /* that exist */
	uint16_t in_flight; /* of them on a channel */
	struct op_end end;
	/* of an atomic */
	struct fabric_atomic atomic;
	unsigned endpoints; /* it, or an in-band one, goes through, a bit each; 0: not
			     * known yet */
	bool unknown; /* whether it was done, as its channel died; a notification, too */
	struct op_vec
		vec; /* of a vectored one; todo then has neither addr nor buffer */
	struct op_inband inband;
};

struct op_kind {
	const char *text;
	enum fabric_opcode carried; /* as what its bytes go, or what it asks for */
	unsigned rights;            /* that it needs to the lease */
};
/* By opcode, which is one of those there are. */
extern const struct op_kind op_kinds[];

static inline bool opcode_is_atomic(unsigned opcode)
{
	return opcode == RMEM_OP_CAS || opcode == RMEM_OP_FETCH_ADD;
}

static inline bool opcode_is_vectored(unsigned opcode)
{
	return opcode == RMEM_OP_READV || opcode == RMEM_OP_WRITEV;
}

/* The server does it: it has no local memory. */
static inline bool opcode_is_remote(unsigned opcode)
{
	return opcode >= RMEM_OP_FILL && opcode <= RMEM_OP_PING;
}

static inline bool opcode_is_inband(unsigned opcode)
{
	return opcode >= RMEM_OP_FILL && opcode <= RMEM_OP_WRITE_NOTIFY;
}

/* Its bytes go to the server. */
static inline bool opcode_writes(unsigned opcode)
{
	return opcode == RMEM_OP_WRITE || opcode == RMEM_OP_WRITEV ||
	       opcode == RMEM_OP_WRITE_NOTIFY;
}

/* Those that wait for the same, so that only the first has to be looked at. */
struct lane {
	struct list node;  /* stalled, when it is not empty */
	struct list again; /* pieces, to be posted once more */
	struct list ops;   /* started, and not cut whole */
	bool turn;         /* the operations went last */
};

/* Of each kind there is a lane for every set of endpoints: what goes through one of two must
 * not wait for the other, nor what goes through either for one. */
enum lane_kind {
	LANE_PLAIN,   /* for a credit */
	LANE_SCARCE,  /* came from there for want of a piece, or a bounce chunk */
	LANE_REQUEST, /* for a channel that takes another request */
	/* for a credit, where the atomics of the lease are done; with the empty set: to be
	 * told where that is, for news */
	LANE_ATOMIC,
	LANE_KINDS,
};

struct optable {
	unsigned n_ops, n_shared;
	struct op *ops;
	struct piece *pieces; /* those that are shared by operations that are cut */
	struct op **free;     /* a stack */
	unsigned n_free;
	struct op **done; /* a ring of n_ops, not taken by the caller yet */
	unsigned first_done, n_done;
	struct list pending; /* ops, not started, as they were submitted */
	unsigned endpoints;  /* that the channels lead to, a bit each */
	struct list stalled; /* lanes, the one whose turn it is first */
	unsigned n_sets;     /* of endpoints, by their bits */
	struct lane *lanes;  /* LANE_KINDS times n_sets */
	struct lane *plain;  /* of them, that of what any channel takes */
	struct list free_pieces, doubt, lost; /* pieces; free: shared ones */
};

/* With n_shared pieces for operations that are cut, and channels that lead to these
 * `endpoints`, a bit each.  -ENOMEM. */
int optable_create(unsigned n_ops, unsigned n_shared, unsigned endpoints,
		   struct optable *ret_table);
void optable_destroy(struct optable *table);

/* The piece is a request. */
static inline bool piece_is_request(const struct piece *piece)
{
	return opcode_is_remote(piece->op->todo.opcode) ||
	       (piece->op->todo.opcode == RMEM_OP_WRITE_NOTIFY && piece->bytes == 0);
}

/* The piece must not be done twice. */
static inline bool piece_is_once(const struct piece *piece)
{
	return opcode_is_atomic(piece->op->todo.opcode) ||
	       (piece->op->todo.opcode == RMEM_OP_WRITE_NOTIFY && piece->bytes == 0);
}

static inline bool piece_waits(const struct piece *piece)
{
	return piece->state > PIECE_FLYING;
}

/* The endpoints that what lies `offset` into it is lent through, a bit each; of a copy, both
 * ends of it. */
unsigned op_reach(const struct op *op, uint64_t offset);
/* The lane of a kind for what goes through one of these endpoints, all of them the table's. */
static inline struct lane *optable_lane(const struct optable *table,
					enum lane_kind kind, unsigned endpoints)
{
	return &table->lanes[kind * table->n_sets + endpoints];
}

/* The lane of a kind where what lies `offset` into it waits, unless it is an atomic. */
struct lane *op_lane(const struct optable *table, const struct op *op, uint64_t offset,
		     enum lane_kind kind);
/* Let a piece that is on no channel be posted once more: behind the others of its lane, or
 * ahead of them. */
void piece_again(struct optable *table, struct piece *piece);
void piece_again_first(struct optable *table, struct piece *piece);
/* Let an operation wait in a lane, behind the others. */
void op_wait(struct optable *table, struct op *op, struct lane *lane);
/* The same for a piece. */
void piece_wait(struct optable *table, struct piece *piece, struct lane *lane);

static inline bool lane_empty(const struct lane *lane)
{
	return list_empty(&lane->again) && list_empty(&lane->ops);
}

static inline void piece_reset(struct piece *piece)
{
	piece->state = PIECE_FREE;
	piece->bytes = 0;
	piece->offset = 0;
	piece->chunk = NULL;
	piece->bounces = false;
	piece->refusals = 0;
	piece->losses = 0;
}

/* From now on the operation is like any other. */
static inline void op_unfold(struct op *op)
{
	if (!op->whole)
		return;
	op->whole = false;
	op->own.state = PIECE_FLYING;
	op->own.bytes = (uint32_t)op->todo.bytes;
}

/* The part of an operation that stands for all of it: it lies there as such. */
static inline const struct fabric_op *op_part(const struct rmem_op *todo)
{
	_Static_assert(offsetof(struct rmem_op, addr) -
					       offsetof(struct rmem_op, offset) ==
				       offsetof(struct fabric_op, addr) &&
			       offsetof(struct rmem_op, bytes) -
					       offsetof(struct rmem_op, offset) ==
				       offsetof(struct fabric_op, bytes),
		       "an operation has the fabric's part inside");
	return (const struct fabric_op *)(const void *)&todo->offset;
}

static inline struct op *optable_take(struct optable *table)
{
	return table->free[--table->n_free];
}

/* A free operation becomes this one, and flies as its own piece. */
static inline void op_launch(struct op *op, const struct rmem_op *todo, struct use *use,
			     const struct attachment *att, uint64_t deadline_ns)
{
	op->todo = *todo;
	op->use = use;
	op->deadline_ns = deadline_ns;
	op->state = OP_FLYING;
	op->started = true;
	op->fence = false;
	op->whole = true;
	op->pieces = 1;
	op->in_flight = 1;
	op->own.att = att;
}

static inline void optable_give(struct optable *table, struct op *op)
{
	op->state = OP_FREE;
	table->free[table->n_free++] = op;
}

static inline void optable_done_put(struct optable *table, struct op *op)
{
	unsigned at = table->first_done + table->n_done++;

	op->state = OP_DONE;
	table->done[at < table->n_ops ? at : at - table->n_ops] = op;
}

/* There is one. */
static inline struct op *optable_done_take(struct optable *table)
{
	struct op *op = table->done[table->first_done++];

	if (table->first_done == table->n_ops)
		table->first_done = 0;
	table->n_done--;
	return op;
}

#endif

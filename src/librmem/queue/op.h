/* SPDX-License-Identifier: BSD-3-Clause */
/* The operations of a queue and the fragments they are cut into: two tables whose sizes are
 * fixed when the queue is made.  Threads: [owner of the queue]. */
#ifndef LIBRMEM_QUEUE_OP_H
#define LIBRMEM_QUEUE_OP_H

#include <stdbool.h>
#include <stdint.h>

#include <rmem/rmem.h>

#include "base/list.h"
#include "fabric/fabric.h"
#include "librmem/lease/attachment.h"
#include "librmem/lease/buffer.h"
#include "librmem/queue/channel_set.h"
#include "librmem/lease/lease.h"
#include "librmem/lease/inflight.h"

enum op_state {
	OP_FREE,
	OP_PENDING, /* not all of it is cut */
	OP_POSTED,  /* nothing more will be cut */
	OP_DONE,    /* complete, the caller has not taken it yet */
};

enum fragment_state {
	FRAGMENT_FREE,
	FRAGMENT_POSTED, /* on a channel, or put there */
	/* on no channel: */
	FRAGMENT_RETRY,   /* was not posted: goes to another channel */
	FRAGMENT_REFUSED, /* was refused: waits for what the server says of the lease */
	FRAGMENT_LOST, /* its channel died: waits until the server's end of that is dead */
};

struct fragment {
	struct list node; /* free, in a list, in doubt or lost */
	struct op *op;
	const struct attachment *att; /* whose keys it was posted with */
	struct channel *channel;      /* that it was lost with */
	/* all but `verify` are 0 in a free fragment, and stay so while its operation is
	 * whole */
	enum fragment_state state;
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
	struct fragment own; /* its first, or only one */
	struct list node;    /* while pending: as such, or in a list */
	struct rmem_op todo;
	struct inflight *inflight; /* of its lease and buffer; NULL: these count it */
	uint64_t deadline_ns;
	uint64_t fragment_max; /* bytes; so that all channels carry it */
	uint8_t state;         /* enum op_state */
	bool started;
	bool fence; /* waits for all before it; passed on when it ends without
			     * starting */
	bool whole; /* flies as its own fragment, and nothing else is known of it */
	uint16_t fragments; /* that exist */
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
struct wait_list {
	struct list node;  /* stalled, when it is not empty */
	struct list again; /* fragments, to be posted once more */
	struct list ops;   /* started, and not cut whole */
	bool turn;         /* the operations went last */
};

/* Of each kind there is a list for every set of endpoints: what goes through one of two must
 * not wait for the other, nor what goes through either for one. */
enum wait_kind {
	WAIT_PLAIN,   /* for a credit */
	WAIT_SCARCE,  /* came from there for want of a fragment, or a bounce chunk */
	WAIT_REQUEST, /* for a channel that takes another request */
	/* for a credit, where the atomics of the lease are done; with the empty set: to be
	 * told where that is, for news */
	WAIT_ATOMIC,
	WAIT_KINDS,
};

struct optable {
	unsigned n_ops, n_shared;
	struct op *ops;
	struct fragment
		*fragments; /* those that are shared by operations that are cut */
	struct op **free;   /* a stack */
	unsigned n_free;
	struct op **done; /* a ring of n_ops, not taken by the caller yet */
	unsigned first_done, n_done;
	struct list pending;          /* ops, not started, as they were submitted */
	unsigned endpoints;           /* that the channels lead to, a bit each */
	struct list stalled;          /* wait_lists, the one whose turn it is first */
	unsigned n_sets;              /* of endpoints, by their bits */
	struct wait_list *wait_lists; /* WAIT_KINDS times n_sets */
	struct wait_list *plain;      /* of them, that of what any channel takes */
	struct list free_fragments, doubt, lost; /* fragments; free: shared ones */
};

/* With n_shared fragments for operations that are cut, and channels that lead to these
 * `endpoints`, a bit each.  -ENOMEM. */
int optable_create(unsigned n_ops, unsigned n_shared, unsigned endpoints,
		   struct optable *ret_table);
void optable_destroy(struct optable *table);

/* The fragment is a request. */
static inline bool fragment_is_request(const struct fragment *fragment)
{
	return opcode_is_remote(fragment->op->todo.opcode) ||
	       (fragment->op->todo.opcode == RMEM_OP_WRITE_NOTIFY &&
		fragment->bytes == 0);
}

/* The fragment must not be done twice. */
static inline bool fragment_is_once(const struct fragment *fragment)
{
	return opcode_is_atomic(fragment->op->todo.opcode) ||
	       (fragment->op->todo.opcode == RMEM_OP_WRITE_NOTIFY &&
		fragment->bytes == 0);
}

static inline bool fragment_waits(const struct fragment *fragment)
{
	return fragment->state > FRAGMENT_POSTED;
}

/* The endpoints that what lies `offset` into it is lent through, a bit each; of a copy, both
 * ends of it. */
unsigned op_reach(const struct op *op, uint64_t offset);
/* The list of a kind for what goes through one of these endpoints, all of them the table's. */
static inline struct wait_list *
optable_wait_list(const struct optable *table, enum wait_kind kind, unsigned endpoints)
{
	return &table->wait_lists[kind * table->n_sets + endpoints];
}

/* The list of a kind where what lies `offset` into it waits, unless it is an atomic. */
struct wait_list *op_wait_list(const struct optable *table, const struct op *op,
			       uint64_t offset, enum wait_kind kind);
/* Let a fragment that is on no channel be posted once more: behind the others of its list, or
 * ahead of them. */
void fragment_again(struct optable *table, struct fragment *fragment);
void fragment_again_first(struct optable *table, struct fragment *fragment);
/* Let an operation wait in a list, behind the others. */
void op_wait(struct optable *table, struct op *op, struct wait_list *list);
/* The same for a fragment. */
void fragment_wait(struct optable *table, struct fragment *fragment,
		   struct wait_list *list);

static inline bool wait_list_empty(const struct wait_list *list)
{
	return list_empty(&list->again) && list_empty(&list->ops);
}

static inline void fragment_reset(struct fragment *fragment)
{
	fragment->state = FRAGMENT_FREE;
	fragment->bytes = 0;
	fragment->offset = 0;
	fragment->chunk = NULL;
	fragment->bounces = false;
	fragment->refusals = 0;
	fragment->losses = 0;
}

/* From now on the operation is like any other. */
static inline void op_unfold(struct op *op)
{
	if (!op->whole)
		return;
	op->whole = false;
	op->own.state = FRAGMENT_POSTED;
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

/* A free operation becomes this one, and flies as its own fragment. */
static inline void op_launch(struct op *op, const struct rmem_op *todo,
			     struct inflight *inflight, const struct attachment *att,
			     uint64_t deadline_ns)
{
	op->todo = *todo;
	op->inflight = inflight;
	op->deadline_ns = deadline_ns;
	op->state = OP_POSTED;
	op->started = true;
	op->fence = false;
	op->whole = true;
	op->fragments = 1;
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

/* SPDX-License-Identifier: BSD-3-Clause */
/* The operations of a queue and the fragments they are cut into: two tables of fixed size.
 *
 * Threads: [owner of the queue]. */
#ifndef LIBRMEM_QUEUE_OP_H
#define LIBRMEM_QUEUE_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <rmem/rmem.h>

#include "base/list.h"
#include "fabric/client.h"
#include "librmem/lease/attachment.h"
#include "librmem/lease/buffer.h"
#include "librmem/queue/channel_set.h"
#include "librmem/lease/lease.h"
#include "librmem/lease/inflight.h"

enum op_state {
	OP_FREE,
	OP_PENDING, /* not all of the operation is cut into fragments */
	OP_POSTED,  /* all of the operation is cut */
	OP_DONE,    /* complete, but not polled by the caller */
};

enum fragment_state {
	FRAGMENT_FREE,
	FRAGMENT_POSTED, /* on a connection's ring, perhaps not posted yet */
	/* in the following states the fragment is on no connection */
	FRAGMENT_RETRY, /* waits in a wait list to be posted */
	/* waits in the list `refused` until the lease was attached again */
	FRAGMENT_REFUSED,
	/* waits in the list `lost` until the server has closed its end of the connection; then it
	 * is posted again, or its operation ends in its error */
	FRAGMENT_LOST,
};

struct fragment {
	struct list node; /* in free_fragments, a wait list, `refused` or `lost` */
	struct op *op;
	uint64_t generation;     /* of the attachment it was posted with */
	struct channel *channel; /* of the lost connection */
	/* members from here on, but `verify`, are 0 in a free fragment */
	enum fragment_state state;
	uint32_t bytes;
	uint64_t offset;      /* into the operation, bytes */
	unsigned char *chunk; /* of the bounce buffer; NULL: none */
	bool bounces;         /* needs a chunk while it is on a connection */
	uint8_t refusals, losses;
	unsigned verify; /* result of lease_verify(), when refused */
	union {
		unsigned verify_source; /* of a copy: result for the source's lease */
		uint32_t answer;        /* to an in-band request */
	};
};

/* How an operation ended.  All 0 in a free operation. */
struct op_end {
	uint64_t uncut_bytes; /* bytes not yet in a fragment */
	int given_up;         /* -ETIMEDOUT or -ECANCELED; 0: not given up */
	int status;           /* the first error; final when done */
	const char *why;      /* static text of the error */
	uint32_t vendor;
	bool unheard; /* the server's host did not acknowledge a part of it */
};

/* The caller's list of local memory, and the entry found by the last search. */
struct op_vec {
	const struct rmem_vec *list;
	unsigned n;
	/* the buffer of the first entry that names none; it may have more of them.  NULL: none */
	struct rmem_buffer *found;
	unsigned at;    /* index of that entry */
	uint64_t start; /* offset of that entry's first byte */
};

/* The operands of an in-band operation. */
struct op_inband {
	bool message; /* a message is to be sent when all else is done */
	union {
		struct rmem_source source;
		uint64_t pattern;
		uint32_t value;
	};
};

struct op {
	struct fragment own; /* the first, or only, fragment */
	struct list node;    /* in one of the lists of struct optable, or a wait list */
	struct rmem_op todo;
	/* entry that counts its uses; NULL: lease and buffer do */
	struct inflight *inflight;
	uint64_t deadline_ns;
	uint64_t fragment_max; /* limit of bytes, so that all channels have a share */
	uint8_t state;         /* enum op_state */
	bool started;
	/* waits for all operations before it; passed to the next when the operation ends without a
	 * start */
	bool fence;
	uint16_t fragments; /* number of its fragments */
	uint16_t in_flight; /* number of its fragments on connections */
	struct op_end end;
	/* of an atomic */
	struct fabric_atomic atomic;
	uint64_t sentinel;  /* in the place of the answer until it arrives */
	unsigned endpoints; /* bit mask for an atomic or in-band operation */
	/* of an atomic or notification: its connection was lost, the outcome is unknown */
	bool unknown;
	struct op_vec vec; /* vectored: `todo` then has neither addr nor buffer */
	struct op_inband inband;
};

struct op_kind {
	const char *text;
	enum fabric_opcode carried; /* the fabric's operation */
	unsigned rights;            /* needed rights to the lease */
};
/* Indexed by opcode. */
extern const struct op_kind op_kinds[];

/* Set the reason why an operation fails, a static text, and return the error. */
static inline int op_refuse(const char **ret_why, int err, const char *why)
{
	*ret_why = why;
	return err;
}

static inline bool opcode_is_atomic(unsigned opcode)
{
	return opcode == RMEM_OP_CAS || opcode == RMEM_OP_FETCH_ADD;
}

static inline bool opcode_is_vectored(unsigned opcode)
{
	return opcode == RMEM_OP_READV || opcode == RMEM_OP_WRITEV;
}

/* The server does the operation: there is no local memory. */
static inline bool opcode_is_remote(unsigned opcode)
{
	return opcode >= RMEM_OP_FILL && opcode <= RMEM_OP_PING;
}

static inline bool opcode_is_inband(unsigned opcode)
{
	return opcode >= RMEM_OP_FILL && opcode <= RMEM_OP_WRITE_NOTIFY;
}

/* The operation changes memory at the server, or sends a message. */
static inline bool opcode_changes(unsigned opcode)
{
	return (op_kinds[opcode].rights & RMEM_WRITE) != 0;
}

/* Bytes go from local memory to the server. */
static inline bool opcode_writes(unsigned opcode)
{
	return opcode == RMEM_OP_WRITE || opcode == RMEM_OP_WRITEV ||
	       opcode == RMEM_OP_WRITE_NOTIFY;
}

/* Fragments and operations that wait for one resource: while the first waits, all others wait. */
struct wait_list {
	struct list node;    /* in optable.stalled when the list is not empty */
	struct list reposts; /* fragments to be posted again */
	struct list ops;     /* started operations, not cut completely */
	bool last_was_op;   /* the last step tried `ops`, so the next tries `reposts` */
	unsigned endpoints; /* bit mask of those that its members wait for */
};

/* A wait list exists for each kind and set of endpoints: operations on memory that one endpoint
 * lends must not wait for another endpoint, nor hold up operations that both can serve. */
enum wait_kind {
	WAIT_PLAIN,   /* waits for a credit */
	WAIT_LARGE,   /* also waits while a channel has many bytes of large fragments */
	WAIT_SCARCE,  /* also waits for a free fragment, or a bounce chunk */
	WAIT_REQUEST, /* waits for a channel that can carry one more in-band request */
	WAIT_ATOMIC,  /* waits for a credit; steps in turn with WAIT_PLAIN */
	WAIT_KINDS,
};

/* Sets of endpoints: as many as a server has pools that are lent through different ones.  The last
 * one stands for all further sets, which wait for each other. */
#define WAIT_SETS_MAX 32u

struct wait_set {
	unsigned endpoints; /* bit mask */
	struct wait_list lists[WAIT_KINDS];
};

struct optable {
	unsigned n_ops, n_shared;
	struct op *ops;
	struct fragment *fragments; /* n_shared fragments for operations that are cut */
	unsigned n_free; /* of n_ops: those that are neither in a run nor in `ops` */
	/* stack of the n_unused members of `ops` that hold no operation */
	struct op **unused;
	unsigned n_unused;
	struct list done; /* the n_done operations in state OP_DONE */
	unsigned n_done;
	/* operations that were not started, in submission order */
	struct list pending;
	/* atomics that wait until their atomic device is known */
	struct list await_atomic_device;
	unsigned endpoints; /* bit mask of the channels' endpoints */
	/* wait lists that are not empty, in order of their turns */
	struct list stalled;
	unsigned n_sets; /* sets of endpoints so far; the first one is `endpoints` */
	struct wait_set *sets;                     /* WAIT_SETS_MAX */
	struct wait_list *plain;                   /* WAIT_PLAIN for all endpoints */
	struct list free_fragments, refused, lost; /* lists of fragments */
};

#define ops_for_each(op, table) \
	for (struct op *op = (table)->ops; op < (table)->ops + (table)->n_ops; op++)

/* Create a table with n_shared fragments for operations that are cut, and for channels that lead to
 * `endpoints`, a bit mask.  -ENOMEM. */
int optable_create(unsigned n_ops, unsigned n_shared, unsigned endpoints,
		   struct optable *ret_table);
void optable_destroy(struct optable *table);

/* The fragment is an in-band request. */
static inline bool fragment_is_request(const struct fragment *fragment)
{
	return opcode_is_remote(fragment->op->todo.opcode) ||
	       (fragment->op->todo.opcode == RMEM_OP_WRITE_NOTIFY &&
		fragment->bytes == 0);
}

/* The fragment moves many bytes, so its channel does nothing else for a while. */
static inline bool fragment_is_large(const struct fragment *fragment)
{
	return fragment->bytes > FRAGMENT_SMALL_BYTES &&
	       !opcode_is_remote(fragment->op->todo.opcode);
}

/* The server must not execute the fragment twice. */
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

/* Bit mask of the endpoints for the part of the operation at `offset`: those that lend the part; of
 * a copy, both ranges; of an atomic, those of its atomic device. */
unsigned op_reach(const struct op *op, uint64_t offset);
/* The wait list of a kind for the part of the operation at `offset`. */
struct wait_list *op_wait_list(struct optable *table, const struct op *op,
			       uint64_t offset, enum wait_kind kind);
/* Put a fragment that is on no connection at the end of its wait list; `ahead`: at the front. */
void fragment_requeue(struct optable *table, struct fragment *fragment, bool ahead);
/* Put an operation, or a fragment, at the end of a wait list. */
void op_wait(struct optable *table, struct op *op, struct wait_list *list);
void fragment_wait(struct optable *table, struct fragment *fragment,
		   struct wait_list *list);
/* The kind of the first wait list of an operation. */
static inline enum wait_kind op_wait_kind(const struct op *op)
{
	if (opcode_is_atomic(op->todo.opcode))
		return WAIT_ATOMIC;
	if (opcode_is_remote(op->todo.opcode))
		return WAIT_REQUEST;
	return op->todo.bytes > FRAGMENT_SMALL_BYTES ? WAIT_LARGE : WAIT_PLAIN;
}
/* The kind of the first wait list of a fragment. */
static inline enum wait_kind fragment_wait_kind(const struct fragment *fragment)
{
	if (opcode_is_atomic(fragment->op->todo.opcode))
		return WAIT_ATOMIC;
	if (fragment_is_request(fragment))
		return WAIT_REQUEST;
	return fragment_is_large(fragment) ? WAIT_LARGE : WAIT_PLAIN;
}

static inline bool wait_list_empty(const struct wait_list *list)
{
	return list_empty(&list->reposts) && list_empty(&list->ops);
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

/* An operation as one fabric_op, which is laid out within struct rmem_op. */
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

/* A place in `ops` for an operation of a run, or for a new one, which is counted in n_free. */
static inline struct op *optable_acquire(struct optable *table)
{
	return table->unused[--table->n_unused];
}

static inline void optable_release(struct optable *table, struct op *op)
{
	op->state = OP_FREE;
	table->unused[table->n_unused++] = op;
	table->n_free++;
}

static inline void optable_done_put(struct optable *table, struct op *op)
{
	op->state = OP_DONE;
	table->n_done++;
	list_append(&table->done, &op->node);
}

/* Take the first operation of `done`, which is not empty. */
static inline struct op *optable_done_pop(struct optable *table)
{
	struct op *op = list_first(&table->done, struct op, node);

	list_remove(&op->node);
	table->n_done--;
	return op;
}

#endif

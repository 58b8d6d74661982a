/* SPDX-License-Identifier: BSD-3-Clause */
/* The client's side of a channel: a reliable connected queue pair and its send queue.
 * client.c connects and frees it, post.c posts operations, cq.c completes them.
 * Threads: [owner] unless said otherwise. */
#ifndef FABRIC_VERBS_CLIENT_CONNECTION_H
#define FABRIC_VERBS_CLIENT_CONNECTION_H

#include <infiniband/verbs.h>
#include <stdatomic.h>

#include "fabric/client.h"
#include "fabric/verbs/client/cq.h"
#include "fabric/verbs/client/inband.h"
#include "fabric/verbs/client/iwarp_wakeup.h"
#include "fabric/verbs/client/send_queue.h"

/* siw (soft-iWARP, the kernel's iWARP in software) answers a read of up to this size as if it were
 * on one page: the bytes beyond a page boundary come from the wrong address.  So such a read is
 * posted as two. */
#define VERBS_SIW_SHORT_READ 32

struct fabric_channel {
	struct fabric_cq *cq;
	struct list link; /* of the cq */
	void *owner;      /* returned in its completions */
	struct ibv_qp *qp;
	struct verbs_cm_id cm_id;   /* connected directly: only `peer` is set */
	bool cm_id_borrowed;        /* of the domain */
	struct verbs_wakeup wakeup; /* iWARP */
	bool confirm;               /* writes are confirmed by a read, see post.c */
	bool guard;                 /* a post may raise SIGPIPE */
	/* by opcode: operations up to this size may need several work requests */
	uint64_t confirm_bytes[FABRIC_WRITE + 1];
	atomic_bool dead; /* no operation can be posted any more */
	atomic_bool aborted;
	unsigned depth;
	unsigned outstanding;        /* prepared, and not yet polled by the owner */
	unsigned n_prepared;         /* prepared, and not yet posted */
	struct fabric_batch written; /* remote address of the last unconfirmed write */
	struct verbs_sq sq;
	struct verbs_inband *inband; /* created with the first in-band request */
	struct list ready; /* of the cq, while there are completions to report */
};

/* fabric_client_ops.prepare ... post_one, abort. */
unsigned verbs_connection_prepare(struct fabric_channel *channel,
				  const struct fabric_batch *batch,
				  const struct fabric_op *ops, size_t stride,
				  unsigned n);
int verbs_connection_prepare_sges(struct fabric_channel *channel,
				  const struct fabric_batch *batch,
				  const struct fabric_op *op,
				  const struct fabric_sge *sges, unsigned n);
int verbs_connection_prepare_atomic(struct fabric_channel *channel,
				    const struct fabric_batch *batch,
				    const struct fabric_op *op,
				    const struct fabric_atomic *atomic);
int verbs_connection_prepare_inband(struct fabric_channel *channel,
				    const struct fabric_batch *batch,
				    const struct fabric_op *op,
				    const struct fabric_inband_request *request);
int verbs_connection_post(struct fabric_channel *channel);
int verbs_connection_post_one(struct fabric_channel *channel, enum fabric_opcode opcode,
			      struct fabric_local_mr *region,
			      const struct fabric_key *key, const struct fabric_op *op);
uint32_t verbs_connection_inline_max(const struct fabric_channel *channel);
void verbs_connection_abort(struct fabric_channel *channel); /* [any] */

#endif

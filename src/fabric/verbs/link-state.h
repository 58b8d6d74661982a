/* SPDX-License-Identifier: BSD-3-Clause */
/* What link.c, post.c and entry.c know of the client's side of a channel, and nobody else. */
#ifndef FABRIC_VERBS_LINK_STATE_H
#define FABRIC_VERBS_LINK_STATE_H

#include <stdatomic.h>

#include "fabric/verbs/asks.h"
#include "fabric/verbs/link.h"
#include "fabric/verbs/poke.h"
#include "fabric/verbs/ring.h"

struct fabric_channel {
	struct fabric_cq *cq;
	struct list link; /* of the cq */
	void *owner;      /* what its completions come with */
	struct ibv_qp *qp;
	struct verbs_dial dial; /* of a direct one, its `peer` alone */
	bool dial_lent;         /* by the domain */
	struct verbs_poke poke; /* iWARP */
	bool confirm;
	atomic_bool dead; /* takes nothing any more */
	atomic_bool aborted;
	unsigned depth;
	unsigned outstanding;      /* taken, and not yet polled by the owner */
	unsigned n_put;            /* of them, not posted yet */
	struct fabric_run written; /* where the last write went that is not confirmed */
	struct verbs_ring ring;
	struct verbs_asks *asks; /* NULL: nothing was asked yet */
	struct list ready;       /* of the cq, while there is something to report */
};

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Completions of one queue in one domain.  Threads: [owner]. */
#ifndef FABRIC_VERBS_CLIENT_CQ_H
#define FABRIC_VERBS_CLIENT_CQ_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>

#include "base/list.h"
#include "fabric/client.h"
#include "fabric/verbs/client/domain.h"

/* Entries read at a time. */
#define VERBS_CQ_BATCH 32

struct fabric_cq {
	struct fabric_domain *domain;
	struct list in_domain;
	struct ibv_comp_channel *comp;
	struct ibv_cq *cq; /* of work requests, and of answers to in-band requests */
	unsigned depth;
	/* connect() may add a channel while the owner polls or frees another */
	pthread_mutex_t members_lock;
	unsigned reserved;    /* the part of depth that channels use; [members_lock] */
	struct list channels; /* [members_lock] */
	struct list ready;    /* channels with completions to report */
	atomic_bool aborts;   /* iWARP: a channel is aborted */
	/* iWARP: wake_fd wakes the owner when a channel was aborted, as siw (soft-iWARP) does not
	 * flush requests posted afterwards; fd polls wake_fd and comp.  Else -1 */
	int wake_fd, fd;
	struct ibv_wc entries[VERBS_CQ_BATCH]; /* last read; not cleared */
};

/* fabric_client_ops.cq_create ... poll. */
int verbs_cq_create(struct fabric_domain *domain, unsigned depth,
		    struct fabric_cq **ret_cq);
void verbs_cq_free(struct fabric_cq *cq);
int verbs_cq_fd(const struct fabric_cq *cq);
int verbs_cq_arm(struct fabric_cq *cq);
int verbs_cq_poll(struct fabric_cq *cq, struct fabric_wc *wcs, unsigned n);

/* Add a channel of this depth.  -EINVAL: the cq has no room for it.  [any] */
int verbs_cq_attach(struct fabric_cq *cq, struct list *link, unsigned depth);
void verbs_cq_detach(struct fabric_cq *cq, struct list *link, unsigned depth);

/* iWARP: a channel was aborted.  Makes the descriptor readable.  [any] */
static inline void verbs_cq_aborted(struct fabric_cq *cq)
{
	atomic_store_explicit(&cq->aborts, true, memory_order_release);
	(void)eventfd_write(cq->wake_fd, 1);
}

/* Read all entries, and record the requests that they complete as outcomes of their channels, to be
 * reported by the next poll.  -EIO with text. */
int verbs_cq_drain(struct fabric_cq *cq);

#endif

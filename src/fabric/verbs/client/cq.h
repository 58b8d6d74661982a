/* SPDX-License-Identifier: BSD-3-Clause */
/* Completions of one queue in one domain.  Threads: [owner]. */
#ifndef FABRIC_VERBS_CLIENT_CQ_H
#define FABRIC_VERBS_CLIENT_CQ_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>

#include "base/list.h"
#include "fabric/fabric.h"
#include "fabric/verbs/client/domain.h"

/* Entries that are read at a time. */
#define VERBS_CQ_BATCH 32

struct fabric_cq {
	struct fabric_domain *domain;
	struct list in_domain;
	struct ibv_comp_channel *comp;
	struct ibv_cq *cq; /* of requests, and of the answers to in-band ones */
	bool iwarp;        /* the device is */
	unsigned depth;
	/* connect() may add a channel while the owner polls or frees another */
	pthread_mutex_t members_lock;
	unsigned reserved;    /* of depth, by channels; [members_lock] */
	struct list channels; /* [members_lock] */
	struct list ready;    /* channels that have something to report */
	atomic_bool aborts;   /* iWARP: some of its channels are aborted */
	/* iWARP: what tells the owner that a channel was aborted, as siw does not flush
	 * what is posted behind its back; else -1.  fd: comp's and wake_fd's */
	int wake_fd, fd;
	struct ibv_wc entries[VERBS_CQ_BATCH]; /* those read last; not cleared */
};

/* The one with this node in domain->cqs. */
static inline struct fabric_cq *verbs_cq_of(struct list *node)
{
	return container_of(node, struct fabric_cq, in_domain);
}

/* fabric_client_ops.cq_create ... poll. */
int verbs_cq_create(struct fabric_domain *domain, unsigned depth,
		    struct fabric_cq **ret_cq);
void verbs_cq_free(struct fabric_cq *cq);
int verbs_cq_fd(const struct fabric_cq *cq);
int verbs_cq_arm(struct fabric_cq *cq);
int verbs_cq_poll(struct fabric_cq *cq, struct fabric_wc *wcs, unsigned n);

/* A channel of this depth joins: -EINVAL when it does not fit.  [any] */
int verbs_cq_join(struct fabric_cq *cq, struct list *link, unsigned depth);
void verbs_cq_leave(struct fabric_cq *cq, struct list *link, unsigned depth);

/* iWARP: a channel was aborted.  Has the descriptor turn readable.  [any] */
static inline void verbs_cq_aborted(struct fabric_cq *cq)
{
	atomic_store_explicit(&cq->aborts, true, memory_order_release);
	(void)eventfd_write(cq->wake_fd, 1);
}

/* Take every entry out of the completion queue: a channel's queue pair is destroyed. */
void verbs_cq_drain(struct fabric_cq *cq);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of the fake share.  Not for the cases.  Threads: all calls [any]. */
#ifndef TESTS_UNIT_VERBS_FAKE_STATE_H
#define TESTS_UNIT_VERBS_FAKE_STATE_H

#include <pthread.h>

#include "unit/fabric/verbs/verbs-fake.h"

#define FAKE_DEVICES 2
#define FAKE_ENTRIES 256
#define FAKE_RECEIVES 16

struct id {
	struct rdma_cm_id public;
	struct channel *channel;
	uint16_t port;
	int device; /* -1: none */
	bool listens;
	enum fake_fate fate;
	unsigned unacked;
};

struct comp {
	struct ibv_comp_channel public;
	struct cq *woken; /* whose entry woke it last */
	unsigned cqs;
};

struct cq {
	struct ibv_cq public;
	struct ibv_wc wcs[FAKE_ENTRIES];
	unsigned first, n, size;
	bool armed;
	unsigned got, acked, qps;
};

struct pd {
	struct ibv_pd public;
	unsigned children;
};

struct qp {
	struct ibv_qp public;
	struct fake_send sends[FAKE_SENDS];
	unsigned n_sends;
	bool own;  /* made by ibv_create_qp */
	bool gone; /* destroyed; kept, so that whoever still uses it is found out */
	struct {
		uint64_t wr_id;
		void *addr;
		uint32_t bytes;
	} receives[FAKE_RECEIVES]; /* in order */
	unsigned n_receives;
	struct qp *next_lost, *next_gone;
};

/* State of the whole; under the lock. */
struct fake_state {
	unsigned calls, fail_at;
	const char *failed;
	unsigned live, qps, mrs;
	unsigned unacked_asyncs;
	struct id *last; /* connected or accepted */
	struct qp *lost; /* not destroyed */
	struct qp *gone;
	struct qp *own; /* the last one made by ibv_create_qp, and not destroyed */
};
extern struct fake_state fake_state;

extern pthread_mutex_t fake_lock;

#define LOCKED(statement)                               \
	do {                                            \
		(void)pthread_mutex_lock(&fake_lock);   \
		statement;                              \
		(void)pthread_mutex_unlock(&fake_lock); \
	} while (0)

/* Whether this call is the one to fail; sets errno. */
bool fake_fails(const char *call);
/* n objects more, or fewer. */
void fake_live_add(int n);
/* Device n, made at its first use. */
struct ibv_context *fake_context(int n);

/* Put an entry into a completion queue; under the lock. */
void fake_cq_put(struct ibv_cq *cq, struct ibv_wc wc);
/* Move a queue pair to ERROR and flush what is posted; under the lock. */
void fake_qp_break(struct qp *qp);

/* The devices' own operations. */
int fake_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wcs);
int fake_req_notify_cq(struct ibv_cq *cq, int solicited);
int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int fake_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

#endif

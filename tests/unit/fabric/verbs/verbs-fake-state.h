/* SPDX-License-Identifier: BSD-3-Clause */
/* Internal state that the files of the fake share.  Threads: all calls [any]. */
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
	enum fake_request_state state;
	unsigned unacked;
	struct ibv_sa_path_rec path; /* of a request */
};

struct comp {
	struct ibv_comp_channel public;
	struct cq *woken; /* the CQ that made it readable last */
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
	bool direct;    /* made by ibv_create_qp */
	bool destroyed; /* kept, so that later uses are detected */
	struct {
		uint64_t wr_id;
		void *addr;
		uint32_t bytes;
	} receives[FAKE_RECEIVES]; /* in order */
	unsigned n_receives;
	struct qp *next_lost, *next_destroyed;
};

/* Protected by fake_mutex. */
struct fake_state {
	unsigned calls, fail_at;
	const char *failed;
	unsigned live, qps, serving, mrs;
	unsigned entries; /* of all completion queues */
	unsigned unacked_async_events;
	struct id *last; /* connected or accepted */
	struct qp *lost; /* ibv_destroy_qp failed */
	struct qp *destroyed;
	struct qp *direct; /* the last one made by ibv_create_qp, if it still exists */
};
extern struct fake_state fake_state;

extern pthread_mutex_t fake_mutex;

#define LOCKED(statement)                                \
	do {                                             \
		(void)pthread_mutex_lock(&fake_mutex);   \
		statement;                               \
		(void)pthread_mutex_unlock(&fake_mutex); \
	} while (0)

/* Whether this call must fail; sets errno. */
bool fake_fails(const char *call);
/* What a failing call returns that does not set errno. */
int fake_error(void);
/* Add n to the number of live objects. */
void fake_live_add(int n);
/* The context of device n. */
struct ibv_context *fake_context(int n);

/* Add a completion to a CQ; called with the lock held. */
void fake_cq_put(struct ibv_cq *cq, struct ibv_wc wc);
/* Move a queue pair to ERROR and flush its requests; called with the lock held. */
void fake_qp_break(struct qp *qp);

/* Operations of the device contexts. */
int fake_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wcs);
int fake_req_notify_cq(struct ibv_cq *cq, int solicited);
int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int fake_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

#endif

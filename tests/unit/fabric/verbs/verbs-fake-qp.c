/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs of the fake, with their requests and receives. */
#include "unit/fabric/verbs/verbs-fake-state.h"

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static unsigned posts;
static int post_limit = -1;
static bool post_fail_all, post_blocked_sigpipe;
static struct ibv_qp_attr last_attr;
static uint32_t ece_vendor;

static struct ibv_qp *qp_new(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	static uint32_t number;
	struct qp *qp;

	ck_assert_int_eq(attr->qp_type, IBV_QPT_RC);
	if (attr->cap.max_inline_data > verbs_fake.max_inline) {
		errno = EINVAL;
		return NULL;
	}
	qp = calloc(1, sizeof(*qp));
	ck_assert_ptr_nonnull(qp);
	qp->public.context = pd->context;
	qp->public.qp_context = attr->qp_context;
	qp->public.pd = pd;
	qp->public.send_cq = attr->send_cq;
	qp->public.recv_cq = attr->recv_cq;
	qp->public.qp_num = ++number;
	LOCKED(fake_state.live++; fake_state.qps++; fake_state.serving++;
	       ((struct pd *)pd)->children++; ((struct cq *)attr->send_cq)->qps++);
	return &qp->public;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *qp = fake_fails("ibv_create_qp") ? NULL : qp_new(pd, attr);

	if (qp) {
		qp->state = IBV_QPS_RESET;
		LOCKED(fake_state.direct = (struct qp *)qp;
		       fake_state.direct->direct = true);
	}
	return qp;
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd,
		   struct ibv_qp_init_attr *attr)
{
	ck_assert_ptr_null(id->qp);
	ck_assert_ptr_eq(pd->context, id->verbs);
	if (fake_fails("rdma_create_qp"))
		return -1;
	if (verbs_fake.qp_error) {
		errno = verbs_fake.qp_error;
		return -1;
	}
	id->qp = qp_new(pd, attr);
	if (!id->qp)
		return -1;
	id->qp->state = IBV_QPS_INIT;
	return 0;
}

void fake_qp_break(struct qp *qp)
{
	struct ibv_wc wc = { .status = IBV_WC_WR_FLUSH_ERR,
			     .opcode = (enum ibv_wc_opcode)77 };

	if (qp->public.state != IBV_QPS_ERR)
		fake_state.serving--;
	qp->public.state = IBV_QPS_ERR;
	for (unsigned i = 0; i < qp->n_sends; i++) {
		wc.wr_id = qp->sends[i].wr_id;
		fake_cq_put(qp->public.send_cq, wc);
	}
	qp->n_sends = 0;
	for (unsigned i = 0; i < qp->n_receives; i++) {
		wc.wr_id = qp->receives[i].wr_id;
		fake_cq_put(qp->public.recv_cq, wc);
	}
	qp->n_receives = 0;
}

int ibv_destroy_qp(struct ibv_qp *public)
{
	struct qp *qp = (struct qp *)public;

	ck_assert_ptr_nonnull(qp);
	if (verbs_fake.before_destroy_qp)
		verbs_fake.before_destroy_qp();
	ck_assert(!qp->destroyed);
	ck_assert_uint_eq(fake_state.unacked_async_events, 0);
	if (fake_state.direct == qp)
		fake_state.direct = NULL;
	/* the completions of flushed requests outlive the queue pair */
	LOCKED(fake_qp_break(qp); fake_state.live--; fake_state.qps--;
	       ((struct pd *)qp->public.pd)->children--;
	       ((struct cq *)qp->public.send_cq)->qps--);
	if (verbs_fake.destroy_qp_error) {
		LOCKED(qp->next_lost = fake_state.lost; fake_state.lost = qp);
		return verbs_fake.destroy_qp_error;
	}
	LOCKED(qp->destroyed = true; qp->next_destroyed = fake_state.destroyed;
	       fake_state.destroyed = qp);
	return 0;
}

int ibv_query_qp(struct ibv_qp *public, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *)
{
	ck_assert_int_eq(mask, IBV_QP_STATE);
	if (fake_fails("ibv_query_qp"))
		return EIO;
	LOCKED(attr->qp_state = public->state);
	return 0;
}

void fake_forget_destroyed(void)
{
	struct qp *qp;

	LOCKED(while ((qp = fake_state.destroyed)) {
		fake_state.destroyed = qp->next_destroyed;
		free(qp);
	});
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
	(void)ibv_destroy_qp(id->qp);
	id->qp = NULL;
}

/* Apply one state transition, which must be the next in order. */
static void qp_modify(struct ibv_qp *qp, const struct ibv_qp_attr *attr)
{
	switch (attr->qp_state) {
	case IBV_QPS_INIT:
		ck_assert_int_eq(qp->state, ((struct qp *)qp)->direct ? IBV_QPS_RESET
								      : IBV_QPS_INIT);
		last_attr.pkey_index = attr->pkey_index;
		last_attr.port_num = attr->port_num;
		last_attr.qp_access_flags = attr->qp_access_flags;
		break;
	case IBV_QPS_RTR:
		ck_assert_int_eq(qp->state, IBV_QPS_INIT);
		last_attr.path_mtu = attr->path_mtu;
		last_attr.ah_attr = attr->ah_attr;
		last_attr.max_dest_rd_atomic = attr->max_dest_rd_atomic;
		last_attr.dest_qp_num = attr->dest_qp_num;
		last_attr.rq_psn = attr->rq_psn;
		break;
	default:
		ck_assert_int_eq(attr->qp_state, IBV_QPS_RTS);
		ck_assert_int_eq(qp->state, IBV_QPS_RTR);
		last_attr.timeout = attr->timeout;
		last_attr.retry_cnt = attr->retry_cnt;
		last_attr.rnr_retry = attr->rnr_retry;
		last_attr.max_rd_atomic = attr->max_rd_atomic;
		last_attr.sq_psn = attr->sq_psn;
	}
	qp->state = attr->qp_state;
}

struct ibv_qp_attr fake_qp_attr(void)
{
	return last_attr;
}

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	ck_assert_int_eq(qp->state, IBV_QPS_INIT);
	ece_vendor = ece->vendor_id;
	return 0;
}

uint32_t fake_ece(void)
{
	return ece_vendor;
}

int ibv_modify_qp(struct ibv_qp *public, struct ibv_qp_attr *attr, int mask)
{
	ck_assert_msg(!((struct qp *)public)->destroyed,
		      "a destroyed queue pair is modified");
	if ((mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_ERR) {
		if (verbs_fake.modify_error)
			return verbs_fake.modify_error;
		LOCKED(fake_qp_break((struct qp *)public));
		return 0;
	}
	if (mask & IBV_QP_STATE) {
		if (fake_fails("ibv_modify_qp"))
			return fake_error();
		if (attr->qp_state == IBV_QPS_RTR && verbs_fake.before_rtr)
			verbs_fake.before_rtr();
		if (attr->qp_state == IBV_QPS_RTR && verbs_fake.rtr_error)
			return verbs_fake.rtr_error;
		qp_modify(public, attr);
		return 0;
	}
	ck_assert_int_eq(mask, IBV_QP_ACCESS_FLAGS);
	ck_assert_uint_eq(attr->qp_access_flags,
			  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
				  (verbs_fake.atomics ? IBV_ACCESS_REMOTE_ATOMIC : 0));
	if (fake_fails("ibv_modify_qp"))
		return fake_error();
	last_attr.qp_access_flags = attr->qp_access_flags;
	return 0;
}

int fake_post_recv(struct ibv_qp *public, struct ibv_recv_wr *wr,
		   struct ibv_recv_wr **bad)
{
	struct qp *qp = (struct qp *)public;

	if (verbs_fake.before_post_recv)
		verbs_fake.before_post_recv();
	*bad = wr;
	ck_assert_msg(!qp->destroyed, "a receive for a destroyed queue pair");
	if (fake_fails("ibv_post_recv"))
		return fake_error();
	(void)pthread_mutex_lock(&fake_mutex);
	ck_assert_uint_lt(qp->n_receives, FAKE_RECEIVES);
	qp->receives[qp->n_receives].wr_id = wr->wr_id;
	qp->receives[qp->n_receives].addr = (void *)(uintptr_t)wr->sg_list->addr;
	qp->receives[qp->n_receives++].bytes = wr->sg_list->length;
	/* in ERROR it is flushed at once */
	if (qp->public.state == IBV_QPS_ERR)
		fake_qp_break(qp);
	(void)pthread_mutex_unlock(&fake_mutex);
	return 0;
}

/* Complete the oldest receive; called with the lock held. */
static void receive_complete(struct qp *qp, struct ibv_wc wc)
{
	wc.wr_id = qp->receives[0].wr_id;
	qp->n_receives--;
	memmove(&qp->receives[0], &qp->receives[1],
		qp->n_receives * sizeof(qp->receives[0]));
	fake_cq_put(qp->public.recv_cq, wc);
}

void fake_receive(struct rdma_cm_id *id, const void *message, uint32_t bytes)
{
	struct qp *qp = (struct qp *)id->qp;
	struct ibv_wc wc = { .byte_len = bytes, .opcode = IBV_WC_RECV };

	(void)pthread_mutex_lock(&fake_mutex);
	ck_assert_msg(qp->n_receives > 0, "no receive for a message");
	ck_assert_uint_le(bytes, qp->receives[0].bytes);
	memcpy(qp->receives[0].addr, message, bytes);
	receive_complete(qp, wc);
	(void)pthread_mutex_unlock(&fake_mutex);
}

void fake_receive_immediate(struct rdma_cm_id *id, uint32_t bytes)
{
	struct ibv_wc wc = {
		.byte_len = bytes,
		.opcode = IBV_WC_RECV_RDMA_WITH_IMM,
		.wc_flags = IBV_WC_WITH_IMM,
	};

	LOCKED(receive_complete((struct qp *)id->qp, wc));
}

unsigned fake_receives(const struct rdma_cm_id *id)
{
	unsigned n;

	LOCKED(n = ((const struct qp *)id->qp)->n_receives);
	return n;
}

/* Remove the oldest n requests. */
static void sends_remove(struct qp *qp, unsigned n)
{
	qp->n_sends -= n;
	memmove(qp->sends, qp->sends + n, qp->n_sends * sizeof(qp->sends[0]));
}

bool fake_pop_send(struct rdma_cm_id *id, void *message, uint32_t bytes)
{
	struct qp *qp = (struct qp *)id->qp;
	struct ibv_wc wc = { .opcode = IBV_WC_SEND };
	bool sent;

	(void)pthread_mutex_lock(&fake_mutex);
	sent = qp->n_sends > 0;
	if (sent) {
		ck_assert_int_eq(qp->sends[0].opcode, IBV_WR_SEND);
		ck_assert_uint_eq(qp->sends[0].bytes, bytes);
		/* siw cannot send a short message that crosses a page */
		ck_assert_uint_le((uintptr_t)qp->sends[0].addr % 32 + bytes, 32);
		memcpy(message, qp->sends[0].addr, bytes);
		wc.wr_id = qp->sends[0].wr_id;
		sends_remove(qp, 1);
		fake_cq_put(qp->public.send_cq, wc);
	}
	(void)pthread_mutex_unlock(&fake_mutex);
	return sent;
}

static void post_check_signals(void)
{
	sigset_t mask;

	ck_assert_int_eq(pthread_sigmask(SIG_BLOCK, NULL, &mask), 0);
	post_blocked_sigpipe = sigismember(&mask, SIGPIPE) == 1;
	if (verbs_fake.post_raises_sigpipe)
		ck_assert_int_eq(pthread_kill(pthread_self(), SIGPIPE), 0);
}

bool fake_post_blocked_sigpipe(void)
{
	return post_blocked_sigpipe;
}

int fake_post_send(struct ibv_qp *public, struct ibv_send_wr *wr,
		   struct ibv_send_wr **bad)
{
	struct qp *qp = (struct qp *)public;
	struct fake_send *send;

	post_check_signals();
	ck_assert_msg(!qp->destroyed, "a request for a destroyed queue pair");
	(void)pthread_mutex_lock(&fake_mutex);
	posts++;
	for (; wr; wr = wr->next) {
		if (post_limit == 0) {
			*bad = wr;
			post_limit = -1;
			(void)pthread_mutex_unlock(&fake_mutex);
			return ENOMEM;
		}
		if (post_limit > 0)
			post_limit--;
		ck_assert_uint_lt(qp->n_sends, FAKE_SENDS);
		send = &qp->sends[qp->n_sends++];
		*send = (struct fake_send){
			.wr_id = wr->wr_id,
			.opcode = wr->opcode,
			.flags = wr->send_flags,
			.remote_addr = wr->wr.rdma.remote_addr,
			.bytes = wr->sg_list->length,
			.addr = (const void *)(uintptr_t)wr->sg_list->addr,
			.n_sges = wr->num_sge,
		};
		if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
		    wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
			send->compare_add = wr->wr.atomic.compare_add;
			send->swap = wr->wr.atomic.swap;
			ck_assert_uint_eq(wr->wr.atomic.rkey, 9);
		}
	}
	(void)pthread_mutex_unlock(&fake_mutex);
	if (!post_fail_all)
		return 0;
	post_fail_all = false;
	*bad = NULL;
	return ENOTCONN;
}

static struct qp *last_qp(void)
{
	if (fake_state.direct)
		return fake_state.direct;
	ck_assert_ptr_nonnull(fake_state.last);
	return (struct qp *)fake_state.last->public.qp;
}

unsigned fake_sends(struct fake_send sends[FAKE_SENDS])
{
	struct qp *qp = last_qp();
	unsigned n;

	LOCKED(memcpy(sends, qp->sends, sizeof(qp->sends)); n = qp->n_sends);
	return n;
}

void fake_complete_sends(unsigned n)
{
	struct qp *qp = last_qp();

	ck_assert_uint_le(n, qp->n_sends);
	for (unsigned i = 0; i < n; i++) {
		struct ibv_wc wc = { .wr_id = qp->sends[i].wr_id };

		if (qp->sends[i].flags & IBV_SEND_SIGNALED)
			LOCKED(fake_cq_put(qp->public.send_cq, wc));
	}
	sends_remove(qp, n);
}

void fake_fail(enum ibv_wc_status status)
{
	struct qp *qp = last_qp();
	struct ibv_wc wc = {
		.status = status,
		.opcode = (enum ibv_wc_opcode)77,
		.vendor_err = 5,
	};

	LOCKED(wc.wr_id = qp->sends[0].wr_id; fake_cq_put(qp->public.send_cq, wc);
	       sends_remove(qp, 1); fake_qp_break(qp));
}

void fake_drop_sends(void)
{
	last_qp()->n_sends = 0;
}

void fake_post_limit(int n)
{
	post_limit = n;
}

void fake_post_fail_all(void)
{
	post_fail_all = true;
}

unsigned fake_posts(void)
{
	return posts;
}

uint32_t fake_direct_qpn(void)
{
	ck_assert_ptr_nonnull(fake_state.direct);
	return fake_state.direct->public.qp_num;
}

void fake_direct_break(void)
{
	ck_assert_ptr_nonnull(fake_state.direct);
	LOCKED(fake_qp_break(fake_state.direct));
}

void fake_break(struct rdma_cm_id *id)
{
	LOCKED(fake_qp_break((struct qp *)id->qp));
}

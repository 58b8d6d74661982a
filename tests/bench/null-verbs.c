/* SPDX-License-Identifier: BSD-3-Clause */
#include "null-verbs.h"

#include <stdlib.h>

#include "unit/fabric/verbs/verbs-fake-state.h"

_Thread_local struct null_counts null_counts;

static int null_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
			  struct ibv_send_wr **bad)
{
	struct cq *cq = (struct cq *)qp->send_cq;

	(void)bad;
	null_counts.doorbells++;
	for (; wr; wr = wr->next) {
		struct ibv_wc *wc = &cq->wcs[(cq->first + cq->n) % FAKE_ENTRIES];

		null_counts.requests++;
		if (!(wr->send_flags & IBV_SEND_SIGNALED))
			continue;
		if (cq->n++ == cq->size)
			abort(); /* an overrun */
		wc->wr_id = wr->wr_id;
		wc->qp_num = qp->qp_num;
		null_counts.signaled++;
	}
	return 0;
}

static int null_poll_cq(struct ibv_cq *of, int n, struct ibv_wc *wcs)
{
	struct cq *cq = (struct cq *)of;
	int i;

	for (i = 0; i < n && cq->n; i++, cq->n--) {
		wcs[i].wr_id = cq->wcs[cq->first].wr_id;
		wcs[i].status = IBV_WC_SUCCESS;
		wcs[i].vendor_err = 0;
		wcs[i].qp_num = cq->wcs[cq->first].qp_num;
		cq->first = (cq->first + 1) % FAKE_ENTRIES;
	}
	return i;
}

static int null_notify(struct ibv_cq *, int)
{
	return 0;
}

void null_device(bool iwarp)
{
	struct ibv_context_ops *ops;

	verbs_fake.iwarp = iwarp;
	verbs_fake.max_cqe = 1 << 20;
	verbs_fake.max_qp_wr = 1 << 15;
	ops = &fake_context(0)->ops;
	ops->post_send = null_post_send;
	ops->poll_cq = null_poll_cq;
	ops->req_notify_cq = null_notify;
}

struct ibv_cq *null_cq_create(int entries)
{
	return ibv_create_cq(fake_context(0), entries, NULL, NULL, 0);
}

struct ibv_qp *null_qp_create(struct ibv_cq *cq)
{
	struct ibv_qp *qp = calloc(1, sizeof(*qp));

	if (!qp)
		return NULL;
	qp->context = cq->context;
	qp->send_cq = qp->recv_cq = cq;
	qp->state = IBV_QPS_RTS;
	return qp;
}

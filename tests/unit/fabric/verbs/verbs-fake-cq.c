/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues and completion channels of the fake. */
#include "unit/fabric/verbs/verbs-fake-state.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct comp *comp;

	if (fake_fails("ibv_create_comp_channel"))
		return NULL;
	comp = calloc(1, sizeof(*comp));
	ck_assert_ptr_nonnull(comp);
	comp->public.context = context;
	comp->public.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	fake_live_add(1);
	return &comp->public;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *public)
{
	struct comp *comp = (struct comp *)public;

	ck_assert_uint_eq(comp->cqs, 0);
	(void)close(public->fd);
	free(comp);
	fake_live_add(-1);
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int vector)
{
	struct comp *comp = (struct comp *)channel;
	struct cq *cq;

	(void)vector;
	ck_assert_int_le(cqe, verbs_fake.max_cqe);
	if (fake_fails("ibv_create_cq"))
		return NULL;
	cq = calloc(1, sizeof(*cq));
	ck_assert_ptr_nonnull(cq);
	cq->public.context = context;
	cq->public.channel = channel;
	cq->public.cq_context = cq_context;
	cq->size = cqe < FAKE_ENTRIES ? (unsigned)cqe : FAKE_ENTRIES;
	if (comp)
		comp->cqs++;
	fake_live_add(1);
	return &cq->public;
}

int ibv_destroy_cq(struct ibv_cq *public)
{
	struct cq *cq = (struct cq *)public;

	ck_assert_uint_eq(cq->qps, 0);
	ck_assert_uint_eq(cq->got, cq->acked);
	if (public->channel)
		((struct comp *)public->channel)->cqs--;
	LOCKED(fake_state.entries -= cq->n);
	free(cq);
	fake_live_add(-1);
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq,
		     void **context)
{
	struct comp *comp = (struct comp *)channel;
	eventfd_t count;

	if (eventfd_read(channel->fd, &count))
		return -1;
	LOCKED(*cq = &comp->woken->public; *context = (*cq)->cq_context;
	       comp->woken->got++);
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	((struct cq *)cq)->acked += n;
}

void fake_cq_put(struct ibv_cq *public, struct ibv_wc wc)
{
	struct cq *cq = (struct cq *)public;

	ck_assert_msg(cq->n < cq->size, "overrun of a completion queue");
	cq->wcs[(cq->first + cq->n++) % FAKE_ENTRIES] = wc;
	fake_state.entries++;
	if (cq->armed) {
		((struct comp *)public->channel)->woken = cq;
		(void)eventfd_write(public->channel->fd, 1);
	}
	cq->armed = false;
}

int fake_poll_cq(struct ibv_cq *public, int n, struct ibv_wc *wcs)
{
	struct cq *cq = (struct cq *)public;
	int i;

	if (verbs_fake.poll_cq_us)
		(void)usleep(verbs_fake.poll_cq_us);
	(void)pthread_mutex_lock(&fake_mutex);
	for (i = 0; i < n && cq->n; i++, cq->n--) {
		wcs[i] = cq->wcs[cq->first];
		cq->first = (cq->first + 1) % FAKE_ENTRIES;
	}
	fake_state.entries -= (unsigned)i;
	(void)pthread_mutex_unlock(&fake_mutex);
	return i;
}

int fake_req_notify_cq(struct ibv_cq *public, int solicited)
{
	struct rdma_cm_id *id;

	(void)solicited;
	if (fake_fails("ibv_req_notify_cq"))
		return fake_error();
	(void)pthread_mutex_lock(&fake_mutex);
	if (verbs_fake.notify_errors) {
		verbs_fake.notify_errors--;
		(void)pthread_mutex_unlock(&fake_mutex);
		return ENOMEM;
	}
	id = verbs_fake.break_at_arm;
	verbs_fake.break_at_arm = NULL;
	if (id)
		fake_qp_break((struct qp *)id->qp);
	((struct cq *)public)->armed = true;
	(void)pthread_mutex_unlock(&fake_mutex);
	return 0;
}

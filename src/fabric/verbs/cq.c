/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/cq.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/err.h"
#include "fabric/verbs/failure.h"
#include "fabric/verbs/link.h"
#include "fabric/verbs/poke.h"

#define POLL_BATCH 32

static int comp_open(struct fabric_cq *cq, struct ibv_context *verbs)
{
	int flags;

	cq->comp = ibv_create_comp_channel(verbs);
	if (!cq->comp)
		return err_errno(verbs_failure(), "ibv_create_comp_channel");
	flags = fcntl(cq->comp->fd, F_GETFL);
	if (flags < 0 || fcntl(cq->comp->fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return err_errno(-errno, "the completion channel's descriptor");
	return 0;
}

static int wake_open(struct fabric_cq *cq)
{
	struct epoll_event event = { .events = EPOLLIN };

	if (!cq->domain->facts.iwarp)
		return 0;
	cq->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (cq->wake_fd < 0)
		return err_errno(-errno, "eventfd");
	cq->fd = epoll_create1(EPOLL_CLOEXEC);
	if (cq->fd < 0 || epoll_ctl(cq->fd, EPOLL_CTL_ADD, cq->wake_fd, &event) ||
	    epoll_ctl(cq->fd, EPOLL_CTL_ADD, cq->comp->fd, &event))
		return err_errno(-errno, "epoll");
	return 0;
}

/* Everything posted can complete with an entry of its own when a channel breaks: over
 * iWARP confirming reads and the pokes of channels of depth 1, too. */
static unsigned entries_per_op(const struct fabric_domain *domain)
{
	return domain->confirm ? 2 + VERBS_POKES : 1;
}

static int depth_check(const struct fabric_domain *domain, unsigned depth)
{
	unsigned max = domain->facts.max_cqe / entries_per_op(domain);

	if (depth && depth <= max)
		return 0;
	return err_set(-EINVAL,
		       "a queue for %u operations: RDMA device %s allows 1 to %u",
		       depth, domain->facts.name, max);
}

int verbs_cq_create(struct fabric_domain *domain, unsigned depth,
		    struct fabric_cq **ret_cq)
{
	struct ibv_context *verbs = domain->route.id->verbs;
	struct fabric_cq *cq;
	unsigned entries = depth * entries_per_op(domain);
	int err = depth_check(domain, depth);

	if (err)
		return err;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return err_errno(-ENOMEM, "a queue for %u operations", depth);
	cq->domain = domain;
	cq->depth = depth;
	cq->wake_fd = cq->fd = -1;
	list_init(&cq->channels);
	/* a default mutex cannot fail to initialise */
	(void)pthread_mutex_init(&cq->members_lock, NULL);
	cq->ready = calloc(depth, sizeof(*cq->ready));
	if (!cq->ready) {
		err = err_errno(-ENOMEM, "a queue for %u operations", depth);
		goto err_free;
	}
	err = comp_open(cq, verbs);
	if (!err)
		err = wake_open(cq);
	if (err)
		goto err_free;
	cq->cq = ibv_create_cq(verbs, (int)entries, NULL, cq->comp, 0);
	if (!cq->cq) {
		err = err_errno(verbs_failure(),
				"RDMA device %s: ibv_create_cq of %u entries",
				domain->facts.name, entries);
		goto err_free;
	}
	*ret_cq = cq;
	return 0;

err_free:
	verbs_cq_free(cq);
	return err;
}

void verbs_cq_free(struct fabric_cq *cq)
{
	if (!cq)
		return;
	if (cq->cq)
		(void)ibv_destroy_cq(cq->cq);
	if (cq->comp)
		(void)ibv_destroy_comp_channel(cq->comp);
	if (cq->fd >= 0)
		(void)close(cq->fd);
	if (cq->wake_fd >= 0)
		(void)close(cq->wake_fd);
	(void)pthread_mutex_destroy(&cq->members_lock);
	free(cq->ready);
	free(cq);
}

int verbs_cq_join(struct fabric_cq *cq, struct list *link, unsigned depth)
{
	unsigned left;

	(void)pthread_mutex_lock(&cq->members_lock);
	left = cq->depth - cq->reserved;
	if (depth && depth <= left) {
		cq->reserved += depth;
		list_append(&cq->channels, link);
	}
	(void)pthread_mutex_unlock(&cq->members_lock);
	if (!depth || depth > left)
		return err_set(-EINVAL,
			       "a channel of depth %u: the queue has %u of %u left",
			       depth, left, cq->depth);
	return 0;
}

void verbs_cq_leave(struct fabric_cq *cq, struct list *link, unsigned depth)
{
	(void)pthread_mutex_lock(&cq->members_lock);
	cq->reserved -= depth;
	list_remove(link);
	(void)pthread_mutex_unlock(&cq->members_lock);
}

int verbs_cq_fd(const struct fabric_cq *cq)
{
	return cq->fd >= 0 ? cq->fd : cq->comp->fd;
}

void verbs_cq_wake(const struct fabric_cq *cq)
{
	(void)eventfd_write(cq->wake_fd, 1);
}

int verbs_cq_arm(struct fabric_cq *cq)
{
	struct ibv_cq *from;
	eventfd_t count;
	void *context;
	int err;

	if (cq->wake_fd >= 0)
		(void)eventfd_read(cq->wake_fd, &count);
	while (!ibv_get_cq_event(cq->comp, &from, &context))
		ibv_ack_cq_events(from, 1);
	err = ibv_req_notify_cq(cq->cq, 0);
	return err ? err_errno(-abs(err), "ibv_req_notify_cq") : 0;
}

void verbs_cq_ready(struct fabric_cq *cq, const struct fabric_wc *wc)
{
	unsigned at = cq->ready_first + cq->n_ready++;

	cq->ready[at < cq->depth ? at : at - cq->depth] = *wc;
}

static int cq_drain(struct fabric_cq *cq, unsigned enough)
{
	struct ibv_wc wcs[POLL_BATCH];
	int n;

	while (cq->n_ready < enough) {
		n = ibv_poll_cq(cq->cq, POLL_BATCH, wcs);
		if (n < 0)
			return err_set(-EIO, "RDMA device %s: ibv_poll_cq gives %d",
				       cq->domain->facts.name, n);
		for (int i = 0; i < n; i++)
			if (wcs[i].wr_id != VERBS_POKE_ID)
				verbs_link_complete(&wcs[i]);
		if (n < POLL_BATCH)
			break;
	}
	return 0;
}

/* siw takes requests for a queue pair in ERROR and forgets them.  Once a channel is aborted
 * all entries there will be are in the queue, so what is then not among them is lost. */
static int cq_settle(struct fabric_cq *cq)
{
	int err = 0;

	(void)pthread_mutex_lock(&cq->members_lock);
	list_for_each(node, &cq->channels) {
		struct fabric_channel *channel = verbs_link_of(node);

		if (!verbs_link_aborted(channel))
			continue;
		err = cq_drain(cq, UINT32_MAX);
		if (err)
			break;
		verbs_link_lose(channel);
	}
	(void)pthread_mutex_unlock(&cq->members_lock);
	return err;
}

int verbs_cq_poll(struct fabric_cq *cq, struct fabric_wc *wcs, unsigned n)
{
	unsigned i;
	int err = cq_drain(cq, n);

	if (!err && cq->domain->facts.iwarp && cq->n_ready < n)
		err = cq_settle(cq);
	if (err)
		return err;
	for (i = 0; i < n && cq->n_ready; i++) {
		wcs[i] = cq->ready[cq->ready_first];
		verbs_link_taken(wcs[i].channel);
		cq->ready_first =
			cq->ready_first + 1 < cq->depth ? cq->ready_first + 1 : 0;
		cq->n_ready--;
	}
	return (int)i;
}

void verbs_cq_forget(struct fabric_cq *cq, const struct fabric_channel *channel)
{
	unsigned n, at = cq->ready_first;

	/* all there is: the ring has room for whatever was posted */
	(void)cq_drain(cq, UINT32_MAX);
	n = cq->n_ready;
	cq->n_ready = 0;
	for (unsigned i = 0; i < n; i++) {
		if (cq->ready[at].channel != channel)
			verbs_cq_ready(cq, &cq->ready[at]);
		at = at + 1 < cq->depth ? at + 1 : 0;
	}
}

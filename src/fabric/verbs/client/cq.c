/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/client/cq.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/err.h"
#include "base/rare.h"
#include "fabric/verbs/client/inband.h"
#include "fabric/verbs/common/status.h"
#include "fabric/verbs/client/connection.h"
#include "fabric/verbs/client/iwarp_wakeup.h"

static int comp_open(struct fabric_cq *cq, struct ibv_context *verbs)
{
	int flags;

	cq->comp = ibv_create_comp_channel(verbs);
	if (!cq->comp)
		return err_errno(verbs_errno(), "ibv_create_comp_channel");
	flags = fcntl(cq->comp->fd, F_GETFL);
	if (flags < 0 || fcntl(cq->comp->fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return err_errno(-errno, "the completion channel's descriptor");
	return 0;
}

static int wake_open(struct fabric_cq *cq)
{
	struct epoll_event event = { .events = EPOLLIN };

	if (!cq->domain->attr.iwarp)
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
 * iWARP confirming reads and the pokes of channels of depth 1, too; and the receives of
 * answers, of which no channel has more than operations. */
static unsigned entries_per_op(const struct fabric_domain *domain)
{
	return (domain->confirm ? 2 + VERBS_WAKEUPS_MAX : 1) + domain->peer_inband;
}

static int depth_check(const struct fabric_domain *domain, unsigned depth)
{
	unsigned max = domain->attr.max_cqe / entries_per_op(domain);

	if (depth && depth <= max)
		return 0;
	return err_set(-EINVAL,
		       "a queue for %u operations: RDMA device %s allows 1 to %u",
		       depth, domain->attr.name, max);
}

int verbs_cq_create(struct fabric_domain *domain, unsigned depth,
		    struct fabric_cq **ret_cq)
{
	struct ibv_context *verbs = domain->verbs;
	struct fabric_cq *cq;
	unsigned entries = depth * entries_per_op(domain);
	int err = depth_check(domain, depth);

	if (err)
		return err;
	cq = malloc(sizeof(*cq));
	if (!cq)
		return err_errno(-ENOMEM, "a queue for %u operations", depth);
	memset(cq, 0, offsetof(struct fabric_cq, entries));
	cq->domain = domain;
	cq->iwarp = domain->attr.iwarp;
	cq->depth = depth;
	cq->wake_fd = cq->fd = -1;
	list_init(&cq->in_domain);
	list_init(&cq->channels);
	list_init(&cq->ready);
	/* a default mutex cannot fail to initialise */
	(void)pthread_mutex_init(&cq->members_lock, NULL);
	err = comp_open(cq, verbs);
	if (!err)
		err = wake_open(cq);
	if (err)
		goto err_free;
	cq->cq = ibv_create_cq(verbs, (int)entries, NULL, cq->comp, 0);
	if (!cq->cq) {
		err = err_errno(verbs_errno(),
				"RDMA device %s: ibv_create_cq of %u entries",
				domain->attr.name, entries);
		goto err_free;
	}
	(void)pthread_mutex_lock(&domain->cqs_lock);
	list_append(&domain->cqs, &cq->in_domain);
	(void)pthread_mutex_unlock(&domain->cqs_lock);
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
	(void)pthread_mutex_lock(&cq->domain->cqs_lock);
	list_remove(&cq->in_domain);
	(void)pthread_mutex_unlock(&cq->domain->cqs_lock);
	if (cq->cq)
		(void)ibv_destroy_cq(cq->cq);
	/* one whose device was cut off keeps its queue, but not its descriptor */
	if (cq->comp && ibv_destroy_comp_channel(cq->comp))
		(void)close(cq->comp->fd);
	if (cq->fd >= 0)
		(void)close(cq->fd);
	if (cq->wake_fd >= 0)
		(void)close(cq->wake_fd);
	(void)pthread_mutex_destroy(&cq->members_lock);
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

static bool cq_aborts(const struct fabric_cq *cq)
{
	return cq->iwarp && atomic_load_explicit(&cq->aborts, memory_order_acquire);
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

static RARE int cq_failed(const struct fabric_cq *cq, int result)
{
	return err_set(-EIO, "RDMA device %s: ibv_poll_cq gives %d",
		       cq->domain->attr.name, result);
}

/* An entry that completes no work request of a send queue. */
static RARE unsigned entry_aside(const struct ibv_wc *entry)
{
	if (entry->wr_id != VERBS_WAKEUP_WR_ID)
		verbs_completion_inband(entry);
	return 0;
}

/* Report what the entry completes, and return 1; or leave it with its channel. */
static inline unsigned entry_take(const struct ibv_wc *entry, struct fabric_wc *wc)
{
	return entry->wr_id & VERBS_WR_ID_OTHER ? entry_aside(entry)
						: verbs_completion_take(entry, wc);
}

/* Take all entries; what they complete is left with the channels. */
static int cq_drain(struct fabric_cq *cq)
{
	int n;

	do {
		n = ibv_poll_cq(cq->cq, VERBS_CQ_BATCH, cq->entries);
		for (int i = 0; i < n; i++)
			if (cq->entries[i].wr_id & VERBS_WR_ID_OTHER)
				(void)entry_aside(&cq->entries[i]);
			else
				verbs_completion_keep(&cq->entries[i]);
	} while (n == VERBS_CQ_BATCH);
	return n < 0 ? cq_failed(cq, n) : 0;
}

/* siw takes requests for a queue pair in ERROR and forgets them.  Once a channel is aborted
 * all entries there will be are in the queue, so what is then not among them is lost. */
static int cq_settle(struct fabric_cq *cq)
{
	int err = 0;

	(void)pthread_mutex_lock(&cq->members_lock);
	/* until none of them is left; who sees the flag sees what it is of */
	(void)atomic_exchange(&cq->aborts, false);
	list_for_each(node, &cq->channels) {
		struct fabric_channel *channel =
			container_of(node, struct fabric_channel, link);

		if (!atomic_load(&channel->aborted))
			continue;
		atomic_store_explicit(&cq->aborts, true, memory_order_relaxed);
		err = cq_drain(cq);
		if (err)
			break;
		verbs_connection_flush(channel);
	}
	(void)pthread_mutex_unlock(&cq->members_lock);
	return err;
}

static RARE unsigned cq_report(struct fabric_cq *cq, struct fabric_wc *wcs, unsigned n)
{
	unsigned got = 0;

	list_for_each_safe(node, &cq->ready) {
		if (got == n)
			break;
		got += verbs_completion_report(
			container_of(node, struct fabric_channel, ready), wcs + got,
			n - got);
	}
	return got;
}

/* Entries that were read: each reports a completion at once, or leaves it with its channel.
 * Returns how many it reports. */
static int entries_report(struct fabric_cq *cq, int n, struct fabric_wc *wcs)
{
	int got = 0;

	for (int i = 0; i < n; i++)
		got += (int)entry_take(&cq->entries[i], &wcs[got]);
	return n < 0 ? cq_failed(cq, n) : got;
}

/* Take entries, at most as many as completions are wanted.  *ret_more: there may be more of
 * them. */
static int cq_take(struct fabric_cq *cq, struct fabric_wc *wcs, unsigned n,
		   bool *ret_more)
{
	int asked = n < VERBS_CQ_BATCH ? (int)n : VERBS_CQ_BATCH;
	int taken = ibv_poll_cq(cq->cq, asked, cq->entries);

	*ret_more = taken == asked;
	return entries_report(cq, taken, wcs);
}

/* The same as verbs_cq_poll(), when so many are there already; `more`: entries may be left. */
static RARE int poll_on(struct fabric_cq *cq, struct fabric_wc *wcs, unsigned n,
			unsigned got, bool more)
{
	int result;

	while (more && got < n) {
		if (!list_empty(&cq->ready)) {
			got += cq_report(cq, wcs + got, n - got);
			continue;
		}
		result = cq_take(cq, wcs + got, n - got, &more);
		if (result < 0)
			return got ? (int)got : result;
		got += (unsigned)result;
	}
	if (got < n && !list_empty(&cq->ready))
		got += cq_report(cq, wcs + got, n - got);
	if (got < n && cq_aborts(cq)) {
		result = cq_settle(cq);
		if (result < 0)
			return got ? (int)got : result;
		got += cq_report(cq, wcs + got, n - got);
	}
	return (int)got;
}

/* The same, when so many entries were read that nobody has looked at. */
static __attribute__((noinline)) int
poll_read(struct fabric_cq *cq, struct fabric_wc *wcs, unsigned n, int taken)
{
	int got = entries_report(cq, taken, wcs);

	return got < 0 ? got
		       : poll_on(cq, wcs, n, (unsigned)got, taken == VERBS_CQ_BATCH);
}

int verbs_cq_poll(struct fabric_cq *cq, struct fabric_wc *wcs, unsigned n)
{
	int taken;

	/* the library asks for as many as that, always */
	if (n != VERBS_CQ_BATCH || !list_empty(&cq->ready) || cq_aborts(cq))
		return poll_on(cq, wcs, n, 0, true);
	taken = ibv_poll_cq(cq->cq, VERBS_CQ_BATCH, cq->entries);
	if (taken == 0)
		return 0;
	/* there is seldom another, however many operations one stands for */
	if (taken != 1 || (cq->entries[0].wr_id & VERBS_WR_ID_OTHER))
		return poll_read(cq, wcs, n, taken);
	if (verbs_completion_take(&cq->entries[0], wcs) == 1)
		return 1;
	return poll_on(cq, wcs, n, 0, false);
}

void verbs_cq_drain(struct fabric_cq *cq)
{
	(void)cq_drain(cq);
}

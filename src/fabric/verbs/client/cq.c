/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/client/cq.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own_fd.h"
#include "base/rare.h"
#include "fabric/verbs/client/connection.h"
#include "fabric/verbs/client/inband.h"
#include "fabric/verbs/client/iwarp_wakeup.h"
#include "fabric/verbs/common/context.h"

static int wake_open(struct fabric_cq *cq)
{
	struct epoll_event event = { .events = EPOLLIN };

	if (!cq->domain->attr.iwarp)
		return 0;
	cq->wake_fd = own_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (cq->wake_fd < 0)
		return err_errno(-errno, "eventfd");
	cq->fd = own_fd(epoll_create1(EPOLL_CLOEXEC));
	if (cq->fd < 0 || epoll_ctl(cq->fd, EPOLL_CTL_ADD, cq->wake_fd, &event) ||
	    epoll_ctl(cq->fd, EPOLL_CTL_ADD, cq->comp->fd, &event))
		return err_errno(-errno, "epoll");
	return 0;
}

/* When a channel breaks, everything posted can complete with an entry of its own: over iWARP also
 * confirming reads and the wake-ups of channels of depth 1; and the receives of answers, of which
 * a channel has no more than operations. */
static unsigned entries_per_op(const struct fabric_domain *domain)
{
	return (domain->confirm ? 2 + VERBS_WAKEUPS_MAX : 1) +
	       (domain->peer.flags & FABRIC_ENDPOINT_INBAND ? 1 : 0);
}

static int depth_check(const struct fabric_domain *domain, unsigned depth)
{
	unsigned max = domain->attr.public.max_cqe / entries_per_op(domain);

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
	cq->depth = depth;
	cq->wake_fd = cq->fd = -1;
	list_init(&cq->in_domain);
	list_init(&cq->channels);
	list_init(&cq->ready);
	/* a default mutex cannot fail to initialise */
	(void)pthread_mutex_init(&cq->members_lock, NULL);
	err = verbs_create_comp_channel(verbs, &cq->comp);
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
	/* if the device was cut off, the queue stays, but its descriptor is closed */
	if (cq->comp && ibv_destroy_comp_channel(cq->comp))
		(void)close(cq->comp->fd);
	if (cq->fd >= 0)
		(void)close(cq->fd);
	if (cq->wake_fd >= 0)
		(void)close(cq->wake_fd);
	(void)pthread_mutex_destroy(&cq->members_lock);
	free(cq);
}

int verbs_cq_attach(struct fabric_cq *cq, struct list *link, unsigned depth)
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

void verbs_cq_detach(struct fabric_cq *cq, struct list *link, unsigned depth)
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
	return cq->wake_fd >= 0 &&
	       atomic_load_explicit(&cq->aborts, memory_order_acquire);
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

/* ---- the entries of a channel ---- */

/* The status of the requests before the entry's own.  An error other than a flush occurs when the
 * device executes the request, so those before it succeeded; but writes that wait for a
 * confirming read are in doubt, or fail with it.  A fault of the read's own byte says nothing of
 * them. */
static enum ibv_wc_status status_before(const struct fabric_channel *channel,
					const struct ibv_wc *wc)
{
	bool own_fault =
		wc->status == IBV_WC_LOC_PROT_ERR || wc->status == IBV_WC_LOC_LEN_ERR;

	if (wc->status == IBV_WC_SUCCESS)
		return IBV_WC_SUCCESS;
	if (!channel->confirm)
		return wc->status == IBV_WC_WR_FLUSH_ERR ? IBV_WC_WR_FLUSH_ERR
							 : IBV_WC_SUCCESS;
	return verbs_sq_wr(wc)->kind == VERBS_WR_CONFIRM && !own_fault
		       ? wc->status
		       : IBV_WC_WR_FLUSH_ERR;
}

/* The device has put the queue pair into ERROR. */
static void connection_broken(struct fabric_channel *channel)
{
	bool was_dead =
		atomic_exchange_explicit(&channel->dead, true, memory_order_relaxed);

	/* what was posted since then is dropped, see cq_flush() */
	if (channel->cq->domain->attr.iwarp && !was_dead)
		verbs_connection_abort(channel);
}

static void connection_ready(struct fabric_channel *channel)
{
	if (list_empty(&channel->ready))
		list_append(&channel->cq->ready, &channel->ready);
}

/* Record the requests that the entry completes as outcomes of its channel, and append the channel
 * to cq->ready: completion_report() reports them later. */
static RARE void completion_defer(const struct ibv_wc *wc)
{
	struct fabric_channel *channel = verbs_sq_wr(wc)->channel;
	unsigned n = verbs_sq_covered(&channel->sq, wc);

	if (wc->status != IBV_WC_SUCCESS)
		connection_broken(channel);
	if (n == 0)
		return;
	verbs_sq_complete(&channel->sq, n, wc, status_before(channel, wc));
	connection_ready(channel);
}

/* completion_decode() for an entry that may be an error, a channel with unreported completions, or
 * work requests of which some complete no operation. */
static __attribute__((noinline)) unsigned
completion_decode_slow(const struct ibv_wc *wc, struct fabric_wc *ret_wc)
{
	struct fabric_channel *channel = verbs_sq_wr(wc)->channel;
	struct verbs_sq *sq = &channel->sq;
	unsigned n;

	if ((unsigned)wc->status | sq->n_slow) {
		completion_defer(wc);
		return 0;
	}
	n = verbs_sq_retire(sq, verbs_sq_covered_plain(sq, wc));
	if (n == 0)
		return 0;
	channel->outstanding -= n;
	*ret_wc = (struct fabric_wc){ .owner = channel->owner, .n = n };
	return 1;
}

/* Returns 1 when the operations that the entry completes are in *ret_wc; 0 when it completes none,
 * or completion_defer() has recorded them: after an error, or behind unreported completions. */
static inline unsigned completion_decode(const struct ibv_wc *wc,
					 struct fabric_wc *ret_wc)
{
	_Static_assert(IBV_WC_SUCCESS == 0, "any other status counts");
	struct fabric_channel *channel = verbs_sq_wr(wc)->channel;
	struct verbs_sq *sq = &channel->sq;
	unsigned n;

	if ((unsigned)wc->status | sq->n_slow | sq->n_internal)
		return completion_decode_slow(wc, ret_wc);
	n = verbs_sq_covered_plain(sq, wc);
	if (n == 0)
		return 0;
	verbs_sq_retire_plain(sq, n);
	channel->outstanding -= n;
	ret_wc->owner = channel->owner;
	ret_wc->n = n;
	ret_wc->status = 0;
	ret_wc->text = NULL;
	return 1;
}

/* As fabric_wc.status. */
static int wc_errno(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_SUCCESS:
		return 0;
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_REM_OP_ERR:
		return -EACCES;
	case IBV_WC_WR_FLUSH_ERR:
	/* the queue pair failed, not the request: soft-RoCE up to Linux 6.1 reports this when the
	 * route to the peer is gone, siw (soft-iWARP) when its socket is closed */
	case IBV_WC_LOC_QP_OP_ERR:
		return -ECONNRESET;
	case IBV_WC_RETRY_EXC_ERR:
		return -ETIMEDOUT;
	case IBV_WC_LOC_PROT_ERR:
	case IBV_WC_LOC_LEN_ERR:
		return -EFAULT;
	default:
		return -EIO;
	}
}

static void wc_fail(struct fabric_wc *wc, const struct verbs_outcome *outcome)
{
	wc->status = wc_errno(outcome->status);
	wc->vendor = outcome->vendor;
	wc->text = ibv_wc_status_str(outcome->status);
}

/* Report the first request, which is in-band.  False: it is not answered yet. */
static bool inband_report(struct fabric_channel *channel, struct fabric_wc *wc)
{
	int status = verbs_inband_first_status(channel->inband);
	struct verbs_outcome outcome = channel->sq.outcomes[0];

	if (outcome.status == IBV_WC_SUCCESS && status > 0)
		return false;
	(void)verbs_sq_pop_completed(&channel->sq, 1, &outcome);
	verbs_inband_pop(channel->inband);
	channel->outstanding--;
	*wc = (struct fabric_wc){ .owner = channel->owner, .n = 1 };
	/* an answer that arrived counts, whatever the status of the request */
	if (status <= 0)
		wc->status = status;
	else
		wc_fail(wc, &outcome);
	if (status < 0)
		wc->text = status == -EACCES   ? "refused by the server"
			   : status == -EPROTO ? "the server's answer is malformed"
					       : "flushed before it was answered";
	return true;
}

/* Report up to n completions of the channel, and remove it from cq->ready when none is left;
 * returns their number. */
static unsigned completion_report(struct fabric_channel *channel, struct fabric_wc *wcs,
				  unsigned n)
{
	unsigned got = 0, ahead = UINT_MAX, operations;

	while (channel->sq.n_outcomes > 0 && got < n) {
		struct verbs_outcome outcome;

		if (channel->sq.n_inband > 0)
			ahead = verbs_inband_before_first(channel->inband);
		if (ahead == 0) {
			if (!inband_report(channel, &wcs[got]))
				break;
			ahead = UINT_MAX;
			got++;
			continue;
		}
		operations = verbs_sq_pop_completed(&channel->sq, ahead, &outcome);
		if (operations == 0)
			continue;
		channel->outstanding -= operations;
		wcs[got] =
			(struct fabric_wc){ .owner = channel->owner, .n = operations };
		if (outcome.status != IBV_WC_SUCCESS)
			wc_fail(&wcs[got], &outcome);
		got++;
	}
	/* a request that waits for its answer is ready again when that arrives */
	if (channel->sq.n_outcomes == 0 || got < n)
		list_remove(&channel->ready);
	return got;
}

/* An answer to an in-band request, or a receive that was flushed. */
static void completion_inband(const struct ibv_wc *wc)
{
	const struct verbs_inband_id *id = verbs_inband_id_of(wc);
	struct fabric_channel *channel = id->inband->channel;

	verbs_inband_receive(
		id->inband, wc,
		atomic_load_explicit(&channel->dead, memory_order_relaxed));
	if (wc->status != IBV_WC_SUCCESS)
		connection_broken(channel);
	else if (id->inband->lost &&
		 !atomic_load_explicit(&channel->dead, memory_order_relaxed))
		verbs_connection_abort(channel);
	if (channel->sq.n_completed > 0)
		connection_ready(channel);
}

/* ---- polling ---- */

static RARE int cq_failed(const struct fabric_cq *cq, int result)
{
	return err_set(-EIO, "RDMA device %s: ibv_poll_cq gives %d",
		       cq->domain->attr.name, result);
}

/* Process an entry that completes no work request of a send queue. */
static RARE unsigned entry_process_other(const struct ibv_wc *entry)
{
	if (entry->wr_id != VERBS_WAKEUP_WR_ID)
		completion_inband(entry);
	return 0;
}

/* Returns the number of completions reported to *wc: 0 or 1. */
static inline unsigned entry_report(const struct ibv_wc *entry, struct fabric_wc *wc)
{
	return entry->wr_id & VERBS_WR_ID_OTHER ? entry_process_other(entry)
						: completion_decode(entry, wc);
}

int verbs_cq_drain(struct fabric_cq *cq)
{
	int n;

	do {
		n = ibv_poll_cq(cq->cq, VERBS_CQ_BATCH, cq->entries);
		for (int i = 0; i < n; i++)
			if (cq->entries[i].wr_id & VERBS_WR_ID_OTHER)
				(void)entry_process_other(&cq->entries[i]);
			else
				completion_defer(&cq->entries[i]);
	} while (n == VERBS_CQ_BATCH);
	return n < 0 ? cq_failed(cq, n) : 0;
}

/* Flush the aborted channels: siw accepts requests for a queue pair in ERROR and drops them.  Once
 * a channel is aborted, all its entries are in the completion queue, so a request without an entry
 * there was dropped. */
static int cq_flush(struct fabric_cq *cq)
{
	int err = 0;

	(void)pthread_mutex_lock(&cq->members_lock);
	/* Clear the flag first: verbs_connection_abort() sets channel->aborted before the flag, so
	 * no abort is missed.  It is set again below while an aborted channel remains. */
	(void)atomic_exchange(&cq->aborts, false);
	list_for_each_entry(struct fabric_channel, channel, &cq->channels, link) {
		if (!atomic_load(&channel->aborted))
			continue;
		atomic_store_explicit(&cq->aborts, true, memory_order_relaxed);
		err = verbs_cq_drain(cq);
		if (err)
			break;
		/* no more entries will come: complete all outstanding requests as flushed */
		verbs_sq_flush(&channel->sq);
		verbs_inband_stop(channel->inband);
		if (channel->sq.n_completed > 0)
			connection_ready(channel);
	}
	(void)pthread_mutex_unlock(&cq->members_lock);
	return err;
}

static RARE unsigned cq_report(struct fabric_cq *cq, struct fabric_wc *wcs, unsigned n)
{
	unsigned got = 0;

	list_for_each_entry_safe(struct fabric_channel, channel, &cq->ready, ready) {
		if (got == n)
			break;
		got += completion_report(channel, wcs + got, n - got);
	}
	return got;
}

/* Process n of cq->entries; n < 0: the result of a failed ibv_poll_cq().  Returns the number of
 * completions reported, or -EIO with text. */
static int entries_report(struct fabric_cq *cq, int n, struct fabric_wc *wcs)
{
	int got = 0;

	for (int i = 0; i < n; i++)
		got += (int)entry_report(&cq->entries[i], &wcs[got]);
	return n < 0 ? cq_failed(cq, n) : got;
}

/* Read up to n entries.  *ret_more: there may be more of them. */
static int cq_read(struct fabric_cq *cq, struct fabric_wc *wcs, unsigned n,
		   bool *ret_more)
{
	int asked = n < VERBS_CQ_BATCH ? (int)n : VERBS_CQ_BATCH;
	int taken = ibv_poll_cq(cq->cq, asked, cq->entries);

	*ret_more = taken == asked;
	return entries_report(cq, taken, wcs);
}

/* The slow path of verbs_cq_poll(), after `got` completions; `more`: there may be more entries. */
static RARE int poll_slow(struct fabric_cq *cq, struct fabric_wc *wcs, unsigned n,
			  unsigned got, bool more)
{
	int result;

	while (more && got < n) {
		if (!list_empty(&cq->ready)) {
			got += cq_report(cq, wcs + got, n - got);
			continue;
		}
		result = cq_read(cq, wcs + got, n - got, &more);
		if (result < 0)
			return got ? (int)got : result;
		got += (unsigned)result;
	}
	if (got < n && !list_empty(&cq->ready))
		got += cq_report(cq, wcs + got, n - got);
	if (got < n && cq_aborts(cq)) {
		result = cq_flush(cq);
		if (result < 0)
			return got ? (int)got : result;
		got += cq_report(cq, wcs + got, n - got);
	}
	return (int)got;
}

/* poll_slow() after `taken` entries were read, which are not processed yet. */
static __attribute__((noinline)) int
poll_slow_entries(struct fabric_cq *cq, struct fabric_wc *wcs, unsigned n, int taken)
{
	int got = entries_report(cq, taken, wcs);

	return got < 0 ? got
		       : poll_slow(cq, wcs, n, (unsigned)got, taken == VERBS_CQ_BATCH);
}

int verbs_cq_poll(struct fabric_cq *cq, struct fabric_wc *wcs, unsigned n)
{
	int taken;

	/* the fast path: librmem always passes VERBS_CQ_BATCH */
	if (n != VERBS_CQ_BATCH || !list_empty(&cq->ready) || cq_aborts(cq))
		return poll_slow(cq, wcs, n, 0, true);
	taken = ibv_poll_cq(cq->cq, VERBS_CQ_BATCH, cq->entries);
	if (taken == 0)
		return 0;
	/* most of the time one entry completes all operations */
	if (taken != 1 || (cq->entries[0].wr_id & VERBS_WR_ID_OTHER))
		return poll_slow_entries(cq, wcs, n, taken);
	if (completion_decode(&cq->entries[0], wcs) == 1)
		return 1;
	return poll_slow(cq, wcs, n, 0, false);
}

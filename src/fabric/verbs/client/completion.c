/* SPDX-License-Identifier: BSD-3-Clause */
/* What entries of the completion queue say of the client's side of a channel. */
#include "fabric/verbs/client/connection.h"

#include <errno.h>
#include <limits.h>

#include "base/rare.h"
#include "fabric/verbs/common/sigpipe.h"

/* What an entry says of the requests before its own.  An error other than a flush is
 * met when the device comes to the request, so those before it succeeded; but writes
 * that wait for a confirming read are in doubt, or share its fate. */
static enum ibv_wc_status status_before(const struct fabric_channel *channel,
					const struct ibv_wc *wc)
{
	if (wc->status == IBV_WC_SUCCESS)
		return IBV_WC_SUCCESS;
	if (!channel->confirm)
		return wc->status == IBV_WC_WR_FLUSH_ERR ? IBV_WC_WR_FLUSH_ERR
							 : IBV_WC_SUCCESS;
	return verbs_sq_wr(wc)->kind == VERBS_WR_CONFIRM ? wc->status
							 : IBV_WC_WR_FLUSH_ERR;
}

void verbs_connection_abort(struct fabric_channel *channel)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct verbs_sigpipe sigpipe;

	atomic_store_explicit(&channel->dead, true, memory_order_relaxed);
	verbs_sigpipe_begin(&sigpipe, channel->cq->domain->attr.iwarp);
	(void)ibv_modify_qp(channel->qp, &attr, IBV_QP_STATE);
	verbs_sigpipe_end(&sigpipe);
	if (!channel->cq->domain->attr.iwarp)
		return;
	atomic_store(&channel->aborted, true);
	verbs_cq_aborted(channel->cq);
}

/* The device has put the queue pair into ERROR. */
static void connection_broken(struct fabric_channel *channel)
{
	bool was_dead =
		atomic_exchange_explicit(&channel->dead, true, memory_order_relaxed);

	/* what was posted since then is lost, see cq_settle() */
	if (channel->cq->domain->attr.iwarp && !was_dead)
		verbs_connection_abort(channel);
}

static void connection_ready(struct fabric_channel *channel)
{
	if (list_empty(&channel->ready))
		list_append(&channel->cq->ready, &channel->ready);
}

RARE void verbs_completion_keep(const struct ibv_wc *wc)
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

unsigned verbs_completion_internal(const struct ibv_wc *wc, struct fabric_wc *ret_wc)
{
	struct fabric_channel *channel = verbs_sq_wr(wc)->channel;
	struct verbs_sq *sq = &channel->sq;
	unsigned n;

	if ((unsigned)wc->status | sq->n_slow) {
		verbs_completion_keep(wc);
		return 0;
	}
	n = verbs_sq_retire(sq, verbs_sq_covered_plain(sq, wc));
	if (n == 0)
		return 0;
	channel->outstanding -= n;
	*ret_wc = (struct fabric_wc){ .owner = channel->owner, .n = n };
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
	/* the queue pair is at fault, not the request: soft-RoCE up to 6.1 has no way to the
	 * peer any more, siw's socket is closed */
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

/* Report the first request, an in-band one.  False: there is no answer yet. */
static bool inband_report(struct fabric_channel *channel, struct fabric_wc *wc)
{
	int status = verbs_inband_first_status(channel->inband);
	struct verbs_outcome outcome = channel->sq.outcomes[0];

	if (outcome.status == IBV_WC_SUCCESS && status > 0)
		return false;
	(void)verbs_sq_take(&channel->sq, 1, &outcome);
	verbs_inband_pop(channel->inband);
	channel->outstanding--;
	*wc = (struct fabric_wc){ .owner = channel->owner, .n = 1 };
	/* an answer that came counts, whatever the device says of the request */
	if (status <= 0)
		wc->status = status;
	else
		wc_fail(wc, &outcome);
	if (status < 0)
		wc->text = status == -EACCES   ? "refused by the server"
			   : status == -EPROTO ? "the server's answer makes no sense"
					       : "flushed before it was answered";
	return true;
}

unsigned verbs_completion_report(struct fabric_channel *channel, struct fabric_wc *wcs,
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
		operations = verbs_sq_take(&channel->sq, ahead, &outcome);
		if (operations == 0)
			continue;
		channel->outstanding -= operations;
		wcs[got] =
			(struct fabric_wc){ .owner = channel->owner, .n = operations };
		if (outcome.status != IBV_WC_SUCCESS)
			wc_fail(&wcs[got], &outcome);
		got++;
	}
	/* what waits for an answer is ready again when that comes */
	if (channel->sq.n_outcomes == 0 || got < n)
		list_remove(&channel->ready);
	return got;
}

void verbs_completion_inband(const struct ibv_wc *wc)
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

void verbs_connection_flush(struct fabric_channel *channel)
{
	verbs_sq_flush(&channel->sq);
	verbs_inband_stop(channel->inband);
	if (channel->sq.n_completed > 0)
		connection_ready(channel);
}

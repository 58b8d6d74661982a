/* SPDX-License-Identifier: BSD-3-Clause */
/* What entries of the completion queue say of the client's side of a channel. */
#include "fabric/verbs/client/connection_state.h"

#include <limits.h>

#include "base/rare.h"
#include "fabric/verbs/client/wc_status.h"

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
	return verbs_ring_request(wc)->role == VERBS_ROLE_CONFIRM ? wc->status
								  : IBV_WC_WR_FLUSH_ERR;
}

/* The device has put the queue pair into ERROR. */
static void link_broken(struct fabric_channel *channel)
{
	bool was_dead =
		atomic_exchange_explicit(&channel->dead, true, memory_order_relaxed);

	/* what was posted since then is lost, see cq_settle() */
	if (channel->cq->domain->facts.iwarp && !was_dead)
		verbs_link_abort(channel);
}

static void link_ready(struct fabric_channel *channel)
{
	if (list_empty(&channel->ready))
		list_append(&channel->cq->ready, &channel->ready);
}

RARE void verbs_link_keep(const struct ibv_wc *wc)
{
	struct fabric_channel *channel = verbs_ring_request(wc)->channel;
	unsigned n = verbs_ring_reach(&channel->ring, wc);

	if (wc->status != IBV_WC_SUCCESS)
		link_broken(channel);
	if (n == 0)
		return;
	verbs_ring_end(&channel->ring, n, wc, status_before(channel, wc));
	link_ready(channel);
}

unsigned verbs_link_complete_parts(const struct ibv_wc *wc, struct fabric_wc *ret_wc)
{
	struct fabric_channel *channel = verbs_ring_request(wc)->channel;
	struct verbs_ring *ring = &channel->ring;
	unsigned n;

	if ((unsigned)wc->status | ring->n_slow) {
		verbs_link_keep(wc);
		return 0;
	}
	n = verbs_ring_pass(ring, verbs_ring_reach_plain(ring, wc));
	if (n == 0)
		return 0;
	channel->outstanding -= n;
	*ret_wc = (struct fabric_wc){ .owner = channel->owner, .n = n };
	return 1;
}

static void wc_fail(struct fabric_wc *wc, const struct verbs_run *run)
{
	wc->status = verbs_status_err(run->status);
	wc->vendor = run->vendor;
	wc->text = ibv_wc_status_str(run->status);
}

/* Report the first request, an in-band one.  False: there is no answer yet. */
static bool ask_report(struct fabric_channel *channel, struct fabric_wc *wc)
{
	int status = verbs_asks_first(channel->asks);
	struct verbs_run run = channel->ring.runs[0];

	if (run.status == IBV_WC_SUCCESS && status > 0)
		return false;
	(void)verbs_ring_take(&channel->ring, 1, &run);
	verbs_asks_pop(channel->asks);
	channel->outstanding--;
	*wc = (struct fabric_wc){ .owner = channel->owner, .n = 1 };
	/* an answer that came counts, whatever the device says of the request */
	if (status <= 0)
		wc->status = status;
	else
		wc_fail(wc, &run);
	if (status < 0)
		wc->text = status == -EACCES   ? "refused by the server"
			   : status == -EPROTO ? "the server's answer makes no sense"
					       : "flushed before it was answered";
	return true;
}

unsigned verbs_link_report(struct fabric_channel *channel, struct fabric_wc *wcs,
			   unsigned n)
{
	unsigned got = 0, ahead = UINT_MAX, operations;

	while (channel->ring.n_runs > 0 && got < n) {
		struct verbs_run run;

		if (channel->ring.n_asked > 0)
			ahead = verbs_asks_ahead(channel->asks);
		if (ahead == 0) {
			if (!ask_report(channel, &wcs[got]))
				break;
			ahead = UINT_MAX;
			got++;
			continue;
		}
		operations = verbs_ring_take(&channel->ring, ahead, &run);
		if (operations == 0)
			continue;
		channel->outstanding -= operations;
		wcs[got] =
			(struct fabric_wc){ .owner = channel->owner, .n = operations };
		if (run.status != IBV_WC_SUCCESS)
			wc_fail(&wcs[got], &run);
		got++;
	}
	/* what waits for an answer is ready again when that comes */
	if (channel->ring.n_runs == 0 || got < n)
		list_remove(&channel->ready);
	return got;
}

void verbs_link_answer(const struct ibv_wc *wc)
{
	const struct verbs_ask_id *id = verbs_ask_id_of(wc);
	struct fabric_channel *channel = id->asks->channel;

	verbs_asks_take(id->asks, wc,
			atomic_load_explicit(&channel->dead, memory_order_relaxed));
	if (wc->status != IBV_WC_SUCCESS)
		link_broken(channel);
	else if (id->asks->lost &&
		 !atomic_load_explicit(&channel->dead, memory_order_relaxed))
		verbs_link_abort(channel);
	if (channel->ring.n_ended > 0)
		link_ready(channel);
}

void verbs_link_lose(struct fabric_channel *channel)
{
	verbs_ring_flush(&channel->ring);
	verbs_asks_end(channel->asks);
	if (channel->ring.n_ended > 0)
		link_ready(channel);
}

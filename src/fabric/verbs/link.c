/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/link.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/rare.h"
#include "fabric/verbs/address.h"
#include "fabric/verbs/asks.h"
#include "fabric/verbs/failure.h"
#include "fabric/verbs/place.h"
#include "fabric/verbs/poke.h"
#include "fabric/verbs/ring.h"
#include "fabric/verbs/sigpipe.h"
#include "fabric/verbs/status.h"

#define INLINE_BYTES 64
/* siw answers a read this short from a single page, whatever it was to read */
#define SIW_SHORT_BYTES 32
#define PAGE_BYTES_MIN 4096u
#define INITIATOR_DEPTH_MAX 16

struct fabric_channel {
	struct fabric_cq *cq;
	struct list link; /* of the cq */
	void *owner;      /* what its completions come with */
	struct ibv_qp *qp;
	struct verbs_dial dial; /* of a direct one, its `peer` alone */
	bool dial_lent;         /* by the domain */
	struct verbs_poke poke; /* iWARP */
	bool confirm;
	atomic_bool dead; /* takes nothing any more */
	atomic_bool aborted;
	unsigned depth;
	unsigned outstanding;      /* taken, and not yet polled by the owner */
	unsigned n_put;            /* of them, not posted yet */
	struct fabric_run written; /* where the last write went that is not confirmed */
	struct verbs_ring ring;
	struct verbs_asks *asks; /* NULL: nothing was asked yet */
	struct list ready;       /* of the cq, while there is something to report */
};

/* Requests that may be under way at a time. */
static unsigned send_room(const struct fabric_channel *channel)
{
	return channel->ring.size + (channel->confirm ? VERBS_POKES : 0);
}

static int qp_try(struct fabric_channel *channel, uint32_t inline_bytes)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = channel->cq->cq,
		.recv_cq =
			channel->cq->answers ? channel->cq->answers : channel->cq->cq,
		.cap = { .max_send_wr = send_room(channel),
			 .max_recv_wr = VERBS_CREDITS,
			 .max_send_sge = channel->ring.slices_max,
			 .max_recv_sge = 1,
			 .max_inline_data = inline_bytes },
		.qp_type = IBV_QPT_RC,
	};

	if (channel->cq->domain->direct)
		channel->qp = ibv_create_qp(channel->cq->domain->pd, &attr);
	else if (!rdma_create_qp(channel->dial.id, channel->cq->domain->pd, &attr))
		channel->qp = channel->dial.id->qp;
	if (!channel->qp)
		return verbs_failure();
	channel->ring.inline_bytes = inline_bytes;
	return 0;
}

static int qp_create(struct fabric_channel *channel)
{
	const struct verbs_facts *facts = &channel->cq->domain->facts;
	int err;

	if (send_room(channel) > facts->max_qp_wr)
		return err_set(-EINVAL,
			       "a channel of depth %u: RDMA device %s allows %u "
			       "requests per queue pair",
			       channel->depth, facts->name, facts->max_qp_wr);
	/* not every device takes data in the request itself */
	err = qp_try(channel, INLINE_BYTES);
	if (err)
		err = qp_try(channel, 0);
	return err ? err_errno(err, "RDMA device %s: rdma_create_qp", facts->name) : 0;
}

static int link_create(struct fabric_cq *cq, unsigned depth,
		       struct fabric_channel **ret_channel)
{
	struct fabric_channel *channel = calloc(1, sizeof(*channel));
	int err;

	if (!channel)
		return err_errno(-ENOMEM, "a channel");
	channel->cq = cq;
	channel->confirm = cq->domain->confirm;
	channel->poke = VERBS_POKE_NONE;
	channel->depth = depth;
	list_init(&channel->ready);
	/* a batch is followed by one confirming read, short reads are cut in two */
	err = verbs_ring_create(&channel->ring, channel->confirm ? 2 * depth : depth,
				verbs_domain_slices_max(cq->domain, FABRIC_WRITE),
				channel);
	if (err) {
		free(channel);
		return err;
	}
	*ret_channel = channel;
	return 0;
}

static void link_release(struct fabric_channel *channel)
{
	verbs_ring_destroy(&channel->ring);
	free(channel);
}

/* Reads under way to ask for. */
static uint8_t depth_of(const struct fabric_domain *domain)
{
	int most = domain->knobs.rd_atomic == FABRIC_KNOB_AUTO
			   ? INITIATOR_DEPTH_MAX
			   : domain->knobs.rd_atomic;

	return domain->facts.initiator_depth < most ? domain->facts.initiator_depth
						    : (uint8_t)most;
}

static void qp_destroy(struct fabric_channel *channel)
{
	if (channel->cq->domain->direct)
		(void)ibv_destroy_qp(channel->qp);
	else
		rdma_destroy_qp(channel->dial.id);
}

/* The way to the server: the first channel takes the one that its domain has found. */
static int dial_open(struct fabric_channel *channel, unsigned timeout_ms)
{
	struct fabric_domain *domain = channel->cq->domain;
	struct sockaddr_storage source;
	int err;

	if (!atomic_flag_test_and_set(&domain->route_used)) {
		channel->dial = domain->route;
		channel->dial.deadline_ms = clock_now_ms() + timeout_ms;
		channel->dial_lent = true;
		atomic_store(&domain->route_lent, true);
		return 0;
	}
	/* the domain's own address, or the way could lead through another device */
	verbs_dial_source(&domain->route, &source);
	err = verbs_dial_resolve(&channel->dial, &domain->address,
				 (struct sockaddr *)&source,
				 domain->knobs.traffic_class, timeout_ms);
	if (err || channel->dial.id->verbs == domain->route.id->verbs)
		return err;
	err = err_set(-EHOSTUNREACH, "RDMA device %s leads to %s no more",
		      domain->facts.name, channel->dial.peer);
	verbs_dial_end(&channel->dial);
	return err;
}

static void dial_close(struct fabric_channel *channel)
{
	if (channel->dial_lent)
		atomic_store(&channel->cq->domain->route_lent, false);
	else if (!channel->cq->domain->direct)
		verbs_dial_end(&channel->dial);
}

/* Connect the queue pair with the server's, of which that tells over the control
 * connection. */
static int join_connect(struct fabric_channel *channel, const struct verbs_place *place,
			const struct fabric_channel_params *params)
{
	const struct fabric_domain *domain = channel->cq->domain;
	uint8_t depth = depth_of(domain);
	struct fabric_end ours =
		verbs_place_end(place, channel->qp, &domain->knobs, depth);
	struct verbs_depths depths = { 0 };
	struct fabric_end theirs;
	int err = params->exchange(params->exchange_ctx, &ours, params->timeout_ms,
				   &theirs);

	if (!err)
		err = verbs_end_check(place, &theirs);
	if (err)
		return err;
	depths.initiator = theirs.rd_atomic < depth ? theirs.rd_atomic : depth;
	return verbs_place_join(place, channel->qp, &domain->knobs, &depths, &theirs,
				&ours);
}

static int link_join(struct fabric_channel *channel,
		     const struct fabric_channel_params *params)
{
	struct fabric_domain *domain = channel->cq->domain;
	struct verbs_place place;
	int err;

	(void)verbs_address_text(&domain->address, channel->dial.peer);
	/* the address may have moved in the port's table */
	err = verbs_place_look(domain->verbs, domain->port, &domain->source,
			       &domain->knobs, &place);
	if (!err)
		err = qp_create(channel);
	if (err)
		return err;
	/* nobody reads from a client, or writes to it */
	err = verbs_place_init(&place, channel->qp, 0);
	if (!err)
		err = join_connect(channel, &place, params);
	if (err)
		qp_destroy(channel);
	return err;
}

/* An id on the domain's device, with a queue pair, connected. */
static int link_dial(struct fabric_channel *channel,
		     const struct fabric_channel_params *params)
{
	struct fabric_domain *domain = channel->cq->domain;
	uint8_t depth = depth_of(domain);
	int err = dial_open(channel, params->timeout_ms);

	if (err)
		return err;
	err = qp_create(channel);
	if (err)
		goto err_dial;
	err = verbs_dial_connect(&channel->dial, &params->hello, &domain->knobs, depth,
				 domain->facts.iwarp);
	if (err)
		goto err_qp;
	if (domain->facts.iwarp)
		err = verbs_poke_start(&channel->poke, channel->dial.events->fd);
	if (err)
		goto err_qp;
	return 0;

err_qp:
	qp_destroy(channel);
err_dial:
	dial_close(channel);
	return err;
}

int verbs_link_connect(struct fabric_cq *cq, const struct fabric_channel_params *params,
		       struct fabric_channel **ret_channel)
{
	struct fabric_channel *channel = NULL;
	int err;

	err = link_create(cq, params->depth, &channel);
	if (err)
		return err;
	channel->owner = params->owner;
	err = verbs_cq_join(cq, &channel->link, channel->depth);
	if (err)
		goto err_release;
	err = cq->domain->direct ? link_join(channel, params)
				 : link_dial(channel, params);
	if (err)
		goto err_leave;
	*ret_channel = channel;
	return 0;

err_leave:
	verbs_cq_leave(cq, &channel->link, channel->depth);
err_release:
	link_release(channel);
	return err;
}

/* The part of a short read that lies on its first page, if it goes beyond: siw, at the
 * peer, would take the rest from the wrong place. */
static uint64_t read_head(const struct fabric_run *run, const struct fabric_part *part)
{
	uint64_t at = run->remote_addr + part->offset;
	uint64_t on_page = PAGE_BYTES_MIN - at % PAGE_BYTES_MIN;

	if (run->opcode != FABRIC_READ || part->bytes > SIW_SHORT_BYTES ||
	    part->bytes <= on_page)
		return 0;
	return on_page;
}

static void op_put(struct fabric_channel *channel, const struct fabric_run *run,
		   const struct fabric_part *whole)
{
	struct fabric_part part = *whole;
	uint64_t head_bytes = read_head(run, whole);

	if (head_bytes) {
		part.bytes = head_bytes;
		verbs_ring_put(&channel->ring, run, &part, VERBS_ROLE_HEAD);
		part.addr = (char *)part.addr + head_bytes;
		part.offset += head_bytes;
		part.bytes = whole->bytes - head_bytes;
	}
	verbs_ring_put(&channel->ring, run, &part, VERBS_ROLE_CALLERS);
	if (run->opcode == FABRIC_WRITE) {
		channel->written = *run;
		channel->written.remote_addr += whole->offset;
	}
}

/* Read back one byte of what the last write goes to: when it is here, the write and all
 * before it on this queue pair are placed; when they were refused, it never comes.  It is
 * the batch's last request, as no other may speak for the writes before it. */
static RARE void confirm_put(struct fabric_channel *channel)
{
	struct fabric_domain *domain = channel->cq->domain;
	struct fabric_region sink = { .mr = domain->sink };
	const struct fabric_part part = { .addr = &domain->sink_byte, .bytes = 1 };
	struct fabric_run run = channel->written;

	if (run.opcode != FABRIC_WRITE)
		return;
	run.opcode = FABRIC_READ;
	run.region = &sink;
	verbs_ring_put(&channel->ring, &run, &part, VERBS_ROLE_CONFIRM);
	channel->written = (struct fabric_run){ 0 };
}

static RARE unsigned ops_put(struct fabric_channel *channel,
			     const struct fabric_run *run,
			     const struct fabric_part *parts, size_t stride, unsigned n)
{
	const char *part = (const char *)parts;

	for (unsigned i = 0; i < n; i++, part += stride)
		op_put(channel, run, (const struct fabric_part *)part);
	return n;
}

unsigned verbs_link_put(struct fabric_channel *channel, const struct fabric_run *run,
			const struct fabric_part *parts, size_t stride, unsigned n)
{
	if (n > channel->depth - channel->outstanding)
		n = channel->depth - channel->outstanding;
	channel->outstanding += n;
	channel->n_put += n;
	if (channel->confirm)
		return ops_put(channel, run, parts, stride, n);
	return verbs_ring_put_all(&channel->ring, run, parts, stride, n);
}

unsigned verbs_link_put_slices(struct fabric_channel *channel,
			       const struct fabric_run *run,
			       const struct fabric_part *part,
			       const struct fabric_slice *slices, unsigned n)
{
	if (channel->outstanding == channel->depth)
		return 0;
	channel->outstanding++;
	channel->n_put++;
	verbs_ring_put_slices(&channel->ring, run, part, slices, n);
	if (channel->confirm && run->opcode == FABRIC_WRITE) {
		channel->written = *run;
		channel->written.remote_addr += part->offset;
	}
	return 1;
}

int verbs_link_put_atomic(struct fabric_channel *channel, const struct fabric_run *run,
			  const struct fabric_part *part,
			  const struct fabric_atomic *atomic)
{
	int err = verbs_domain_able(channel->cq->domain, FABRIC_CAN_ATOMICS);

	if (err)
		return err;
	/* a device would refuse it only when it is posted, with all that is beside it */
	if ((run->remote_addr + part->offset) % FABRIC_ATOMIC_BYTES)
		return err_set(-EINVAL,
			       "an atomic at %#" PRIx64 ", not a multiple of %d",
			       run->remote_addr + part->offset, FABRIC_ATOMIC_BYTES);
	if (channel->outstanding == channel->depth)
		return 0;
	channel->outstanding++;
	channel->n_put++;
	verbs_ring_put_atomic(&channel->ring, run, part, atomic);
	return 1;
}

int verbs_link_put_request(struct fabric_channel *channel, const struct fabric_run *run,
			   const struct fabric_part *part,
			   const struct fabric_request *request)
{
	struct fabric_domain *domain = channel->cq->domain;
	int err = verbs_domain_able(domain, FABRIC_CAN_INBAND);

	if (!err && !channel->asks)
		err = verbs_asks_open(channel, &channel->ring, domain->pd, channel->qp,
				      channel->depth, channel->confirm, &channel->asks);
	if (err)
		return err;
	if (channel->asks->lost)
		verbs_link_abort(channel);
	if (channel->outstanding == channel->depth || channel->asks->lost ||
	    verbs_asks_full(channel->asks))
		return 0;
	channel->outstanding++;
	channel->n_put++;
	channel->cq->n_asked++;
	verbs_asks_put(channel->asks, run, part, request);
	return 1;
}

/* Some of what was put is not posted. */
static void asks_trim(struct fabric_channel *channel)
{
	unsigned n_asked = channel->ring.n_asked;

	if (n_asked == 0)
		return;
	verbs_asks_trim(channel->asks);
	channel->cq->n_asked -= n_asked - channel->ring.n_asked;
}

static RARE int post_failed(struct fabric_channel *channel, unsigned n_put,
			    unsigned taken, int err)
{
	channel->outstanding -= n_put - taken;
	asks_trim(channel);
	verbs_link_abort(channel);
	if (taken > 0)
		return (int)taken;
	return err_errno(-ECONNRESET, "the channel to %s: ibv_post_send gives %d",
			 channel->dial.peer, err);
}

static RARE int post_dead(struct fabric_channel *channel, unsigned n_put)
{
	channel->outstanding -= n_put;
	verbs_ring_drop(&channel->ring);
	asks_trim(channel);
	return err_set(-ECONNRESET, "the channel to %s is dead", channel->dial.peer);
}

static unsigned post(struct fabric_channel *channel, int *ret_errno)
{
	return verbs_ring_post(&channel->ring, channel->qp, ret_errno);
}

/* siw posts in this thread. */
static RARE unsigned post_guarded(struct fabric_channel *channel, int *ret_errno)
{
	struct verbs_sigpipe sigpipe;
	unsigned taken;

	confirm_put(channel);
	verbs_sigpipe_begin(&sigpipe, channel->cq->domain->facts.iwarp);
	taken = post(channel, ret_errno);
	verbs_sigpipe_end(&sigpipe);
	return taken;
}

int verbs_link_post(struct fabric_channel *channel)
{
	unsigned n_put = channel->n_put, taken;
	int err;

	channel->n_put = 0;
	if (atomic_load_explicit(&channel->dead, memory_order_relaxed))
		return post_dead(channel, n_put);
	if (n_put == 0)
		return 0;
	/* all of iWARP, too */
	taken = channel->confirm ? post_guarded(channel, &err) : post(channel, &err);
	return err ? post_failed(channel, n_put, taken, err) : (int)taken;
}

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

/* What the entry says is left with the channel. */
static RARE unsigned link_keep(struct fabric_channel *channel, unsigned n,
			       const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS)
		link_broken(channel);
	if (n == 0)
		return 0;
	verbs_ring_end(&channel->ring, n, wc, status_before(channel, wc));
	link_ready(channel);
	return 0;
}

unsigned verbs_link_complete(const struct ibv_wc *wc, struct fabric_wc *ret_wc)
{
	struct fabric_channel *channel = verbs_ring_request(wc)->channel;
	unsigned n = verbs_ring_reach(&channel->ring, wc);

	if (wc->status != IBV_WC_SUCCESS || n == 0 || channel->ring.n_slow > 0 ||
	    !ret_wc)
		return link_keep(channel, n, wc);
	n = verbs_ring_pass(&channel->ring, n);
	if (n == 0)
		return 0;
	channel->outstanding -= n;
	*ret_wc = (struct fabric_wc){ .owner = channel->owner, .n = n };
	return 1;
}

static void wc_fail(struct fabric_wc *wc, const struct fabric_channel *channel,
		    const struct verbs_run *run)
{
	wc->status = verbs_status_err(run->status, channel->cq->domain->facts.iwarp);
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
	channel->cq->n_asked--;
	*wc = (struct fabric_wc){ .owner = channel->owner, .n = 1 };
	/* an answer that came counts, whatever the device says of the request */
	if (status <= 0)
		wc->status = status;
	else
		wc_fail(wc, channel, &run);
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
			wc_fail(&wcs[got], channel, &run);
		got++;
	}
	/* what waits for an answer is ready again when that comes */
	if (channel->ring.n_runs == 0 || got < n)
		list_remove(&channel->ready);
	return got;
}

struct fabric_channel *verbs_link_of_ready(struct list *node)
{
	return container_of(node, struct fabric_channel, ready);
}

struct fabric_channel *verbs_link_of(struct list *node)
{
	return container_of(node, struct fabric_channel, link);
}

bool verbs_link_aborted(const struct fabric_channel *channel)
{
	return atomic_load(&channel->aborted);
}

void verbs_link_answer(const struct ibv_wc *wc)
{
	const struct verbs_ask_id *id =
		(const struct verbs_ask_id *)(uintptr_t)wc->wr_id;
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

void verbs_link_abort(struct fabric_channel *channel)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct verbs_sigpipe sigpipe;

	atomic_store_explicit(&channel->dead, true, memory_order_relaxed);
	verbs_sigpipe_begin(&sigpipe, channel->cq->domain->facts.iwarp);
	(void)ibv_modify_qp(channel->qp, &attr, IBV_QP_STATE);
	verbs_sigpipe_end(&sigpipe);
	if (!channel->cq->domain->facts.iwarp)
		return;
	atomic_store(&channel->aborted, true);
	verbs_cq_wake(channel->cq);
}

int verbs_link_alive_fd(const struct fabric_channel *channel)
{
	/* without rdma_cm it is the server's word that tells, and what is posted */
	if (channel->cq->domain->direct)
		return -1;
	return channel->poke.fd >= 0 ? channel->poke.fd : channel->dial.events->fd;
}

static void link_disconnect(struct fabric_channel *channel)
{
	struct verbs_sigpipe sigpipe;

	if (channel->cq->domain->direct)
		return;
	verbs_sigpipe_begin(&sigpipe, channel->cq->domain->facts.iwarp);
	(void)rdma_disconnect(channel->dial.id);
	verbs_sigpipe_end(&sigpipe);
}

bool verbs_link_alive(struct fabric_channel *channel)
{
	struct verbs_cm_event event;
	bool ended = false;
	int err;

	if (channel->cq->domain->direct)
		return !atomic_load_explicit(&channel->dead, memory_order_relaxed);
	while (!(err = verbs_cm_take(channel->dial.events, &event))) {
		if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL)
			atomic_store(&channel->cq->domain->gone, true);
		if (event.type == RDMA_CM_EVENT_DISCONNECTED ||
		    event.type == RDMA_CM_EVENT_DEVICE_REMOVAL)
			ended = true;
	}
	if (ended || err != -EAGAIN) {
		/* what is under way would else wait for the transport's time-out */
		verbs_link_abort(channel);
		link_disconnect(channel);
	}
	verbs_poke_run(&channel->poke, channel->qp);
	return !atomic_load_explicit(&channel->dead, memory_order_relaxed);
}

void verbs_link_free(struct fabric_channel *channel)
{
	if (!channel)
		return;
	link_disconnect(channel);
	verbs_poke_end(&channel->poke);
	/* what is still to be drained must not abort a queue pair that is gone, or post to
	 * it */
	atomic_store_explicit(&channel->dead, true, memory_order_relaxed);
	verbs_asks_end(channel->asks);
	qp_destroy(channel);
	verbs_cq_drain(channel->cq);
	channel->cq->n_asked -= channel->ring.n_asked;
	verbs_asks_free(channel->asks);
	list_remove(&channel->ready);
	verbs_cq_leave(channel->cq, &channel->link, channel->depth);
	dial_close(channel);
	link_release(channel);
}

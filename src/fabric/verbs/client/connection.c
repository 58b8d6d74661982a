/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/client/connection_state.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "fabric/verbs/common/address.h"
#include "fabric/verbs/common/status.h"
#include "fabric/verbs/common/port.h"
#include "fabric/verbs/client/route.h"
#include "fabric/verbs/common/sigpipe.h"

#define INLINE_BYTES 64
#define INITIATOR_DEPTH_MAX 16
#define PORT_TRIES 16

/* Requests that may be under way at a time. */
static unsigned send_room(const struct fabric_channel *channel)
{
	return channel->ring.size + (channel->confirm ? VERBS_POKES : 0);
}

static int qp_try(struct fabric_channel *channel, uint32_t inline_bytes)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = channel->cq->cq,
		.recv_cq = channel->cq->cq,
		.cap = { .max_send_wr = send_room(channel),
			 .max_recv_wr = VERBS_CREDITS,
			 .max_send_sge = channel->ring.sge_max,
			 .max_recv_sge = 1,
			 .max_inline_data = inline_bytes },
		.qp_type = IBV_QPT_RC,
	};

	errno = 0;
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
	channel->guard = cq->domain->guard;
	verbs_link_plan(channel);
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
	int most = domain->rdma_options.rd_atomic == FABRIC_OPTION_AUTO
			   ? INITIATOR_DEPTH_MAX
			   : domain->rdma_options.rd_atomic;

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

	channel->dial_lent = !atomic_flag_test_and_set(&domain->route_used);
	if (channel->dial_lent) {
		channel->dial = domain->route;
		channel->dial.deadline_ms = clock_now_ms() + timeout_ms;
		atomic_store(&domain->route_lent, true);
		return 0;
	}
	/* the domain's own address, or the way could lead through another device */
	verbs_dial_source(&domain->route, &source);
	err = verbs_dial_resolve(&channel->dial, &domain->address,
				 (struct sockaddr *)&source,
				 domain->rdma_options.traffic_class, timeout_ms);
	if (err || channel->dial.id->verbs == domain->route.id->verbs)
		return err;
	err = err_set(-EHOSTUNREACH, "RDMA device %s leads to %s no more",
		      domain->facts.name, channel->dial.peer);
	verbs_dial_end(&channel->dial);
	return err;
}

/* The domain takes the events of its way by itself again, which may tell of the device's
 * removal long before somebody frees the channel. */
static void dial_yield(const struct fabric_channel *channel)
{
	if (channel->dial_lent)
		atomic_store(&channel->cq->domain->route_lent, false);
}

static void dial_close(struct fabric_channel *channel)
{
	dial_yield(channel);
	if (!channel->dial_lent && !channel->cq->domain->direct)
		verbs_dial_end(&channel->dial);
}

/* Connect the queue pair with the server's, of which that tells over the control
 * connection. */
static int join_connect(struct fabric_channel *channel, const struct verbs_place *place,
			const struct fabric_channel_params *params)
{
	const struct fabric_domain *domain = channel->cq->domain;
	uint8_t depth = depth_of(domain);
	struct fabric_qp_info ours =
		verbs_place_end(place, channel->qp, &domain->rdma_options, depth);
	struct verbs_depths depths = { 0 };
	struct fabric_qp_info theirs;
	int err = params->exchange(params->exchange_ctx, &ours, params->timeout_ms,
				   &theirs);

	if (!err)
		err = verbs_end_check(place, &theirs);
	if (err)
		return err;
	depths.initiator = theirs.rd_atomic < depth ? theirs.rd_atomic : depth;
	return verbs_place_join(place, channel->qp, &domain->rdma_options, &depths,
				&theirs, &ours);
}

static int link_join(struct fabric_channel *channel,
		     const struct fabric_channel_params *params)
{
	struct fabric_domain *domain = channel->cq->domain;
	struct verbs_place place;
	int err;

	(void)verbs_address_text(&domain->address, channel->dial.peer);
	/* the address may have moved in the port's table */
	err = verbs_seek_look(domain->verbs, domain->port, &domain->source,
			      &domain->rdma_options, &place);
	if (!err)
		err = qp_create(channel);
	if (err)
		return err;
	/* nobody reads from a client, or writes to it */
	err = verbs_place_init(&place, channel->qp, 0);
	if (!err)
		err = join_connect(channel, &place, params);
	if (err) {
		verbs_seek_doubt(domain->verbs);
		qp_destroy(channel);
	}
	return err;
}

/* An id on the domain's device, with a queue pair, connected. */
static int link_try(struct fabric_channel *channel,
		    const struct fabric_channel_params *params, unsigned timeout_ms)
{
	struct fabric_domain *domain = channel->cq->domain;
	uint8_t depth = depth_of(domain);
	int err = dial_open(channel, timeout_ms);

	if (err)
		return err;
	err = qp_create(channel);
	if (err)
		goto err_dial;
	err = verbs_dial_connect(&channel->dial, &params->hello, &domain->rdma_options,
				 depth, domain->facts.iwarp);
	/* the channel has taken the event from the domain, where it had borrowed its way */
	if (err == -ENODEV)
		atomic_store(&domain->gone, true);
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

static int link_dial(struct fabric_channel *channel,
		     const struct fabric_channel_params *params)
{
	uint64_t begin_ms = clock_now_ms(), spent_ms = 0;
	unsigned tries = 0;
	int err;

	/* iWARP's connections are TCP's: the local port that rdma_cm has chosen among its own
	 * may be one of the host's, which the device finds out when it connects */
	do {
		err = link_try(channel, params,
			       params->timeout_ms - (unsigned)spent_ms);
		spent_ms = clock_now_ms() - begin_ms;
	} while (err == -EADDRINUSE && ++tries < PORT_TRIES &&
		 spent_ms <= params->timeout_ms);
	if (err == -EADDRINUSE)
		return err_set(err,
			       "connecting to %s: each of %u local ports was taken; "
			       "widen net.ipv4.ip_local_port_range",
			       channel->dial.peer, tries);
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
	verbs_cq_aborted(channel->cq);
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

/* The connection is over.  A server that has not heard yet that it was established rejects it
 * to end it. */
static bool event_ends(enum rdma_cm_event_type type)
{
	return type == RDMA_CM_EVENT_DISCONNECTED || type == RDMA_CM_EVENT_REJECTED ||
	       type == RDMA_CM_EVENT_DEVICE_REMOVAL;
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
		ended |= event_ends(event.type);
	}
	if (ended || err != -EAGAIN) {
		/* what is under way would else wait for the transport's time-out */
		verbs_link_abort(channel);
		link_disconnect(channel);
	}
	verbs_poke_run(&channel->poke, channel->qp);
	if (!atomic_load_explicit(&channel->dead, memory_order_relaxed))
		return true;
	dial_yield(channel);
	return false;
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
	verbs_asks_free(channel->asks);
	list_remove(&channel->ready);
	verbs_cq_leave(channel->cq, &channel->link, channel->depth);
	dial_close(channel);
	link_release(channel);
}

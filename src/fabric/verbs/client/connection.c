/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/client/connection.h"

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
	return channel->sq.size + (channel->confirm ? VERBS_WAKEUPS_MAX : 0);
}

static int qp_try(struct fabric_channel *channel, uint32_t inline_bytes)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = channel->cq->cq,
		.recv_cq = channel->cq->cq,
		.cap = { .max_send_wr = send_room(channel),
			 .max_recv_wr = VERBS_CREDITS,
			 .max_send_sge = channel->sq.sge_max,
			 .max_recv_sge = 1,
			 .max_inline_data = inline_bytes },
		.qp_type = IBV_QPT_RC,
	};

	errno = 0;
	if (channel->cq->domain->direct)
		channel->qp = ibv_create_qp(channel->cq->domain->pd, &attr);
	else if (!rdma_create_qp(channel->cm_id.id, channel->cq->domain->pd, &attr))
		channel->qp = channel->cm_id.id->qp;
	if (!channel->qp)
		return verbs_errno();
	channel->sq.inline_bytes = inline_bytes;
	return 0;
}

static int qp_create(struct fabric_channel *channel)
{
	const struct verbs_device_attr *attr = &channel->cq->domain->attr;
	int err;

	if (send_room(channel) > attr->max_qp_wr)
		return err_set(-EINVAL,
			       "a channel of depth %u: RDMA device %s allows %u "
			       "requests per queue pair",
			       channel->depth, attr->name, attr->max_qp_wr);
	/* not every device takes data in the request itself */
	err = qp_try(channel, INLINE_BYTES);
	if (err)
		err = qp_try(channel, 0);
	return err ? err_errno(err, "RDMA device %s: rdma_create_qp", attr->name) : 0;
}

/* Which operations take more than one work request. */
static void confirm_bytes_set(struct fabric_channel *channel)
{
	if (!channel->confirm)
		return;
	channel->confirm_bytes[FABRIC_WRITE] = UINT64_MAX;
	channel->confirm_bytes[FABRIC_READ] =
		channel->guard ? UINT64_MAX : VERBS_SIW_SHORT_READ;
}

static int connection_create(struct fabric_cq *cq, unsigned depth,
			     struct fabric_channel **ret_channel)
{
	struct fabric_channel *channel = calloc(1, sizeof(*channel));
	int err;

	if (!channel)
		return err_errno(-ENOMEM, "a channel");
	channel->cq = cq;
	channel->confirm = cq->domain->confirm;
	channel->guard = cq->domain->guard;
	confirm_bytes_set(channel);
	channel->wakeup = VERBS_WAKEUP_NONE;
	channel->depth = depth;
	list_init(&channel->ready);
	/* a batch is followed by one confirming read, short reads are cut in two */
	err = verbs_sq_create(&channel->sq, channel->confirm ? 2 * depth : depth,
			      verbs_domain_sge_max(cq->domain, FABRIC_WRITE), channel);
	if (err) {
		free(channel);
		return err;
	}
	*ret_channel = channel;
	return 0;
}

static void connection_release(struct fabric_channel *channel)
{
	verbs_sq_destroy(&channel->sq);
	free(channel);
}

/* Reads under way to ask for. */
static uint8_t depth_of(const struct fabric_domain *domain)
{
	int most = domain->rdma_options.rd_atomic == FABRIC_OPTION_AUTO
			   ? INITIATOR_DEPTH_MAX
			   : domain->rdma_options.rd_atomic;

	return domain->attr.initiator_depth < most ? domain->attr.initiator_depth
						   : (uint8_t)most;
}

static void qp_destroy(struct fabric_channel *channel)
{
	if (channel->cq->domain->direct)
		(void)ibv_destroy_qp(channel->qp);
	else
		rdma_destroy_qp(channel->cm_id.id);
}

/* The way to the server: the first channel takes the one that its domain has found. */
static int cm_id_open(struct fabric_channel *channel, unsigned timeout_ms)
{
	struct fabric_domain *domain = channel->cq->domain;
	struct sockaddr_storage source;
	int err;

	channel->cm_id_borrowed = !atomic_flag_test_and_set(&domain->cm_id_used);
	if (channel->cm_id_borrowed) {
		channel->cm_id = domain->cm_id;
		channel->cm_id.deadline_ms = clock_now_ms() + timeout_ms;
		atomic_store(&domain->cm_id_lent, true);
		return 0;
	}
	/* the domain's own address, or the way could lead through another device */
	verbs_cm_id_source(&domain->cm_id, &source);
	err = verbs_cm_id_resolve(&channel->cm_id, &domain->address,
				  (struct sockaddr *)&source,
				  domain->rdma_options.traffic_class, timeout_ms);
	if (err || channel->cm_id.id->verbs == domain->cm_id.id->verbs)
		return err;
	err = err_set(-EHOSTUNREACH, "RDMA device %s leads to %s no more",
		      domain->attr.name, channel->cm_id.peer);
	verbs_cm_id_destroy(&channel->cm_id);
	return err;
}

/* The domain takes the events of its way by itself again, which may tell of the device's
 * removal long before somebody frees the channel. */
static void cm_id_yield(const struct fabric_channel *channel)
{
	if (channel->cm_id_borrowed)
		atomic_store(&channel->cq->domain->cm_id_lent, false);
}

static void cm_id_close(struct fabric_channel *channel)
{
	cm_id_yield(channel);
	if (!channel->cm_id_borrowed && !channel->cq->domain->direct)
		verbs_cm_id_destroy(&channel->cm_id);
}

/* Connect the queue pair with the server's, of which that tells over the control
 * connection. */
static int qp_connect(struct fabric_channel *channel, const struct verbs_port *local,
		      const struct fabric_channel_params *params)
{
	const struct fabric_domain *domain = channel->cq->domain;
	uint8_t depth = depth_of(domain);
	struct fabric_qp_info ours =
		verbs_qp_info_make(local, channel->qp, &domain->rdma_options, depth);
	struct verbs_rd_atomic depths = { 0 };
	struct fabric_qp_info theirs;
	int err = params->exchange(params->exchange_ctx, &ours, params->timeout_ms,
				   &theirs);

	if (!err)
		err = verbs_qp_info_check(local, &theirs);
	if (err)
		return err;
	depths.initiator = theirs.rd_atomic < depth ? theirs.rd_atomic : depth;
	return verbs_qp_connect(local, channel->qp, &domain->rdma_options, &depths,
				&theirs, &ours);
}

static int connect_direct(struct fabric_channel *channel,
			  const struct fabric_channel_params *params)
{
	struct fabric_domain *domain = channel->cq->domain;
	struct verbs_port local;
	int err;

	(void)verbs_address_text(&domain->address, channel->cm_id.peer);
	/* the address may have moved in the port's table */
	err = verbs_route_port(domain->verbs, domain->port, &domain->source,
			       &domain->rdma_options, &local);
	if (!err)
		err = qp_create(channel);
	if (err)
		return err;
	/* nobody reads from a client, or writes to it */
	err = verbs_qp_init(&local, channel->qp, 0);
	if (!err)
		err = qp_connect(channel, &local, params);
	if (err) {
		verbs_route_invalidate(domain->verbs);
		qp_destroy(channel);
	}
	return err;
}

/* An id on the domain's device, with a queue pair, connected. */
static int connect_try(struct fabric_channel *channel,
		       const struct fabric_channel_params *params, unsigned timeout_ms)
{
	struct fabric_domain *domain = channel->cq->domain;
	uint8_t depth = depth_of(domain);
	int err = cm_id_open(channel, timeout_ms);

	if (err)
		return err;
	err = qp_create(channel);
	if (err)
		goto err_cm_id;
	err = verbs_cm_id_connect(&channel->cm_id, &params->hello,
				  &domain->rdma_options, depth, domain->attr.iwarp);
	/* the channel has taken the event from the domain, where it had borrowed its way */
	if (err == -ENODEV)
		atomic_store(&domain->removed, true);
	if (err)
		goto err_qp;
	if (domain->attr.iwarp)
		err = verbs_wakeup_start(&channel->wakeup, channel->cm_id.events->fd);
	if (err)
		goto err_qp;
	return 0;

err_qp:
	qp_destroy(channel);
err_cm_id:
	cm_id_close(channel);
	return err;
}

static int connect_cm(struct fabric_channel *channel,
		      const struct fabric_channel_params *params)
{
	uint64_t begin_ms = clock_now_ms(), spent_ms = 0;
	unsigned tries = 0;
	int err;

	/* iWARP's connections are TCP's: the local port that rdma_cm has chosen among its own
	 * may be one of the host's, which the device finds out when it connects */
	do {
		err = connect_try(channel, params,
				  params->timeout_ms - (unsigned)spent_ms);
		spent_ms = clock_now_ms() - begin_ms;
	} while (err == -EADDRINUSE && ++tries < PORT_TRIES &&
		 spent_ms <= params->timeout_ms);
	if (err == -EADDRINUSE)
		return err_set(err,
			       "connecting to %s: each of %u local ports was taken; "
			       "widen net.ipv4.ip_local_port_range",
			       channel->cm_id.peer, tries);
	return err;
}

int verbs_connection_open(struct fabric_cq *cq,
			  const struct fabric_channel_params *params,
			  struct fabric_channel **ret_channel)
{
	struct fabric_channel *channel = NULL;
	int err;

	err = connection_create(cq, params->depth, &channel);
	if (err)
		return err;
	channel->owner = params->owner;
	err = verbs_cq_join(cq, &channel->link, channel->depth);
	if (err)
		goto err_release;
	err = cq->domain->direct ? connect_direct(channel, params)
				 : connect_cm(channel, params);
	if (err)
		goto err_leave;
	*ret_channel = channel;
	return 0;

err_leave:
	verbs_cq_leave(cq, &channel->link, channel->depth);
err_release:
	connection_release(channel);
	return err;
}

int verbs_connection_alive_fd(const struct fabric_channel *channel)
{
	/* without rdma_cm it is the server's word that tells, and what is posted */
	if (channel->cq->domain->direct)
		return -1;
	return channel->wakeup.fd >= 0 ? channel->wakeup.fd : channel->cm_id.events->fd;
}

static void connection_disconnect(struct fabric_channel *channel)
{
	struct verbs_sigpipe sigpipe;

	if (channel->cq->domain->direct)
		return;
	verbs_sigpipe_begin(&sigpipe, channel->cq->domain->attr.iwarp);
	(void)rdma_disconnect(channel->cm_id.id);
	verbs_sigpipe_end(&sigpipe);
}

/* The connection is over.  A server that has not heard yet that it was established rejects it
 * to end it. */
static bool event_ends(enum rdma_cm_event_type type)
{
	return type == RDMA_CM_EVENT_DISCONNECTED || type == RDMA_CM_EVENT_REJECTED ||
	       type == RDMA_CM_EVENT_DEVICE_REMOVAL;
}

bool verbs_connection_alive(struct fabric_channel *channel)
{
	struct verbs_cm_event event;
	bool ended = false;
	int err;

	if (channel->cq->domain->direct)
		return !atomic_load_explicit(&channel->dead, memory_order_relaxed);
	while (!(err = verbs_cm_get_event(channel->cm_id.events, &event))) {
		if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL)
			atomic_store(&channel->cq->domain->removed, true);
		ended |= event_ends(event.type);
	}
	if (ended || err != -EAGAIN) {
		/* what is under way would else wait for the transport's time-out */
		verbs_connection_abort(channel);
		connection_disconnect(channel);
	}
	verbs_wakeup_send(&channel->wakeup, channel->qp);
	if (!atomic_load_explicit(&channel->dead, memory_order_relaxed))
		return true;
	cm_id_yield(channel);
	return false;
}

void verbs_connection_free(struct fabric_channel *channel)
{
	if (!channel)
		return;
	connection_disconnect(channel);
	verbs_wakeup_stop(&channel->wakeup);
	/* what is still to be drained must not abort a queue pair that is gone, or post to
	 * it */
	atomic_store_explicit(&channel->dead, true, memory_order_relaxed);
	verbs_inband_stop(channel->inband);
	qp_destroy(channel);
	verbs_cq_drain(channel->cq);
	verbs_inband_free(channel->inband);
	list_remove(&channel->ready);
	verbs_cq_leave(channel->cq, &channel->link, channel->depth);
	cm_id_close(channel);
	connection_release(channel);
}

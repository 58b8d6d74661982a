/* SPDX-License-Identifier: BSD-3-Clause */
/* The client: its table of functions, whether this host has devices, and connecting, watching and
 * freeing channels. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "fabric/address.h"
#include "fabric/client.h"
#include "fabric/inband.h"
#include "fabric/verbs/client/connection.h"
#include "fabric/verbs/client/cq.h"
#include "fabric/verbs/client/domain.h"
#include "fabric/verbs/client/route.h"
#include "fabric/verbs/common/context.h"
#include "fabric/verbs/common/device_attr.h"
#include "fabric/verbs/common/iwarp.h"
#include "fabric/verbs/common/load.h"
#include "fabric/verbs/common/qp.h"

/* The lowest limit of a message among known devices (soft-RoCE). */
#define MESSAGE_BYTES_MAX (UINT32_C(8) << 20)
#define INLINE_BYTES 64
#define INITIATOR_DEPTH_MAX 16
#define PORT_TRIES 16

/* ---- devices of this host ---- */

static bool device_active(struct ibv_device *device)
{
	struct ibv_context *verbs = ibv_open_device(device);
	struct ibv_device_attr attr;
	bool active = false;

	if (!verbs)
		return false;
	if (!ibv_query_device(verbs, &attr))
		for (unsigned port = 1; port <= attr.phys_port_cnt && !active; port++)
			active = verbs_port_is_active(verbs, (uint8_t)port);
	(void)ibv_close_device(verbs);
	return active;
}

static bool device_present;

static void device_list_query(void)
{
	struct ibv_device **list = verbs_missing() ? NULL : ibv_get_device_list(NULL);

	device_present = list && list[0];
	if (list)
		ibv_free_device_list(list);
}

/* Queries the devices once per process, as that is slow.  If a device is added later, sessions open
 * a little more slowly. */
static bool client_likely(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, device_list_query);
	return device_present;
}

static int client_available(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	bool any = list && list[0], active = false;
	char text[256];

	for (int i = 0; list && list[i] && !active; i++)
		active = device_active(list[i]);
	if (list)
		ibv_free_device_list(list);
	if (active)
		return 0;
	if (!any)
		return err_set(-ENODEV, "this host has no RDMA device");
	return err_set(-ENODEV,
		       "no RDMA device of this host has an active port that may be "
		       "used (devices: %s)",
		       verbs_device_list_text(text, sizeof(text)));
}

/* ---- channels ---- */

/* Limit of outstanding work requests. */
static unsigned send_capacity(const struct fabric_channel *channel)
{
	return channel->sq.size + (channel->confirm ? VERBS_WAKEUPS_MAX : 0);
}

static int qp_try(struct fabric_channel *channel, uint32_t inline_bytes)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = channel->cq->cq,
		.recv_cq = channel->cq->cq,
		.cap = { .max_send_wr = send_capacity(channel),
			 .max_recv_wr = INBAND_CREDITS,
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

	if (send_capacity(channel) > attr->public.max_qp_wr)
		return err_set(-EINVAL,
			       "a channel of depth %u: RDMA device %s allows %u "
			       "requests per queue pair",
			       channel->depth, attr->name, attr->public.max_qp_wr);
	/* not every device supports inline data */
	err = qp_try(channel, INLINE_BYTES);
	if (err)
		err = qp_try(channel, 0);
	return err ? err_errno(err, "RDMA device %s: rdma_create_qp", attr->name) : 0;
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
	channel->confirm_bytes[FABRIC_WRITE] = UINT64_MAX;
	channel->confirm_bytes[FABRIC_READ] =
		channel->guard ? UINT64_MAX : VERBS_SIW_SHORT_READ;
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

/* Number of outstanding reads to ask for. */
static uint8_t depth_of(const struct fabric_domain *domain)
{
	unsigned able = domain->attr.public.initiator_depth;
	unsigned most = domain->rdma_options.rd_atomic == FABRIC_OPTION_AUTO
				? INITIATOR_DEPTH_MAX
				: (unsigned)domain->rdma_options.rd_atomic;

	return (uint8_t)(able < most ? able : most);
}

static void qp_destroy(struct fabric_channel *channel)
{
	if (channel->cq->domain->direct)
		(void)ibv_destroy_qp(channel->qp);
	else
		rdma_destroy_qp(channel->cm_id.id);
	channel->qp = NULL;
}

/* The route to the server: the first channel uses the domain's cm_id. */
static int cm_id_open(struct fabric_channel *channel, unsigned timeout_ms,
		      const atomic_bool *cancelled)
{
	struct fabric_domain *domain = channel->cq->domain;
	struct fabric_address source;
	int err;

	channel->cm_id_borrowed = !atomic_flag_test_and_set(&domain->cm_id_used);
	if (channel->cm_id_borrowed) {
		channel->cm_id = domain->cm_id;
		channel->cm_id.deadline_ms = clock_now_ms() + timeout_ms;
		channel->cm_id.cancelled = cancelled;
		atomic_store(&domain->cm_id_lent, true);
		return 0;
	}
	/* the domain's own address, or the route could lead through another device */
	source = verbs_cm_id_source(&domain->cm_id);
	err = verbs_cm_id_resolve(&channel->cm_id, &domain->peer.address, &source,
				  domain->rdma_options.traffic_class, timeout_ms,
				  cancelled);
	if (err || channel->cm_id.id->verbs == domain->cm_id.id->verbs)
		return err;
	err = err_set(-EHOSTUNREACH, "RDMA device %s leads to %s no more",
		      domain->attr.name, channel->cm_id.peer);
	verbs_cm_id_destroy(&channel->cm_id);
	return err;
}

/* Return a borrowed cm_id to the domain, which then reads its events again: they may report the
 * device's removal long before the channel is freed. */
static void cm_id_return(const struct fabric_channel *channel)
{
	if (channel->cm_id_borrowed)
		atomic_store(&channel->cq->domain->cm_id_lent, false);
}

static void cm_id_close(struct fabric_channel *channel)
{
	cm_id_return(channel);
	if (!channel->cm_id_borrowed && !channel->cq->domain->direct)
		verbs_cm_id_destroy(&channel->cm_id);
}

/* Connect the queue pair with the server's, whose attributes come over the control
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

	(void)fabric_address_text(&domain->peer.address, channel->cm_id.peer);
	/* the address may have another index in the port's table now */
	err = verbs_route_port(&domain->route, &domain->rdma_options, &local);
	if (!err)
		err = qp_create(channel);
	if (err)
		return err;
	/* no peer reads from a client, or writes to it */
	err = verbs_qp_init(&local, channel->qp, 0);
	if (!err)
		err = qp_connect(channel, &local, params);
	if (err) {
		verbs_route_invalidate(&domain->route);
		qp_destroy(channel);
	}
	return err;
}

/* Create an id on the domain's device with a queue pair, and connect it. */
static int connect_try(struct fabric_channel *channel,
		       const struct fabric_channel_params *params, unsigned timeout_ms)
{
	struct fabric_domain *domain = channel->cq->domain;
	uint8_t depth = depth_of(domain);
	int err = cm_id_open(channel, timeout_ms, params->cancelled);

	if (err)
		return err;
	err = qp_create(channel);
	if (err)
		goto err_cm_id;
	err = verbs_cm_id_connect(&channel->cm_id, params, &domain->rdma_options, depth,
				  domain->attr.iwarp);
	/* the channel has read the event of the domain's cm_id, which it had borrowed */
	if (err == -ENODEV)
		atomic_store(&domain->removed, true);
	if (!err && domain->attr.iwarp)
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

	/* an iWARP connection is a TCP connection: the local port that rdma_cm has chosen may
	 * be in use by the host, which the device finds out when it connects */
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

static int connection_open(struct fabric_cq *cq,
			   const struct fabric_channel_params *params,
			   struct fabric_channel **ret_channel)
{
	struct fabric_channel *channel = NULL;
	int err;

	err = connection_create(cq, params->depth, &channel);
	if (err)
		return err;
	channel->owner = params->owner;
	err = verbs_cq_attach(cq, &channel->link, channel->depth);
	if (err)
		goto err_release;
	err = cq->domain->direct ? connect_direct(channel, params)
				 : connect_cm(channel, params);
	if (err)
		goto err_leave;
	*ret_channel = channel;
	return 0;

err_leave:
	verbs_cq_detach(cq, &channel->link, channel->depth);
err_release:
	connection_release(channel);
	return err;
}

/* Objects of the device are the parent's, and stay: the device's own descriptors are shared by the
 * sessions of a process. */
static void connection_leave(const struct fabric_channel *channel)
{
	if (channel->wakeup.fd >= 0)
		(void)close(channel->wakeup.fd);
	if (!channel->cq->domain->direct)
		(void)close(channel->cm_id.events->fd);
}

static int connection_alive_fd(const struct fabric_channel *channel)
{
	/* without rdma_cm only the control connection and posted operations show that the peer is
	 * gone */
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

static bool connection_alive(struct fabric_channel *channel)
{
	struct verbs_cm_event event;
	bool ended = false;
	int err;

	if (channel->cq->domain->direct)
		return !atomic_load_explicit(&channel->dead, memory_order_relaxed);
	while (!(err = verbs_cm_get_event(channel->cm_id.events, &event))) {
		if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL)
			atomic_store(&channel->cq->domain->removed, true);
		/* a server that does not know yet that the connection was established ends it
		 * by rejecting it */
		ended |= event.type == RDMA_CM_EVENT_DISCONNECTED ||
			 event.type == RDMA_CM_EVENT_REJECTED ||
			 event.type == RDMA_CM_EVENT_DEVICE_REMOVAL;
	}
	if (ended || err != -EAGAIN) {
		/* outstanding operations would else wait for the transport's time-out */
		verbs_connection_abort(channel);
		connection_disconnect(channel);
	}
	verbs_wakeup_send(&channel->wakeup, channel->qp);
	if (!atomic_load_explicit(&channel->dead, memory_order_relaxed))
		return true;
	cm_id_return(channel);
	return false;
}

static void connection_free(struct fabric_channel *channel)
{
	if (!channel)
		return;
	connection_disconnect(channel);
	verbs_wakeup_stop(&channel->wakeup);
	/* entries that are still to be drained must not abort a destroyed queue pair, or post
	 * to it */
	atomic_store_explicit(&channel->dead, true, memory_order_relaxed);
	verbs_inband_stop(channel->inband);
	qp_destroy(channel);
	(void)verbs_cq_drain(channel->cq);
	verbs_inband_free(channel->inband);
	list_remove(&channel->ready);
	verbs_cq_detach(channel->cq, &channel->link, channel->depth);
	cm_id_close(channel);
	connection_release(channel);
}

const struct fabric_client_ops fabric_verbs_client = {
	.name = "rdma",
	.kind = FABRIC_VERBS,
	.needs_local_mr = true,
	.max_bytes = MESSAGE_BYTES_MAX,
	.missing = verbs_missing,
	.device_present = client_likely,
	.available = client_available,
	.domain_open = verbs_domain_open,
	.domain_close = verbs_domain_close,
	.domain_removed = verbs_domain_removed,
	.domain_disassociate = verbs_domain_disassociate,
	.domain_holds_device = verbs_domain_holds_device,
	.domain_device = verbs_domain_device,
	.domain_supports = verbs_domain_supports,
	.inline_max = verbs_connection_inline_max,
	.sge_max = verbs_domain_sge_max,
	.reg_mr = verbs_local_mr_reg,
	.reg_dmabuf_mr = verbs_local_mr_reg_dmabuf,
	.dereg_mr = verbs_local_mr_dereg,
	.cq_create = verbs_cq_create,
	.cq_free = verbs_cq_free,
	.cq_fd = verbs_cq_fd,
	.cq_arm = verbs_cq_arm,
	.connect = connection_open,
	.prepare = verbs_connection_prepare,
	.prepare_sges = verbs_connection_prepare_sges,
	.prepare_atomic = verbs_connection_prepare_atomic,
	.inband_max = INBAND_CREDITS,
	.prepare_inband = verbs_connection_prepare_inband,
	.post = verbs_connection_post,
	.post_one = verbs_connection_post_one,
	.poll = verbs_cq_poll,
	.abort = verbs_connection_abort,
	.alive_fd = connection_alive_fd,
	.alive = connection_alive,
	.channel_free = connection_free,
	.channel_leave = connection_leave,
};

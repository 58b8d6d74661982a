/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/channel.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "fabric/verbs/server/device.h"
#include "fabric/verbs/common/qp.h"
#include "fabric/verbs/common/status.h"
#include "fabric/verbs/server/disconnect.h"
#include "fabric/verbs/common/port.h"
#include "fabric/verbs/server/mr_map.h"
#include "fabric/verbs/common/sigpipe.h"
#include "fabric/verbs/server/report.h"

#define FLUSHED_TEXT \
	"the queue pair went to ERROR: an access was refused, or the peer is lost"

static struct verbs_endpoint *endpoint_of(const struct verbs_channel *channel)
{
	return channel->session->endpoint;
}

static struct ibv_qp *qp_of(const struct verbs_channel *channel)
{
	return channel->id ? channel->id->qp : channel->qp;
}

int verbs_channel_fence(struct verbs_channel *channel)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct verbs_sigpipe sigpipe;
	int err;

	if (!qp_of(channel))
		return 0;
	verbs_sigpipe_begin(&sigpipe, endpoint_of(channel)->device->attr.iwarp);
	err = ibv_modify_qp(qp_of(channel), &attr, IBV_QP_STATE);
	verbs_sigpipe_end(&sigpipe);
	return -abs(err);
}

static int own_qp_destroy(struct verbs_channel *channel)
{
	struct ibv_qp *qp = channel->qp;

	if (!qp)
		return 0;
	channel->qp = NULL;
	/* its events are nobody's */
	qp->qp_context = NULL;
	return -abs(ibv_destroy_qp(qp));
}

/* `fenced`: it is in ERROR already. */
static void qp_destroy(struct verbs_channel *channel, bool fenced)
{
	struct verbs_endpoint *endpoint = endpoint_of(channel);
	struct verbs_inband_server *inband = channel->inband;
	int err;

	/* the poller posts to it no more, and does nothing in its name */
	verbs_channel_ids_set_inband(&endpoint->device->ids, channel->wr_number, NULL);
	channel->inband = NULL;
	err = channel->id ? verbs_cm_destroy_qp(channel->id) : own_qp_destroy(channel);
	verbs_inband_server_free(inband);
	if (!err)
		return;
	if (!fenced)
		channel->session->unfenced = true;
	verbs_endpoint_report(
		endpoint,
		"RDMA device %s: ibv_destroy_qp gives %d: a queue pair is "
		"lost%s",
		endpoint->device->attr.name, -err,
		fenced ? "" : " that still serves its peer");
}

/* An iWARP connection ends with its stream, which the peer sees. */
static void iwarp_end(struct verbs_channel *channel, bool fenced)
{
	struct verbs_sigpipe sigpipe;

	verbs_sigpipe_begin(&sigpipe, true);
	(void)rdma_disconnect(channel->id);
	qp_destroy(channel, fenced);
	verbs_disconnect_destroy_id(endpoint_of(channel), channel->id);
	verbs_sigpipe_end(&sigpipe);
}

void verbs_channel_free(struct verbs_channel *channel)
{
	struct verbs_endpoint *endpoint = endpoint_of(channel);
	bool fenced;

	if (channel->up)
		endpoint->stats.channels--;
	else if (channel->id)
		endpoint->server->pending--;
	fenced = !verbs_channel_fence(channel);
	if (channel->id && endpoint->device->attr.iwarp) {
		iwarp_end(channel, fenced);
	} else {
		qp_destroy(channel, fenced);
		if (channel->id && channel->up)
			verbs_disconnect(endpoint, channel->id);
		else if (channel->id)
			verbs_disconnect_destroy_id(endpoint, channel->id);
	}
	verbs_channel_ids_free(&endpoint->device->ids, channel->wr_number);
	if (channel->remote.qpn)
		map_remove(&endpoint->remote_qps, &channel->by_remote_qpn);
	list_remove(&channel->link);
	list_remove(&channel->lingering);
	free(channel);
}

void verbs_channel_fail(struct verbs_channel *channel, const char *why)
{
	struct verbs_endpoint *endpoint = endpoint_of(channel);
	struct fabric_server *server = endpoint->server;
	void *cookie = channel->session->cookie;
	uint32_t number = channel->number;

	if (*why)
		endpoint->stats.errors++;
	verbs_channel_free(channel);
	server->events->channel_down(server->ctx, cookie, number, why);
}

void verbs_channel_fail_all(struct fabric_session *session, const char *why)
{
	struct verbs_channel *channel;

	list_for_each(node, &session->channels)
		(void)verbs_channel_fence(
			container_of(node, struct verbs_channel, link));
	while ((channel = list_first(&session->channels, struct verbs_channel, link)))
		verbs_channel_fail(channel, why);
}

/* What the poller found wrong with the peer's requests. */
static void why_ask(struct verbs_channel *channel)
{
	if (channel->why || !channel->inband)
		return;
	fair_lock_acquire(&channel->session->lock);
	channel->why = channel->inband->violation;
	fair_lock_release(&channel->session->lock);
}

void verbs_channel_flushed(void *arg)
{
	struct verbs_channel *channel = arg;
	struct verbs_sigpipe sigpipe;

	why_ask(channel);
	if (!channel->up) {
		verbs_channel_fail(channel, channel->why ? channel->why : FLUSHED_TEXT);
		return;
	}
	if (!endpoint_of(channel)->device->attr.iwarp) {
		if (!channel->why)
			channel->why = FLUSHED_TEXT;
		verbs_linger_add(&endpoint_of(channel)->server->linger, channel);
		return;
	}
	/* on iWARP an orderly close does this too, and rdma_cm is about to tell: at the
	 * latest when the connection ends together with the queue pair */
	verbs_sigpipe_begin(&sigpipe, true);
	qp_destroy(channel, true);
	(void)rdma_disconnect(channel->id);
	verbs_sigpipe_end(&sigpipe);
}

void verbs_channel_event(void *arg, enum ibv_event_type type)
{
	struct verbs_channel *channel = arg;

	if (type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_QP_REQ_ERR ||
	    type == IBV_EVENT_QP_ACCESS_ERR)
		channel->why = ibv_event_type_str(type);
}

void verbs_channel_established(struct verbs_channel *channel)
{
	struct verbs_endpoint *endpoint = endpoint_of(channel);
	struct fabric_server *server = endpoint->server;

	if (channel->up)
		return;
	channel->up = true;
	if (channel->id)
		server->pending--;
	endpoint->stats.channels++;
	endpoint->stats.channels_ever++;
	server->events->channel_up(server->ctx, channel->session->cookie,
				   channel->number);
}

static void channel_cm_event(struct verbs_cm_target *target,
			     const struct verbs_cm_event *event)
{
	struct verbs_channel *channel =
		container_of(target, struct verbs_channel, target);
	char why[FABRIC_TEXT_MAX];

	switch (event->type) {
	case RDMA_CM_EVENT_ESTABLISHED:
		verbs_channel_established(channel);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		verbs_channel_fail(channel, channel->why ? channel->why : "");
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		verbs_device_remove(endpoint_of(channel)->device);
		break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
		(void)snprintf(why, sizeof(why),
			       "the channel was not established: %s (%d)",
			       rdma_event_str(event->type), event->status);
		verbs_channel_fail(channel, why);
		break;
	default:
		break;
	}
}

struct verbs_channel *verbs_channel_find(const struct fabric_session *session,
					 uint32_t number)
{
	list_for_each(node, &session->channels) {
		struct verbs_channel *channel =
			container_of(node, struct verbs_channel, link);

		if (channel->number == number)
			return channel;
	}
	return NULL;
}

/* `local`: the port of a channel that is connected directly; NULL: its id has one. */
static int qp_make(struct verbs_channel *channel, const struct verbs_port *local,
		   struct ibv_qp_init_attr *attr)
{
	struct ibv_pd *pd = channel->session->pd;
	unsigned access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	int err;

	errno = 0;
	if (!local)
		return rdma_create_qp(channel->id, pd, attr)
			       ? err_errno(verbs_errno(), "rdma_create_qp")
			       : 0;
	channel->qp = ibv_create_qp(pd, attr);
	if (!channel->qp)
		return err_errno(verbs_errno(), "ibv_create_qp");
	if (endpoint_of(channel)->device->attr.atomics)
		access |= IBV_ACCESS_REMOTE_ATOMIC;
	err = verbs_qp_init(local, channel->qp, access);
	if (err)
		qp_destroy(channel, true);
	return err;
}

static int qp_create(struct verbs_channel *channel, const struct verbs_port *local)
{
	struct verbs_device *device = endpoint_of(channel)->device;
	struct ibv_qp_init_attr attr = {
		.qp_context = channel,
		.cap = { .max_send_wr = VERBS_CREDITS,
			 .max_recv_wr = VERBS_CREDITS,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	const struct inband_memory memory = verbs_mr_map_memory(channel->session);
	int err = verbs_poller_cq(&device->poller,
				  verbs_channel_ids_index(channel->wr_number),
				  &attr.recv_cq);

	if (err)
		return err;
	attr.send_cq = attr.recv_cq;
	err = qp_make(channel, local, &attr);
	if (err)
		return err;
	err = verbs_inband_server_open(qp_of(channel), channel->wr_number,
				       &channel->session->lock, &memory,
				       &channel->inband);
	if (!err) {
		verbs_channel_ids_set_inband(&device->ids, channel->wr_number,
					     channel->inband);
		return 0;
	}
	/* in INIT it serves nobody yet */
	qp_destroy(channel, true);
	return err;
}

/* Reads and atomics the peer may have under way, and ours. */
static struct verbs_rd_atomic rd_atomic_of(const struct verbs_device *device,
					   const struct verbs_cm_event *event)
{
	const struct verbs_device_attr *attr = &device->attr;

	return (struct verbs_rd_atomic){
		.responder = verbs_device_depth(device, event->responder_resources,
						attr->responder_resources),
		.initiator = verbs_device_depth(device, event->initiator_depth,
						attr->initiator_depth),
	};
}

/* Drive the queue pair here, and tell the peer what is settled. */
static int accept_driven(struct verbs_channel *channel,
			 const struct verbs_cm_event *event,
			 const struct verbs_rd_atomic *depths,
			 struct rdma_conn_param *param)
{
	struct verbs_qp_limits terms =
		verbs_qp_limits_decode(event->private_data + FABRIC_HELLO_BYTES,
				       event->private_bytes - FABRIC_HELLO_BYTES);
	struct rdma_cm_id *id = channel->id;
	uint8_t private_data[VERBS_QP_LIMITS_BYTES];
	struct ibv_qp *qp = id->qp;
	int err;

	err = verbs_qp_connect_cm(id, qp, &endpoint_of(channel)->device->rdma_options,
				  depths, &terms);
	if (err)
		return err;
	verbs_qp_limits_encode(&terms, private_data);
	param->private_data = private_data;
	param->private_data_len = sizeof(private_data);
	param->rnr_retry_count = terms.rnr_retry_count;
	param->qp_num = qp->qp_num;
	id->qp = NULL;
	if (rdma_accept(id, param))
		err = err_errno(verbs_errno(), "rdma_accept");
	id->qp = qp;
	return err;
}

static int channel_accept(struct verbs_channel *channel,
			  const struct verbs_cm_event *event)
{
	const struct verbs_device *device = endpoint_of(channel)->device;
	const struct verbs_rd_atomic depths = rd_atomic_of(device, event);
	struct rdma_conn_param param = {
		.responder_resources = (uint8_t)depths.responder,
		.initiator_depth = (uint8_t)depths.initiator,
		.rnr_retry_count = VERBS_RETRIES,
	};
	struct ibv_qp_attr attr = {
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
	};
	int err;

	if (device->attr.iwarp && rdma_accept(channel->id, &param))
		return err_errno(verbs_errno(), "rdma_accept");
	if (device->attr.iwarp)
		return 0;
	err = accept_driven(channel, event, &depths, &param);
	if (err)
		return err;
	/* rdma_cm allows atomics wherever it allows reads */
	if (device->attr.atomics)
		attr.qp_access_flags |= IBV_ACCESS_REMOTE_ATOMIC;
	err = ibv_modify_qp(channel->id->qp, &attr, IBV_QP_ACCESS_FLAGS);
	return err ? err_errno(-abs(err), "the queue pair's access flags") : 0;
}

int verbs_channel_new(struct fabric_session *session, uint32_t number,
		      struct rdma_cm_id *id, const struct verbs_port *local,
		      struct verbs_channel **ret_channel)
{
	struct verbs_channel_ids *ids = &session->endpoint->device->ids;
	struct verbs_channel *channel = calloc(1, sizeof(*channel));
	int err;

	if (!channel)
		return err_errno(-ENOMEM, "a channel");
	channel->target.event = channel_cm_event;
	channel->session = session;
	channel->number = number;
	channel->id = id;
	list_init(&channel->link);
	list_init(&channel->lingering);
	err = verbs_channel_ids_alloc(ids, channel, &channel->wr_number);
	if (err)
		goto err_free;
	err = qp_create(channel, local);
	if (err)
		goto err_slot;
	*ret_channel = channel;
	return 0;

err_slot:
	verbs_channel_ids_free(ids, channel->wr_number);
err_free:
	free(channel);
	return err;
}

void verbs_channel_discard(struct verbs_channel *channel)
{
	qp_destroy(channel, !verbs_channel_fence(channel));
	verbs_channel_ids_free(&endpoint_of(channel)->device->ids, channel->wr_number);
	free(channel);
}

/* A channel in the session with everything but the peer's answer. */
static int channel_create(struct fabric_session *session,
			  const struct verbs_cm_event *event, uint32_t number)
{
	struct verbs_channel *channel;
	int err = verbs_channel_new(session, number, event->id, NULL, &channel);

	if (err)
		return err;
	err = channel_accept(channel, event);
	if (err) {
		verbs_channel_discard(channel);
		return err;
	}
	channel->id->context = &channel->target;
	list_append(&session->channels, &channel->link);
	session->endpoint->server->pending++;
	return 0;
}

/* The session that a request belongs to, or NULL: refuse it. */
static struct fabric_session *request_admit(struct verbs_endpoint *endpoint,
					    const struct fabric_hello *hello)
{
	struct fabric_server *server = endpoint->server;
	struct fabric_session *session;

	if (endpoint->device->removed || server->pending >= server->backlog)
		return NULL;
	session = server->events->admit(server->ctx, endpoint->number, hello);
	if (!session || session->endpoint != endpoint || session->closing ||
	    !session->pd || verbs_channel_find(session, hello->channel))
		return NULL;
	return session;
}

/* An admitted request becomes a channel, or is told to be down. */
static bool request_accept(struct fabric_session *session,
			   const struct verbs_cm_event *event, uint32_t number)
{
	struct fabric_server *server = session->endpoint->server;
	char why[FABRIC_TEXT_MAX];
	int err;

	if (session->cut_off)
		err = err_set(-EIO, "the session had to be cut off on this device");
	else
		err = channel_create(session, event, number);
	if (!err)
		return true;
	session->endpoint->stats.errors++;
	(void)snprintf(why, sizeof(why), "%.*s", (int)sizeof(why) - 1, err_text());
	server->events->channel_down(server->ctx, session->cookie, number, why);
	return false;
}

void verbs_channel_request(struct verbs_endpoint *endpoint,
			   const struct verbs_cm_event *event)
{
	const uint32_t refused = htonl(VERBS_REFUSED);
	struct fabric_session *session = NULL;
	struct fabric_hello hello;

	/* until it has a channel of its own its events are nobody's */
	event->id->context = NULL;
	if (!fabric_hello_decode(event->private_data, event->private_bytes, &hello))
		session = request_admit(endpoint, &hello);
	if (!session)
		endpoint->stats.refused++;
	if (session && request_accept(session, event, hello.channel))
		return;
	(void)rdma_reject(event->id, &refused, sizeof(refused));
	(void)rdma_destroy_id(event->id);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/channel.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "fabric/verbs/common/context.h"
#include "fabric/verbs/common/iwarp.h"
#include "fabric/verbs/common/port.h"
#include "fabric/verbs/common/qp.h"
#include "fabric/verbs/server/device.h"
#include "fabric/verbs/server/pending.h"

#define FLUSHED_TEXT \
	"the queue pair went to ERROR: an access was refused, or the peer is lost"

static struct verbs_endpoint *endpoint_of(const struct verbs_channel *channel)
{
	return channel->session->endpoint;
}

/* Move the channel's queue pair to ERROR: the device serves no access of the peer any more.
 * -errno: the device may still serve accesses until the channel is freed. */
static int channel_fence(struct verbs_channel *channel)
{
	return channel->qp ? verbs_qp_fail(channel->qp,
					   endpoint_of(channel)->device->attr.iwarp)
			   : 0;
}

static void channels_fence(struct fabric_session *session)
{
	list_for_each_entry(struct verbs_channel, channel, &session->channels, link)
		(void)channel_fence(channel);
}

/* `fenced`: the queue pair serves no access, so it does no harm if it cannot be destroyed. */
static void qp_destroy(struct verbs_channel *channel, bool fenced)
{
	struct verbs_endpoint *endpoint = endpoint_of(channel);
	struct verbs_inband_server *inband = channel->inband;
	struct ibv_qp *qp = channel->qp;
	int err;

	/* from now on the poller neither posts to the queue pair nor serves its requests */
	verbs_channel_ids_set_inband(&endpoint->device->ids, channel->wr_number, NULL);
	channel->inband = NULL;
	channel->qp = NULL;
	if (channel->id)
		channel->id->qp = NULL;
	/* events of a queue pair that stays are ignored */
	if (qp)
		qp->qp_context = NULL;
	/* not rdma_destroy_qp(), which returns no error, and else only frees completion queues that
	 * rdma_cm created */
	err = qp ? -abs(ibv_destroy_qp(qp)) : 0;
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

/* An iWARP connection ends with its TCP stream, which the peer notices. */
static void iwarp_disconnect(struct verbs_channel *channel, bool fenced)
{
	struct verbs_sigpipe sigpipe;

	verbs_sigpipe_begin(&sigpipe, true);
	(void)rdma_disconnect(channel->id);
	qp_destroy(channel, fenced);
	verbs_endpoint_destroy_id(endpoint_of(channel), channel->id);
	verbs_sigpipe_end(&sigpipe);
}

/* Fence, disconnect, destroy; no event. */
static void channel_free(struct verbs_channel *channel)
{
	struct verbs_endpoint *endpoint = endpoint_of(channel);
	bool fenced;

	if (channel->up)
		endpoint->stats.channels--;
	verbs_pending_remove(channel);
	fenced = !channel_fence(channel);
	if (channel->id && endpoint->device->attr.iwarp) {
		iwarp_disconnect(channel, fenced);
	} else {
		qp_destroy(channel, fenced);
		if (channel->id && channel->up)
			verbs_endpoint_disconnect(endpoint, channel->id);
		else if (channel->id)
			verbs_endpoint_destroy_id(endpoint, channel->id);
	}
	verbs_channel_ids_free(&endpoint->device->ids, channel->wr_number);
	if (channel->remote.qpn)
		map_remove(&endpoint->remote_qps, &channel->by_remote_qpn);
	list_remove(&channel->link);
	list_remove(&channel->wait.link);
	free(channel);
}

/* Free the channel and call channel_down(); `why` "": the peer closed it in order. */
static void channel_fail(struct verbs_channel *channel, const char *why)
{
	struct verbs_endpoint *endpoint = endpoint_of(channel);
	struct fabric_server *server = endpoint->server;
	void *cookie = channel->session->cookie;
	uint32_t number = channel->number;

	if (*why)
		endpoint->stats.errors++;
	channel_free(channel);
	server->events->channel_down(server->ctx, cookie, number, why);
}

/* All queue pairs go to ERROR first, as destroying one may take long. */
void verbs_channel_fail_all(struct fabric_session *session, const char *why)
{
	struct verbs_channel *channel;

	channels_fence(session);
	while ((channel = list_first(&session->channels, struct verbs_channel, link)))
		channel_fail(channel, why);
}

void verbs_channel_free_all(struct fabric_session *session)
{
	struct verbs_channel *channel;

	channels_fence(session);
	while ((channel = list_first(&session->channels, struct verbs_channel, link)))
		channel_free(channel);
}

/* Take the cause from the poller, if it found an invalid in-band request. */
static void violation_fetch(struct verbs_channel *channel)
{
	if (channel->why || !channel->inband)
		return;
	fair_lock_acquire(&channel->session->lock);
	channel->why = channel->inband->violation;
	fair_lock_release(&channel->session->lock);
}

/* The client has not established the channel, or has not disconnected it by itself. */
static void channel_overdue(struct verbs_delayed *delayed)
{
	struct verbs_channel *channel =
		container_of(delayed, struct verbs_channel, wait);

	channel_fail(channel, channel->pending ? "the client did not complete its "
						 "connection in time"
					       : channel->why);
}

/* After a refused access the NAK tells the client which request was refused.  If a disconnect
 * arrived before the NAK, the client would only learn that some request failed.  So the channel is
 * disconnected after VERBS_DELAY_PEER_DISCONNECT, unless the client disconnects first. */
void verbs_channel_flushed(void *arg)
{
	struct verbs_channel *channel = arg;
	struct verbs_sigpipe sigpipe;

	violation_fetch(channel);
	if (!channel->up) {
		channel_fail(channel, channel->why ? channel->why : FLUSHED_TEXT);
		return;
	}
	if (!endpoint_of(channel)->device->attr.iwarp) {
		if (!channel->why)
			channel->why = FLUSHED_TEXT;
		verbs_delays_add(&endpoint_of(channel)->server->delays,
				 VERBS_DELAY_PEER_DISCONNECT, &channel->wait);
		return;
	}
	/* On iWARP an orderly close flushes the receives too, so this may be no error.  Destroying
	 * the queue pair ends the connection, so RDMA_CM_EVENT_DISCONNECTED follows in any case. */
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

/* The peer is connected: call channel_up(), once. */
static void channel_established(struct verbs_channel *channel)
{
	struct verbs_endpoint *endpoint = endpoint_of(channel);
	struct fabric_server *server = endpoint->server;

	if (channel->up)
		return;
	channel->up = true;
	verbs_pending_remove(channel);
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
		channel_established(channel);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		channel_fail(channel, channel->why ? channel->why : "");
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
		channel_fail(channel, why);
		break;
	default:
		break;
	}
}

static struct verbs_channel *channel_find(const struct fabric_session *session,
					  uint32_t number)
{
	list_for_each_entry(struct verbs_channel, channel, &session->channels, link) {
		if (channel->number == number)
			return channel;
	}
	return NULL;
}

int verbs_channel_close(struct fabric_session *session, uint32_t number)
{
	struct verbs_channel *channel = channel_find(session, number);

	if (channel)
		channel_free(channel);
	if (session->unfenced)
		return err_set(-EIO, "RDMA device %s does not release a queue pair",
			       session->endpoint->device->attr.name);
	return 0;
}

/* `local`: the port of a channel that is connected directly; NULL: its id has one. */
static int qp_make(struct verbs_channel *channel, const struct verbs_port *local,
		   struct ibv_qp_init_attr *attr)
{
	struct ibv_pd *pd = channel->session->pd;
	unsigned access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	int err;

	errno = 0;
	if (!local) {
		if (rdma_create_qp(channel->id, pd, attr))
			return err_errno(verbs_errno(), "rdma_create_qp");
		channel->qp = channel->id->qp;
		return 0;
	}
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
		.cap = { .max_send_wr = INBAND_CREDITS,
			 .max_recv_wr = INBAND_CREDITS,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	int err = verbs_poller_cq(&device->poller,
				  verbs_channel_ids_index(channel->wr_number),
				  &attr.recv_cq);

	if (err)
		return err;
	attr.send_cq = attr.recv_cq;
	err = qp_make(channel, local, &attr);
	if (err)
		return err;
	err = verbs_inband_server_open(channel->qp, channel->wr_number,
				       &channel->session->lock,
				       &channel->session->memory, &channel->inband);
	if (!err) {
		verbs_channel_ids_set_inband(&device->ids, channel->wr_number,
					     channel->inband);
		return 0;
	}
	/* in INIT it serves no peer yet */
	qp_destroy(channel, true);
	return err;
}

/* The channel's limits of outstanding reads and atomics. */
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

/* Connect the queue pair here, not in librdmacm, and send the peer the limits in effect. */
static int accept_qp(struct verbs_channel *channel, const struct verbs_cm_event *event,
		     const struct verbs_rd_atomic *depths,
		     struct rdma_conn_param *param)
{
	struct verbs_qp_limits limits =
		verbs_qp_limits_decode(event->private_data + FABRIC_HELLO_BYTES,
				       event->private_bytes - FABRIC_HELLO_BYTES);
	struct rdma_cm_id *id = channel->id;
	uint8_t private_data[VERBS_QP_LIMITS_BYTES];
	struct ibv_qp *qp = id->qp;
	int err;

	err = verbs_qp_connect_cm(id, qp, &endpoint_of(channel)->device->rdma_options,
				  depths, &limits);
	if (err)
		return err;
	verbs_qp_limits_encode(&limits, private_data);
	param->private_data = private_data;
	param->private_data_len = sizeof(private_data);
	param->rnr_retry_count = limits.rnr_retry_count;
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
	err = accept_qp(channel, event, &depths, &param);
	if (err)
		return err;
	/* rdma_cm allows atomics wherever it allows reads */
	if (device->attr.atomics)
		attr.qp_access_flags |= IBV_ACCESS_REMOTE_ATOMIC;
	err = ibv_modify_qp(channel->id->qp, &attr, IBV_QP_ACCESS_FLAGS);
	return err ? err_errno(-abs(err), "the queue pair's access flags") : 0;
}

/* A channel with its queue pair in INIT, not in the session's list yet: of this id, or one that
 * is connected directly from the port `local`. */
static int channel_new(struct fabric_session *session, uint32_t number,
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
	list_init(&channel->wait.link);
	channel->wait.due = channel_overdue;
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

/* Undo channel_new(); the id stays. */
static void channel_discard(struct verbs_channel *channel)
{
	qp_destroy(channel, !channel_fence(channel));
	verbs_channel_ids_free(&endpoint_of(channel)->device->ids, channel->wr_number);
	free(channel);
}

/* Create a channel in the session; only RDMA_CM_EVENT_ESTABLISHED is outstanding then. */
static int channel_create(struct fabric_session *session,
			  const struct verbs_cm_event *event, uint32_t number)
{
	struct verbs_channel *channel;
	int err = channel_new(session, number, event->id, NULL, &channel);

	if (err)
		return err;
	err = channel_accept(channel, event);
	if (err) {
		channel_discard(channel);
		return err;
	}
	channel->id->context = &channel->target;
	list_append(&session->channels, &channel->link);
	verbs_pending_add(channel);
	return 0;
}

/* The session that a request belongs to, or NULL: refuse it. */
static struct fabric_session *request_admit(struct verbs_endpoint *endpoint,
					    const struct fabric_hello *hello)
{
	struct fabric_server *server = endpoint->server;
	struct fabric_session *session;

	if (endpoint->device->removed)
		return NULL;
	session = server->events->admit(server->ctx, endpoint->number, hello);
	/* a channel that exists has an event of its own when it ends */
	if (!session || channel_find(session, hello->channel))
		return NULL;
	return session;
}

/* Whether an admitted request can become a channel; another one may have to give way. */
static int request_check(const struct verbs_endpoint *endpoint,
			 const struct fabric_session *session)
{
	struct verbs_channel *victim;

	if (session->endpoint != endpoint)
		return err_set(-EINVAL, "the channel is another endpoint's");
	if (session->cut_off || session->closing || !session->pd)
		return err_set(-EIO, "the session had to be cut off on this device");
	if (verbs_pending_room(session))
		return 0;
	victim = verbs_pending_victim(session);
	if (!victim)
		return err_set(
			-EBUSY,
			"%u connections wait for their clients already ([limits] "
			"connections)",
			endpoint->server->params.backlog);
	channel_fail(victim, "other clients have fewer connections that are not "
			     "complete, and need the place");
	return 0;
}

/* Make an admitted request a channel, or report that it is down. */
static bool request_accept(const struct verbs_endpoint *endpoint,
			   struct fabric_session *session,
			   const struct verbs_cm_event *event, uint32_t number)
{
	struct fabric_server *server = endpoint->server;
	char why[FABRIC_TEXT_MAX];
	int err = request_check(endpoint, session);

	if (!err)
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

	/* events of an id without a channel are ignored */
	event->id->context = NULL;
	if (!fabric_hello_decode(event->private_data, event->private_bytes, &hello))
		session = request_admit(endpoint, &hello);
	if (!session)
		endpoint->stats.refused++;
	if (session && request_accept(endpoint, session, event, hello.channel))
		return;
	(void)rdma_reject(event->id, &refused, sizeof(refused));
	(void)rdma_destroy_id(event->id);
}

/* ---- without rdma_cm: the control connection brings the client's queue pair ---- */

static int session_check(const struct fabric_session *session, uint32_t number)
{
	const struct verbs_endpoint *endpoint = session->endpoint;

	if (!endpoint->direct)
		return err_set(-ENOTSUP,
			       "the channels of RDMA device %s are set up by rdma_cm "
			       "(connect = cm)",
			       endpoint->public.device);
	if (endpoint->device->removed)
		return err_set(-ENODEV, "RDMA device %s was removed",
			       endpoint->public.device);
	if (session->cut_off || session->closing)
		return err_set(-EIO, "the session had to be cut off on this device");
	if (channel_find(session, number))
		return err_set(-EINVAL, "the channel is connected already");
	return 0;
}

static bool is_remote(const struct verbs_channel *channel,
		      const struct fabric_qp_info *theirs)
{
	const struct fabric_qp_info *remote = &channel->remote;

	return remote->qpn == theirs->qpn &&
	       (!memcmp(remote->gid, theirs->gid, sizeof(remote->gid)) ||
		(remote->lid != 0 && remote->lid == theirs->lid));
}

/* The channel that is connected with this queue pair already, or NULL. */
static struct verbs_channel *remote_find(const struct verbs_endpoint *endpoint,
					 const struct fabric_qp_info *theirs)
{
	struct map_node *node =
		map_find(&endpoint->remote_qps, map_hash_u64(theirs->qpn));

	for (; node; node = map_find_next(node)) {
		struct verbs_channel *channel =
			container_of(node, struct verbs_channel, by_remote_qpn);

		if (is_remote(channel, theirs))
			return channel;
	}
	return NULL;
}

/* Security: a client names its own queue pair by number and GID, and the server cannot verify the
 * number.  If two channels could name one queue pair, an attacker that guesses a victim's number
 * could have the responses to its own reads delivered to the victim, as if to the victim's reads.
 * If two clients name one queue pair, the one whose control connection comes from the GID's address
 * wins, so that a guess does not keep out the owner. */
static int remote_claim(const struct verbs_endpoint *endpoint,
			const struct fabric_qp_info *theirs)
{
	struct verbs_channel *other = remote_find(endpoint, theirs);

	if (!other)
		return 0;
	if (!theirs->gid_verified || other->remote.gid_verified)
		return err_set(-EBUSY,
			       "queue pair %#x there is the end of another channel "
			       "already",
			       theirs->qpn);
	channel_fail(other, "the queue pair is another client's, which connects from "
			    "the address of that GID");
	return 0;
}

static int qp_connect(struct verbs_channel *channel, const struct verbs_port *local,
		      const struct fabric_qp_info *theirs,
		      struct fabric_qp_info *ret_ours)
{
	const struct verbs_device *device = channel->session->endpoint->device;
	const struct verbs_rd_atomic depths = {
		.responder = verbs_device_depth(device, theirs->rd_atomic,
						device->attr.responder_resources),
		/* a client serves no reads */
		.initiator = 0,
	};
	struct fabric_qp_info ours = verbs_qp_info_make(
		local, channel->qp, &device->rdma_options, (uint8_t)depths.responder);
	uint64_t begin_ms = clock_now_ms();
	int err = verbs_qp_connect(local, channel->qp, &device->rdma_options, &depths,
				   theirs, &ours);

	verbs_gid_backoff_note(&device->server->gid_backoff, theirs->gid,
			       clock_now_ms() - begin_ms);
	if (!err)
		*ret_ours = ours;
	return err;
}

int verbs_channel_connect(struct fabric_session *session, uint32_t number,
			  const struct fabric_qp_info *theirs,
			  struct fabric_qp_info *ret_ours)
{
	struct verbs_endpoint *endpoint = session->endpoint;
	struct verbs_channel *channel;
	struct verbs_port local;
	int err = session_check(session, number);

	/* the endpoint's GID may have another index since the device's last event */
	if (!err)
		err = verbs_port_lookup(&endpoint->device->port_cache,
					(uint8_t)endpoint->port,
					&endpoint->public.address,
					&endpoint->device->rdma_options, &local);
	if (!err)
		err = verbs_qp_info_check(&local, theirs);
	if (!err)
		err = verbs_gid_backoff_check(&endpoint->server->gid_backoff,
					      theirs->gid);
	if (!err)
		err = remote_claim(endpoint, theirs);
	if (!err)
		err = channel_new(session, number, NULL, &local, &channel);
	if (err)
		goto err_count;
	err = map_insert(&endpoint->remote_qps, &channel->by_remote_qpn,
			 map_hash_u64(theirs->qpn));
	if (err) {
		err = err_errno(err, "a channel");
		goto err_discard;
	}
	err = qp_connect(channel, &local, theirs, ret_ours);
	if (err)
		goto err_end;
	channel->remote = *theirs;
	list_append(&session->channels, &channel->link);
	/* if the client does not connect its own side, the channel exists all the same: it
	 * counts for the session's limit of channels, and ends with the session */
	channel_established(channel);
	return 0;

err_end:
	map_remove(&endpoint->remote_qps, &channel->by_remote_qpn);
err_discard:
	channel_discard(channel);
err_count:
	/* the cached GID or P_Key index may have changed without an event */
	verbs_port_cache_clear(&endpoint->device->port_cache);
	endpoint->stats.refused++;
	return err;
}

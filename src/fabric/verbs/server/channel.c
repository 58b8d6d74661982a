/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/channel.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "fabric/address.h"
#include "fabric/verbs/common/context.h"
#include "fabric/verbs/common/iwarp.h"
#include "fabric/verbs/server/device.h"

#define REFUSED_TEXT "an access was refused: the client has no such key, range or right"
#define LOST_TEXT "the client is lost: it does not acknowledge"
/* Within a tenant a pending channel younger than this does not give way: when all its clients
 * connect at once, as after a restart, the oldest ones are about to be established. */
#define YOUNG_MS 250u

static struct verbs_endpoint *endpoint_of(const struct verbs_channel *channel)
{
	return channel->session->endpoint;
}

/* ---- channels that were accepted and that the client has not established yet ---- */

/* A client that never answers keeps such a channel, with its queue pair, until
 * VERBS_DELAY_ESTABLISH is over; so their number on a device is limited.  A client that has fewer
 * of them than another takes the other's place. */
static void pending_add(struct verbs_channel *channel)
{
	struct fabric_session *session = channel->session;

	channel->pending = true;
	channel->accepted_ms = clock_now_ms();
	session->n_pending++;
	session->tenant->n_pending++;
	session->endpoint->device->n_pending++;
	verbs_delays_add(&session->endpoint->server->delays, VERBS_DELAY_ESTABLISH,
			 &channel->wait);
}

static void pending_remove(struct verbs_channel *channel)
{
	struct fabric_session *session = channel->session;

	if (!channel->pending)
		return;
	channel->pending = false;
	session->n_pending--;
	session->tenant->n_pending--;
	session->endpoint->device->n_pending--;
	list_remove(&channel->wait.link);
}

/* Whether the channel has to give way rather than the other one, which is older. */
static bool gives_way(const struct verbs_channel *channel,
		      const struct verbs_channel *other)
{
	const struct fabric_session *a = channel->session, *b = other->session;

	if (a->tenant->n_pending != b->tenant->n_pending)
		return a->tenant->n_pending > b->tenant->n_pending;
	return a->tenant == b->tenant && a->n_pending > b->n_pending;
}

/* The channel that gives way to one of this session, or NULL: the session is refused.  It is the
 * oldest one of the session that has the most, of the tenant that has the most. */
static struct verbs_channel *pending_victim(const struct fabric_session *session)
{
	const struct verbs_endpoint *endpoint = session->endpoint;
	struct list *pending = &endpoint->server->delays.queues[VERBS_DELAY_ESTABLISH];
	struct verbs_channel *victim = NULL;
	bool gives;

	list_for_each_entry(struct verbs_channel, channel, pending, wait.link) {
		if (channel->session->endpoint->device == endpoint->device &&
		    (!victim || gives_way(channel, victim)))
			victim = channel;
	}
	if (!victim)
		return NULL;
	if (victim->session->tenant != session->tenant)
		gives = victim->session->tenant->n_pending > session->tenant->n_pending;
	else
		gives = victim->session->n_pending > session->n_pending &&
			clock_now_ms() - victim->accepted_ms >= YOUNG_MS;
	return gives ? victim : NULL;
}

/* ---- the end of a channel ---- */

/* Move the channel's queue pair to ERROR: the device serves no access of the peer any more.
 * -errno: the device may still serve accesses until the channel is freed. */
static int channel_fence(struct verbs_channel *channel)
{
	return channel->qp ? verbs_qp_fail(channel->qp,
					   endpoint_of(channel)->device->attr.iwarp)
			   : 0;
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
	verbs_endpoint_report(endpoint,
			      ": ibv_destroy_qp gives %d: a queue pair is lost%s", -err,
			      fenced ? "" : " that still serves its peer");
}

/* Fence, disconnect, destroy a channel that is in no list. */
static void channel_destroy(struct verbs_channel *channel)
{
	struct verbs_endpoint *endpoint = endpoint_of(channel);
	bool iwarp = endpoint->device->attr.iwarp, fenced = !channel_fence(channel);
	struct verbs_sigpipe sigpipe;

	verbs_sigpipe_begin(&sigpipe, iwarp);
	/* an iWARP connection ends with its TCP stream, which the peer notices */
	if (iwarp)
		(void)rdma_disconnect(channel->id);
	qp_destroy(channel, fenced);
	if (channel->id && channel->up && !iwarp)
		verbs_endpoint_disconnect(endpoint, channel->id);
	else if (channel->id)
		verbs_endpoint_destroy_id(endpoint, channel->id);
	verbs_sigpipe_end(&sigpipe);
	verbs_channel_ids_free(&endpoint->device->ids, channel->wr_number);
	err_kept_free(&channel->connect.result);
	free(channel);
}

/* End a channel, without event.  While a job connects its queue pair, the queue pair is the job's:
 * the channel is destroyed when the job is done. */
static void channel_free(struct verbs_channel *channel)
{
	struct verbs_endpoint *endpoint = endpoint_of(channel);

	if (channel->up)
		endpoint->stats.channels--;
	pending_remove(channel);
	if (channel->remote.qpn)
		map_remove(&endpoint->remote_qps, &channel->by_remote_qpn);
	list_remove(&channel->link);
	list_remove(&channel->wait.link);
	if (!channel->connecting ||
	    workers_cancel(&endpoint->device->workers[VERBS_WORK_CONNECT],
			   &channel->connect.job.job)) {
		channel_destroy(channel);
		return;
	}
	verbs_channel_ids_set_inband(&endpoint->device->ids, channel->wr_number, NULL);
	list_append(&channel->session->abandoned, &channel->link);
	channel->abandoned = true;
}

void verbs_channel_abandoned_free(struct verbs_channel *channel)
{
	list_remove(&channel->link);
	channel_destroy(channel);
}

void verbs_channel_fail(struct verbs_channel *channel, const char *why)
{
	struct verbs_endpoint *endpoint = endpoint_of(channel);
	struct fabric_server *server = endpoint->server;
	void *cookie = channel->session->cookie;
	uint32_t number = channel->number;
	bool connecting = channel->connecting;

	if (*why)
		endpoint->stats.errors++;
	channel_free(channel);
	if (connecting)
		server->events->channel_connected(server->ctx, cookie, number,
						  -ECONNABORTED, why, NULL);
	else
		server->events->channel_down(server->ctx, cookie, number, why);
}

void verbs_channel_end_all(struct fabric_session *session, const char *why)
{
	/* all queue pairs go to ERROR first, as destroying one may take long; the queue pair of a
	 * job serves no access yet */
	list_for_each_entry(struct verbs_channel, channel, &session->channels, link) {
		if (!channel->connecting)
			(void)channel_fence(channel);
	}
	while (!list_empty(&session->channels)) {
		struct verbs_channel *channel =
			list_first(&session->channels, struct verbs_channel, link);

		if (why)
			verbs_channel_fail(channel, why);
		else
			channel_free(channel);
	}
}

/* The client has not established the channel, or has not disconnected it by itself; or the cause of
 * its end is not known. */
static void channel_overdue(struct verbs_delayed *delayed)
{
	struct verbs_channel *channel =
		container_of(delayed, struct verbs_channel, wait);
	const char *why = channel->why ? channel->why : "";

	verbs_channel_fail(channel, channel->pending
					    ? "the client did not complete its "
					      "connection in time"
					    : why);
}

static void channel_refused(struct verbs_channel *channel)
{
	channel->why = REFUSED_TEXT;
	if (channel->refused)
		return;
	channel->refused = true;
	verbs_session_access_refused(channel->session);
}

/* The cause of the queue pair's ERROR.  A request of the server's own that failed names it.  If
 * none failed, the device refused a request of the client: nothing else moves a queue pair to
 * ERROR, except the end of an iWARP connection. */
static void cause_find(struct verbs_channel *channel, enum ibv_wc_status status)
{
	/* the poller may have found an invalid in-band request */
	if (!channel->why && channel->inband) {
		fair_lock_acquire(&channel->session->lock);
		channel->why = channel->inband->violation;
		fair_lock_release(&channel->session->lock);
	}
	if (channel->why)
		return;
	if (status == IBV_WC_RETRY_EXC_ERR || status == IBV_WC_RNR_RETRY_EXC_ERR)
		channel->why = LOST_TEXT;
	else if (status != IBV_WC_WR_FLUSH_ERR)
		channel->why = ibv_wc_status_str(status);
	else if (!endpoint_of(channel)->device->attr.iwarp)
		channel_refused(channel);
}

/* A client that disconnects right behind a refused access is heard of before its flushed receives:
 * find out all the same, as it could go on without being counted. */
static void cause_ask(struct verbs_channel *channel)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (!channel->up || !channel->qp || channel->why ||
	    endpoint_of(channel)->device->attr.iwarp)
		return;
	if (!ibv_query_qp(channel->qp, &attr, IBV_QP_STATE, &init) &&
	    attr.qp_state == IBV_QPS_ERR)
		cause_find(channel, IBV_WC_WR_FLUSH_ERR);
}

/* End a channel that has failed after a delay, unless it ends before. */
static void fail_later(struct verbs_channel *channel, enum verbs_delay delay)
{
	if (list_empty(&channel->wait.link))
		verbs_delays_add(&endpoint_of(channel)->server->delays, delay,
				 &channel->wait);
}

/* After a refused access the NAK tells the client which request was refused.  If a disconnect
 * arrived before the NAK, the client would only learn that some request failed.  So the channel is
 * disconnected after VERBS_DELAY_PEER_DISCONNECT, unless the client disconnects first.
 *
 * On iWARP an orderly close flushes the receives too, so this may be no error. */
void verbs_channel_flushed(void *arg, enum ibv_wc_status status)
{
	struct verbs_channel *channel = arg;

	cause_find(channel, status);
	/* else it fails when its job is done */
	if (channel->connecting)
		return;
	if (!channel->up)
		verbs_channel_fail(channel, channel->why ? channel->why
							 : "the connection has ended");
	else
		fail_later(channel, endpoint_of(channel)->device->attr.iwarp
					    ? VERBS_DELAY_CAUSE
					    : VERBS_DELAY_PEER_DISCONNECT);
}

/* On iWARP the event that tells the cause may come later. */
static void channel_disconnected(struct verbs_channel *channel)
{
	cause_ask(channel);
	if (channel->up && !channel->why && endpoint_of(channel)->device->attr.iwarp)
		fail_later(channel, VERBS_DELAY_CAUSE);
	else
		verbs_channel_fail(channel, channel->why ? channel->why : "");
}

void verbs_channel_event(void *arg, enum ibv_event_type type)
{
	struct verbs_channel *channel = arg;

	/* iWARP reports a refused read so: the device cannot send the answer */
	bool of_read = type == IBV_EVENT_QP_REQ_ERR &&
		       endpoint_of(channel)->device->attr.iwarp;

	if (type == IBV_EVENT_QP_ACCESS_ERR || of_read)
		channel_refused(channel);
	else if (type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_QP_REQ_ERR)
		channel->why = ibv_event_type_str(type);
}

void verbs_channel_established(struct verbs_channel *channel)
{
	struct verbs_endpoint *endpoint = endpoint_of(channel);
	struct fabric_server *server = endpoint->server;

	if (channel->up)
		return;
	channel->up = true;
	pending_remove(channel);
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
		channel_disconnected(channel);
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
	list_for_each_entry(struct verbs_channel, channel, &session->channels, link) {
		if (channel->number == number)
			return channel;
	}
	return NULL;
}

int verbs_channel_close(struct fabric_session *session, uint32_t number)
{
	struct verbs_channel *channel = verbs_channel_find(session, number);

	if (channel) {
		cause_ask(channel);
		channel_free(channel);
	}
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
	/* no access until it is connected: verbs_channel_allow_access() */
	err = verbs_qp_init(local, channel->qp, 0);
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

int verbs_channel_allow_access(struct verbs_channel *channel)
{
	struct ibv_qp_attr attr = {
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
	};
	int err;

	if (endpoint_of(channel)->device->attr.public.atomics)
		attr.qp_access_flags |= IBV_ACCESS_REMOTE_ATOMIC;
	err = ibv_modify_qp(channel->qp, &attr, IBV_QP_ACCESS_FLAGS);
	return err ? err_errno(-abs(err), "the queue pair's access flags") : 0;
}

/* Except for iWARP, connect the queue pair here, not in librdmacm, and send the peer the limits in
 * effect.  Nothing may fail after rdma_accept(): on an accepted id that is rejected, rdma_destroy_id()
 * held the main loop for more than 50 s (6.12). */
static int channel_accept(struct verbs_channel *channel,
			  const struct verbs_cm_event *event)
{
	const struct verbs_device *device = endpoint_of(channel)->device;
	const struct fabric_device_attr *attr = &device->attr.public;
	const struct verbs_rd_atomic depths = {
		.responder = verbs_device_depth(device, event->responder_resources,
						attr->responder_resources),
		.initiator = verbs_device_depth(device, event->initiator_depth,
						attr->initiator_depth),
	};
	struct verbs_qp_limits limits =
		verbs_qp_limits_decode(event->private_data + FABRIC_HELLO_BYTES,
				       event->private_bytes - FABRIC_HELLO_BYTES);
	uint8_t private_data[VERBS_QP_LIMITS_BYTES];
	struct rdma_conn_param param = {
		.responder_resources = (uint8_t)depths.responder,
		.initiator_depth = (uint8_t)depths.initiator,
		.rnr_retry_count = VERBS_RETRIES,
		.qp_num = channel->qp->qp_num,
	};
	int err = 0;

	if (!device->attr.iwarp) {
		err = verbs_qp_connect_cm(channel->id, channel->qp,
					  &device->rdma_options, &depths, &limits);
		/* rdma_cm allows atomics wherever it allows reads */
		if (!err)
			err = verbs_channel_allow_access(channel);
		if (err)
			return err;
		verbs_qp_limits_encode(&limits, private_data);
		param.private_data = private_data;
		param.private_data_len = sizeof(private_data);
		param.rnr_retry_count = limits.rnr_retry_count;
		channel->id->qp = NULL;
	}
	if (rdma_accept(channel->id, &param))
		err = err_errno(verbs_errno(), "rdma_accept");
	channel->id->qp = channel->qp;
	return err;
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

void verbs_channel_discard(struct verbs_channel *channel)
{
	qp_destroy(channel, !channel_fence(channel));
	verbs_channel_ids_free(&endpoint_of(channel)->device->ids, channel->wr_number);
	err_kept_free(&channel->connect.result);
	free(channel);
}

/* Create a channel in the session; only RDMA_CM_EVENT_ESTABLISHED is outstanding then. */
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
	pending_add(channel);
	return 0;
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
	if (endpoint->device->n_pending < endpoint->server->params.backlog)
		return 0;
	victim = pending_victim(session);
	if (!victim)
		return err_set(
			-EBUSY,
			"%u connections wait for their clients already ([limits] "
			"connections)",
			endpoint->server->params.backlog);
	verbs_channel_fail(victim, "other clients have fewer connections that are not "
				   "complete, and need the place");
	return 0;
}

/* Make an admitted request a channel, or report that it is down. */
static bool request_accept(const struct verbs_endpoint *endpoint,
			   struct fabric_session *session,
			   const struct verbs_cm_event *event, uint32_t number)
{
	struct fabric_server *server = endpoint->server;
	struct err_saved failed;
	int err = request_check(endpoint, session);

	if (!err)
		err = channel_create(session, event, number);
	if (!err)
		return true;
	session->endpoint->stats.errors++;
	err_save(&failed, err);
	server->events->channel_down(server->ctx, session->cookie, number, failed.text);
	return false;
}

void verbs_channel_request(struct verbs_endpoint *endpoint,
			   const struct verbs_cm_event *event)
{
	const uint32_t refused = htonl(VERBS_REFUSED);
	const struct fabric_server *server = endpoint->server;
	struct fabric_session *session = NULL;
	struct fabric_hello hello;

	/* events of an id without a channel are ignored */
	event->id->context = NULL;
	if (!fabric_hello_decode(event->private_data, event->private_bytes, &hello) &&
	    !endpoint->device->removed) {
		(void)fabric_address_from_sockaddr(rdma_get_peer_addr(event->id),
						   &hello.peer);
		session = server->events->admit(server->ctx, endpoint->number, &hello);
	}
	/* a channel that exists has an event of its own when it ends */
	if (session && verbs_channel_find(session, hello.channel))
		session = NULL;
	if (!session)
		endpoint->stats.refused++;
	if (session && request_accept(endpoint, session, event, hello.channel))
		return;
	(void)rdma_reject(event->id, &refused, sizeof(refused));
	(void)rdma_destroy_id(event->id);
}

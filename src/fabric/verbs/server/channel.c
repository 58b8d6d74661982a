/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/channel.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "fabric/address.h"
#include "fabric/verbs/common/context.h"
#include "fabric/verbs/server/channel_qp.h"
#include "fabric/verbs/server/device.h"
#include "fabric/verbs/server/ending.h"
#include "fabric/verbs/server/remote.h"

/* The device does not tell who sent the packet: it may be forged. */
#define REFUSED_TEXT \
	"an access was refused that came as the client's: no such key, range or right"
#define ENDED_TEXT "the connection has ended"
#define LOST_TEXT "the client is lost: it does not acknowledge"
/* Within a tenant a pending channel younger than this does not give way: when all its clients
 * connect at once, as after a restart, the oldest ones are about to be established. */
#define YOUNG_MS 250u

static struct verbs_endpoint *endpoint_of(const struct verbs_channel *channel)
{
	return channel->session->endpoint;
}

/* ---- requests of rdma_cm that the client has not established yet ---- */

/* A client that never answers keeps such a channel, with its queue pair, until
 * VERBS_DELAY_ESTABLISH is over; so their number on a device is limited.  A client that has fewer
 * of them than another takes the other's slot. */
static void pending_add(struct verbs_channel *channel)
{
	struct fabric_session *session = channel->session;

	channel->pending = true;
	channel->requested_ms = clock_now_ms();
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
			clock_now_ms() - victim->requested_ms >= YOUNG_MS;
	return gives ? victim : NULL;
}

/* ---- the end of a channel ---- */

/* Stop what the channel serves: the poller serves no request any more, and the queue pair, in
 * ERROR, no access of the peer. */
static void channel_stop(struct verbs_channel *channel)
{
	struct verbs_device *device = endpoint_of(channel)->device;

	if (channel->stopped)
		return;
	channel->stopped = true;
	/* before it is open, the queue pair serves nothing */
	channel->fenced = !verbs_channel_ids_close(&device->ids, channel->wr_number) ||
			  !verbs_qp_fail(channel->qp, device->attr.iwarp);
}

/* The id of a channel that has ended. */
static void id_end(struct verbs_channel *channel)
{
	struct verbs_endpoint *endpoint = endpoint_of(channel);

	if (!channel->id)
		return;
	if (!channel->accepted)
		verbs_id_refuse(endpoint, channel->id);
	else if (channel->disconnected && !channel->answered &&
		 !endpoint->device->removed)
		verbs_id_disconnected(endpoint, channel->id);
	else
		verbs_id_destroy(endpoint, channel->id);
}

/* Free a channel whose queue pair is closed. */
static void channel_free(struct verbs_channel *channel)
{
	struct verbs_endpoint *endpoint = endpoint_of(channel);

	if (channel->destroy_err)
		verbs_endpoint_report(
			endpoint, ": ibv_destroy_qp gives %d: a queue pair is lost%s",
			-channel->destroy_err,
			channel->fenced ? "" : " that still serves its peer");
	id_end(channel);
	list_remove(&channel->link);
	verbs_channel_ids_free(&endpoint->device->ids, channel->wr_number);
	err_kept_free(&channel->result);
	free(channel);
}

static void channel_closed(struct verbs_message *message)
{
	struct verbs_channel *channel =
		container_of(message, struct verbs_channel, job.done);
	struct fabric_session *session = channel->session;

	channel_free(channel);
	session->released(session);
}

static void job_post(struct verbs_channel *channel)
{
	workers_post(&endpoint_of(channel)->device->workers[VERBS_WORK_CHANNEL],
		     &channel->session->tenant->queues[VERBS_WORK_CHANNEL],
		     &channel->job.job);
}

/* Have the worker close the queue pair.  One that could not be stopped is closed at once. */
static void close_begin(struct verbs_channel *channel)
{
	/* its events are ignored from now on */
	if (channel->qp)
		channel->qp->qp_context = NULL;
	verbs_job_init(&channel->job, channel_closed);
	channel->job.job.run = verbs_channel_qp_close;
	if (channel->fenced) {
		job_post(channel);
		return;
	}
	channel->job.job.run(&channel->job.job);
	if (channel->destroy_err)
		channel->session->unfenced = true;
	mailbox_post(&endpoint_of(channel)->server->mailbox, &channel->job.done.link);
}

/* End a channel, without event.  While a job opens its queue pair, the queue pair is the job's: it
 * is closed when the job is done. */
static void channel_end(struct verbs_channel *channel)
{
	struct verbs_endpoint *endpoint = endpoint_of(channel);

	if (channel->up)
		endpoint->stats.channels--;
	pending_remove(channel);
	if (channel->remote.qpn)
		map_remove(&endpoint->remote_qps, &channel->by_remote_qpn);
	list_remove(&channel->wait.link);
	channel_stop(channel);
	list_remove(&channel->link);
	list_append(&channel->session->ending, &channel->link);
	channel->ended = true;
	if (channel->opening &&
	    !workers_cancel(&endpoint->device->workers[VERBS_WORK_CHANNEL],
			    &channel->job.job)) {
		if (!channel->fenced)
			channel->session->unfenced = true;
		return;
	}
	channel->opening = false;
	close_begin(channel);
}

void verbs_channel_ended_free(struct verbs_channel *channel)
{
	if (channel->opening)
		verbs_channel_qp_close(&channel->job.job);
	channel_free(channel);
}

static void end_with(struct verbs_channel *channel, int err, const char *why)
{
	struct fabric_server *server = endpoint_of(channel)->server;
	void *cookie = channel->session->cookie;
	uint32_t number = channel->number;
	bool joins = !channel->id && !channel->up;

	channel_end(channel);
	if (joins)
		server->events->channel_connected(server->ctx, cookie, number, err, why,
						  NULL);
	else
		server->events->channel_down(server->ctx, cookie, number, why);
}

/* End the channel and call channel_down(); `why` "": the peer closed it in order.  If it is being
 * connected directly, call channel_connected(). */
static void channel_fail(struct verbs_channel *channel, const char *why)
{
	if (*why)
		endpoint_of(channel)->stats.errors++;
	end_with(channel, -ECONNABORTED, why);
}

void verbs_channel_end_all(struct fabric_session *session, const char *why)
{
	struct verbs_channel *channel;

	/* all of them first */
	list_for_each_entry(struct verbs_channel, stopped, &session->channels, link)
		channel_stop(stopped);
	while ((channel = list_first(&session->channels, struct verbs_channel, link))) {
		if (why)
			channel_fail(channel, why);
		else
			channel_end(channel);
	}
}

/* The client has not established the channel, or has not disconnected it by itself; or the cause of
 * its end is not known. */
static void channel_overdue(struct verbs_delayed *delayed)
{
	struct verbs_channel *channel =
		container_of(delayed, struct verbs_channel, wait);
	const char *why = channel->why ? channel->why : "";

	channel_fail(channel, channel->pending ? "the client did not complete its "
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
 * none failed, the device refused a request that came as the client's: nothing else moves a queue
 * pair to ERROR, except the end of an iWARP connection. */
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

	if (channel->ended)
		return;
	if (channel->opening) {
		channel->flushed = true;
		channel->status = status;
		return;
	}
	cause_find(channel, status);
	if (!channel->up)
		channel_fail(channel, channel->why ? channel->why : ENDED_TEXT);
	else
		fail_later(channel, endpoint_of(channel)->device->attr.iwarp
					    ? VERBS_DELAY_CAUSE
					    : VERBS_DELAY_PEER_DISCONNECT);
}

/* On iWARP the event that tells the cause may come later. */
static void channel_disconnected(struct verbs_channel *channel)
{
	if (channel->opening) {
		channel->left = true;
		return;
	}
	cause_ask(channel);
	if (channel->up && !channel->why && endpoint_of(channel)->device->attr.iwarp)
		fail_later(channel, VERBS_DELAY_CAUSE);
	else
		channel_fail(channel, channel->why ? channel->why : "");
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

static void channel_established(struct verbs_channel *channel)
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

/* The peer's answer to a disconnect that may be under way; the id's other events are over. */
static void ended_event(struct verbs_channel *channel, enum rdma_cm_event_type type)
{
	if (type == RDMA_CM_EVENT_DEVICE_REMOVAL)
		verbs_device_remove(endpoint_of(channel)->device);
	else if (type == RDMA_CM_EVENT_DISCONNECTED ||
		 type == RDMA_CM_EVENT_TIMEWAIT_EXIT)
		channel->answered = true;
}

static void channel_cm_event(struct verbs_cm_target *target,
			     const struct verbs_cm_event *event)
{
	struct verbs_channel *channel =
		container_of(target, struct verbs_channel, target);
	char why[FABRIC_TEXT_MAX];

	if (channel->ended) {
		ended_event(channel, event->type);
		return;
	}
	switch (event->type) {
	case RDMA_CM_EVENT_ESTABLISHED:
		channel->confirmed = true;
		if (!channel->opening)
			channel_established(channel);
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
		channel_fail(channel, why);
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
		channel_end(channel);
	}
	if (session->unfenced)
		return err_set(-EIO, "RDMA device %s does not release a queue pair",
			       session->endpoint->device->attr.name);
	return 0;
}

/* ---- the begin of a channel ---- */

static void open_failed(struct verbs_channel *channel, int err)
{
	struct verbs_endpoint *endpoint = endpoint_of(channel);
	struct err_saved failed;

	err_save(&failed, err);
	/* the cached GID or P_Key index may have changed without an event */
	verbs_port_cache_clear(&endpoint->device->port_cache);
	if (channel->id)
		endpoint->stats.errors++;
	else
		endpoint->stats.refused++;
	end_with(channel, err, failed.text);
}

/* A client can use its channel, and lose it, before the loop hears that it is open. */
static void ended_meanwhile(struct verbs_channel *channel)
{
	if (channel->flushed)
		verbs_channel_flushed(channel, channel->status);
	if (channel->left && !channel->ended)
		channel_disconnected(channel);
}

static void channel_opened(struct verbs_message *message)
{
	struct verbs_channel *channel =
		container_of(message, struct verbs_channel, job.done);
	struct fabric_server *server = endpoint_of(channel)->server;
	int err;

	channel->opening = false;
	verbs_gid_failed(server, channel->remote.gid, channel->failed_ms);
	if (channel->ended) {
		close_begin(channel);
		return;
	}
	err = err_kept_restore(&channel->result);
	if (err) {
		open_failed(channel, err);
		return;
	}
	/* if a direct client does not connect its own side, the channel still exists: it counts for
	 * the session's limit of channels, and ends with the session */
	if (!channel->id || channel->confirmed)
		channel_established(channel);
	if (!channel->id)
		server->events->channel_connected(server->ctx, channel->session->cookie,
						  channel->number, 0, "",
						  &channel->ours);
	ended_meanwhile(channel);
}

void verbs_channel_open(struct verbs_channel *channel)
{
	channel->opening = true;
	verbs_job_init(&channel->job, channel_opened);
	channel->job.job.run = verbs_channel_qp_open;
	job_post(channel);
}

/* The client's end is no other channel's from now on. */
static int remote_claim(struct verbs_channel *channel,
			const struct fabric_qp_info *theirs)
{
	struct verbs_endpoint *endpoint = endpoint_of(channel);
	struct verbs_channel *loser;
	int err = verbs_remote_check(endpoint, theirs, &loser);

	if (err)
		return err;
	if (loser)
		channel_fail(loser,
			     "the queue pair is another client's, which connects from "
			     "the address of that GID");
	err = map_insert(&endpoint->remote_qps, &channel->by_remote_qpn,
			 map_hash_u64(theirs->qpn));
	if (err)
		return err_errno(err, "a channel");
	channel->remote = *theirs;
	return 0;
}

int verbs_channel_new(struct fabric_session *session, uint32_t number,
		      struct rdma_cm_id *id, const struct fabric_qp_info *theirs,
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
	if (theirs->qpn)
		err = remote_claim(channel, theirs);
	if (err)
		goto err_slot;
	list_append(&session->channels, &channel->link);
	*ret_channel = channel;
	return 0;

err_slot:
	verbs_channel_ids_free(ids, channel->wr_number);
err_free:
	free(channel);
	return err;
}

/* The client's queue pair, as the request names it.  Security: on RoCE its GID is the address from
 * which the client was admitted, that of its control connection or one that the session has named.
 * With another GID the queue pair would answer to, and the kernel ask for, a host that has nothing
 * to do with the client. */
static int request_remote(const struct verbs_endpoint *endpoint,
			  const struct verbs_cm_event *event,
			  const struct fabric_hello *hello,
			  struct fabric_qp_info *ret_theirs)
{
	const struct rdma_route *route = &event->id->route;
	struct fabric_qp_info theirs = { .qpn = event->qp_num,
					 .gid_verified = hello->peer_verified };
	char text[INET6_ADDRSTRLEN];
	uint8_t admitted[16];

	if (!route->num_paths)
		return err_set(-EINVAL, "the client's request names no path");
	memcpy(theirs.gid, route->path_rec->dgid.raw, sizeof(theirs.gid));
	fabric_address_to_gid(&hello->peer, admitted);
	if (endpoint->device->attr.public.transport == FABRIC_INFINIBAND)
		theirs.lid = ntohs(route->path_rec->dlid);
	else if (memcmp(theirs.gid, admitted, sizeof(admitted)) != 0)
		return err_set(-EACCES,
			       "the client's request names GID %s, which is not the "
			       "address that it comes from",
			       inet_ntop(AF_INET6, theirs.gid, text, sizeof(text)));
	*ret_theirs = theirs;
	return 0;
}

static int request_check_remote(const struct verbs_endpoint *endpoint,
				const struct verbs_cm_event *event,
				const struct fabric_hello *hello,
				struct fabric_qp_info *theirs)
{
	int err;

	/* a TCP connection is where it comes from */
	if (endpoint->device->attr.iwarp)
		return 0;
	err = verbs_qpn_check(event->qp_num);
	if (!err)
		err = request_remote(endpoint, event, hello, theirs);
	return err;
}

/* Create a channel in the session, and have its queue pair connected. */
static int channel_create(struct fabric_session *session,
			  const struct verbs_cm_event *event,
			  const struct fabric_hello *hello)
{
	const struct verbs_device *device = session->endpoint->device;
	const struct fabric_device_attr *attr = &device->attr.public;
	struct fabric_qp_info theirs = { .qpn = 0 };
	struct verbs_channel *channel;
	int err = request_check_remote(session->endpoint, event, hello, &theirs);

	if (!err)
		err = verbs_channel_new(session, hello->channel, event->id, &theirs,
					&channel);
	if (err)
		return err;
	channel->depths = (struct verbs_rd_atomic){
		.responder = verbs_device_depth(device, event->responder_resources,
						attr->responder_resources),
		.initiator = verbs_device_depth(device, event->initiator_depth,
						attr->initiator_depth),
	};
	channel->limits =
		verbs_qp_limits_decode(event->private_data + FABRIC_HELLO_BYTES,
				       event->private_bytes - FABRIC_HELLO_BYTES);
	channel->id->context = &channel->target;
	pending_add(channel);
	verbs_channel_open(channel);
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
	channel_fail(victim, "other clients have fewer connections that are not "
			     "complete, and need the slot");
	return 0;
}

/* Make an admitted request a channel, or report that it is down.  False: the id is the caller's. */
static bool request_accept(const struct verbs_endpoint *endpoint,
			   struct fabric_session *session,
			   const struct verbs_cm_event *event,
			   const struct fabric_hello *hello)
{
	struct fabric_server *server = endpoint->server;
	struct err_saved failed;
	int err = request_check(endpoint, session);

	if (!err)
		err = channel_create(session, event, hello);
	if (!err)
		return true;
	session->endpoint->stats.errors++;
	err_save(&failed, err);
	server->events->channel_down(server->ctx, session->cookie, hello->channel,
				     failed.text);
	return false;
}

void verbs_channel_request(struct verbs_endpoint *endpoint,
			   const struct verbs_cm_event *event)
{
	const struct fabric_server *server = endpoint->server;
	struct fabric_session *session = NULL;
	struct fabric_hello hello;

	/* events of an id without a channel are ignored */
	event->id->context = NULL;
	if (!fabric_hello_decode(event->private_data, event->private_bytes, &hello) &&
	    !endpoint->device->removed) {
		(void)fabric_address_from_sockaddr(rdma_get_peer_addr(event->id),
						   &hello.peer);
		(void)server->events->admit(server->ctx, endpoint->number, &hello,
					    &session);
	}
	/* a channel that exists has an event of its own when it ends */
	if (session && verbs_channel_find(session, hello.channel))
		session = NULL;
	if (!session)
		endpoint->stats.refused++;
	if (!session || !request_accept(endpoint, session, event, &hello))
		verbs_id_refuse(endpoint, event->id);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/channel/channel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/err.h"
#include "librmem/channel/qp_exchange.h"
#include "librmem/lease/lease.h"
#include "librmem/queue/queue.h"
#include "librmem/channel/device_recovery.h"
#include "librmem/session/session.h"

#define NS_PER_MS UINT64_C(1000000)
/* What a connect may take at first, and how often that is doubled where it was not enough:
 * a peer that is slow is reached in the end, one that is gone does not hold up others. */
#define CONNECT_MS 500u
#define CONNECT_DOUBLINGS 3u
/* The least that makes sense. */
#define CONNECT_MIN_MS 50u

void channel_want(struct channel *channel, bool at_once)
{
	channel->stage = CHANNEL_WANTED;
	channel->retry_ns = 0;
	if (at_once)
		return;
	channel->retry_ns =
		clock_now_ns() + backoff_next(&channel->backoff) * NS_PER_MS;
}

/* The server may have its end all the same: it has joined what this side could not, or
 * whose answer came too late, and without rdma_cm nothing else tells it to let go. */
void channel_give_back(struct rmem *session, struct channel *channel)
{
	struct wire_msg request;

	/* it went with the server's side of the session */
	if (channel->number == 0)
		return;
	request.type = WIRE_TYPE_close_channel;
	request.id = 0;
	request.close_channel.channel = channel->number;
	session_tell(session, &request);
	channel->number = 0;
}

void channel_give_up(struct rmem *session, struct channel *channel)
{
	channel_give_back(session, channel);
	channel_want(channel, false);
}

struct channel_ref {
	struct rmem_queue *queue;
	struct channel *channel;
};

/* Whether every lease has keys for the endpoint; those of a device that was removed are gone,
 * though there was a channel once. */
static bool endpoint_keyed(const struct rmem *session, unsigned endpoint)
{
	list_for_each(node, &session->leases) {
		struct rmem_lease *lease = container_of(node, struct rmem_lease, node);
		const struct attachment *att =
			atomic_load_explicit(&lease->attachment, memory_order_acquire);

		for (unsigned i = 0;
		     atomic_load(&lease->status) == 0 && i < att->n_segments; i++)
			if ((att->endpoints[i] & (1u << endpoint)) &&
			    !att->keys[i][endpoint].present)
				return false;
	}
	return true;
}

void endpoint_opened(struct rmem *session, unsigned endpoint)
{
	if ((session->opened & 1u << endpoint) && endpoint_keyed(session, endpoint))
		return;
	session->opened |= 1u << endpoint;
	list_for_each(node, &session->leases) {
		struct rmem_lease *lease = container_of(node, struct rmem_lease, node);

		if (atomic_load(&lease->status) == 0)
			lease_rekey(lease);
	}
}

void endpoint_moved(const struct channel *channel, const struct wire_channel *grant)
{
	struct fabric_address address = { .family = grant->family,
					  .port = grant->port };

	memcpy(address.bytes, grant->address, sizeof(address.bytes));
	recovery_moved(channel->queue->session, channel->endpoint, &address);
}

static int granted(void *ctx, int err, const struct wire_msg *reply)
{
	struct channel *channel = ctx;

	channel->call = NULL;
	if (err) {
		recovery_missed(channel->queue->session, channel->domain, false);
		channel_want(channel, false);
		return 0;
	}
	channel->number = reply->channel.channel;
	channel->stage = CHANNEL_REKEY;
	endpoint_moved(channel, &reply->channel);
	/* once: a device that was removed meanwhile gets no keys however often one asks */
	if (channel->stage == CHANNEL_REKEY)
		endpoint_opened(channel->queue->session, channel->endpoint);
	return 0;
}

static void channel_ask(struct rmem *session, struct channel *channel)
{
	struct wire_msg *request = calloc(1, sizeof(*request));

	if (!request) {
		channel_want(channel, false);
		return;
	}
	request->type = WIRE_TYPE_open_channel;
	request->open_channel.endpoint = channel->endpoint;
	channel->stage = CHANNEL_ASKED;
	if (connection_call(session->connection, request, granted, channel,
			    &channel->call))
		channel_want(channel, false);
	free(request);
}

static void channel_peer_end(struct channel *channel, enum peer_end end)
{
	atomic_store_explicit(&channel->peer_end, end, memory_order_release);
	queue_wake(channel->queue);
}

static int closed(void *ctx, int err, const struct wire_msg *reply)
{
	struct channel *channel = ctx;

	(void)reply;
	channel->call = NULL;
	channel->stage = CHANNEL_WANTED;
	channel_peer_end(channel, err ? PEER_END_UNKNOWN : PEER_END_CLOSED);
	return 0;
}

/* Have the server's end of the last channel closed, so that what was lost with it can be
 * posted again. */
static void channel_close(struct rmem *session, struct channel *channel)
{
	struct wire_msg *request = calloc(1, sizeof(*request));

	if (request) {
		request->type = WIRE_TYPE_close_channel;
		request->close_channel.channel = channel->number;
		if (connection_call(session->connection, request, closed, channel,
				    &channel->call) == 0)
			channel->stage = CHANNEL_CLOSING;
	}
	if (channel->stage != CHANNEL_CLOSING)
		channel_peer_end(channel, PEER_END_UNKNOWN);
	channel->number = 0;
	free(request);
}

static bool channel_peer_open(const struct channel *channel)
{
	return channel->stage == CHANNEL_WANTED &&
	       atomic_load_explicit(&channel->peer_end, memory_order_relaxed) ==
		       PEER_END_OPEN;
}

static void channel_work(struct rmem *session, struct channel *channel, uint64_t now_ns)
{
	if (channel_peer_open(channel) && channel->number != 0)
		channel_close(session, channel);
	else if (channel_peer_open(channel))
		/* it went with the server's side of the session, before the welcome */
		channel_peer_end(channel, PEER_END_CLOSED);
	if (channel->stage == CHANNEL_WANTED && now_ns >= channel->retry_ns &&
	    recovery_askable(session, channel))
		channel_ask(session, channel);
}

void channels_work(struct rmem *session, uint64_t now_ns)
{
	if (session->state != SESSION_UP)
		return;
	list_for_each(node, &session->queues) {
		struct rmem_queue *queue = container_of(node, struct rmem_queue, node);

		for (unsigned i = 0; i < queue->channels.n; i++)
			channel_work(session, &queue->channels.all[i], now_ns);
	}
}

uint64_t channels_due(const struct rmem *session)
{
	uint64_t due = recovery_due(session);

	if (session->state != SESSION_UP)
		return due;
	list_for_each(node, &session->queues) {
		const struct rmem_queue *queue =
			container_of(node, struct rmem_queue, node);

		for (unsigned i = 0; i < queue->channels.n; i++) {
			const struct channel *channel = &queue->channels.all[i];

			if (channel_peer_open(channel))
				due = 0;
			if (channel->stage == CHANNEL_WANTED &&
			    channel->retry_ns < due &&
			    recovery_askable(session, channel))
				due = channel->retry_ns;
		}
	}
	return due;
}

void channel_watch(struct rmem *session, struct channel *channel,
		   struct fabric_channel *fabric)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = CHANNEL_TAG };
	int fd = session->domains.ops->alive_fd(fabric);

	/* a channel that cannot be watched shows its end by its completions */
	channel->watched =
		fd >= 0 && epoll_ctl(session->epfd, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* A channel whose channel can be connected, now that every lease has its keys. */
static struct channel_ref channel_ready(struct rmem *session)
{
	if (session->state != SESSION_UP || session->rekeys > 0)
		return (struct channel_ref){ NULL, NULL };
	list_for_each(node, &session->queues) {
		struct rmem_queue *queue = container_of(node, struct rmem_queue, node);

		for (unsigned i = 0; i < queue->channels.n; i++)
			if (queue->channels.all[i].stage == CHANNEL_REKEY &&
			    recovery_usable(session, &queue->channels.all[i]))
				return (struct channel_ref){ queue,
							     &queue->channels.all[i] };
	}
	return (struct channel_ref){ NULL, NULL };
}

bool channels_ready(struct rmem *session)
{
	return channel_ready(session).channel != NULL ||
	       recovery_ready(session, clock_now_ns());
}

/* Nobody sends heartbeats meanwhile: the next one may be late by half the time between two,
 * or after failures by as much as leaves half the time to the fence. */
static uint64_t heartbeats_ms(const struct rmem *session, uint64_t now_ns,
			      unsigned failures)
{
	uint64_t ms = session->welcome.heartbeat_ms / 2 * (UINT64_C(1) << failures);

	if (ms > session->welcome.fence_ms / 2)
		ms = session->welcome.fence_ms / 2;
	if (session->state == SESSION_UP && session->ping_ns > now_ns)
		ms += (session->ping_ns - now_ns) / NS_PER_MS;
	return ms;
}

unsigned connect_patience_ms(const struct rmem *session, uint64_t now_ns)
{
	unsigned failures = 0;
	uint64_t ms, late_ms;

	for (unsigned i = 0; i < session->domains.n; i++)
		if (session->domains.domains[i].failures > failures)
			failures = session->domains.domains[i].failures;
	if (failures > CONNECT_DOUBLINGS)
		failures = CONNECT_DOUBLINGS;
	ms = CONNECT_MS << failures;
	late_ms = heartbeats_ms(session, now_ns, failures);
	if (!session->served && ms > late_ms)
		ms = late_ms;
	return ms < CONNECT_MIN_MS ? CONNECT_MIN_MS : (unsigned)ms;
}

static void channel_connect(struct rmem *session, struct channel_ref ref)
{
	struct fabric_channel_params params = {
		.hello = { .session = session->welcome.session,
			   .channel = ref.channel->number },
		.depth = ref.queue->channels.depth,
		.timeout_ms = connect_patience_ms(session, clock_now_ns()),
		.owner = ref.channel->owner,
	};
	struct qp_exchange join = { session, ref.channel->number };
	uint64_t resumes = session->resumes;
	struct fabric_channel *fabric;
	int err;

	memcpy(params.hello.token, session->welcome.token, sizeof(params.hello.token));
	params.exchange = qp_exchange;
	params.exchange_ctx = &join;
	ref.channel->ended = false;
	ref.channel->stage = CHANNEL_CONNECTING;
	ref.queue->in_service++;
	(void)pthread_mutex_unlock(&session->lock);
	err = ref.queue->ops->connect(ref.queue->cqs[ref.channel->domain], &params,
				      &fabric);
	(void)pthread_mutex_lock(&session->lock);
	ref.queue->in_service--;
	(void)pthread_cond_broadcast(&session->changed);
	if (err) {
		channel_give_up(session, ref.channel);
		recovery_missed(session, ref.channel->domain, false);
		recovery_doubt(session, ref.channel->domain, err);
		queue_wake(ref.queue);
		return;
	}
	recovery_found(session, ref.channel->domain);
	/* only the owner may free it, so one that came too late is handed over, too */
	ref.channel->fresh = fabric;
	ref.channel->stage = CHANNEL_FRESH;
	if (session->state != SESSION_UP || session->resumes != resumes ||
	    ref.channel->ended || !recovery_usable(session, ref.channel)) {
		ref.channel->doomed = true;
		session->sync_tidy = true;
		ref.queue->ops->abort(fabric);
	} else {
		channel_watch(session, ref.channel, fabric);
	}
	queue_wake(ref.queue);
}

void channels_connect_one(struct rmem *session)
{
	struct channel_ref ref = channel_ready(session);

	if (session->sync_tidy || !ref.channel)
		recovery_next(session);
	else
		channel_connect(session, ref);
}

static void channel_abort(struct rmem_queue *queue, struct channel *channel)
{
	struct fabric_channel *fabric =
		channel->fresh ? channel->fresh : channel->fabric;

	if (fabric) {
		channel->doomed = true;
		queue->ops->abort(fabric);
		queue_wake(queue);
	}
	/* the numbers the server gave are gone with its side of the session */
	channel->number = 0;
	if (channel->stage == CHANNEL_REKEY)
		channel_want(channel, false);
}

void channels_abort(struct rmem *session)
{
	session->opened = 0;
	list_for_each(node, &session->queues) {
		struct rmem_queue *queue = container_of(node, struct rmem_queue, node);

		for (unsigned i = 0; i < queue->channels.n; i++)
			channel_abort(queue, &queue->channels.all[i]);
	}
}

static bool channel_ended(struct rmem_queue *queue, struct channel *channel)
{
	struct fabric_channel *fabric =
		channel->fresh ? channel->fresh : channel->fabric;

	/* told to the one that connects now */
	channel->ended = true;
	if (channel->stage == CHANNEL_CONNECTING || !fabric)
		return false;
	channel->doomed = true;
	queue->ops->abort(fabric);
	return true;
}

static void queues_ended(const struct list *queues, uint32_t number)
{
	list_for_each(node, queues) {
		struct rmem_queue *queue = container_of(node, struct rmem_queue, node);

		for (unsigned i = 0; i < queue->channels.n; i++) {
			struct channel *channel = &queue->channels.all[i];

			if (channel->number == number && number != 0 &&
			    channel_ended(queue, channel))
				queue_wake(queue);
		}
	}
}

void channels_ended(struct rmem *session, uint32_t number)
{
	queues_ended(&session->queues, number);
	queues_ended(&session->opening, number);
}

static void channel_alive(struct rmem *session, struct rmem_queue *queue,
			  struct channel *channel)
{
	struct fabric_channel *fabric =
		channel->fresh ? channel->fresh : channel->fabric;

	if (!channel->watched || queue->ops->alive(fabric))
		return;
	(void)epoll_ctl(session->epfd, EPOLL_CTL_DEL, queue->ops->alive_fd(fabric),
			NULL);
	channel->watched = false;
	channel->doomed = true;
	queue_wake(queue);
}

void channels_alive(struct rmem *session)
{
	list_for_each(node, &session->queues) {
		struct rmem_queue *queue = container_of(node, struct rmem_queue, node);

		for (unsigned i = 0; i < queue->channels.n; i++)
			channel_alive(session, queue, &queue->channels.all[i]);
	}
}

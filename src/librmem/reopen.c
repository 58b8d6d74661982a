/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/reopen.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/err.h"
#include "librmem/join.h"
#include "librmem/lease.h"
#include "librmem/queue.h"
#include "librmem/renew.h"
#include "librmem/session.h"

#define NS_PER_MS UINT64_C(1000000)
#define BACKOFF_FIRST_MS 20u
#define BACKOFF_MAX_MS 1000u
/* What a connect may take at first, and how often that is doubled where it was not enough:
 * a peer that is slow is reached in the end, one that is gone does not hold up others. */
#define CONNECT_MS 500u
#define CONNECT_DOUBLINGS 3u
/* The least that makes sense. */
#define CONNECT_MIN_MS 50u

void reopen_want(struct channel_slot *slot, bool at_once)
{
	slot->stage = SLOT_WANTED;
	slot->retry_ns = 0;
	if (at_once)
		return;
	slot->backoff_ms = slot->backoff_ms ? slot->backoff_ms * 2 : BACKOFF_FIRST_MS;
	if (slot->backoff_ms > BACKOFF_MAX_MS)
		slot->backoff_ms = BACKOFF_MAX_MS;
	slot->retry_ns = clock_now_ns() + slot->backoff_ms * NS_PER_MS;
}

/* The server may have its end all the same: it has joined what this side could not, or
 * whose answer came too late, and without rdma_cm nothing else tells it to let go. */
void reopen_give_back(struct rmem *session, struct channel_slot *slot)
{
	struct wire_msg request;

	/* it went with the server's side of the session */
	if (slot->number == 0)
		return;
	request.type = WIRE_TYPE_close_channel;
	request.id = 0;
	request.close_channel.channel = slot->number;
	session_tell(session, &request);
	slot->number = 0;
}

void reopen_give_up(struct rmem *session, struct channel_slot *slot)
{
	reopen_give_back(session, slot);
	reopen_want(slot, false);
}

struct slot_ref {
	struct rmem_queue *queue;
	struct channel_slot *slot;
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

void reopen_endpoint(struct rmem *session, unsigned endpoint)
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

void reopen_moved(const struct channel_slot *slot, const struct wire_channel *grant)
{
	struct fabric_address address = { .family = grant->family,
					  .port = grant->port };

	memcpy(address.bytes, grant->address, sizeof(address.bytes));
	renew_moved(slot->queue->session, slot->endpoint, &address);
}

static int granted(void *ctx, int err, const struct wire_msg *reply)
{
	struct channel_slot *slot = ctx;

	slot->call = NULL;
	if (err) {
		renew_missed(slot->queue->session, slot->domain, false);
		reopen_want(slot, false);
		return 0;
	}
	slot->number = reply->channel.channel;
	slot->stage = SLOT_REKEY;
	reopen_moved(slot, &reply->channel);
	/* once: a device that was removed meanwhile gets no keys however often one asks */
	if (slot->stage == SLOT_REKEY)
		reopen_endpoint(slot->queue->session, slot->endpoint);
	return 0;
}

static void slot_ask(struct rmem *session, struct channel_slot *slot)
{
	struct wire_msg *request = calloc(1, sizeof(*request));

	if (!request) {
		reopen_want(slot, false);
		return;
	}
	request->type = WIRE_TYPE_open_channel;
	request->open_channel.endpoint = slot->endpoint;
	slot->stage = SLOT_ASKED;
	if (control_call(session->control, request, granted, slot, &slot->call))
		reopen_want(slot, false);
	free(request);
}

static void slot_bury(struct channel_slot *slot, enum burial burial)
{
	atomic_store_explicit(&slot->burial, burial, memory_order_release);
	queue_news(slot->queue);
}

static int closed(void *ctx, int err, const struct wire_msg *reply)
{
	struct channel_slot *slot = ctx;

	(void)reply;
	slot->call = NULL;
	slot->stage = SLOT_WANTED;
	slot_bury(slot, err ? BURIAL_FAILED : BURIAL_DONE);
	return 0;
}

/* Have the server's end of the last channel closed, so that what was lost with it can be
 * posted again. */
static void slot_close(struct rmem *session, struct channel_slot *slot)
{
	struct wire_msg *request = calloc(1, sizeof(*request));

	if (request) {
		request->type = WIRE_TYPE_close_channel;
		request->close_channel.channel = slot->number;
		if (control_call(session->control, request, closed, slot,
				 &slot->call) == 0)
			slot->stage = SLOT_CLOSING;
	}
	if (slot->stage != SLOT_CLOSING)
		slot_bury(slot, BURIAL_FAILED);
	slot->number = 0;
	free(request);
}

static bool slot_unburied(const struct channel_slot *slot)
{
	return slot->stage == SLOT_WANTED &&
	       atomic_load_explicit(&slot->burial, memory_order_relaxed) == BURIAL_DUE;
}

static void slot_work(struct rmem *session, struct channel_slot *slot, uint64_t now_ns)
{
	if (slot_unburied(slot) && slot->number != 0)
		slot_close(session, slot);
	else if (slot_unburied(slot))
		/* it went with the server's side of the session, before the welcome */
		slot_bury(slot, BURIAL_DONE);
	if (slot->stage == SLOT_WANTED && now_ns >= slot->retry_ns &&
	    renew_askable(session, slot))
		slot_ask(session, slot);
}

void reopen_work(struct rmem *session, uint64_t now_ns)
{
	if (session->link != LINK_UP)
		return;
	list_for_each(node, &session->queues) {
		struct rmem_queue *queue = container_of(node, struct rmem_queue, node);

		for (unsigned i = 0; i < queue->channels.n; i++)
			slot_work(session, &queue->channels.slots[i], now_ns);
	}
}

uint64_t reopen_due(const struct rmem *session)
{
	uint64_t due = renew_due(session);

	if (session->link != LINK_UP)
		return due;
	list_for_each(node, &session->queues) {
		const struct rmem_queue *queue =
			container_of(node, struct rmem_queue, node);

		for (unsigned i = 0; i < queue->channels.n; i++) {
			const struct channel_slot *slot = &queue->channels.slots[i];

			if (slot_unburied(slot))
				due = 0;
			if (slot->stage == SLOT_WANTED && slot->retry_ns < due &&
			    renew_askable(session, slot))
				due = slot->retry_ns;
		}
	}
	return due;
}

void reopen_watch(struct rmem *session, struct channel_slot *slot,
		  struct fabric_channel *channel)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = REOPEN_TAG };
	int fd = session->domains.ops->alive_fd(channel);

	/* a channel that cannot be watched shows its end by its completions */
	slot->watched =
		fd >= 0 && epoll_ctl(session->epfd, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* A slot whose channel can be connected, now that every lease has its keys. */
static struct slot_ref slot_ready(struct rmem *session)
{
	if (session->link != LINK_UP || session->rekeys > 0)
		return (struct slot_ref){ NULL, NULL };
	list_for_each(node, &session->queues) {
		struct rmem_queue *queue = container_of(node, struct rmem_queue, node);

		for (unsigned i = 0; i < queue->channels.n; i++)
			if (queue->channels.slots[i].stage == SLOT_REKEY &&
			    renew_usable(session, &queue->channels.slots[i]))
				return (struct slot_ref){ queue,
							  &queue->channels.slots[i] };
	}
	return (struct slot_ref){ NULL, NULL };
}

bool reopen_ready(struct rmem *session)
{
	return slot_ready(session).slot != NULL || renew_ready(session, clock_now_ns());
}

/* Nobody sends heartbeats meanwhile: the next one may be late by half the time between two,
 * or after failures by as much as leaves half the time to the fence. */
static uint64_t heartbeats_ms(const struct rmem *session, uint64_t now_ns,
			      unsigned failures)
{
	uint64_t ms = session->welcome.heartbeat_ms / 2 * (UINT64_C(1) << failures);

	if (ms > session->welcome.fence_ms / 2)
		ms = session->welcome.fence_ms / 2;
	if (session->link == LINK_UP && session->ping_ns > now_ns)
		ms += (session->ping_ns - now_ns) / NS_PER_MS;
	return ms;
}

unsigned reopen_patience_ms(const struct rmem *session, uint64_t now_ns)
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

static void slot_connect(struct rmem *session, struct slot_ref ref)
{
	struct fabric_channel_params params = {
		.hello = { .session = session->welcome.session,
			   .channel = ref.slot->number },
		.depth = ref.queue->channels.depth,
		.timeout_ms = reopen_patience_ms(session, clock_now_ns()),
		.owner = ref.slot,
	};
	struct join join = { session, ref.slot->number, .alone = true };
	uint64_t resumes = session->resumes;
	struct fabric_channel *channel;
	int err;

	memcpy(params.hello.token, session->welcome.token, sizeof(params.hello.token));
	params.exchange = join_exchange;
	params.exchange_ctx = &join;
	ref.slot->ended = false;
	ref.slot->stage = SLOT_CONNECTING;
	ref.queue->in_service++;
	(void)pthread_mutex_unlock(&session->lock);
	err = ref.queue->ops->connect(ref.queue->cqs[ref.slot->domain], &params,
				      &channel);
	(void)pthread_mutex_lock(&session->lock);
	ref.queue->in_service--;
	(void)pthread_cond_broadcast(&session->changed);
	if (err) {
		reopen_give_up(session, ref.slot);
		renew_missed(session, ref.slot->domain, false);
		renew_doubt(session, ref.slot->domain, err);
		queue_news(ref.queue);
		return;
	}
	renew_found(session, ref.slot->domain);
	/* only the owner may free it, so one that came too late is handed over, too */
	ref.slot->fresh = channel;
	ref.slot->stage = SLOT_FRESH;
	if (session->link != LINK_UP || session->resumes != resumes ||
	    ref.slot->ended || !renew_usable(session, ref.slot)) {
		ref.slot->doomed = true;
		session->sync_tidy = true;
		ref.queue->ops->abort(channel);
	} else {
		reopen_watch(session, ref.slot, channel);
	}
	queue_news(ref.queue);
}

void reopen_connect(struct rmem *session)
{
	struct slot_ref ref = slot_ready(session);

	if (session->sync_tidy || !ref.slot)
		renew_next(session);
	else
		slot_connect(session, ref);
}

static void slot_abort(struct rmem_queue *queue, struct channel_slot *slot)
{
	struct fabric_channel *channel = slot->fresh ? slot->fresh : slot->channel;

	if (channel) {
		slot->doomed = true;
		queue->ops->abort(channel);
		queue_news(queue);
	}
	/* the numbers the server gave are gone with its side of the session */
	slot->number = 0;
	if (slot->stage == SLOT_REKEY)
		reopen_want(slot, false);
}

void reopen_abort(struct rmem *session)
{
	session->opened = 0;
	list_for_each(node, &session->queues) {
		struct rmem_queue *queue = container_of(node, struct rmem_queue, node);

		for (unsigned i = 0; i < queue->channels.n; i++)
			slot_abort(queue, &queue->channels.slots[i]);
	}
}

static bool slot_ended(struct rmem_queue *queue, struct channel_slot *slot)
{
	struct fabric_channel *channel = slot->fresh ? slot->fresh : slot->channel;

	/* told to the one that connects now */
	slot->ended = true;
	if (slot->stage == SLOT_CONNECTING || !channel)
		return false;
	slot->doomed = true;
	queue->ops->abort(channel);
	return true;
}

static void queues_ended(const struct list *queues, uint32_t number)
{
	list_for_each(node, queues) {
		struct rmem_queue *queue = container_of(node, struct rmem_queue, node);

		for (unsigned i = 0; i < queue->channels.n; i++) {
			struct channel_slot *slot = &queue->channels.slots[i];

			if (slot->number == number && number != 0 &&
			    slot_ended(queue, slot))
				queue_news(queue);
		}
	}
}

void reopen_ended(struct rmem *session, uint32_t number)
{
	queues_ended(&session->queues, number);
	queues_ended(&session->opening, number);
}

static void slot_alive(struct rmem *session, struct rmem_queue *queue,
		       struct channel_slot *slot)
{
	struct fabric_channel *channel = slot->fresh ? slot->fresh : slot->channel;

	if (!slot->watched || queue->ops->alive(channel))
		return;
	(void)epoll_ctl(session->epfd, EPOLL_CTL_DEL, queue->ops->alive_fd(channel),
			NULL);
	slot->watched = false;
	slot->doomed = true;
	queue_news(queue);
}

void reopen_alive(struct rmem *session)
{
	list_for_each(node, &session->queues) {
		struct rmem_queue *queue = container_of(node, struct rmem_queue, node);

		for (unsigned i = 0; i < queue->channels.n; i++)
			slot_alive(session, queue, &queue->channels.slots[i]);
	}
}

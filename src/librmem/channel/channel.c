/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/channel/channel.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/err.h"
#include "librmem/channel/early_hello.h"
#include "librmem/channel/device_recovery.h"
#include "librmem/session/service.h"
#include "librmem/session/session.h"

#define NS_PER_MS UINT64_C(1000000)

void channel_want(struct channel *channel, bool at_once)
{
	channel->stage = CHANNEL_WANTED;
	channel->retry_ns = 0;
	if (at_once)
		return;
	channel->retry_ns =
		clock_now_ns() + backoff_next(&channel->backoff) * NS_PER_MS;
}

static int ignored(void *ctx, int err, const struct wire_msg *reply)
{
	(void)ctx;
	(void)err;
	(void)reply;
	return 0;
}

/* Ask the server to close a channel.  The whole of a wire_msg is much larger than the part
 * that is set here. */
static int close_ask(struct rmem *session, uint32_t number, connection_done *done,
		     void *ctx, struct connection_call **ret_call)
{
	struct wire_msg request;

	request.type = WIRE_TYPE_close_channel;
	request.id = 0;
	request.close_channel.channel = number;
	return connection_call(session->connection, &request, done, ctx, ret_call);
}

/* A channel was granted that no one wants any more. */
static int channel_undo(void *ctx, int err, const struct wire_msg *reply)
{
	struct rmem *session = ctx;

	/* the answer may be that of closing one */
	if (!err && reply->type == WIRE_TYPE_channel)
		(void)close_ask(session, reply->channel.channel, ignored, NULL, NULL);
	return 0;
}

/* The server may have its end nevertheless: it may have joined a channel that this side could
 * not join, and without rdma_cm nothing else tells it to free that. */
static void channel_give_back(struct rmem *session, struct channel *channel)
{
	/* without a number it ended with the server's side of the session */
	if (channel->number != 0)
		(void)close_ask(session, channel->number, ignored, NULL, NULL);
	channel->number = 0;
}

static void channel_give_up(struct rmem *session, struct channel *channel)
{
	channel_give_back(session, channel);
	channel_want(channel, false);
}

static void endpoint_moved(const struct channel *channel,
			   const struct wire_channel *grant)
{
	struct fabric_address address = { .family = grant->family,
					  .port = grant->port };

	memcpy(address.bytes, grant->address, sizeof(address.bytes));
	recovery_moved(channel->session, channel->endpoint, &address);
}

/* It cannot be had now: it is asked for again, or the waiting thread decides. */
static void channel_failed(struct rmem *session, struct channel *channel, int err)
{
	struct channel_waiter *waiter = channel->waiter;

	if (!waiter) {
		recovery_missed(session, channel->domain, false);
		channel_give_up(session, channel);
		return;
	}
	waiter->err = err;
	(void)snprintf(waiter->text, sizeof(waiter->text), "%.*s",
		       SESSION_TEXT_BYTES - 1, err_text());
	channel_give_back(session, channel);
	channel->stage = CHANNEL_USED;
}

static void channel_grant(struct rmem *session, struct channel *channel,
			  uint32_t number)
{
	channel->number = number;
	channel->ended = false;
	channel->stage = CHANNEL_REKEY;
	SESSION_NOTIFY(session, endpoint_opened, session, channel->endpoint);
}

static int granted(void *ctx, int err, const struct wire_msg *reply)
{
	struct channel *channel = ctx;
	struct rmem *session = channel->session;

	channel->call = NULL;
	if (err) {
		channel_failed(session, channel, err);
		return 0;
	}
	channel->number = reply->channel.channel;
	endpoint_moved(channel, &reply->channel);
	/* keys are asked for once: those of a device that was removed cannot be had */
	if (recovery_askable(session, channel))
		channel_grant(session, channel, channel->number);
	else
		channel_give_up(session, channel);
	return 0;
}

/* The channel that came with the welcome is meant for the session's first one.  Where that
 * leads to another endpoint it is given back. */
static bool welcome_take(struct rmem *session, struct channel *channel)
{
	uint32_t number = session->welcome.channel;

	session->welcome.channel = 0;
	if (number == 0)
		return false;
	if (session->welcome.endpoint != channel->endpoint) {
		(void)close_ask(session, number, ignored, NULL, NULL);
		return false;
	}
	channel_grant(session, channel, number);
	return true;
}

static void channel_ask(struct rmem *session, struct channel *channel)
{
	struct wire_msg request;
	int err;

	if (welcome_take(session, channel))
		return;
	request.type = WIRE_TYPE_open_channel;
	request.id = 0;
	request.open_channel.endpoint = channel->endpoint;
	channel->stage = CHANNEL_ASKED;
	err = connection_call(session->connection, &request, granted, channel,
			      &channel->call);
	if (err)
		channel_failed(session, channel, err);
}

static void channel_peer_end(struct channel *channel, enum peer_end end)
{
	atomic_store_explicit(&channel->peer_end, end, memory_order_release);
	channel->wake(channel->queue);
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
	if (close_ask(session, channel->number, closed, channel, &channel->call) == 0)
		channel->stage = CHANNEL_CLOSING;
	else
		channel_peer_end(channel, PEER_END_UNKNOWN);
	channel->number = 0;
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

static void channels_ask(struct rmem *session, uint64_t now_ns)
{
	if (session->state != SESSION_UP)
		return;
	list_for_each(node, &session->channels)
		channel_work(session, container_of(node, struct channel, node), now_ns);
}

static uint64_t channels_due(const struct rmem *session)
{
	uint64_t due = recovery_due(session);

	if (session->state != SESSION_UP)
		return due;
	list_for_each(node, &session->channels) {
		const struct channel *channel =
			container_of(node, struct channel, node);

		if (channel_peer_open(channel))
			due = 0;
		if (channel->stage == CHANNEL_WANTED && channel->retry_ns < due &&
		    recovery_askable(session, channel))
			due = channel->retry_ns;
	}
	return due;
}

static void channel_watch(struct rmem *session, struct channel *channel,
			  struct fabric_channel *fabric)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = SESSION_ALIVE_TAG };
	int fd = session->domains.ops->alive_fd(fabric);

	/* a channel that cannot be watched shows its end by its completions */
	channel->watched =
		fd >= 0 && epoll_ctl(session->epfd, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* It is granted, and every lease has its keys. */
static bool channel_is_ready(const struct rmem *session, const struct channel *channel)
{
	return session->state == SESSION_UP && session->rekeys == 0 &&
	       channel->stage == CHANNEL_REKEY && recovery_usable(session, channel);
}

/* A channel that is ready, and that no thread waits for: that thread connects it. */
static struct channel *channel_ready(struct rmem *session)
{
	list_for_each(node, &session->channels) {
		struct channel *channel = container_of(node, struct channel, node);

		if (!channel->waiter && channel_is_ready(session, channel))
			return channel;
	}
	return NULL;
}

static bool channels_ready(struct rmem *session)
{
	return channel_ready(session) || recovery_ready(session, clock_now_ns());
}

/* ---- connecting ---- */

static int joined(void *ctx, int err, const struct wire_msg *reply)
{
	struct fabric_qp_info *end = ctx;

	if (err)
		return err;
	*end = (struct fabric_qp_info){ .qpn = 0 };
	WIRE_END_COPY(end, &reply->joined);
	return 0;
}

/* fabric_channel_params.exchange of a channel without rdma_cm: the two ends learn of each other
 * over the control connection. */
static int qp_exchange(void *ctx, const struct fabric_qp_info *ours,
		       unsigned timeout_ms, struct fabric_qp_info *ret_theirs)
{
	struct channel *channel = ctx;
	struct wire_msg request;

	request.type = WIRE_TYPE_join_channel;
	request.id = 0;
	request.join_channel.channel = channel->joining;
	WIRE_END_COPY(&request.join_channel, ours);
	return session_call_while_up(channel->session, &request, joined, ret_theirs,
				     clock_now_ns() + timeout_ms * NS_PER_MS);
}

/* A thread that waits for the channel gives it all of its time, where another one sends the
 * heartbeats, or none is due yet. */
static unsigned channel_patience_ms(const struct rmem *session,
				    const struct channel *channel)
{
	uint64_t now = clock_now_ns(), left_ms;
	unsigned ms = connect_patience_ms(session, now);

	if (!channel->waiter)
		return ms;
	left_ms = now < channel->waiter->end_ns
			  ? (channel->waiter->end_ns - now) / NS_PER_MS + 1
			  : 1;
	return session->served || !session->welcomed || left_ms < ms ? (unsigned)left_ms
								     : ms;
}

/* Only the owner may free it, so one that came too late is handed over, too. */
static void channel_connected(struct rmem *session, struct channel *channel,
			      struct fabric_channel *fabric, uint64_t resumes)
{
	channel->fresh = fabric;
	channel->stage = CHANNEL_FRESH;
	recovery_found(session, channel->domain);
	if (session->state != SESSION_UP || session->resumes != resumes ||
	    channel->ended || !recovery_usable(session, channel)) {
		channel->doomed = true;
		session->sync_tidy = true;
		channel->session->domains.ops->abort(fabric);
	} else {
		channel_watch(session, channel, fabric);
	}
}

static void channel_unconnected(struct rmem *session, struct channel *channel, int err)
{
	/* heartbeats were due: the waiting thread goes on after those */
	if (channel->waiter && err == -ETIMEDOUT &&
	    clock_now_ns() < channel->waiter->end_ns) {
		channel_give_back(session, channel);
		channel_want(channel, true);
	} else {
		channel_failed(session, channel, err);
		if (!channel->waiter)
			recovery_doubt(session, channel->domain, err);
	}
}

/* Releases the lock meanwhile. */
static void channel_connect(struct rmem *session, struct channel *channel)
{
	struct fabric_channel_params params = {
		.hello = { .session = session->welcome.session,
			   .channel = channel->number },
		.depth = channel->depth,
		.timeout_ms = channel_patience_ms(session, channel),
		.exchange = session->welcomed ? qp_exchange : early_exchange,
		.exchange_ctx = channel,
		.owner = channel->owner,
	};
	uint64_t resumes = session->resumes;
	struct fabric_channel *fabric;
	int err;

	memcpy(params.hello.token, session->welcome.token, sizeof(params.hello.token));
	channel->joining = channel->number;
	channel->stage = CHANNEL_CONNECTING;
	session->connecting++;
	(void)pthread_mutex_unlock(&session->lock);
	err = session->domains.ops->connect(*channel->cq, &params, &fabric);
	(void)pthread_mutex_lock(&session->lock);
	session->connecting--;
	(void)pthread_cond_broadcast(&session->changed);
	if (err)
		channel_unconnected(session, channel, err);
	else
		channel_connected(session, channel, fabric, resumes);
	channel->wake(channel->queue);
}

static void channels_connect_one(struct rmem *session)
{
	struct channel *channel = channel_ready(session);
	int away;

	if (channel) {
		channel_connect(session, channel);
		return;
	}
	away = recovery_next(session);
	/* ask again for those that were granted: the answer may tell another address */
	list_for_each(node, &session->channels) {
		channel = container_of(node, struct channel, node);
		if ((int)channel->domain == away && channel->stage == CHANNEL_REKEY)
			channel_give_up(session, channel);
	}
}

/* ---- the first time ---- */

/* Connect it, and have the service thread send the heartbeats where that takes longer than they
 * may wait. */
static void channel_connect_first(struct rmem *session, struct channel *channel)
{
	channel_connect(session, channel);
	if (channel->stage != CHANNEL_WANTED || channel->waiter->err ||
	    session->served || session->no_thread)
		return;
	(void)pthread_mutex_unlock(&session->lock);
	/* without it the next heartbeats may come late */
	(void)service_hand_over(session);
	(void)pthread_mutex_lock(&session->lock);
}

/* Until it is connected, or cannot be now. */
static int channel_try(struct rmem *session, struct channel *channel)
{
	struct channel_waiter *waiter = channel->waiter;

	channel->resumes = (unsigned)session->resumes;
	waiter->err = 0;
	channel_want(channel, true);
	if (!session->welcomed) {
		/* made ahead of the hello */
		channel_grant(session, channel, 0);
		channel_connect(session, channel);
	}
	while (channel->stage != CHANNEL_FRESH && !waiter->err) {
		uint64_t now = clock_now_ns();

		if (channel->stage == CHANNEL_WANTED) {
			if (!recovery_usable(session, channel))
				return 0;
			channels_ask(session, now);
		}
		if (session->state == SESSION_LOST)
			return err_set(-ESTALE, "the session is lost");
		if (now >= waiter->end_ns)
			return err_set(-ETIMEDOUT, "no answer within %u ms",
				       session->timeout_ms);
		if (channel_is_ready(session, channel))
			channel_connect_first(session, channel);
		else
			session_step(session, waiter->end_ns);
	}
	return waiter->err ? err_set(waiter->err, "%s", waiter->text) : 0;
}

/* Whether a channel that could not be connected is connected later.  One that the program has
 * not asked for is; so is one whose device is away, where there are others. */
static bool channel_put_off(struct rmem *session, struct channel *channel, int err,
			    bool may_wait)
{
	/* as when the server is about to be lost, which is not known yet */
	bool cut = err == -ECONNRESET || err == -ECONNREFUSED || err == -EPIPE;

	if (channel->call)
		session_abandon(session, channel->call, channel_undo);
	channel->call = NULL;
	channel_give_back(session, channel);
	channel->stage = CHANNEL_USED;
	if (!channel->extra && (!may_wait || recovery_usable(session, channel)))
		return false;
	if (channel->extra)
		recovery_missed(session, channel->domain, !cut);
	channel_want(channel, !channel->extra);
	return true;
}

int channel_open(struct channel *channel, bool may_wait)
{
	struct rmem *session = channel->session;
	struct channel_waiter waiter = { .err = 0 };
	unsigned timeout_ms = session->timeout_ms;
	char why[SESSION_TEXT_BYTES];
	bool again;
	int err;

	if (channel->extra && timeout_ms > DOMAIN_SOLE_MS)
		timeout_ms = DOMAIN_SOLE_MS;
	waiter.end_ns = clock_now_ns() + timeout_ms * NS_PER_MS;
	(void)pthread_mutex_lock(&session->lock);
	/* cppcheck-suppress autoVariables ; it is taken back below, under the lock */
	channel->waiter = &waiter;
	do {
		err = channel_try(session, channel);
		again = err && !channel->extra && session->welcomed;
		if (!again)
			break;
		(void)snprintf(why, sizeof(why), "%.*s", SESSION_TEXT_BYTES - 1,
			       err_text());
		(void)pthread_mutex_unlock(&session->lock);
		again = session_returned(session, channel->resumes, waiter.end_ns);
		(void)err_set(err, "%s", why);
		(void)pthread_mutex_lock(&session->lock);
	} while (again);
	channel->waiter = NULL;
	if (err) {
		(void)snprintf(why, sizeof(why), "%.*s", SESSION_TEXT_BYTES - 1,
			       err_text());
		err = channel_put_off(session, channel, err, may_wait)
			      ? 0
			      : err_set(err, "%s", why);
	}
	(void)pthread_mutex_unlock(&session->lock);
	return err;
}

/* ---- ending ---- */

/* The connection that is there: a new one, or the one that the owner uses. */
static struct fabric_channel *channel_connection(const struct channel *channel)
{
	return channel->fresh ? channel->fresh : channel->fabric;
}

static void channel_doom(struct channel *channel)
{
	channel->doomed = true;
	channel->session->domains.ops->abort(channel_connection(channel));
	channel->wake(channel->queue);
}

static void channels_abort(struct rmem *session)
{
	session->opened = 0;
	list_for_each(node, &session->channels) {
		struct channel *channel = container_of(node, struct channel, node);

		if (channel_connection(channel))
			channel_doom(channel);
		/* the numbers the server gave are gone with its side of the session */
		channel->number = 0;
		if (channel->stage == CHANNEL_REKEY)
			channel_want(channel, false);
	}
}

void channels_ended(struct rmem *session, uint32_t number)
{
	list_for_each(node, &session->channels) {
		struct channel *channel = container_of(node, struct channel, node);

		if (channel->number != number || number == 0)
			continue;
		/* told to the thread that connects it now */
		channel->ended = true;
		if (channel->stage != CHANNEL_CONNECTING && channel_connection(channel))
			channel_doom(channel);
	}
}

static void channel_unwatch(struct channel *channel)
{
	struct rmem *session = channel->session;

	if (channel->watched)
		(void)epoll_ctl(
			session->epfd, EPOLL_CTL_DEL,
			session->domains.ops->alive_fd(channel_connection(channel)),
			NULL);
	channel->watched = false;
}

static void channels_alive(struct rmem *session)
{
	list_for_each(node, &session->channels) {
		struct channel *channel = container_of(node, struct channel, node);

		if (!channel->watched ||
		    session->domains.ops->alive(channel_connection(channel)))
			continue;
		channel_unwatch(channel);
		channel->doomed = true;
		channel->wake(channel->queue);
	}
}

/* ---- the owner's part ---- */

bool channel_adopt(struct channel *channel)
{
	if (!channel->fresh || channel->fabric)
		return false;
	channel->fabric = channel->fresh;
	channel->fresh = NULL;
	channel->stage = CHANNEL_USED;
	return true;
}

void channel_release(struct channel *channel, bool proven)
{
	channel_unwatch(channel);
	channel->doomed = false;
	channel->fabric = NULL;
	/* one that never carried anything may not do so next time either */
	if (proven)
		backoff_reset(&channel->backoff);
	channel_want(channel, proven);
	/* the owner may have more to release in the domain */
	if (!recovery_usable(channel->session, channel))
		channel->wake(channel->queue);
}

void channel_add(struct channel *channel)
{
	list_append(&channel->session->channels, &channel->node);
}

void channel_remove(struct channel *channel)
{
	struct rmem *session = channel->session;

	list_remove(&channel->node);
	while (channel->stage == CHANNEL_CONNECTING)
		(void)pthread_cond_wait(&session->changed, &session->lock);
	if (channel->call)
		session_abandon(session, channel->call, channel_undo);
	channel_unwatch(channel);
	channel_give_back(session, channel);
}

/* ---- as a layer of the session ---- */

static void endpoints_follow(struct rmem *session)
{
	for (unsigned i = 0; i < session->welcome.n_endpoints; i++) {
		const struct wire_endpoint *wire = &session->welcome.endpoints[i];
		struct fabric_address address = { .family = wire->family,
						  .port = wire->port };

		memcpy(address.bytes, wire->address, sizeof(address.bytes));
		recovery_moved(session, i, &address);
	}
}

static void channels_state(struct rmem *session)
{
	if (session->state == SESSION_REKEY)
		endpoints_follow(session);
	else if (session->state == SESSION_UP)
		recovery_resumed(session);
	else
		channels_abort(session);
}

/* The channels of domains that are to be left. */
static void channels_leave(struct rmem *session)
{
	list_for_each(node, &session->channels) {
		struct channel *channel = container_of(node, struct channel, node);

		if (session->domains.domains[channel->domain].state != DOMAIN_LEAVING)
			continue;
		if (channel_connection(channel) && !channel->doomed) {
			channel_doom(channel);
			session->sync_tidy = true;
		} else if (channel->stage == CHANNEL_REKEY) {
			channel_give_up(session, channel);
		}
	}
}

static void channels_work(struct rmem *session, uint64_t now_ns)
{
	if (session->stirred)
		channels_alive(session);
	session->stirred = false;
	recovery_work(session, now_ns);
	channels_leave(session);
	channels_ask(session, now_ns);
}

const struct session_observer channel_observer = {
	.state = channels_state,
	.work = channels_work,
	.due = channels_due,
	.ready = channels_ready,
	.run = channels_connect_one,
};

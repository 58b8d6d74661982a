/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/channel/channel.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/moves.h"
#include "librmem/channel/credential.h"
#include "librmem/channel/device_recovery.h"
#include "librmem/session/service.h"
#include "librmem/session/session.h"
#include "wire/codec.h"

#define MOVE(from, step, to) { CHANNEL_##from, CHANNEL_STEP_##step, CHANNEL_##to },
static const struct move moves[] = { CHANNEL_MOVES(MOVE) };

static void channel_move(struct channel *channel, enum channel_step step)
{
	channel->state = (enum channel_state)MOVES_NEXT(moves, channel->state, step);
}

/* Ask for a new connection, at once or after a back-off. */
static void channel_want(struct channel *channel, enum channel_step step, bool at_once)
{
	channel_move(channel, step);
	channel->retry_ns = 0;
	if (at_once)
		return;
	channel->retry_ns =
		clock_now_ns() + backoff_next(&channel->backoff) * NS_PER_MS;
}

/* Ask the server to close a channel. */
static int close_request(struct rmem *session, uint32_t number, connection_done *done,
			 void *ctx, struct connection_call **ret_call)
{
	struct wire_msg request;

	wire_msg_init(&request, WIRE_TYPE_close_channel);
	request.close_channel.channel = number;
	return connection_call(session->connection, &request, done, ctx, ret_call);
}

/* The reply to an abandoned request: close a channel that was granted too late. */
static int channel_undo(void *ctx, int err, const struct wire_msg *reply)
{
	struct rmem *session = ctx;

	/* the request may also have been to close a channel */
	if (!err && reply->type == WIRE_TYPE_channel)
		(void)close_request(session, reply->channel.channel, NULL, NULL, NULL);
	return 0;
}

/* Close the channel at the server, which may have joined a connection that this side could not
 * join; without rdma_cm nothing else tells the server to free its end. */
static void channel_close_remote(struct rmem *session, struct channel *channel)
{
	/* 0: the channel has ended with the server's side of the session */
	if (channel->number != 0)
		(void)close_request(session, channel->number, NULL, NULL, NULL);
	channel->number = 0;
}

static void channel_abandon(struct rmem *session, struct channel *channel)
{
	channel_close_remote(session, channel);
	channel_want(channel, CHANNEL_STEP_AGAIN, false);
}

/* The channel cannot be connected now: ask again later, or let the waiting thread decide. */
static void channel_failed(struct rmem *session, struct channel *channel, int err)
{
	struct channel_waiter *waiter = channel->waiter;

	if (!waiter) {
		recovery_missed(session, channel->domain, false);
		channel_abandon(session, channel);
		return;
	}
	err_save(&waiter->failed, err);
	channel_close_remote(session, channel);
	channel_move(channel, CHANNEL_STEP_GIVE_UP);
}

static void channel_grant(struct rmem *session, struct channel *channel,
			  uint32_t number)
{
	channel->number = number;
	channel->ended = false;
	channel_move(channel, CHANNEL_STEP_GRANT);
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
	recovery_moved(session, channel->endpoint, &reply->channel);
	/* rkeys are requested only once, and there are none of a device that was removed */
	if (recovery_askable(session, channel))
		channel_grant(session, channel, channel->number);
	else
		channel_abandon(session, channel);
	return 0;
}

/* The welcome may grant the session's first channel.  If this channel leads to another endpoint,
 * the granted channel is closed. */
static bool welcome_join(struct rmem *session, struct channel *channel)
{
	uint32_t number = session->welcome.channel;

	session->welcome.channel = 0;
	if (number == 0)
		return false;
	if (session->welcome.endpoint != channel->endpoint) {
		(void)close_request(session, number, NULL, NULL, NULL);
		return false;
	}
	channel_grant(session, channel, number);
	return true;
}

static void channel_request(struct rmem *session, struct channel *channel)
{
	struct wire_msg request;
	int err;

	if (welcome_join(session, channel))
		return;
	wire_msg_init(&request, WIRE_TYPE_open_channel);
	request.open_channel.endpoint = session->endpoint_map.index[channel->endpoint];
	channel_move(channel, CHANNEL_STEP_ASK);
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
	channel_move(channel, CHANNEL_STEP_CLOSED);
	/* a session that is lost waits for the fence, in channel_work() */
	if (channel->session->state != SESSION_LOST)
		channel_peer_end(channel, err ? PEER_END_UNKNOWN : PEER_END_CLOSED);
	return 0;
}

/* When a server that has been asked now is given up. */
static uint64_t close_due_ns(const struct rmem *session, uint64_t now_ns)
{
	return now_ns + session->welcome.fence_ms * NS_PER_MS;
}

/* Ask the server to close its end of the last connection, so that lost fragments can be posted
 * again. */
static void channel_close(struct rmem *session, struct channel *channel)
{
	if (close_request(session, channel->number, closed, channel, &channel->call) ==
	    0)
		channel_move(channel, CHANNEL_STEP_CLOSE);
	else
		channel_peer_end(channel, PEER_END_UNKNOWN);
	channel->close_due_ns = close_due_ns(session, clock_now_ns());
	channel->number = 0;
}

/* The server's end of the connection is closed once it has fenced the session, or has resumed it on
 * another control connection. */
static void channel_close_give_up(struct rmem *session, struct channel *channel)
{
	(void)connection_abandon(channel->call, NULL, NULL);
	channel->call = NULL;
	channel_move(channel, CHANNEL_STEP_SILENCE);
	session_distrust(session, WIRE_TYPE_close_channel);
}

/* In this state, the server's end of the last connection is not known to be closed. */
static bool channel_peer_open(const struct channel *channel, enum channel_state state)
{
	return channel->state == state &&
	       atomic_load_explicit(&channel->peer_end, memory_order_relaxed) ==
		       PEER_END_OPEN;
}

/* The owner may wait to learn that the server has closed its end of the last connection. */
static bool channel_peer_awaited(const struct channel *channel)
{
	return channel_peer_open(channel, CHANNEL_WANTED) ||
	       channel_peer_open(channel, CHANNEL_CLOSING);
}

static void channel_work(struct rmem *session, struct channel *channel, uint64_t now_ns)
{
	bool peer_open = channel_peer_open(channel, CHANNEL_WANTED);

	assert((channel->state == CHANNEL_FRESH) == (channel->fresh != NULL));
	assert((channel->state == CHANNEL_ASKED || channel->state == CHANNEL_CLOSING) ==
	       (channel->call != NULL));
	if (session->state != SESSION_UP) {
		/* a server that does not answer has fenced the session in the end, and applies
		 * nothing any more */
		if (now_ns >= session->fenced_ns && channel_peer_awaited(channel))
			channel_peer_end(channel, PEER_END_CLOSED);
		/* the request is sent again */
		channel->close_due_ns = close_due_ns(session, now_ns);
		return;
	}
	if (channel_peer_open(channel, CHANNEL_CLOSING) &&
	    now_ns >= channel->close_due_ns) {
		channel_close_give_up(session, channel);
		return;
	}
	if (peer_open && channel->number != 0)
		channel_close(session, channel);
	else if (peer_open)
		/* the server's end was closed with its side of the session, before the welcome */
		channel_peer_end(channel, PEER_END_CLOSED);
	if (channel->state == CHANNEL_WANTED && now_ns >= channel->retry_ns &&
	    recovery_askable(session, channel))
		channel_request(session, channel);
}

static void channels_progress(struct rmem *session, uint64_t now_ns)
{
	list_for_each_entry(struct channel, channel, &session->channels->all, node)
		channel_work(session, channel, now_ns);
}

/* When channel_work() is next due. */
static uint64_t channel_due(const struct rmem *session, const struct channel *channel)
{
	if (session->state != SESSION_UP)
		return channel_peer_awaited(channel) ? session->fenced_ns : UINT64_MAX;
	if (channel_peer_open(channel, CHANNEL_WANTED))
		return 0;
	if (channel_peer_open(channel, CHANNEL_CLOSING))
		return channel->close_due_ns;
	if (channel->state == CHANNEL_WANTED && recovery_askable(session, channel))
		return channel->retry_ns;
	return UINT64_MAX;
}

static uint64_t channels_due(const struct rmem *session)
{
	uint64_t due = recovery_due(session);

	list_for_each_entry(const struct channel, channel, &session->channels->all,
			    node) {
		if (channel_due(session, channel) < due)
			due = channel_due(session, channel);
	}
	return due;
}

static void channel_watch(struct rmem *session, struct channel *channel,
			  struct fabric_channel *fabric)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = SESSION_ALIVE_TAG };
	int fd = session->domains->ops->alive_fd(fabric);

	/* the end of a connection that cannot be watched shows in its completions */
	channel->watched = fd >= 0 && epoll_ctl(session->wake.epfd, EPOLL_CTL_ADD, fd,
						&event) == 0;
}

/* The channel is granted, and every lease has its rkeys. */
static bool channel_is_ready(const struct rmem *session, const struct channel *channel)
{
	return session->state == SESSION_UP && session->rekeys == 0 &&
	       channel->state == CHANNEL_REKEY && !atomic_load(&channel->cancelled) &&
	       recovery_usable(session, channel);
}

/* A ready channel for which no thread waits; a waiting thread connects its channel itself. */
static struct channel *channel_ready(struct rmem *session)
{
	list_for_each_entry(struct channel, channel, &session->channels->all, node) {
		if (!channel->waiter && channel_is_ready(session, channel))
			return channel;
	}
	return NULL;
}

static bool channels_ready(struct rmem *session)
{
	return channel_ready(session) || recovery_ready(session);
}

/* ---- connecting ---- */

static int joined(void *ctx, const struct wire_msg *reply)
{
	struct fabric_qp_info *end = ctx;

	*end = (struct fabric_qp_info){ .qpn = 0 };
	WIRE_END_COPY(end, &reply->joined);
	return 0;
}

/* fabric_channel_params.exchange without rdma_cm: the two ends exchange their queue pairs over the
 * control connection. */
static int qp_exchange(void *ctx, const struct fabric_qp_info *ours,
		       unsigned timeout_ms, struct fabric_qp_info *ret_theirs)
{
	struct channel *channel = ctx;
	struct wire_msg request;

	wire_msg_init(&request, WIRE_TYPE_join_channel);
	request.join_channel.channel = channel->joining;
	WIRE_END_COPY(&request.join_channel, ours);
	return session_call_until(channel->session, &request, joined, ret_theirs,
				  clock_now_ns() + timeout_ms * NS_PER_MS,
				  &channel->cancelled);
}

/* Only the owner may free a connection, so even a connection that came too late becomes `fresh`. */
static void channel_connected(struct rmem *session, struct channel *channel,
			      struct fabric_channel *fabric, uint64_t resumes)
{
	channel->fresh = fabric;
	channel_move(channel, CHANNEL_STEP_CONNECTED);
	recovery_found(session, channel->domain);
	if (session->state != SESSION_UP || session->resumes != resumes ||
	    channel->ended || !recovery_usable(session, channel)) {
		channel->doomed = true;
		session->sync_due = true;
		channel->session->domains->ops->abort(fabric);
	} else {
		channel_watch(session, channel, fabric);
	}
}

/* Whether the waiting thread tries again: after heartbeats that were due, or, once, with another
 * grant, as the first one was too old, or somebody else has used it who saw its token. */
static bool waiter_goes_on(struct channel_waiter *waiter, int err)
{
	bool spent = (err == -ESTALE || err == -EINVAL) && !waiter->regranted;

	waiter->regranted |= spent;
	return (err == -ETIMEDOUT || spent) && clock_now_ns() < waiter->end_ns;
}

static void channel_unconnected(struct rmem *session, struct channel *channel, int err)
{
	if (atomic_load(&channel->cancelled)) {
		/* this says nothing about the device */
		channel_move(channel, CHANNEL_STEP_GIVE_UP);
		return;
	}
	if (channel->waiter && waiter_goes_on(channel->waiter, err)) {
		channel_abandon(session, channel);
	} else {
		channel_failed(session, channel, err);
		if (!channel->waiter)
			recovery_connect_failed(session, channel->domain, err);
	}
}

/* A firewall may forget a channel's flow alone: that is found while there is time for another
 * channel, within the time-out of an operation and before the session would be fenced for such a
 * silence. */
static unsigned channel_silence_ms(const struct rmem *session)
{
	unsigned ms = session->timeout_ms;

	if (session->welcome.fence_ms < ms)
		ms = session->welcome.fence_ms;
	return ms > 2 * CHANNEL_SILENCE_MIN_MS ? ms / 2 : CHANNEL_SILENCE_MIN_MS;
}

/* Releases the lock meanwhile. */
static void channel_connect(struct rmem *session, struct channel *channel)
{
	const struct channel_waiter *waiter = channel->waiter;
	struct credential credential;
	struct fabric_channel_params params = {
		.hello = { .session = session->welcome.session,
			   .channel = channel->number },
		.depth = channel->depth,
		.timeout_ms = waiter ? connect_timeout_ms(session, waiter->end_ns)
				     : connect_patience_ms(session),
		.silence_ms = channel_silence_ms(session),
		.cancelled = &channel->cancelled,
		.exchange = qp_exchange,
		.exchange_ctx = channel,
		.owner = channel->owner,
	};
	uint64_t resumes = session->resumes;
	struct fabric_channel *fabric;
	int err = credential_give(&credential, connection_secret(session->connection),
				  &params);

	channel->joining = channel->number;
	channel_move(channel, CHANNEL_STEP_CONNECT);
	session->connecting++;
	(void)pthread_mutex_unlock(&session->lock);
	if (!err)
		err = session->domains->ops->connect(*channel->cq, &params, &fabric);
	credential_wipe(&credential, &params);
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
	/* ask again for granted channels of that domain: the answer may have another address */
	list_for_each_entry(struct channel, at, &session->channels->all, node)
		if ((int)at->domain == away && at->state == CHANNEL_REKEY)
			channel_abandon(session, at);
}

/* ---- connecting for the first time ---- */

/* Connect the channel; if that takes longer than the heartbeats may wait, let the service thread
 * send them. */
static void channel_connect_first(struct rmem *session, struct channel *channel)
{
	channel_connect(session, channel);
	if (channel->state != CHANNEL_WANTED || channel->waiter->failed.err ||
	    session->served || session->no_thread)
		return;
	(void)pthread_mutex_unlock(&session->lock);
	/* on failure the next heartbeats may come late */
	(void)service_hand_over(session);
	(void)pthread_mutex_lock(&session->lock);
}

/* Wait until the channel is connected, or cannot be connected now. */
static int channel_try(struct rmem *session, struct channel *channel)
{
	struct channel_waiter *waiter = channel->waiter;

	channel->resumes = (unsigned)session->resumes;
	waiter->failed.err = 0;
	channel_want(channel, CHANNEL_STEP_WANT, true);
	while (channel->state != CHANNEL_FRESH && !waiter->failed.err) {
		uint64_t now = clock_now_ns();

		if (channel->state == CHANNEL_WANTED) {
			if (!recovery_usable(session, channel))
				return 0;
			channels_progress(session, now);
		}
		if (session->state == SESSION_LOST)
			return err_set(-ESTALE, "the session is lost");
		if (atomic_load(&channel->cancelled))
			return err_set(-ECANCELED, "the session is closed");
		if (now >= waiter->end_ns)
			return err_set(-ETIMEDOUT, "no answer within %u ms",
				       session_timeout_ms(session));
		if (channel_is_ready(session, channel))
			channel_connect_first(session, channel);
		else
			session_step(session, waiter->end_ns);
	}
	return waiter->failed.err ? err_restore(&waiter->failed) : 0;
}

/* The error says that nobody was reached, and not that the server refuses the channel. */
static bool is_unreached(int err)
{
	return err == -ETIMEDOUT || err == -ECONNREFUSED || err == -EHOSTUNREACH ||
	       err == -ENETUNREACH;
}

/* Whether a channel that could not be connected is connected later: an extra channel, or one in a
 * domain that the session can do without, or, with `may_wait`, a channel whose device is away. */
static bool channel_put_off(struct rmem *session, struct channel *channel, int err,
			    bool may_wait)
{
	/* perhaps the session is about to be lost, which is not known yet */
	bool cut = err == -ECONNRESET || err == -ECONNREFUSED || err == -EPIPE;
	bool spare = channel->extra ||
		     (is_unreached(err) && recovery_spares(session, channel->domain));

	if (channel->call)
		(void)connection_abandon(channel->call, channel_undo, session);
	channel->call = NULL;
	channel_close_remote(session, channel);
	if (channel->state != CHANNEL_USED)
		channel_move(channel, CHANNEL_STEP_GIVE_UP);
	if (!spare && (!may_wait || recovery_usable(session, channel)))
		return false;
	if (spare)
		recovery_missed(session, channel->domain, !cut);
	channel_want(channel, CHANNEL_STEP_WANT, !spare);
	return true;
}

int channel_open(struct channel *channel, uint64_t end_ns, bool may_wait)
{
	struct rmem *session = channel->session;
	struct channel_waiter waiter = { .end_ns = end_ns };
	struct err_saved failed;
	bool again;
	int err;

	(void)pthread_mutex_lock(&session->lock);
	if (channel->extra || recovery_spares(session, channel->domain))
		waiter.end_ns = domain_part_end_ns(end_ns, 1);
	/* cppcheck-suppress autoVariables ; channel->waiter is reset below, under the lock */
	channel->waiter = &waiter;
	do {
		err = channel_try(session, channel);
		err_save(&failed, err);
		again = err && !channel->extra;
		if (!again)
			break;
		(void)pthread_mutex_unlock(&session->lock);
		again = session_returned(session, channel->resumes, waiter.end_ns);
		(void)pthread_mutex_lock(&session->lock);
	} while (again);
	channel->waiter = NULL;
	if (err && channel_put_off(session, channel, err, may_wait))
		err = 0;
	(void)pthread_mutex_unlock(&session->lock);
	return err ? err_restore(&failed) : 0;
}

/* ---- ending ---- */

/* The present connection: the fresh one, or the owner's. */
static struct fabric_channel *channel_connection(const struct channel *channel)
{
	return channel->fresh ? channel->fresh : channel->fabric;
}

static void channel_doom(struct channel *channel)
{
	channel->doomed = true;
	channel->session->domains->ops->abort(channel_connection(channel));
	channel->wake(channel->queue);
}

static void channels_abort(struct rmem *session)
{
	list_for_each_entry(struct channel, channel, &session->channels->all, node) {
		if (channel_connection(channel))
			channel_doom(channel);
		/* the server's numbers have ended with its side of the session */
		channel->number = 0;
		if (channel->state == CHANNEL_REKEY)
			channel_want(channel, CHANNEL_STEP_AGAIN, false);
	}
}

/* The server has ended a channel. */
static void channels_event(struct rmem *session, const struct wire_msg *msg)
{
	uint32_t number = msg->channel_ended.channel;

	if (msg->type != WIRE_TYPE_channel_ended || number == 0)
		return;
	list_for_each_entry(struct channel, channel, &session->channels->all, node) {
		if (channel->number != number)
			continue;
		/* for a thread that connects the channel now */
		channel->ended = true;
		if (channel->state != CHANNEL_CONNECTING && channel_connection(channel))
			channel_doom(channel);
	}
}

static void channel_unwatch(struct channel *channel)
{
	struct rmem *session = channel->session;

	if (channel->watched)
		(void)epoll_ctl(
			session->wake.epfd, EPOLL_CTL_DEL,
			session->domains->ops->alive_fd(channel_connection(channel)),
			NULL);
	channel->watched = false;
}

static void channels_alive(struct rmem *session)
{
	list_for_each_entry(struct channel, channel, &session->channels->all, node) {
		if (!channel->watched ||
		    session->domains->ops->alive(channel_connection(channel)))
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
	channel_move(channel, CHANNEL_STEP_ADOPT);
	return true;
}

void channel_release(struct channel *channel, bool proven)
{
	channel_unwatch(channel);
	channel->doomed = false;
	channel->fabric = NULL;
	/* if nothing has completed on this connection, the next one may fail, too */
	if (proven)
		backoff_reset(&channel->backoff);
	channel_want(channel, CHANNEL_STEP_WANT, proven);
	/* the owner may have to release more in the domain */
	if (!recovery_usable(channel->session, channel))
		channel->wake(channel->queue);
}

void channel_add(struct channel *channel)
{
	list_append(&channel->session->channels->all, &channel->node);
}

void channel_cancel(struct channel *channel)
{
	atomic_store(&channel->cancelled, true);
	/* the thread may wait for the server's answer */
	(void)pthread_cond_broadcast(&channel->session->changed);
}

void channel_await(struct channel *channel)
{
	struct rmem *session = channel->session;

	while (channel->state == CHANNEL_CONNECTING)
		(void)pthread_cond_wait(&session->changed, &session->lock);
}

void channel_remove(struct channel *channel)
{
	struct rmem *session = channel->session;

	list_remove(&channel->node);
	if (channel->call)
		(void)connection_abandon(channel->call, channel_undo, session);
	channel_unwatch(channel);
	channel_close_remote(session, channel);
}

/* ---- as a layer of the session ---- */

static void channels_state(struct rmem *session)
{
	if (session->state == SESSION_REKEY)
		recovery_follow(session);
	else if (session->state == SESSION_UP)
		recovery_resumed(session);
	else
		channels_abort(session);
}

/* Abort connections in domains that are to be left. */
static void channels_leave(struct rmem *session)
{
	list_for_each_entry(struct channel, channel, &session->channels->all, node) {
		if (session->domains->domains[channel->domain].state != DOMAIN_LEAVING)
			continue;
		if (channel_connection(channel) && !channel->doomed) {
			channel_doom(channel);
			session->sync_due = true;
		} else if (channel->state == CHANNEL_REKEY) {
			channel_abandon(session, channel);
		}
	}
}

static void channels_work(struct rmem *session, uint64_t now_ns)
{
	if (session->alive_due)
		channels_alive(session);
	session->alive_due = false;
	recovery_work(session, now_ns);
	channels_leave(session);
	channels_progress(session, now_ns);
}

static void channels_cancel(struct rmem *session)
{
	list_for_each_entry(struct channel, channel, &session->channels->all, node)
		channel_cancel(channel);
}

static void channels_inherited(struct rmem *session)
{
	list_for_each_entry(const struct channel, channel, &session->channels->all,
			    node) {
		if (channel->fabric)
			session->domains->ops->channel_leave(channel->fabric);
		if (channel->fresh)
			session->domains->ops->channel_leave(channel->fresh);
	}
}

const struct session_observer channel_observer = {
	.state = channels_state,
	.event = channels_event,
	.work = channels_work,
	.due = channels_due,
	.ready = channels_ready,
	.run = channels_connect_one,
	.cancel = channels_cancel,
	.inherited = channels_inherited,
};

/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/channel/device_recovery.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "librmem/lease/buffer.h"
#include "librmem/queue/schedule.h"
#include "librmem/queue/queue.h"
#include "librmem/channel/channel.h"
#include "librmem/session/session.h"

#define NS_PER_MS UINT64_C(1000000)
/* So long a device that is being removed waits for owners. */
#define CUT_MS 500u
/* From one attempt to open a domain to the next. */
#define RETRY_MS 500u
/* So many channels in a row that could not be connected cast doubt on the way. */
#define DOUBTS_MAX 3u
#define SYNC_STEPS 4u

/* ---- leaving ---- */

static void channel_doom(struct rmem *session, struct channel *channel)
{
	struct fabric_channel *fabric =
		channel->fresh ? channel->fresh : channel->fabric;

	if (fabric) {
		channel->doomed = true;
		session->domains.ops->abort(fabric);
	} else if (channel->stage == CHANNEL_REKEY) {
		/* the server need not keep what it has granted */
		channel_give_up(session, channel);
	}
}

static void domain_leave(struct rmem *session, unsigned number)
{
	struct domain *domain = &session->domains.domains[number];

	if (domain->state != DOMAIN_OPEN)
		return;
	domain->state = DOMAIN_LEAVING;
	domain->due_ns = clock_now_ns() + CUT_MS * NS_PER_MS;
	session->sync_tidy = true;
	list_for_each(node, &session->channels) {
		struct channel *channel = container_of(node, struct channel, node);

		if (channel->domain == number)
			channel_doom(session, channel);
	}
	SESSION_NOTIFY(session, wake, session);
}

void recovery_moved(struct rmem *session, unsigned endpoint,
		    const struct fabric_address *address)
{
	if (!session->domains.ops || !session->domains.ops->domain_removed)
		return;
	for (unsigned i = 0; i < session->domains.n; i++) {
		struct domain *domain = &session->domains.domains[i];
		struct fabric_address *known = &domain->endpoint.address;

		if (domain->number != endpoint || address->family == 0 ||
		    (known->family == address->family && known->port == address->port &&
		     !memcmp(known->bytes, address->bytes, sizeof(known->bytes))))
			continue;
		*known = *address;
		domain_leave(session, i);
	}
}

/* It has a channel that is not known to be dead. */
static bool domain_used(const struct rmem *session, unsigned number)
{
	list_for_each(node, &session->channels) {
		const struct channel *channel =
			container_of(node, struct channel, node);

		if (channel->domain == number && !channel->doomed &&
		    (channel->fabric || channel->fresh))
			return true;
	}
	return false;
}

void recovery_missed(struct rmem *session, unsigned number, bool in_time)
{
	struct domain *domain = &session->domains.domains[number];
	uint64_t gone_ns = clock_now_ns() + (in_time ? 0 : DOMAIN_SOLE_MS * NS_PER_MS);

	/* it says nothing of the way there that the server is away, or refuses one more */
	if (session->state != SESSION_UP || domain_used(session, number))
		return;
	if (domain->gone_ns == 0 || gone_ns < domain->gone_ns)
		domain->gone_ns = gone_ns;
}

void recovery_resumed(struct rmem *session)
{
	for (unsigned i = 0; i < session->domains.n; i++)
		session->domains.domains[i].gone_ns = 0;
}

void recovery_found(struct rmem *session, unsigned number)
{
	session->domains.domains[number].failures = 0;
	session->domains.domains[number].gone_ns = 0;
}

uint8_t recovery_reach(const struct rmem *session)
{
	unsigned all = 0, reach = 0;
	uint64_t now_ns = clock_now_ns();

	for (unsigned i = 0; i < session->domains.n; i++) {
		const struct domain *domain = &session->domains.domains[i];

		all |= 1u << domain->number;
		if (domain->gone_ns == 0 || now_ns < domain->gone_ns ||
		    domain_used(session, i))
			reach |= 1u << domain->number;
	}
	/* what is asked while the server is away is answered when it is back */
	return (uint8_t)(reach && session->state == SESSION_UP ? reach : all);
}

/* Nobody was asked: this host does not get there. */
static bool no_way(int err)
{
	return err == -ENODEV || err == -EADDRNOTAVAIL || err == -EHOSTUNREACH ||
	       err == -ENETUNREACH;
}

void recovery_doubt(struct rmem *session, unsigned number, int err)
{
	struct domain *domain = &session->domains.domains[number];

	domain->failures++;
	if (!session->domains.ops->domain_removed || domain->failures % DOUBTS_MAX)
		return;
	/* a server that is slow must not cost channels that work */
	if (no_way(err) || !domain_used(session, number))
		domain_leave(session, number);
}

static void left_close(const struct fabric_client_ops *ops, struct domain *domain)
{
	ops->domain_close(domain->left);
	domain->left = NULL;
}

static void domain_close(struct rmem *session, unsigned number)
{
	const struct fabric_client_ops *ops = session->domains.ops;
	struct domain *domain = &session->domains.domains[number];

	list_for_each(node, &session->buffers) {
		struct rmem_buffer *buffer =
			container_of(node, struct rmem_buffer, node);

		if (buffer->mrs[number])
			ops->dereg_mr(buffer->mrs[number]);
		buffer->mrs[number] = NULL;
	}
	left_close(ops, domain);
	domain->left = domain->fabric;
	domain->fabric = NULL;
	if (!ops->domain_holds_device(domain->left) ||
	    ops->domain_removed(domain->left))
		left_close(ops, domain);
	domain->state = DOMAIN_AWAY;
	domain->due_ns = 0;
}

static void domain_work(struct rmem *session, unsigned number, uint64_t now_ns)
{
	const struct fabric_client_ops *ops = session->domains.ops;
	struct domain *domain = &session->domains.domains[number];

	if (domain->state == DOMAIN_OPEN && ops->domain_removed(domain->fabric))
		domain_leave(session, number);
	if (domain->left && ops->domain_removed(domain->left))
		left_close(ops, domain);
	if (domain->state != DOMAIN_LEAVING)
		return;
	if (domain->users == 0 && session->holds == 0) {
		domain_close(session, number);
	} else if (now_ns >= domain->due_ns && ops->domain_removed(domain->fabric)) {
		ops->domain_disassociate(domain->fabric);
		domain->due_ns = UINT64_MAX;
	} else if (now_ns >= domain->due_ns) {
		/* nobody waits for one that has merely moved, but it may be removed yet */
		domain->due_ns = now_ns + CUT_MS * NS_PER_MS;
	}
}

void recovery_work(struct rmem *session, uint64_t now_ns)
{
	if (!session->domains.ops || !session->domains.ops->domain_removed)
		return;
	for (unsigned i = 0; i < session->domains.n; i++)
		domain_work(session, i, now_ns);
}

/* ---- coming back ---- */

uint64_t recovery_due(const struct rmem *session)
{
	uint64_t due = UINT64_MAX;

	for (unsigned i = 0; i < session->domains.n; i++) {
		const struct domain *domain = &session->domains.domains[i];
		bool waits =
			domain->state == DOMAIN_LEAVING ||
			(domain->state == DOMAIN_AWAY && session->state == SESSION_UP);

		if (waits && domain->due_ns < due)
			due = domain->due_ns;
	}
	return due;
}

/* A domain that may be opened again. */
static bool domain_next(const struct rmem *session, uint64_t now_ns,
			unsigned *ret_number)
{
	for (unsigned i = 0; i < session->domains.n; i++) {
		const struct domain *domain = &session->domains.domains[i];

		if (domain->state != DOMAIN_AWAY || domain->due_ns > now_ns)
			continue;
		*ret_number = i;
		return true;
	}
	return false;
}

bool recovery_ready(const struct rmem *session, uint64_t now_ns)
{
	unsigned number;

	return session->sync_tidy ||
	       (session->state == SESSION_UP && session->holds == 0 &&
		domain_next(session, now_ns, &number));
}

void recovery_run_sync(struct rmem *session)
{
	session->sync_tidy = false;
	(void)pthread_mutex_unlock(&session->lock);
	/* who holds it sees the news by himself */
	if (pthread_mutex_trylock(&session->sync_lock) == 0) {
		struct rmem_queue *queue = session->sync_queue;

		/* a step leads to the next: kill, free, let go, take hold */
		for (unsigned i = 0;
		     i < SYNC_STEPS && queue && atomic_load(&queue->woken); i++)
			schedule_progress(queue, NULL);
		(void)pthread_mutex_unlock(&session->sync_lock);
	}
	(void)pthread_mutex_lock(&session->lock);
}

void recovery_sync(struct rmem *session)
{
	if (!atomic_load_explicit(&session->sync_queue->woken, memory_order_acquire))
		return;
	(void)pthread_mutex_lock(&session->lock);
	session->sync_tidy = true;
	(void)pthread_mutex_unlock(&session->lock);
	session_wake(session);
}

/* Register again what the program has registered.  Under the lock. */
static int buffers_register(struct rmem *session, unsigned number)
{
	const struct domain_set *set = &session->domains;
	int err = 0;

	if (!set->ops->needs_local_mr)
		return 0;
	list_for_each(node, &session->buffers) {
		struct rmem_buffer *buffer =
			container_of(node, struct rmem_buffer, node);

		if (!err)
			err = set->ops->reg_mr(set->domains[number].fabric,
					       buffer->addr, (size_t)buffer->bytes,
					       &buffer->mrs[number]);
	}
	return err;
}

/* What was granted meanwhile does not help: ask again, the answer may tell another place. */
static void channels_give_up(struct rmem *session, unsigned number)
{
	list_for_each(node, &session->channels) {
		struct channel *channel = container_of(node, struct channel, node);

		if (channel->domain == number && channel->stage == CHANNEL_REKEY)
			channel_give_up(session, channel);
	}
}

static void domain_return(struct rmem *session, unsigned number)
{
	unsigned timeout_ms = connect_patience_ms(session, clock_now_ns());
	struct domain *domain = &session->domains.domains[number];
	struct fabric_endpoint endpoint = domain->endpoint;
	struct fabric_domain *fabric = NULL;
	int err;

	domain->state = DOMAIN_OPENING;
	(void)pthread_mutex_unlock(&session->lock);
	err = session->domains.ops->domain_open(&endpoint, &session->uri.devices,
						timeout_ms, &fabric);
	(void)pthread_mutex_lock(&session->lock);
	domain->state = DOMAIN_AWAY;
	domain->due_ns = clock_now_ns() + RETRY_MS * NS_PER_MS;
	if (err) {
		domain->failures++;
		recovery_missed(session, number, false);
		channels_give_up(session, number);
		return;
	}
	domain->fabric = fabric;
	/* somebody registers just now and knows nothing of this one */
	if (session->holds > 0 || buffers_register(session, number)) {
		domain_close(session, number);
		domain->due_ns = clock_now_ns() + RETRY_MS * NS_PER_MS;
		return;
	}
	left_close(session->domains.ops, domain);
	domain->state = DOMAIN_OPEN;
	session->sync_tidy = true;
	SESSION_NOTIFY(session, wake, session);
}

void recovery_next(struct rmem *session)
{
	unsigned number;

	if (session->sync_tidy)
		recovery_run_sync(session);
	else if (domain_next(session, clock_now_ns(), &number))
		domain_return(session, number);
}

bool recovery_askable(const struct rmem *session, const struct channel *channel)
{
	return recovery_usable(session, channel) ||
	       session->domains.domains[channel->domain].state == DOMAIN_AWAY;
}

bool recovery_usable(const struct rmem *session, const struct channel *channel)
{
	return session->domains.domains[channel->domain].state == DOMAIN_OPEN &&
	       *channel->cq;
}

void recovery_hold(struct rmem *session)
{
	(void)pthread_mutex_lock(&session->lock);
	session->holds++;
	(void)pthread_mutex_unlock(&session->lock);
}

void recovery_release(struct rmem *session)
{
	bool waited;

	(void)pthread_mutex_lock(&session->lock);
	waited = --session->holds == 0 && recovery_due(session) != UINT64_MAX;
	(void)pthread_mutex_unlock(&session->lock);
	if (waited)
		session_wake(session);
}

/* ---- the owner's part ---- */

/* Nothing of the queue is in the domain any more but the completion queue. */
static bool queue_left(const struct rmem_queue *queue, unsigned number)
{
	for (unsigned i = 0; i < queue->channels.n; i++) {
		const struct channel *channel = &queue->channels.all[i];

		if (channel->domain == number && (channel->fabric || channel->fresh ||
						  channel->stage == CHANNEL_CONNECTING))
			return false;
	}
	return true;
}

static void queue_leave(struct rmem_queue *queue, unsigned number)
{
	struct rmem *session = queue->session;
	struct fabric_cq *cq = queue->cqs[number];

	(void)epoll_ctl(queue->epfd, EPOLL_CTL_DEL, queue->ops->cq_fd(cq), NULL);
	bounce_leave(&queue->bounce, number);
	queue->ops->cq_free(cq);
	(void)pthread_mutex_lock(&session->lock);
	queue->cqs[number] = NULL;
	session->domains.domains[number].users--;
	(void)pthread_mutex_unlock(&session->lock);
	session_wake(session);
}

/* The domain is held for the queue. */
static void queue_return(struct rmem_queue *queue, unsigned number)
{
	struct rmem *session = queue->session;
	struct fabric_cq *cq = NULL;
	int err = queue_cq_create(queue, number, &cq);

	if (!err) {
		err = bounce_return(&queue->bounce, number);
		if (err)
			queue->ops->cq_free(cq);
	}
	(void)pthread_mutex_lock(&session->lock);
	if (err)
		session->domains.domains[number].users--;
	else
		queue->cqs[number] = cq;
	for (unsigned i = 0; i < queue->channels.n && !err; i++) {
		struct channel *channel = &queue->channels.all[i];

		if (channel->domain == number && channel->stage == CHANNEL_WANTED)
			channel_want(channel, true);
	}
	(void)pthread_mutex_unlock(&session->lock);
	session_wake(session);
}

void recovery_tidy(struct rmem_queue *queue)
{
	struct rmem *session = queue->session;

	for (unsigned i = 0; i < queue->n_cqs; i++) {
		struct domain *domain = &session->domains.domains[i];
		bool leave, come;

		(void)pthread_mutex_lock(&session->lock);
		leave = domain->state == DOMAIN_LEAVING && queue->cqs[i] &&
			queue_left(queue, i);
		come = domain->state == DOMAIN_OPEN && !queue->cqs[i] &&
		       queue_share(queue, i) > 0;
		if (come)
			domain->users++;
		(void)pthread_mutex_unlock(&session->lock);
		if (leave)
			queue_leave(queue, i);
		else if (come)
			queue_return(queue, i);
	}
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/queue/queue.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own_fd.h"
#include "base/random.h"
#include "librmem/queue/inband.h"
#include "librmem/queue/runs.h"
#include "base/params.h"
#include "librmem/channel/device_recovery.h"
#include "librmem/channel/channel.h"
#include "librmem/session/cancel.h"
#include "librmem/session/process.h"
#include "librmem/session/session.h"
#include "librmem/queue/vec.h"

#define DEPTH_DEFAULT 128u
#define BOUNCE_DEFAULT (UINT64_C(1) << 20)
#define BOUNCE_MAX (UINT64_C(1) << 30)
/* Limits of a channel's credits: enough to keep a wire busy, few enough for every device.  Some
 * devices add one to the depth and round up to a power of two. */
#define CHANNEL_DEPTH_MIN 31u
#define CHANNEL_DEPTH_MAX 256u

void queue_wake(struct rmem_queue *queue)
{
	atomic_store_explicit(&queue->woken, true, memory_order_release);
	(void)wakeup_set(&queue->wake);
}

void queues_wake(struct rmem *session)
{
	list_for_each_entry(struct rmem_queue, queue, &session->queues, node)
		queue_wake(queue);
}

/* The session's status has changed: wake the owners, whose operations then wait or end. */
static void queues_state(struct rmem *session)
{
	if (session->state != SESSION_REKEY)
		queues_wake(session);
}

/* ---- descriptors ---- */

static int fd_watch(int epfd, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	if (epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event) < 0)
		return err_errno(-errno, "a queue's epoll_ctl");
	return 0;
}

static void fds_close(struct rmem_queue *queue)
{
	if (wakeup_is_own(&queue->wake))
		fd_watched_close(queue->wake.epfd, queue->timer_fd);
	wakeup_close(&queue->wake);
}

static int fds_open(struct rmem_queue *queue)
{
	int err = wakeup_open(&queue->wake, 0);

	queue->timer_fd = -1;
	return err ? err_errno(err, "a queue's descriptors") : 0;
}

int queue_timer(struct rmem_queue *queue)
{
	if (queue->timer_fd < 0)
		queue->timer_fd = wakeup_timer(&queue->wake);
	return queue->timer_fd < 0 ? err_errno(queue->timer_fd, "a queue's timer") : 0;
}

/* `woken` stays set, and lets the calls look at session->inherited. */
static void queues_inherited(struct rmem *session)
{
	list_for_each_entry(struct rmem_queue, queue, &session->queues, node) {
		bool own = wakeup_is_own(&queue->wake);

		for (unsigned i = 0; i < queue->n_cqs; i++)
			if (own && queue->cqs[i])
				fd_watched_close(queue->wake.epfd,
						 queue->ops->cq_fd(queue->cqs[i]));
		fds_close(queue);
		atomic_store(&queue->woken, true);
	}
}

/* Whether the completion queue's descriptor is still its own. */
static bool cq_has_fd(const struct rmem_queue *queue, unsigned domain)
{
	return domain_is_cut(&queue->session->domains->domains[domain]) ||
	       fd_is_watched(queue->wake.epfd, queue->ops->cq_fd(queue->cqs[domain]));
}

static bool queue_has_fds(const struct rmem_queue *queue)
{
	bool own = wakeup_is_own(&queue->wake);

	for (unsigned i = 0; i < queue->n_cqs && own; i++)
		own = !queue->cqs[i] || cq_has_fd(queue, i);
	return own;
}

static bool queues_have_fds(const struct rmem *session)
{
	list_for_each_entry(const struct rmem_queue, queue, &session->queues, node)
		if (!queue_has_fds(queue))
			return false;
	return true;
}

const struct session_observer queue_observer = {
	.state = queues_state,
	.wake = queues_wake,
	.inherited = queues_inherited,
	.has_fds = queues_have_fds,
};

/* ---- domains ---- */

static unsigned channels_in(const struct rmem_queue *queue, unsigned domain)
{
	unsigned n = 0;

	channels_for_each(channel, &queue->channels)
		n += channel->domain == domain;
	return n;
}

/* A completion queue with room for all channels of the domain. */
static int cq_create(struct rmem_queue *queue, unsigned domain,
		     struct fabric_cq **ret_cq)
{
	const struct domain_set *domains = queue->session->domains;
	struct fabric_cq *cq = NULL;
	unsigned depth = channels_in(queue, domain) * queue->channels.depth;
	int err = queue->ops->cq_create(domains->domains[domain].fabric, depth, &cq);

	if (err)
		return err;
	err = fd_watch(queue->wake.epfd, queue->ops->cq_fd(cq));
	if (err) {
		queue->ops->cq_free(cq);
		return err;
	}
	*ret_cq = cq;
	return 0;
}

static void domain_release(struct rmem_queue *queue, unsigned domain)
{
	struct rmem *session = queue->session;

	(void)pthread_mutex_lock(&session->lock);
	session->domains->domains[domain].users--;
	(void)pthread_mutex_unlock(&session->lock);
}

/* Use a domain held for the queue; release the domain on failure. */
static int domain_enter(struct rmem_queue *queue, unsigned domain)
{
	struct fabric_cq *cq = NULL;
	int err = cq_create(queue, domain, &cq);

	if (!err) {
		err = bounce_return(&queue->bounce, domain);
		if (err)
			queue->ops->cq_free(cq);
	}
	if (err) {
		domain_release(queue, domain);
		return err;
	}
	(void)pthread_mutex_lock(&queue->session->lock);
	queue->cqs[domain] = cq;
	(void)pthread_mutex_unlock(&queue->session->lock);
	return 0;
}

static void domain_leave(struct rmem_queue *queue, unsigned domain)
{
	struct fabric_cq *cq = queue->cqs[domain];
	bool own;

	(void)pthread_mutex_lock(&queue->session->lock);
	own = wakeup_is_own(&queue->wake) && cq_has_fd(queue, domain);
	/* no look at it from here on */
	queue->cqs[domain] = NULL;
	(void)pthread_mutex_unlock(&queue->session->lock);
	bounce_leave(&queue->bounce, domain);
	if (own) {
		(void)epoll_ctl(queue->wake.epfd, EPOLL_CTL_DEL, queue->ops->cq_fd(cq),
				NULL);
		queue->ops->cq_free(cq);
	}
	domain_release(queue, domain);
}

static void domains_leave(struct rmem_queue *queue)
{
	for (unsigned i = 0; i < queue->n_cqs; i++)
		if (queue->cqs[i])
			domain_leave(queue, i);
}

/* Hold the domain if it is open, and the queue has channels in it but no completion queue yet.
 * Under the lock. */
static bool domain_hold(struct rmem_queue *queue, unsigned number)
{
	struct domain *domain = &queue->session->domains->domains[number];
	bool comes = domain->state == DOMAIN_OPEN && !queue->cqs[number] &&
		     channels_in(queue, number) > 0;

	domain->users += comes;
	return comes;
}

/* Enter all open domains; the others are entered when they open. */
static int domains_enter(struct rmem_queue *queue)
{
	int err = 0;

	queue->n_cqs = queue->session->domains->n;
	for (unsigned i = 0; i < queue->n_cqs && !err; i++) {
		bool comes;

		(void)pthread_mutex_lock(&queue->session->lock);
		comes = domain_hold(queue, i);
		(void)pthread_mutex_unlock(&queue->session->lock);
		if (comes)
			err = domain_enter(queue, i);
	}
	if (err)
		domains_leave(queue);
	return err;
}

/* No connection of the queue is in the domain. */
static bool domain_is_empty(const struct rmem_queue *queue, unsigned number)
{
	channels_for_each(channel, &queue->channels) {
		if (channel->domain == number && (channel->fabric || channel->fresh ||
						  channel->state == CHANNEL_CONNECTING))
			return false;
	}
	return true;
}

void queue_domains_follow(struct rmem_queue *queue)
{
	struct rmem *session = queue->session;

	for (unsigned i = 0; i < queue->n_cqs; i++) {
		bool leaves, comes;

		(void)pthread_mutex_lock(&session->lock);
		leaves = session->domains->domains[i].state == DOMAIN_LEAVING &&
			 queue->cqs[i] && domain_is_empty(queue, i);
		comes = domain_hold(queue, i);
		(void)pthread_mutex_unlock(&session->lock);
		if (leaves)
			domain_leave(queue, i);
		if (comes)
			(void)domain_enter(queue, i);
		if (leaves || comes)
			session_wake(session);
	}
}

/* ---- creating ---- */

/* Under the lock, as a domain may be closed. */
static unsigned slices_of(const struct domain_set *domains, enum fabric_opcode opcode)
{
	unsigned least = VEC_SLICES_MAX;

	for (unsigned i = 0; i < domains->n; i++) {
		const struct fabric_domain *fabric = domains->domains[i].fabric;
		/* a domain that is away may have the lowest limit */
		unsigned n = fabric ? domains->ops->sge_max(fabric, opcode) : 1;

		if (n < least)
			least = n;
	}
	return least;
}

static int params_check(const struct rmem_queue_params *params)
{
	if (params->depth > RMEM_DEPTH_MAX)
		return err_set(-EINVAL, "depth is %u, more than %d", params->depth,
			       RMEM_DEPTH_MAX);
	if (params->channels > RMEM_CHANNELS_MAX)
		return err_set(-EINVAL, "channels is %u, more than %d",
			       params->channels, RMEM_CHANNELS_MAX);
	if (params->node < RMEM_NODE_ANY)
		return err_set(-EINVAL, "node is %d", params->node);
	if (params->bounce_bytes > BOUNCE_MAX)
		return err_set(-EINVAL, "bounce_bytes is more than 1 GiB");
	return 0;
}

static unsigned channel_depth(unsigned depth)
{
	if (depth < CHANNEL_DEPTH_MIN)
		return CHANNEL_DEPTH_MIN;
	return depth > CHANNEL_DEPTH_MAX ? CHANNEL_DEPTH_MAX : depth;
}

static int parts_create(struct rmem_queue *queue,
			const struct rmem_queue_params *params, unsigned avoided)
{
	struct rmem *session = queue->session;
	unsigned depth = params->depth ? params->depth : DEPTH_DEFAULT;
	unsigned n = params->channels ? params->channels : session->uri.channels;
	uint64_t bounce = params->bounce_bytes ? params->bounce_bytes : BOUNCE_DEFAULT;
	int err;

	err = fds_open(queue);
	if (err)
		return err;
	err = channel_set_create(session->domains, params->node, avoided, n,
				 channel_depth(depth), &queue->channels);
	if (err)
		goto err_fds;
	n = queue->channels.n;
	channels_for_each(channel, &queue->channels) {
		channel->session = session;
		channel->depth = queue->channels.depth;
		channel->cq = &queue->cqs[channel->domain];
		channel->queue = queue;
		channel->wake = queue_wake;
	}
	err = optable_create(depth, n * channel_depth(depth),
			     channel_set_endpoints(&queue->channels), &queue->table);
	if (err)
		goto err_channels;
	err = error_texts_init(&queue->errors, depth);
	if (err) {
		err = err_set(err, "no memory for a queue");
		goto err_table;
	}
	bounce_init(session->domains, (size_t)bounce, &queue->bounce);
	err = domains_enter(queue);
	if (err)
		goto err_table;
	return 0;

err_table:
	error_texts_free(&queue->errors);
	optable_destroy(&queue->table);
err_channels:
	channel_set_destroy(&queue->channels);
err_fds:
	fds_close(queue);
	return err;
}

/* Some are of TCP, or of RDMA, alone. */
static void limits_set(struct rmem_queue *queue, const struct wire_welcome *told)
{
	const struct fabric_client_ops *ops = queue->ops;
	bool tcp = ops->kind == FABRIC_TCP;

	queue->bytes_max =
		lesser(ops->max_bytes, tcp ? told->stream_bytes_max : UINT32_MAX);
	queue->share_max = lesser(queue->bytes_max, CHANNEL_SHARE_BYTES);
	queue->inband_bytes_max =
		lesser(FABRIC_INBAND_BYTES_MAX, told->inband_bytes_max);
	queue->inband_requests_max =
		lesser(ops->inband_max, tcp ? UINT32_MAX : told->inband_requests_max);
}

int queue_new(struct rmem *session, const struct rmem_queue_params *params,
	      unsigned avoided, struct rmem_queue **ret_queue)
{
	struct rmem_queue *queue;
	int err = params_check(params);

	if (err)
		return err;
	queue = calloc(1, sizeof(*queue));
	if (!queue)
		return err_set(-ENOMEM, "no memory for a queue");
	queue->session = session;
	queue->ops = session->domains->ops;
	queue->timeout_ns = session->timeout_ms * NS_PER_MS;
	(void)pthread_mutex_lock(&session->lock);
	limits_set(queue, &session->welcome);
	queue->read_slices = slices_of(session->domains, FABRIC_READ);
	queue->write_slices = slices_of(session->domains, FABRIC_WRITE);
	(void)pthread_mutex_unlock(&session->lock);
	queue->next_deadline_ns = UINT64_MAX;
	queue->sentinels = random_u64();
	list_init(&queue->node);
	inflights_init(&queue->inflights);
	err = parts_create(queue, params, avoided);
	if (err) {
		free(queue);
		return err;
	}
	(void)pthread_mutex_lock(&session->lock);
	inflights_add(session, &queue->inflights);
	channels_for_each(channel, &queue->channels)
		channel_add(channel);
	(void)pthread_mutex_unlock(&session->lock);
	*ret_queue = queue;
	return 0;
}

/* ---- connecting ---- */

int queue_connect(struct rmem_queue *queue, uint64_t end_ns, bool may_wait)
{
	struct rmem *session = queue->session;

	(void)pthread_mutex_lock(&session->lock);
	list_append(&session->queues, &queue->node);
	(void)pthread_mutex_unlock(&session->lock);
	for (unsigned i = 0; i < queue->channels.n; i++) {
		/* those that come later are not cancelled by session_cancel() */
		int err = atomic_load(&session->cancelled)
				  ? err_set(-ECANCELED, "the session is closed")
				  : channel_open(&queue->channels.all[i], end_ns,
						 may_wait);

		if (err)
			return err_prefix(err, "channel %u of %u", i + 1,
					  queue->channels.n);
	}
	return 0;
}

/* ---- ending ---- */

static void channels_cancel(struct rmem_queue *queue)
{
	(void)pthread_mutex_lock(&queue->session->lock);
	/* first all, or a thread connects one while another is awaited */
	channels_for_each(channel, &queue->channels)
		channel_cancel(channel);
	channels_for_each(channel, &queue->channels)
		channel_await(channel);
	(void)pthread_mutex_unlock(&queue->session->lock);
}

static void channels_leave(struct rmem_queue *queue)
{
	(void)pthread_mutex_lock(&queue->session->lock);
	channels_for_each(channel, &queue->channels)
		channel_remove(channel);
	list_remove(&queue->node);
	(void)pthread_mutex_unlock(&queue->session->lock);
}

/* End the uses of leases and buffers by operations that the caller has not polled. */
static void ops_drop(struct rmem_queue *queue)
{
	runs_split_all(queue);
	ops_for_each(op, &queue->table) {
		if (op->state == OP_FREE)
			continue;
		vec_leave(op);
		inband_leave(op);
		inflight_end(op->inflight, op->todo.lease, op->todo.buffer, 1);
	}
	(void)pthread_mutex_lock(&queue->session->lock);
	list_remove(&queue->inflights.node);
	(void)pthread_mutex_unlock(&queue->session->lock);
}

void queue_drop(struct rmem_queue *queue)
{
	if (!queue)
		return;
	/* this waits, and other sessions' calls and forks must not */
	channels_cancel(queue);
	process_hold();
	channels_leave(queue);
	channels_for_each(channel, &queue->channels) {
		if (channel->fabric)
			queue->ops->channel_free(channel->fabric);
		if (channel->fresh)
			queue->ops->channel_free(channel->fresh);
	}
	ops_drop(queue);
	domains_leave(queue);
	bounce_destroy(&queue->bounce);
	error_texts_free(&queue->errors);
	optable_destroy(&queue->table);
	channel_set_destroy(&queue->channels);
	fds_close(queue);
	process_release();
	inband_nowhere_free(queue->nowhere);
	free(queue);
}

/* Bit mask of the queue's domains if none of them is reached, while the session reaches others;
 * else 0. */
static unsigned queue_stranded(struct rmem_queue *queue)
{
	unsigned domains = 0;
	bool stranded = true;

	(void)pthread_mutex_lock(&queue->session->lock);
	channels_for_each(channel, &queue->channels) {
		domains |= 1u << channel->domain;
		stranded &= recovery_spares(queue->session, channel->domain);
	}
	(void)pthread_mutex_unlock(&queue->session->lock);
	return stranded ? domains : 0;
}

/* Make a queue and connect it; again through other domains while those are not reached. */
static int queue_make(struct rmem *session, const struct rmem_queue_params *params,
		      struct rmem_queue **ret_queue)
{
	uint64_t end_ns = session_end_ns(session);
	struct rmem_queue *queue = NULL;
	unsigned avoided = 0, stranded;
	int err;

	do {
		queue_drop(queue);
		queue = NULL;
		err = queue_new(session, params, avoided, &queue);
		if (!err)
			err = queue_connect(queue, end_ns, true);
		stranded = err ? 0 : queue_stranded(queue);
		avoided |= stranded;
	} while (stranded);
	if (err)
		queue_drop(queue);
	else
		*ret_queue = queue;
	return err;
}

int rmem_queue_create(rmem *session, const struct rmem_queue_params *params,
		      rmem_queue **ret_queue)
{
	struct rmem_queue_params all = rmem_queue_params_init();
	struct rmem_queue *queue = NULL;
	int err = 0, before;

	if (!session || !ret_queue)
		return err_set(-EINVAL, "rmem_queue_create: an argument is NULL");
	if (session_own(session))
		return err_prefix(-ESTALE, "rmem_queue_create");
	if (params)
		err = params_import(&all, sizeof(all), params, params->size,
				    sizeof(all), "rmem_queue_params");
	before = cancel_disable();
	if (!err)
		err = queue_make(session, &all, &queue);
	cancel_restore(before);
	if (err)
		return err_prefix(err, "rmem_queue_create at %s", session->server);
	*ret_queue = queue;
	return err_end(0);
}

void rmem_queue_free(rmem_queue *queue)
{
	int before;

	if (!queue || queue->session->inherited)
		return;
	before = cancel_disable();
	queue_drop(queue);
	cancel_restore(before);
}

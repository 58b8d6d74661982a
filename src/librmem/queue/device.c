/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/queue/device.h"

#include <sys/epoll.h>

#include "librmem/channel/device_recovery.h"
#include "librmem/queue/schedule.h"

/* One step leads to the next: kill, free, leave, return. */
#define SYNC_STEPS 4u

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

void device_tidy(struct rmem_queue *queue)
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

/* ---- the queue of the synchronous calls ---- */

void device_sync_run(struct rmem *session)
{
	if (!session->sync_tidy)
		return;
	session->sync_tidy = false;
	(void)pthread_mutex_unlock(&session->lock);
	/* a thread that makes a call does it */
	if (pthread_mutex_trylock(&session->sync_lock) == 0) {
		struct rmem_queue *queue = session->sync_queue;

		for (unsigned i = 0;
		     i < SYNC_STEPS && queue && atomic_load(&queue->woken); i++)
			schedule_progress(queue, NULL);
		(void)pthread_mutex_unlock(&session->sync_lock);
	}
	(void)pthread_mutex_lock(&session->lock);
}

void device_sync_leave(struct rmem *session)
{
	if (!atomic_load_explicit(&session->sync_queue->woken, memory_order_acquire))
		return;
	(void)pthread_mutex_lock(&session->lock);
	session->sync_tidy = true;
	(void)pthread_mutex_unlock(&session->lock);
	session_wake(session);
}

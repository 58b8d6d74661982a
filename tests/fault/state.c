/* SPDX-License-Identifier: BSD-3-Clause */
#include "state.h"

#include <inttypes.h>

#include "base/clock.h"
#include "librmem/queue/queue.h"
#include "librmem/session/session.h"

/* Milliseconds from now; negative for the past. */
static int64_t ahead_ms(uint64_t at_ns)
{
	return at_ns == UINT64_MAX
		       ? INT64_MAX
		       : ((int64_t)at_ns - (int64_t)clock_now_ns()) / 1000000;
}

static void session_print(FILE *to, const struct rmem *session)
{
	(void)fprintf(to,
		      "session: state %d, status %d, %u rekeys, %u holds, %u pings, "
		      "resumed %" PRIu64 " times, alive %" PRId64
		      " ms, next try %" PRId64 " ms\n",
		      session->state, atomic_load(&session->status), session->rekeys,
		      session->channels->holds, session->pings, session->resumes,
		      ahead_ms(session->alive_ns), ahead_ms(session->retry_ns));
	for (unsigned i = 0; i < session->domains->n; i++) {
		const struct domain *domain = &session->domains->domains[i];

		(void)fprintf(to,
			      "domain %u: state %d, %u users, %u failures, due %" PRId64
			      " ms\n",
			      i, domain->state, domain->users, domain->failures,
			      ahead_ms(domain->due_ns));
	}
}

static void queue_print(FILE *to, const struct rmem_queue *queue)
{
	(void)fprintf(to, "queue: %u outstanding, %u active, woken %d\n",
		      queue_outstanding(queue), queue->active,
		      atomic_load(&queue->woken));
	for (unsigned i = 0; i < queue->channels.n; i++) {
		const struct channel *channel = &queue->channels.all[i];
		const struct send_side *side = &queue->channels.sides[i];

		(void)fprintf(to,
			      "channel %u: stage %d, number %u,%s%s%s%s peer_end %d, "
			      "%u in flight, retry %" PRId64 " ms, backoff %u ms\n",
			      i, channel->state, channel->number,
			      side->live ? " live" : "",
			      channel->fabric ? " channel" : "",
			      channel->fresh ? " fresh" : "",
			      channel->doomed ? " doomed" : "",
			      atomic_load(&channel->peer_end), side->in_flight,
			      ahead_ms(channel->retry_ns), channel->backoff.ms);
	}
}

void state_print(FILE *to, struct rmem *session)
{
	(void)pthread_mutex_lock(&session->lock);
	session_print(to, session);
	list_for_each_entry(struct rmem_queue, queue, &session->queues, node)
		queue_print(to, queue);
	(void)pthread_mutex_unlock(&session->lock);
}

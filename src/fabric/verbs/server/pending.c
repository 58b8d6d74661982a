/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/pending.h"

#include "base/clock.h"

/* Within a tenant a channel younger than this does not give way: when all its clients connect at
 * once, as after a restart, the oldest channels are those that are about to be established. */
#define YOUNG_MS 250u

void verbs_pending_add(struct verbs_channel *channel)
{
	struct fabric_session *session = channel->session;
	struct verbs_endpoint *endpoint = session->endpoint;

	channel->pending = true;
	channel->accepted_ms = clock_now_ms();
	session->n_pending++;
	session->tenant->n_pending++;
	endpoint->device->n_pending++;
	verbs_delays_add(&endpoint->server->delays, VERBS_DELAY_ESTABLISH,
			 &channel->wait);
}

void verbs_pending_remove(struct verbs_channel *channel)
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

bool verbs_pending_room(const struct fabric_session *session)
{
	return session->endpoint->device->n_pending <
	       session->endpoint->server->params.backlog;
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

struct verbs_channel *verbs_pending_victim(const struct fabric_session *session)
{
	const struct verbs_endpoint *endpoint = session->endpoint;
	struct list *pending = &endpoint->server->delays.queues[VERBS_DELAY_ESTABLISH];
	struct verbs_channel *victim = NULL;

	list_for_each_entry(struct verbs_channel, channel, pending, wait.link) {
		if (channel->session->endpoint->device == endpoint->device &&
		    (!victim || gives_way(channel, victim)))
			victim = channel;
	}
	if (!victim)
		return NULL;
	if (victim->session->tenant != session->tenant)
		return victim->session->tenant->n_pending > session->tenant->n_pending
			       ? victim
			       : NULL;
	return victim->session->n_pending > session->n_pending &&
			       clock_now_ms() - victim->accepted_ms >= YOUNG_MS
		       ? victim
		       : NULL;
}

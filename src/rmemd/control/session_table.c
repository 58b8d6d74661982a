/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/session.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "rmemd/control/control.h"

/* The part of the fence time that is kept for the delays of the loop, and its limit. */
#define FENCE_RESERVE 16
#define FENCE_RESERVE_MS_MAX 250

struct session *session_new(struct sessions *sessions)
{
	struct session *session = calloc(1, sizeof(*session));

	if (!session)
		return NULL;
	session->sessions = sessions;
	session->channels_end = SESSION_CHANNELS_RESERVED;
	for (unsigned i = 0; i < WIRE_ENDPOINTS_MAX; i++)
		session->ports[i].session = session;
	list_init(&session->channels);
	list_init(&session->requests);
	list_init(&session->listings);
	list_init(&session->unsent);
	list_init(&session->all);
	slice_work_init(&session->work, sessions->work);
	slice_work_init(&session->notify, sessions->notify);
	return session;
}

void session_set_tenant(struct session *session, uint64_t id, struct tenant *tenant)
{
	lease_client_init(&session->lease_client, id, tenant);
	reply_cache_init(&session->replies, &tenant->n_replies);
}

int session_insert(struct session *session)
{
	struct sessions *sessions = session->sessions;

	if (map_insert(&sessions->by_id, &session->by_id,
		       map_hash_u64(session->lease_client.id)))
		return err_set(-ENOMEM, "no memory for a session");
	list_append(&sessions->all, &session->all);
	return 0;
}

static struct tree *session_times(const struct session *session)
{
	if (session->state == WIRE_SESSION_ACTIVE)
		return &session->sessions->heard;
	/* while a client that has resumed waits for the old keys to be dead, no time counts */
	return session->state == WIRE_SESSION_FENCED && !session->waiting_connection
		       ? &session->sessions->fenced
		       : NULL;
}

void session_set_time(struct session *session)
{
	if (session->times)
		tree_remove(session->times, &session->in_times);
	session->times = session_times(session);
	if (session->times)
		tree_insert(session->times, &session->in_times,
			    session->state == WIRE_SESSION_ACTIVE ? session->heard_ms
								  : session->fenced_ms,
			    session->lease_client.id);
}

struct session *session_next(const struct tree *times, uint64_t ms, uint64_t id)
{
	struct tree_node *node = tree_above(times, ms, id);

	return node ? container_of(node, struct session, in_times) : NULL;
}

void session_free(struct session *session)
{
	assert(!session->n_channels && !session->n_requests);
	if (session->times)
		tree_remove(session->times, &session->in_times);
	reply_cache_clear(&session->replies);
	list_remove(&session->all);
	list_remove(&session->unsent);
	slices_remove(&session->work);
	slices_remove(&session->notify);
	lease_client_destroy(&session->lease_client);
	free(session);
}

struct session *sessions_find(const struct sessions *sessions, uint64_t id)
{
	struct map_node *node = map_find(&sessions->by_id, map_hash_u64(id));

	for (; node; node = map_find_next(node)) {
		struct session *session = container_of(node, struct session, by_id);

		if (session->lease_client.id == id)
			return session;
	}
	return NULL;
}

int sessions_each(const struct sessions *sessions, uint64_t after,
		  int (*each)(const struct session *session, void *arg), void *arg)
{
	list_for_each_entry(const struct session, session, &sessions->all, all) {
		int result = session->lease_client.id > after ? each(session, arg) : 0;

		if (result)
			return result;
	}
	return 0;
}

struct lease_client *sessions_lease_client(void *control, uint64_t id)
{
	struct session *session =
		sessions_find(((const struct control *)control)->sessions, id);

	return session ? &session->lease_client : NULL;
}

unsigned sessions_count(const struct sessions *sessions)
{
	return (unsigned)sessions->by_id.n_nodes;
}

/* ---- times ---- */

uint64_t session_silence_max_ms(const struct config *config)
{
	uint64_t reserve_ms = config->fence_ms / FENCE_RESERVE;

	if (reserve_ms > FENCE_RESERVE_MS_MAX)
		reserve_ms = FENCE_RESERVE_MS_MAX;
	return config->fence_ms - reserve_ms;
}

uint64_t sessions_heard_due_ms(const struct sessions *sessions, uint64_t heard_ms)
{
	return heard_ms + session_silence_max_ms(sessions->control->config);
}

uint64_t sessions_fenced_due_ms(const struct sessions *sessions, uint64_t fenced_ms)
{
	return fenced_ms + sessions->control->config->grace_ms;
}

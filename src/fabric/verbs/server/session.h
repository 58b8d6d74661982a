/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's side of a session on one endpoint: a protection domain, the channels
 * whose queue pairs are in it, and the memory regions registered in it.  Threads: [loop]. */
#ifndef FABRIC_VERBS_SERVER_SESSION_H
#define FABRIC_VERBS_SERVER_SESSION_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/list.h"
#include "base/map.h"
#include "base/fair_lock.h"
#include "fabric/inband.h"
#include "fabric/verbs/server/endpoint.h"
#include "fabric/verbs/server/server.h"

struct fabric_session {
	struct verbs_endpoint *endpoint;
	struct list link; /* of the endpoint */
	void *cookie;
	struct verbs_tenant *tenant;
	/* Called after an mr was deregistered (n_mrs was decremented), or was freed; and after a
	 * channel was freed. */
	void (*released)(struct fabric_session *session);
	struct ibv_pd *pd; /* NULL after the device was removed */
	struct list channels;
	struct list ending; /* channels that have ended, and have a job */
	struct list mrs;
	struct fair_lock lock;
	/* with the lock held: mrs that in-band requests may access */
	struct map mrs_by_rkey;
	struct inband_memory memory; /* finds these mrs; [poller], with the lock held */
	unsigned n_pending;          /* channels that are not established */
	unsigned n_mrs;              /* mrs that have, or are about to get, an ibv_mr */
	/* accesses, not yet reported; refused_message is under way while it is not 0 */
	atomic_uint refused;
	struct verbs_message refused_message;
	bool closing;
	bool ended;    /* the message `closed` is under way */
	bool cut_off;  /* deregistering an mr failed: admit no channel and no mr */
	bool unfenced; /* a queue pair could be neither stopped nor destroyed */
	struct verbs_message closed;
};

/* fabric_server_ops.session_open, session_close. */
int verbs_session_open(struct fabric_server *server, unsigned number, void *cookie,
		       struct fabric_session **ret_session);
void verbs_session_close(struct fabric_session *session);

/* An access of the session was refused.  [any], while one of its channels exists */
static inline void verbs_session_access_refused(struct fabric_session *session)
{
	if (atomic_fetch_add(&session->refused, 1) == 0)
		mailbox_post(&session->endpoint->server->mailbox,
			     &session->refused_message.link);
}

/* The device is being removed: end the channels, and release all objects on the device. */
void verbs_session_abandon(struct fabric_session *session, const char *why);

/* When the server closes: end channels and start to deregister, without events; after the workers
 * are joined, free the channels, whose ids may wait for their peers; and then the rest. */
void verbs_session_end_all(struct verbs_endpoint *endpoint);
void verbs_session_free_channels(struct verbs_endpoint *endpoint);
void verbs_session_free_all(struct verbs_endpoint *endpoint);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's side of a session on one endpoint: a protection domain, the channels
 * whose queue pairs are in it, and the memory regions registered in it.  Threads: [loop]. */
#ifndef FABRIC_VERBS_SERVER_SESSION_H
#define FABRIC_VERBS_SERVER_SESSION_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "base/list.h"
#include "base/map.h"
#include "fabric/verbs/server/endpoint.h"
#include "base/fair_lock.h"
#include "fabric/verbs/server/message.h"

struct fabric_session {
	struct verbs_endpoint *endpoint;
	struct list link; /* of the endpoint */
	void *cookie;
	/* An mr was deregistered (n_mrs counted down), or has ended. */
	void (*mr_ended)(struct fabric_session *session);
	struct ibv_pd *pd; /* NULL once its device is gone */
	struct list channels;
	struct list mrs;
	struct fair_lock lock;
	struct map
		mrs_by_rkey; /* with the lock held: those that in-band requests reach */
	unsigned n_mrs;      /* regions that have, or are about to get, an ibv_mr */
	bool closing;
	bool ended;   /* `over` is under way */
	bool cut_off; /* a registration could not be undone: no channel may ever come */
	bool unfenced; /* a queue pair of it could be neither stopped nor destroyed */
	struct verbs_message closed;
};

/* fabric_server_ops.session_open, session_close, channel_close. */
int verbs_session_open(struct verbs_endpoint *endpoint, void *cookie,
		       struct fabric_session **ret_session);
void verbs_session_close(struct fabric_session *session);
int verbs_session_channel_close(struct fabric_session *session, uint32_t channel);

/* Its device is being removed: cut, and give back what it holds of it. */
void verbs_session_abandon(struct fabric_session *session, const char *why);

/* For server close: end channels and start to deregister, without events ... */
void verbs_session_end_all(struct verbs_endpoint *endpoint);
/* ... and once the registrars are joined, free what is left. */
void verbs_session_free_all(struct verbs_endpoint *endpoint);

#endif

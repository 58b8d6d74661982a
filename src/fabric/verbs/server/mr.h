/* SPDX-License-Identifier: BSD-3-Clause */
/* A range registered in a session's protection domain.  Its life is a few jobs of the
 * device's registrar; all decisions are the loop's. */
#ifndef FABRIC_VERBS_SERVER_MR_H
#define FABRIC_VERBS_SERVER_MR_H

#include <infiniband/verbs.h>

#include "fabric/notifications.h"
#include "fabric/verbs/server/mr_worker.h"
#include "fabric/verbs/server/session.h"

enum verbs_mr_state {
	VERBS_MR_REGISTERING, /* job under way */
	VERBS_MR_REGISTERED,
	VERBS_MR_DEREGISTERING, /* job under way */
	VERBS_MR_LOST,          /* the device is gone; its owner does not know yet */
	VERBS_MR_ENDED,         /* only the event is to be delivered */
	VERBS_MR_STUCK,         /* the device may still serve it, for ever */
};

struct fabric_mr {
	struct fabric_session *session;
	struct list link; /* of the session */
	void *cookie;
	enum verbs_mr_state state;
	bool withdrawn; /* its owner, or the session's end, asked for it */
	bool silent;    /* its owner was told that it failed: no more events */
	void *addr;
	size_t bytes;
	unsigned rights, access;
	bool in_map; /* among the session's ranges */
	struct map_node by_rkey;
	struct fabric_notifications notes;
	struct verbs_message noted; /* under way while notes.told */
	/* the job's, while one is under way */
	struct verbs_mr_job job;
	struct ibv_pd *pd;
	struct ibv_mr *ibv_mr;
	int err;
	char text[256];
};

/* fabric_server_ops.expose, withdraw. */
int verbs_mr_reg(struct fabric_session *session, void *addr, size_t bytes,
		 unsigned rights, void *cookie, struct fabric_mr **ret_mr);
void verbs_mr_dereg(struct fabric_mr *mr);

/* Give back the MR without events: the device is being removed, or the server closes. */
void verbs_mr_abandon(struct fabric_mr *mr);

/* For server close, once the registrars are joined. */
void verbs_mr_free(struct fabric_mr *mr);

#endif

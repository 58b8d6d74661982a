/* SPDX-License-Identifier: BSD-3-Clause */
/* A range registered in a session's protection domain.  The device's workers register and
 * deregister it; all decisions are made on the loop. */
#ifndef FABRIC_VERBS_SERVER_MR_H
#define FABRIC_VERBS_SERVER_MR_H

#include <infiniband/verbs.h>

#include "base/err.h"
#include "fabric/notifications.h"
#include "fabric/verbs/server/session.h"

/* dereg_requested is set in ENDED, clear in REGISTERED and DEVICE_GONE; no_more_events may be set
 * only in DEREGISTERING. */
enum verbs_mr_state {
	VERBS_MR_REGISTERING, /* job or its message under way */
	VERBS_MR_REGISTERED,
	VERBS_MR_DEREGISTERING, /* job or its message under way */
	VERBS_MR_DEVICE_GONE,   /* deregistered as the device was removed */
	VERBS_MR_ENDED, /* deregistered; the message that calls mr_deregistered() is under way */
	VERBS_MR_STUCK, /* deregistering failed: until its removal the device may serve the rkey */
};

struct fabric_mr {
	struct fabric_session *session;
	struct list link; /* of the session */
	void *cookie;
	enum verbs_mr_state state;
	bool dereg_requested; /* by dereg_mr() or session_close() */
	bool no_more_events;  /* mr_registered() has reported a failure */
	void *addr;
	size_t bytes;
	unsigned rights, access;
	struct map_node by_rkey; /* in session->mrs_by_rkey while REGISTERED */
	struct fabric_notifications notifications;
	/* under way while notifications.event_pending */
	struct verbs_message notification_message;
	/* owned by the job while it is under way */
	struct verbs_job job;
	struct ibv_mr *ibv_mr;
	struct err_kept result;
};

/* fabric_server_ops.reg_mr, dereg_mr. */
int verbs_mr_reg(struct fabric_session *session, void *addr, size_t bytes,
		 unsigned rights, void *cookie, struct fabric_mr **ret_mr,
		 struct fabric_key *ret_key);
bool verbs_mr_dereg(struct fabric_mr *mr);

/* The functions by which in-band requests find the session's regions.  [loop]; they are called by
 * the [poller], with the session's lock held */
struct inband_memory verbs_mr_memory(struct fabric_session *session);

/* Deregister a region without events: the device is being removed, or the server closes. */
void verbs_mr_abandon(struct fabric_mr *mr);

/* When the server closes, after the workers are joined. */
void verbs_mr_free(struct fabric_mr *mr);

#endif

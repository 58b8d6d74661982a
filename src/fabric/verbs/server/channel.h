/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's side of a channel: a reliable queue pair in the session's protection domain, through
 * which the client reads and writes.  The server posts receives for in-band requests and answers
 * to them; a receive that completes in error shows that the queue pair went to ERROR.
 * Threads: [loop]. */
#ifndef FABRIC_VERBS_SERVER_CHANNEL_H
#define FABRIC_VERBS_SERVER_CHANNEL_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/list.h"
#include "base/map.h"
#include "fabric/verbs/common/qp.h"
#include "fabric/verbs/server/session.h"

struct verbs_channel {
	struct verbs_cm_target target;
	struct fabric_session *session;
	/* link in the session's `channels`, once it has ended in `ending` */
	struct list link;
	/* The channel fails when this is due.  Pending: unless it is established first; in ERROR:
	 * unless the client disconnects first. */
	struct verbs_delayed wait;
	bool pending; /* a request of rdma_cm that is not established */
	uint64_t requested_ms;
	uint32_t number;       /* granted by the daemon, in the client's hello */
	uint64_t wr_number;    /* in wr_ids, from the device's channel ids */
	struct rdma_cm_id *id; /* NULL: connected directly */
	/* The client's queue pair, in the endpoint's remote_qps.  With rdma_cm only number, GID,
	 * LID and gid_verified; over iWARP none. */
	struct fabric_qp_info remote;
	struct map_node by_remote_qpn;
	/* The job that opens the queue pair, and the one that closes it, see channel_qp.h.  What
	 * follows is the job's while it is under way. */
	struct verbs_job job;
	struct ibv_qp *qp;                  /* also the id's; NULL once destroyed */
	struct verbs_inband_server *inband; /* of the queue pair */
	struct verbs_rd_atomic depths;
	/* with rdma_cm: limits of the client, then those in effect */
	struct verbs_qp_limits limits;
	struct verbs_port local;     /* connected directly */
	struct fabric_qp_info ours;  /* the same */
	uint64_t failed_ms;          /* until connecting it failed; or 0 */
	bool accepted, disconnected; /* the id, by rdma_accept(), rdma_disconnect() */
	int destroy_err;             /* of ibv_destroy_qp() */
	struct err_kept result;      /* of opening it */
	/* the loop's again */
	bool opening; /* the first job is under way */
	/* before that was done: the client has confirmed the connection; it has disconnected; the
	 * receives were flushed, with this status */
	bool confirmed, left, flushed;
	enum ibv_wc_status status;
	bool stopped; /* the queue pair was moved to ERROR, unless it serves no access ... */
	bool fenced;   /* ... and that has not failed */
	bool ended;    /* in session->ending */
	bool answered; /* the peer knows that: no answer is to be waited for */
	bool up;
	bool refused;    /* an access was refused, and counted */
	const char *why; /* static: the cause of its failure, from an event, or NULL */
};

/* A client asks rdma_cm for a channel: admit or refuse it. */
void verbs_channel_request(struct verbs_endpoint *endpoint,
			   const struct verbs_cm_event *event);
/* fabric_server_ops.channel_close, channel_connect; the latter is in direct.c. */
int verbs_channel_close(struct fabric_session *session, uint32_t number);
int verbs_channel_connect(struct fabric_session *session, uint32_t number,
			  const struct fabric_qp_info *theirs);

/* A channel of the session: of this id, or (NULL) one that is connected directly.  Its client's end
 * must be no other channel's; `theirs` without number: over iWARP.  -errno with text. */
int verbs_channel_new(struct fabric_session *session, uint32_t number,
		      struct rdma_cm_id *id, const struct fabric_qp_info *theirs,
		      struct verbs_channel **ret_channel);
/* Post the job that opens it; depths, limits and local are set. */
void verbs_channel_open(struct verbs_channel *channel);
/* The channel of the session with this number, or NULL. */
struct verbs_channel *verbs_channel_find(const struct fabric_session *session,
					 uint32_t number);
/* Free a channel that has ended, after the workers are joined. */
void verbs_channel_ended_free(struct verbs_channel *channel);

/* Stop all channels of a session, then fail each; why NULL: end each, without events. */
void verbs_channel_end_all(struct fabric_session *session, const char *why);

/* verbs_device_events.channel_flushed and .channel_event. */
void verbs_channel_flushed(void *channel, enum ibv_wc_status status);
void verbs_channel_event(void *channel, enum ibv_event_type type);

#endif

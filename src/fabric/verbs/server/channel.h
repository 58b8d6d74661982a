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
	struct list link; /* of the session */
	/* The channel fails when this is due.  Pending: unless it is established first; in ERROR:
	 * unless the client disconnects first. */
	struct verbs_delayed wait;
	bool pending; /* accepted, not established */
	uint64_t accepted_ms;
	uint32_t number;    /* granted by the daemon, in the client's hello */
	uint64_t wr_number; /* in wr_ids, from the device's channel ids */
	/* of the queue pair; NULL once the queue pair is destroyed */
	struct verbs_inband_server *inband;
	struct rdma_cm_id *id; /* NULL: connected directly */
	struct ibv_qp *qp;     /* also the id's; NULL once destroyed */
	/* connected directly: the client's queue pair, in the endpoint's remote_qps */
	struct fabric_qp_info remote;
	struct map_node by_remote_qpn;
	/* connected directly, see direct.c; all but `job` is the job's while it is under way */
	struct {
		struct verbs_job job;
		struct verbs_port local;
		struct verbs_rd_atomic depths;
		struct fabric_qp_info ours;
		uint64_t took_ms;
		struct err_kept result;
	} connect;
	bool connecting; /* the job is under way */
	bool abandoned;  /* it has ended before its job: in session->abandoned */
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

/* A channel with its queue pair in INIT, not in the session's list yet: of this id, or one that
 * is connected directly from the port `local`.  -errno with text. */
int verbs_channel_new(struct fabric_session *session, uint32_t number,
		      struct rdma_cm_id *id, const struct verbs_port *local,
		      struct verbs_channel **ret_channel);
/* Undo verbs_channel_new(); the id stays. */
void verbs_channel_discard(struct verbs_channel *channel);
/* The channel of the session with this number, or NULL. */
struct verbs_channel *verbs_channel_find(const struct fabric_session *session,
					 uint32_t number);
/* Let the client read and write.  -errno with text. */
int verbs_channel_allow_access(struct verbs_channel *channel);
/* The peer is connected: call channel_up(), once. */
void verbs_channel_established(struct verbs_channel *channel);
/* Free the channel and call channel_down(); `why` "": the peer closed it in order.  If it is being
 * connected directly, call channel_connected(). */
void verbs_channel_fail(struct verbs_channel *channel, const char *why);
/* Its job is done, or its worker has ended. */
void verbs_channel_abandoned_free(struct verbs_channel *channel);

/* Fence all channels of a session, then fail each; why NULL: disconnect and free each, without
 * events. */
void verbs_channel_end_all(struct fabric_session *session, const char *why);

/* verbs_device_events.channel_flushed and .channel_event. */
void verbs_channel_flushed(void *channel, enum ibv_wc_status status);
void verbs_channel_event(void *channel, enum ibv_event_type type);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's side of a channel: a reliable queue pair in the session's protection domain, through
 * which the client reads and writes.  The server posts receives for in-band requests and answers
 * to them; a receive that completes in error shows that the queue pair went to ERROR.
 * Threads: [loop]. */
#ifndef FABRIC_VERBS_SERVER_CHANNEL_H
#define FABRIC_VERBS_SERVER_CHANNEL_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "base/list.h"
#include "base/map.h"
#include "fabric/verbs/common/port.h"
#include "fabric/verbs/server/session.h"

struct verbs_channel {
	struct verbs_cm_target target;
	struct fabric_session *session;
	struct list link; /* of the session */
	/* The channel fails when this is due.  Pending: unless it is established first; in ERROR:
	 * unless the client disconnects first. */
	struct verbs_delayed wait;
	bool pending; /* accepted, not established: see pending.h */
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
	bool up;
	const char *why; /* static: the cause of its failure, from an event, or NULL */
};

/* A client asks rdma_cm for a channel: admit or refuse it. */
void verbs_channel_request(struct verbs_endpoint *endpoint,
			   const struct verbs_cm_event *event);
/* fabric_server_ops.channel_connect, channel_close. */
int verbs_channel_connect(struct fabric_session *session, uint32_t number,
			  const struct fabric_qp_info *theirs,
			  struct fabric_qp_info *ret_ours);
int verbs_channel_close(struct fabric_session *session, uint32_t number);

/* Fence all channels of a session, then fail each, with channel_down(). */
void verbs_channel_fail_all(struct fabric_session *session, const char *why);
/* Fence all channels of a session, then disconnect and free each, without events. */
void verbs_channel_free_all(struct fabric_session *session);

/* verbs_device_events.channel_flushed and .channel_event. */
void verbs_channel_flushed(void *channel);
void verbs_channel_event(void *channel, enum ibv_event_type type);

#endif

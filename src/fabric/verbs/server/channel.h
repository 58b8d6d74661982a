/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's side of a channel: a reliable queue pair in the session's protection
 * domain that the peer reads and writes through.  The server posts receives for in-band
 * requests, whose return in error shows that the queue pair went to ERROR, and answers to
 * them.  Threads: [loop]. */
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
	struct list link;      /* of the session */
	struct list lingering; /* of the server's verbs_linger */
	uint64_t due_ms;       /* to fail, when it lingers */
	uint32_t number;       /* the peer's */
	uint64_t wr_number; /* number of its receives, from the device's channel ids */
	struct verbs_inband_server
		*inband; /* of its queue pair; NULL once that is destroyed */
	struct rdma_cm_id
		*id; /* NULL: it was joined, and has a queue pair of its own */
	struct ibv_qp *qp;
	struct fabric_qp_info remote; /* the peer's, as it says, where it was joined: */
	struct map_node by_remote_qpn; /* then in the endpoint's */
	bool up;
	const char *why; /* static: what an event told about its failure, or NULL */
};

/* A peer wants a channel: admit it, or refuse it. */
void verbs_channel_request(struct verbs_endpoint *endpoint,
			   const struct verbs_cm_event *event);

/* A channel with its queue pair in INIT, not in the session's list yet: of this id, or one
 * that is connected directly from the port `local`. */
int verbs_channel_new(struct fabric_session *session, uint32_t number,
		      struct rdma_cm_id *id, const struct verbs_port *local,
		      struct verbs_channel **ret_channel);
/* Undo that; the id stays. */
void verbs_channel_discard(struct verbs_channel *channel);
/* The peer is there: tell of it, once. */
void verbs_channel_established(struct verbs_channel *channel);

struct verbs_channel *verbs_channel_find(const struct fabric_session *session,
					 uint32_t number);

/* Move its queue pair to ERROR: no access of the peer is served any more.  -errno: it may
 * still be, until the channel is freed. */
int verbs_channel_fence(struct verbs_channel *channel);
/* Fence, disconnect, destroy; no event. */
void verbs_channel_free(struct verbs_channel *channel);
/* The same, with channel_down(); "": the peer closed it in order. */
void verbs_channel_fail(struct verbs_channel *channel, const char *why);
/* Fail each channel of a session. */
void verbs_channel_fail_all(struct fabric_session *session, const char *why);

/* Its receive came back; for verbs_channel_ids. */
void verbs_channel_flushed(void *channel);
/* Its queue pair had an asynchronous event. */
void verbs_channel_event(void *channel, enum ibv_event_type type);

#endif

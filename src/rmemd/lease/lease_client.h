/* SPDX-License-Identifier: BSD-3-Clause */
/* A session as the leases see it, embedded in struct session: tenant, ports, attachments, events.
 * Threads: [loop]. */
#ifndef RMEMD_LEASE_LEASE_CLIENT_H
#define RMEMD_LEASE_LEASE_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/notices.h"
#include "fabric/server.h"
#include "wire/msg.h"

struct origin;
struct tenant;

/* Limit of unread notifications of a client; beyond it only the last of each lease is kept. */
#define LEASE_CLIENT_NOTICES_MAX 256

/* An endpoint of the daemon as the client uses it; session NULL: not used. */
struct lease_client_port {
	const struct fabric_server_ops *ops;
	struct fabric_session *session;
	int node; /* of its device; -1: unknown, or there is none */
};

struct lease_client {
	uint64_t id; /* the session's */
	struct tenant *tenant;
	struct origin *origin; /* NULL: not known, for want of memory */
	struct lease_client_port ports[WIRE_ENDPOINTS_MAX];
	/* Endpoints that the client announced to use, a bit each, and the distinct nodes of their
	 * devices; 0: those of its ports. */
	unsigned reach;
	int nodes[WIRE_ENDPOINTS_MAX];
	unsigned n_nodes;
	struct list attachments;
	/* attachments whose keys lease_client_fence() is to end */
	struct list unfenced;
	/* ports whose keys lease_client_leave() is to end, a bit each */
	unsigned leaving;
	unsigned n_leaves;       /* how often ports were added to them */
	struct list owned;       /* ephemeral leases */
	struct list with_events; /* attachments with events */
	unsigned n_attachments;
	uint64_t lent_bytes;              /* sum of the lengths of attached leases */
	uint32_t n_keys;                  /* until they are dead */
	struct fabric_mr_traffic traffic; /* of memory regions that are gone */
	unsigned n_watches;               /* attachments that watch their lease */
	struct notices notices; /* of watched leases; open while n_watches > 0 */
};

/* The client counts as a session of the tenant until lease_client_destroy(). */
void lease_client_init(struct lease_client *client, uint64_t id, struct tenant *tenant);
/* The client's own name, and the address from which it has connected last. */
void lease_client_set_origin(struct lease_client *client, const char *name,
			     const char *peer);
/* Of a client without leases and attachments, whose keys are dead. */
void lease_client_destroy(struct lease_client *client);

/* The client's fabric_sessions are removed from its ports, and about to be closed: its keys reach
 * nothing from then on.  lease_client_fence() ends them, and with them what keeps freed memory from
 * being lent again.  Granted leases and their attachments stay.  Its requests were cancelled. */
void lease_client_begin_fence(struct lease_client *client);
/* End about `max` keys.  False: all have ended. */
bool lease_client_fence(struct lease_client *client, unsigned max);
/* The fabric_session of one port is removed from it, and about to be closed: its keys reach nothing
 * from then on.  lease_client_leave() ends them, before the port is used again, and tells the
 * client that its leases changed. */
void lease_client_begin_leave(struct lease_client *client, unsigned port);
/* End about `max` keys.  False: all have ended. */
bool lease_client_leave(struct lease_client *client, unsigned max);
/* Drop unread events. */
void lease_client_drop_events(struct lease_client *client);
/* End about `max` of the client's attachments and ephemeral leases, once it is fenced.  False: all
 * have ended. */
bool lease_client_release(struct lease_client *client, unsigned max);

/* Endpoints that the client uses or announced, a bit each; 0: none yet. */
unsigned lease_client_endpoints(const struct lease_client *client);
/* The distinct nodes of these endpoints' devices; returns their number. */
unsigned lease_client_nodes(const struct lease_client *client,
			    int ret_nodes[WIRE_ENDPOINTS_MAX]);

/* What went through its keys, as far as the fabrics know; a sum over all of them. */
struct fabric_mr_traffic lease_client_traffic(const struct lease_client *client);

/* Whether it owns no lease and has none attached. */
bool lease_client_is_vacant(const struct lease_client *client);
#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* A session as its leases see it: the tenant it acts for, where its keys work, what it
 * has attached, what it is to be told.  Embedded in the session.  Threads: [loop]. */
#ifndef RMEMD_LEASE_LEASE_CLIENT_H
#define RMEMD_LEASE_LEASE_CLIENT_H

#include <stdint.h>

#include "base/list.h"
#include "base/notices.h"
#include "fabric/fabric.h"
#include "wire/msg.h"

struct tenant;

/* Number of notifications kept for a client that reads none at the moment; beyond it, the latest
 * of each lease. */
#define LEASE_CLIENT_NOTICES_MAX 256

/* One endpoint of the daemon; session is NULL while the client does not use it. */
struct lease_client_port {
	const struct fabric_server_ops *ops;
	struct fabric_session *session;
	int node; /* of its device; -1: unknown, or there is none */
};

struct lease_client {
	uint64_t id; /* the session's */
	struct tenant *tenant;
	struct lease_client_port ports[WIRE_ENDPOINTS_MAX];
	/* Endpoints that it says it uses or is going to, a bit each, with the nodes of their
	 * devices, each once; 0: those of its ports. */
	unsigned reach;
	int nodes[WIRE_ENDPOINTS_MAX];
	unsigned n_nodes;
	struct list attachments;
	struct list owned;       /* ephemeral leases */
	struct list with_events; /* attachments with events */
	unsigned n_attachments;
	uint32_t n_keys;        /* until they are dead */
	unsigned n_watches;     /* attachments whose leases it watches */
	struct notices notices; /* of those; open while it watches any */
};

/* Counted as one of the tenant's sessions until lease_client_destroy(). */
void lease_client_init(struct lease_client *client, uint64_t id, struct tenant *tenant);
/* It has nothing, and its keys are dead. */
void lease_client_destroy(struct lease_client *client);

/* Its fabric_sessions, taken from its ports, are about to be closed: all keys die with them.
 * Leases and attachments stay, but for those not granted yet.  Requests are cancelled
 * already. */
void lease_client_fence(struct lease_client *client);
/* Its fabric_session at one port, taken from there, is about to be closed: the keys for it die,
 * and the client is told that its leases changed. */
void lease_client_leave(struct lease_client *client, unsigned port);
/* Drop the events that it has not read. */
void lease_client_drop_events(struct lease_client *client);
/* Give everything up: attachments end, ephemeral leases too. */
void lease_client_release(struct lease_client *client);

/* Endpoints that it uses, or is going to, a bit each; 0: it has said nothing. */
unsigned lease_client_endpoints(const struct lease_client *client);
/* The nodes of their devices, each once; returns their number. */
unsigned lease_client_nodes(const struct lease_client *client,
			    int ret_nodes[WIRE_ENDPOINTS_MAX]);

/* The lengths of what it has attached, bytes. */
uint64_t lease_client_lent_bytes(const struct lease_client *client);

#endif

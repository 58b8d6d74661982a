/* SPDX-License-Identifier: BSD-3-Clause */
/* A session as its leases see it: the tenant it acts for, where its keys work, what it
 * has attached.  Embedded in the session.  Threads: [loop]. */
#ifndef RMEMD_LEASE_HOLDER_H
#define RMEMD_LEASE_HOLDER_H

#include <stdint.h>

#include "base/list.h"
#include "base/notices.h"
#include "fabric/fabric.h"
#include "wire/msg.h"

struct tenant;

/* Notifications kept for a holder who takes none at the moment; beyond them it is the latest
 * of each lease. */
#define HOLDER_NOTICES_MAX 256

/* One endpoint of the daemon; session is NULL while the holder has no business there.
 */
struct holder_port {
	const struct fabric_server_ops *ops;
	struct fabric_session *session;
	int node; /* of its device; -1: unknown, or there is none */
};

struct holder {
	uint64_t id; /* the session's */
	struct tenant *tenant;
	struct holder_port ports[WIRE_ENDPOINTS_MAX];
	/* Endpoints that it says it uses or is going to, a bit each, with the nodes of their
	 * devices, each once; 0: as its ports. */
	unsigned reach;
	int nodes[WIRE_ENDPOINTS_MAX];
	unsigned n_nodes;
	struct list attachments;
	struct list owned;   /* ephemeral leases */
	struct list to_tell; /* attachments with news of their leases */
	unsigned n_attachments;
	uint32_t n_keys;        /* until they are dead */
	unsigned n_watches;     /* attachments whose leases it watches */
	struct notices notices; /* of them; open while it watches any */
};

/* Counted as one of the tenant's sessions until holder_destroy(). */
void holder_init(struct holder *holder, uint64_t id, struct tenant *tenant);
/* It has nothing, and its keys are dead. */
void holder_destroy(struct holder *holder);

/* Its fabric_sessions, taken from its ports, are about to be closed: all keys die with them.
 * Leases and attachments stay, but for those not granted yet.  Requests are cancelled
 * already. */
void holder_fence(struct holder *holder);
/* Its fabric_session at one port, taken from there, is about to be closed: the keys for it die,
 * and the holder is told that its leases changed. */
void holder_leave(struct holder *holder, unsigned port);
/* It is not told what it has not taken. */
void holder_forget_news(struct holder *holder);
/* Give everything up: attachments end, ephemeral leases too. */
void holder_release(struct holder *holder);

/* Count a key: each is a registration, and memory, that a client makes the daemon keep.
 * -EDQUOT with text; then nothing is counted. */
int holder_charge_key(struct holder *holder);
void holder_uncharge_key(struct holder *holder);

/* Endpoints that it uses, or is going to, a bit each; 0: it has said nothing. */
unsigned holder_endpoints(const struct holder *holder);
/* The nodes of their devices, each once; returns how many. */
unsigned holder_nodes(const struct holder *holder, int ret_nodes[WIRE_ENDPOINTS_MAX]);

/* The lengths of what it has attached, bytes. */
uint64_t holder_lent_bytes(const struct holder *holder);

#endif

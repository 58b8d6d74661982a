/* SPDX-License-Identifier: BSD-3-Clause */
/* A lease as this session holds it.  Queues read status, rights and attachment without a
 * lock, as inflight.h tells; all else happens under the session's lock. */
#ifndef LIBRMEM_LEASE_LEASE_H
#define LIBRMEM_LEASE_LEASE_H

#include <stdatomic.h>
#include <stdbool.h>

#include <rmem/rmem.h>

#include "base/list.h"
#include "base/map.h"
#include "base/notices.h"
#include "librmem/lease/attachment.h"
#include "librmem/session/connection.h"
#include "librmem/lease/atomic_device.h"

/* Leases of a session that the server is asked for anew at once, at most: it takes 256
 * requests of a session, and those of the program must have room. */
#define REKEYS_MAX 64u

struct rmem_lease {
	/* constant */
	struct rmem *session;
	uint64_t id;
	unsigned rights;

	/* [any] */
	_Atomic int status; /* 0 or -ESTALE */
	_Atomic uint64_t bytes;
	_Atomic int numa_node; /* of its first byte; RMEM_NODE_ANY: not known */
	/* read only with a use of the lease (inflight.h) */
	_Atomic(struct attachment *) attachment;
	_Atomic unsigned asked;    /* counts how often queues met a refusal */
	_Atomic unsigned verified; /* how many of those the server was asked after */

	struct atomic_device atomic_device; /* of atomics */

	/* uses that no queue counts (inflight.h); away from what all queues read.  [any] */
	_Atomic unsigned outstanding;

	/* under the session's lock */
	enum rmem_placement placement; /* as asked for, with its node */
	int node_asked;
	struct list node;
	struct map_node by_id;
	struct list rekey_node;        /* waits to be attached anew */
	struct connection_call *rekey; /* attaching anew; NULL: not now */
	bool rekey_again;              /* the one under way may come too early */
	bool watched;                  /* its notifications are told */
	struct notice_source notices;  /* in session->notices */
	unsigned asking;               /* `asked` when the one under way was sent */
	uint64_t wanted_bytes;         /* back by the server; 0: none */
	uint64_t wanted_until_ns;
	bool wanted_revoke; /* then it ends */
	bool wanted_news;   /* the program has taken no notice of it since it changed */
};

/* [any] */
static inline bool lease_ended(const struct rmem_lease *lease)
{
	return atomic_load_explicit(&lease->status, memory_order_acquire) != 0;
}

/* Publish what the server answered; the old table stays for those who may read it.  Under
 * the lock.  -EPROTO, -ENOMEM. */
int lease_publish(struct rmem_lease *lease, const struct wire_lease *answer);
/* Put it among the session's, where events find it.  Under the lock.  -ENOMEM */
int lease_enter(struct rmem_lease *lease);
/* Ask the server for the keys anew; tells the queues when they are there.  Under the
 * lock. */
void lease_rekey(struct rmem_lease *lease);
extern const struct session_observer lease_observer;
/* What queues ask for is to be started: keys anew, atomic homes.  [any] */
void leases_want(struct rmem *session);
/* Give back an attachment that nobody waits for any more; a connection_done. */
int lease_attach_undo(void *ctx, int err, const struct wire_msg *reply);
/* The lease with that id in this session, or NULL.  Under the lock. */
struct rmem_lease *lease_find(struct rmem *session, uint64_t id);
/* It has ended: its operations fail.  Under the lock. */
void lease_end(struct rmem_lease *lease);
/* A queue met a refusal: make the server say what became of the lease.  It has once
 * lease_verified() holds of the count returned.  [any] */
unsigned lease_verify(struct rmem_lease *lease);
bool lease_verified(const struct rmem_lease *lease, unsigned count);
/* Free the handle; nothing may use it. Under the lock. */
void lease_drop(struct rmem_lease *lease);

#endif

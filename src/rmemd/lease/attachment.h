/* SPDX-License-Identifier: BSD-3-Clause */
/* An attachment makes a lease reachable for one client: it has a memory region for each segment
 * through each port of the client, and the events of the lease that the client has not read yet.
 * Threads: [loop]. */
#ifndef RMEMD_LEASE_ATTACHMENT_H
#define RMEMD_LEASE_ATTACHMENT_H

#include "base/list.h"
#include "base/notices.h"
#include "rmemd/lease/lease_table.h"
#include "rmemd/lease/mr.h"

/* Events for the client, in this order. */
#define EVENT_CHANGED 1u
#define EVENT_WANTED 2u
#define EVENT_ENDED 4u

struct attachment {
	struct lease *lease; /* NULL: the lease has ended, see ended_id */
	struct lease_client *client;
	struct list in_lease, in_client;
	struct tree_node by_session; /* in lease->by_session */
	unsigned rights;             /* WIRE_RIGHT_* */
	unsigned pending;            /* MRs without a key yet */
	bool fenced; /* the keys died, and the client has not asked for new keys */
	unsigned n_leaves;     /* client->n_leaves when its keys were ended last */
	uint64_t wanted;       /* bytes wanted back, as last told to the client */
	unsigned events;       /* EVENT_*, not read yet */
	unsigned reason;       /* of CHANGED and ENDED, enum wire_reason; 0: longer */
	uint64_t ended_id;     /* not 0: id of the ended lease; EVENT_ENDED is unread */
	struct list in_events; /* in client->with_events, while there are events */
	struct list mrs;       /* pending and live, the oldest first */
	struct list waiters;  /* requests that wait for its keys, struct lease_waiter */
	struct list watching; /* in lease->watchers, if the client watches the lease */
	bool told;            /* of the present notification: struct fanout */
	struct notice_source notices; /* of the lease, in client->notices */
};

/* After tenant_check_attachment().  The lease and the client own the attachment until
 * attachment_end().  -ENOMEM */
int attachment_add(struct lease *lease, struct lease_client *client, unsigned rights,
		   struct attachment **ret_attachment);
/* The attachment of the session with this id, or NULL. */
struct attachment *attachment_find(const struct lease *lease, uint64_t session);
/* The attachment of the first session with a higher id, or NULL. */
struct attachment *attachment_next_after(const struct lease *lease, uint64_t session);
/* End the attachment: its keys die, and requests that wait for them fail with -ESTALE. */
void attachment_end(struct attachment *attachment);
/* End the attachment because the lease ends, and tell the client. */
void attachment_revoke(struct attachment *attachment, enum wire_reason reason);
/* Free a revoked attachment when the client has read the event.  Until then it counts for its
 * tenant, so that a client that reads no events is limited too. */
void attachment_remove(struct attachment *attachment);

/* Begin to register the MRs that are missing, as since segments or ports have changed.  1: it has
 * all its keys; 0: not yet; or -errno, and MRs begun before the error stay. */
int attachment_check_keys(struct attachment *attachment);
/* Deregister keys that reach behind the end of their segments; returns their number. */
unsigned attachment_cut(struct attachment *attachment);
/* Longer MRs have replaced shorter MRs, which stay for operations under way, up to a limit. */
void attachment_retire(struct attachment *attachment);
/* Deregister all keys, as the client's fabric_sessions are closed; returns their number. */
unsigned attachment_fence(struct attachment *attachment);
/* Deregister the keys at these ports, a bit each, whose fabric_sessions are closed; returns their
 * number. */
unsigned attachment_leave_ports(struct attachment *attachment, unsigned ports);

/* Add what went through its keys. */
void attachment_add_traffic(const struct attachment *attachment,
			    struct fabric_mr_traffic *sum);

/* Add an event for the client.  It may read the event at once, and EVENT_ENDED then frees the
 * attachment. */
void attachment_add_event(struct attachment *attachment, const struct leases *leases,
			  unsigned event);
/* EVENT_CHANGED; reason 0: the lease grew. */
void attachment_add_changed(struct attachment *attachment, unsigned reason);

/* Stop watching the lease, and drop unread notifications. */
void attachment_unwatch(struct attachment *attachment);

/* ---- reclaim.c ---- */

/* The message of EVENT_WANTED.  False: nothing is wanted, as the client was last told. */
bool attachment_wanted_message(struct attachment *attachment,
			       struct wire_shrinking *ret_msg);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* A lease made reachable for one client: a memory region for each of its segments through each
 * of the client's ports; and the events of the lease that the client has not been told yet.
 * Threads: [loop]. */
#ifndef RMEMD_LEASE_ATTACHMENT_H
#define RMEMD_LEASE_ATTACHMENT_H

#include "base/list.h"
#include "base/notices.h"
#include "rmemd/lease/lease_table.h"
#include "rmemd/lease/mr.h"

/* What the client is to be told, in this order. */
#define EVENT_CHANGED 1u
#define EVENT_WANTED 2u
#define EVENT_ENDED 4u

struct attachment {
	struct lease *lease; /* NULL: it has ended, see ended_id */
	struct lease_client *client;
	struct list in_lease, in_client;
	unsigned rights;       /* WIRE_RIGHT_* */
	unsigned pending;      /* MRs whose key is still to come */
	bool fenced;           /* its keys died, and were not asked for since */
	uint64_t wanted;       /* bytes wanted back, as the client was told */
	unsigned events;       /* EVENT_*, that the client is to be told */
	unsigned reason;       /* of CHANGED and ENDED, enum wire_reason; 0: longer */
	uint64_t ended_id;     /* only EVENT_ENDED is left, of this lease */
	struct list in_events; /* in client->with_events, while there are any */
	struct list mrs;       /* pending and live, the oldest first */
	struct list watching;  /* in lease->watchers, if the client watches the lease */
	struct notice_source notices; /* those of the lease, in client->notices */
};

/* Belongs to its lease and client until attachment_end().  -EDQUOT, -ENOMEM */
int attachment_create(struct lease *lease, struct lease_client *client, unsigned rights,
		      struct attachment **ret_attachment);
/* One of a former process, whatever the limits are now.  -ENOMEM */
int attachment_restore(struct lease *lease, struct lease_client *client,
		       unsigned rights, struct attachment **ret_attachment);
/* Its keys die; requests that wait for them fail with -ESTALE. */
void attachment_end(struct attachment *attachment);
/* The same, and its client is told: its lease ends. */
void attachment_revoke(struct attachment *attachment, enum wire_reason reason);
/* One that was revoked, when the client has been told.  Until then it counts as one of its
 * tenant's, so a client that reads no events is bounded by that limit. */
void attachment_free(struct attachment *attachment);

/* Begin to register the MRs that are missing.  Returns how many have their key still to come, or
 * -errno; those begun before the error stay. */
int attachment_complete(struct attachment *attachment);
/* Keys that reach behind a segment's end die, and all keys of a segment of no bytes. */
void attachment_cut(struct attachment *attachment, const struct segment *segment);
/* Longer MRs replaced shorter ones.  These stay for operations under way, but not many. */
void attachment_retire(struct attachment *attachment);
/* All keys die with the client's fabric_sessions. */
void attachment_fence(struct attachment *attachment);
/* The keys at one port die with its fabric_session.  True: there were any. */
bool attachment_leave(struct attachment *attachment, unsigned port);

/* Its client is to be told EVENT_*.  The client may take the event at once, which frees an
 * attachment of EVENT_ENDED. */
void attachment_tell(struct attachment *attachment, const struct leases *leases,
		     unsigned event);
/* EVENT_CHANGED; reason 0: it became longer. */
void attachment_tell_changed(struct attachment *attachment, unsigned reason);

/* Its client is told of the lease's notifications no more, not even of those that wait. */
void attachment_unwatch(struct attachment *attachment);

/* ---- reclaim.c ---- */

/* The message of EVENT_WANTED.  False: nothing is wanted any more, and the client never heard
 * that anything was. */
bool attachment_take_wanted(struct attachment *attachment,
			    struct wire_shrinking *ret_msg);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* A lease made reachable for one client: an mr for each of its segments through
 * each of the client's ports.  Threads: [loop]. */
#ifndef RMEMD_LEASE_ATTACHMENT_H
#define RMEMD_LEASE_ATTACHMENT_H

#include "base/list.h"
#include "base/notices.h"
#include "rmemd/lease/mr.h"
#include "rmemd/lease/lease_table.h"

/* In the order in which they are told. */
#define EVENT_CHANGED 1u
#define EVENT_WANTED 2u
#define EVENT_ENDED 4u

struct attachment {
	struct lease *lease;
	struct lease_client *client;
	struct list in_lease, in_holder;
	unsigned rights;  /* WIRE_RIGHT_* */
	unsigned pending; /* mrs whose key is still to come */
	bool fenced;      /* and not asked for since */
	uint64_t wanted;  /* bytes back, as its client was told */
	unsigned news;    /* NEWS_*, that its client is to be told */
	unsigned why;     /* it changed or ended, enum wire_reason; 0: longer */
	uint64_t ended;   /* it is nothing but news of this lease, which has ended */
	struct list in_events; /* in client->in_events, while there are news */
	struct list mrs;       /* pending and live, the oldest first */
	struct list watching;  /* in lease->watchers, when its client watches it */
	struct notice_source notices; /* those of the lease, in client->notices */
};

/* Belongs to its lease and client until attachment_end().  -EDQUOT, -ENOMEM */
int attachment_create(struct lease *lease, struct lease_client *client, unsigned rights,
		      struct attachment **ret_attachment);
/* One that was there before a restart, whatever the limits are now.  -ENOMEM */
int attachment_restore(struct lease *lease, struct lease_client *client,
		       unsigned rights, struct attachment **ret_attachment);
/* Its keys die; requests that wait for them fail with -ESTALE.  The caller calls
 * lease_settle() next. */
void attachment_end(struct attachment *attachment);
/* The same, and its client is told: its lease ends. */
void attachment_revoke(struct attachment *attachment, enum wire_reason reason);

/* One of an ended lease, which until then counts as one of its tenant's: who takes no news has
 * no more of it than that may have. */
void attachment_free(struct attachment *attachment);

/* Whether attachment_end() is at work. */
bool attachment_ended(const struct attachment *attachment);

/* Begin the mrs that are missing.  Returns how many of them have their key still to
 * come, or -errno; those begun before the error stay. */
int attachment_complete(struct attachment *attachment);
/* Keys that reach behind a segment's end die, and all keys of a segment of no bytes. */
void attachment_cut(struct attachment *attachment, const struct segment *segment);
/* A longer mr took the place of shorter ones: keep those for operations under
 * way, but not too many. */
void attachment_retire(struct attachment *attachment);
/* All keys die with the client's fabric_sessions. */
void attachment_fence(struct attachment *attachment);
/* The same for its keys at one port.  True: there were any. */
bool attachment_leave(struct attachment *attachment, unsigned port);

/* ---- client_events.c ---- */

/* Its client is to be told NEWS_*. */
void attachment_tell(struct attachment *attachment, const struct leases *leases,
		     unsigned news);
/* EVENT_CHANGED; reason 0: it became longer. */
void attachment_tell_changed(struct attachment *attachment, unsigned reason);

/* ---- reclaim.c ---- */

/* EVENT_WANTED, as it is now.  False: it is over before its client heard of it. */
bool attachment_take_wanted(struct attachment *attachment,
			    struct wire_shrinking *ret_msg);

/* ---- watch.c ---- */

/* Its client is told of the lease's notifications no more, not even of those that wait. */
void attachment_unwatch(struct attachment *attachment);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* A lease made reachable for one holder: an exposure for each of its segments through
 * each of the holder's ports.  Threads: [loop]. */
#ifndef RMEMD_LEASE_ATTACHMENT_H
#define RMEMD_LEASE_ATTACHMENT_H

#include "base/list.h"
#include "base/notices.h"
#include "rmemd/lease/mr.h"
#include "rmemd/lease/lease_table.h"

/* In the order in which they are told. */
#define NEWS_CHANGED 1u
#define NEWS_WANTED 2u
#define NEWS_ENDED 4u

struct attachment {
	struct lease *lease;
	struct holder *holder;
	struct list in_lease, in_holder;
	unsigned rights;     /* WIRE_RIGHT_* */
	unsigned pending;    /* exposures whose key is still to come */
	bool fenced;         /* and not asked for since */
	uint64_t wanted;     /* bytes back, as its holder was told */
	unsigned news;       /* NEWS_*, that its holder is to be told */
	unsigned why;        /* it changed or ended, enum wire_reason; 0: longer */
	uint64_t ended;      /* it is nothing but news of this lease, which has ended */
	struct list to_tell; /* in holder->to_tell, while there are news */
	struct list exposures; /* pending and live, the oldest first */
	struct list watching;  /* in lease->watchers, when its holder watches it */
	struct notice_source notices; /* those of the lease, in holder->notices */
};

/* Belongs to its lease and holder until attachment_end().  -EDQUOT, -ENOMEM */
int attachment_create(struct lease *lease, struct holder *holder, unsigned rights,
		      struct attachment **ret_attachment);
/* One that was there before a restart, whatever the limits are now.  -ENOMEM */
int attachment_restore(struct lease *lease, struct holder *holder, unsigned rights,
		       struct attachment **ret_attachment);
/* Its keys die; requests that wait for them fail with -ESTALE.  The caller calls
 * lease_settle() next. */
void attachment_end(struct attachment *attachment);
/* The same, and its holder is told: its lease ends. */
void attachment_revoke(struct attachment *attachment, enum wire_reason reason);

/* One of an ended lease, which until then counts as one of its tenant's: who takes no news has
 * no more of it than that may have. */
void attachment_free(struct attachment *attachment);

/* Whether attachment_end() is at work. */
bool attachment_ended(const struct attachment *attachment);

/* Begin the exposures that are missing.  Returns how many of them have their key still to
 * come, or -errno; those begun before the error stay. */
int attachment_complete(struct attachment *attachment);
/* Keys that reach behind a segment's end die, and all keys of a segment of no bytes. */
void attachment_cut(struct attachment *attachment, const struct segment *segment);
/* A longer exposure took the place of shorter ones: keep those for operations under
 * way, but not too many. */
void attachment_retire(struct attachment *attachment);
/* All keys die with the holder's fabric_sessions. */
void attachment_fence(struct attachment *attachment);
/* The same for its keys at one port.  True: there were any. */
bool attachment_leave(struct attachment *attachment, unsigned port);

/* ---- news.c ---- */

/* Its holder is to be told NEWS_*. */
void attachment_tell(struct attachment *attachment, const struct leases *leases,
		     unsigned news);
/* NEWS_CHANGED; reason 0: it became longer. */
void attachment_tell_changed(struct attachment *attachment, unsigned reason);

/* ---- recall.c ---- */

/* NEWS_WANTED, as it is now.  False: it is over before its holder heard of it. */
bool attachment_take_wanted(struct attachment *attachment,
			    struct wire_shrinking *ret_msg);

/* ---- watch.c ---- */

/* Its holder is told of the lease's notifications no more, not even of those that wait. */
void attachment_unwatch(struct attachment *attachment);

#endif

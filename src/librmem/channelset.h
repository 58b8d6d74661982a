/* SPDX-License-Identifier: BSD-3-Clause */
/* The channels of a queue.  A slot per channel outlives the connections in it: a dead one
 * is freed by the queue's owner once everything on it was flushed, and the session's
 * driver puts a fresh one in its place.  */
#ifndef LIBRMEM_CHANNELSET_H
#define LIBRMEM_CHANNELSET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "fabric/fabric.h"
#include "librmem/attachment.h"
#include "librmem/control.h"
#include "librmem/domain.h"

/* A channel's share of operations that are posted together, and of one that is cut: as
 * much as pays for a doorbell. */
#define CHANNEL_SHARE 16
#define CHANNEL_SHARE_BYTES UINT64_C(65536)
/* What a device may take to give back all that is on a channel that was aborted: far
 * longer than any takes that still works. */
#define CHANNEL_FLUSH_MS 1000

struct piece;
struct rmem_queue;

enum slot_stage {
	SLOT_USED,       /* the owner has a channel */
	SLOT_WANTED,     /* ask the server for one, at retry_ns */
	SLOT_CLOSING,    /* to end the last one first */
	SLOT_ASKED,      /* for its number */
	SLOT_REKEY,      /* first on its endpoint: leases get keys for it */
	SLOT_CONNECTING, /* by the driver, without the lock */
	SLOT_FRESH,      /* connected, the owner has not seen it yet */
};

enum burial {
	BURIAL_DUE,    /* not known to be dead: late packets may still be applied */
	BURIAL_DONE,   /* dead, nothing of it is applied any more */
	BURIAL_FAILED, /* it cannot be known */
};

struct channel_slot {
	/* constant */
	unsigned domain;
	uint8_t endpoint; /* its number at the server */
	bool extra;       /* beyond the number that was asked for */
	struct rmem_queue *queue;
	struct channel_slot *follower; /* round robin */

	/* the owner's; `channel` is changed under the session's lock, too */
	struct fabric_channel *channel;
	bool live;         /* may be posted to */
	bool proven;       /* something has completed on it */
	uint64_t flush_ns; /* not live: what is on it is given up then */
	/* what is on it, a ring; the last n_put are not posted yet */
	struct piece **pieces;
	unsigned first, in_flight, n_put;
	unsigned requests; /* of them, in-band */

	/* what became of the server's end of the last channel.  [any] */
	_Atomic int burial; /* enum burial */

	/* under the session's lock */
	enum slot_stage stage;
	uint32_t number;
	bool doomed;  /* the driver has aborted the channel */
	bool watched; /* its alive_fd is in the session's epoll set */
	bool ended;   /* the server said so, before it was connected */
	struct fabric_channel *fresh;
	struct control_call *call;
	uint64_t retry_ns;
	unsigned backoff_ms;
	unsigned resumes; /* of the session, when its first channel was asked for */
};

struct channelset {
	const struct fabric_client_ops *ops;
	unsigned n;
	unsigned depth;  /* credits of each */
	unsigned mask;   /* of the places for its pieces, a power of two */
	unsigned n_dead; /* slots that have a channel which is not live */
	struct channel_slot *slots;
	struct channel_slot *next; /* round robin */
};

/* n empty slots, spread over the domains, from those on the server's `node` on (-1: from the
 * first), and one more for each sole domain that has none then.  -ENOMEM. */
int channelset_create(const struct domain_set *domains, int node, unsigned n,
		      unsigned depth, struct channelset *ret_set);
/* The slots are empty. */
void channelset_destroy(struct channelset *set);

enum pick { PICK_OK, PICK_WAIT, PICK_NO_KEY, PICK_NEVER };
#define ENDPOINTS_ALL (~0u)

static inline struct channel_slot *channelset_next(struct channelset *set)
{
	struct channel_slot *slot = set->next;

	set->next = slot->follower;
	return slot;
}

/* It has a credit. */
static inline bool channelset_open(const struct channelset *set,
				   const struct channel_slot *slot)
{
	return slot->live && slot->in_flight < set->depth;
}

/* The same, it leads to one of `endpoints`, and there is a key of the segment for it. */
static inline bool channelset_takes(const struct channelset *set,
				    const struct channel_slot *slot, unsigned endpoints,
				    const struct attachment *attachment,
				    unsigned segment)
{
	return (endpoints & (1u << slot->endpoint)) && channelset_open(set, slot) &&
	       attachment->keys[segment][slot->endpoint].present;
}

/* As channelset_pick(), when the next one would not do. */
enum pick channelset_search(struct channelset *set, unsigned endpoints,
			    const struct attachment *attachment, unsigned segment,
			    struct channel_slot **ret_slot);
/* The next channel to one of `endpoints`, a bit each by their numbers, that has a credit and
 * for whose endpoint there is a key of the segment.  PICK_NO_KEY: waiting does not help,
 * there are channels but no key; PICK_NEVER: nor are there channels to an endpoint that it is
 * lent through.  [owner] */
static inline enum pick channelset_pick(struct channelset *set, unsigned endpoints,
					const struct attachment *attachment,
					unsigned segment,
					struct channel_slot **ret_slot)
{
	struct channel_slot *slot = channelset_next(set);

	if (!channelset_takes(set, slot, endpoints, attachment, segment))
		return channelset_search(set, endpoints, attachment, segment, ret_slot);
	*ret_slot = slot;
	return PICK_OK;
}

/* Where its channels lead, or are going to, a bit each. */
unsigned channelset_endpoints(const struct channelset *set);

/* Put a piece behind the others in the slot; it has a credit. */
static inline void channelset_put(const struct channelset *set,
				  struct channel_slot *slot, struct piece *piece)
{
	slot->pieces[(slot->first + slot->in_flight++) & set->mask] = piece;
}

/* Where the next of at most *n pieces go; *n becomes how many may lie there side by side. */
static inline struct piece **channelset_end(const struct channelset *set,
					    const struct channel_slot *slot,
					    unsigned *n)
{
	unsigned at = (slot->first + slot->in_flight) & set->mask;

	if (*n > set->depth - slot->in_flight)
		*n = set->depth - slot->in_flight;
	if (*n > set->mask + 1 - at)
		*n = set->mask + 1 - at;
	return &slot->pieces[at];
}

/* Take out the one that was put there first; there is one. */
static inline struct piece *channelset_take(const struct channelset *set,
					    struct channel_slot *slot)
{
	struct piece *piece = slot->pieces[slot->first];

	slot->first = (slot->first + 1) & set->mask;
	slot->in_flight--;
	return piece;
}

/* Take out the one that was put there last; there is one. */
static inline struct piece *channelset_take_last(const struct channelset *set,
						 struct channel_slot *slot)
{
	return slot->pieces[(slot->first + --slot->in_flight) & set->mask];
}

/* Nothing more goes through this channel; what is on it comes back in error, or not at all
 * where the device is gone: it has CHANNEL_FLUSH_MS from now on.  [owner] */
void channelset_kill(struct channelset *set, struct channel_slot *slot,
		     uint64_t now_ns);

#endif

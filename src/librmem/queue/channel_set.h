/* SPDX-License-Identifier: BSD-3-Clause */
/* The send sides of a queue's channels: what the queue's owner has posted on each, and the next
 * one that takes an operation.  Threads: [owner of the queue]. */
#ifndef LIBRMEM_QUEUE_CHANNEL_SET_H
#define LIBRMEM_QUEUE_CHANNEL_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rare.h"
#include "fabric/fabric.h"
#include "librmem/channel/channel.h"
#include "librmem/channel/domain.h"
#include "librmem/lease/attachment.h"

/* A channel's share of operations that are posted together, and of one that is cut: as
 * much as pays for a doorbell. */
#define CHANNEL_SHARE 16
#define CHANNEL_SHARE_BYTES UINT64_C(65536)
/* What a device may take to give back all that is on a channel that was aborted: far
 * longer than any takes that still works. */
#define CHANNEL_FLUSH_MS 1000

struct fragment;

struct send_side {
	/* constant */
	struct channel *channel;
	unsigned domain;            /* the channel's */
	uint8_t endpoint;           /* the channel's */
	struct send_side *follower; /* round robin */

	struct fabric_channel *fabric; /* the connection in use; NULL: none */
	bool live;                     /* may be posted to */
	bool proven;                   /* something has completed on the connection */
	uint64_t flush_ns;             /* not live: what is on it is given up then */
	/* what is on it, a ring; the last n_put are not posted yet */
	struct fragment **fragments;
	unsigned first, in_flight, n_put;
	unsigned requests; /* of them, in-band */
};

struct channel_set {
	const struct fabric_client_ops *ops;
	unsigned n;
	unsigned depth;  /* credits of each */
	unsigned mask;   /* of the places for its fragments, a power of two */
	unsigned n_dead; /* that have a connection which is not live */
	struct channel *all;
	struct send_side *sides; /* of each channel, in the same order */
	struct send_side *next;  /* round robin */
};

/* n empty channels, spread over the domains, from those on the server's `node` on (-1: from the
 * first), and one more for each sole domain that has none then.  -ENOMEM. */
int channel_set_create(const struct domain_set *domains, int node, unsigned n,
		       unsigned depth, struct channel_set *ret_set);
/* The channels are empty. */
void channel_set_destroy(struct channel_set *set);

enum pick { PICK_OK, PICK_WAIT, PICK_NO_KEY, PICK_NEVER };
#define ENDPOINTS_ALL (~0u)

static inline struct send_side *channel_set_next(struct channel_set *set)
{
	struct send_side *side = set->next;

	set->next = side->follower;
	return side;
}

/* It has a credit. */
static inline bool channel_set_open(const struct channel_set *set,
				    const struct send_side *side)
{
	return side->live && side->in_flight < set->depth;
}

/* The same, it leads to one of `endpoints`, and there is a key of the segment for it. */
static inline bool channel_set_takes(const struct channel_set *set,
				     const struct send_side *side, unsigned endpoints,
				     const struct attachment *attachment,
				     unsigned segment)
{
	return (endpoints & (1u << side->endpoint)) && channel_set_open(set, side) &&
	       attachment->keys[segment][side->endpoint].present;
}

/* As channel_set_pick(), when the next one would not do. */
RARE enum pick channel_set_search(struct channel_set *set, unsigned endpoints,
				  const struct attachment *attachment, unsigned segment,
				  struct send_side **ret_side);
/* The next channel to one of `endpoints`, a bit each by their numbers, that has a credit and
 * for whose endpoint there is a key of the segment.  PICK_NO_KEY: waiting does not help,
 * there are channels but no key; PICK_NEVER: nor are there channels to an endpoint that it is
 * lent through.  [owner] */
static inline enum pick channel_set_pick(struct channel_set *set, unsigned endpoints,
					 const struct attachment *attachment,
					 unsigned segment, struct send_side **ret_side)
{
	struct send_side *side = channel_set_next(set);

	if (!channel_set_takes(set, side, endpoints, attachment, segment))
		return channel_set_search(set, endpoints, attachment, segment,
					  ret_side);
	*ret_side = side;
	return PICK_OK;
}

/* Where its channels lead, or are going to, a bit each. */
unsigned channel_set_endpoints(const struct channel_set *set);

/* Put a fragment behind the others in the channel; it has a credit. */
static inline void channel_set_put(const struct channel_set *set,
				   struct send_side *side, struct fragment *fragment)
{
	side->fragments[(side->first + side->in_flight++) & set->mask] = fragment;
}

/* Where the next of at most *n fragments go; *n becomes how many may lie there side by side. */
static inline struct fragment **channel_set_end(const struct channel_set *set,
						const struct send_side *side,
						unsigned *n)
{
	unsigned at = (side->first + side->in_flight) & set->mask;

	if (*n > set->depth - side->in_flight)
		*n = set->depth - side->in_flight;
	if (*n > set->mask + 1 - at)
		*n = set->mask + 1 - at;
	return &side->fragments[at];
}

/* Take out the one that was put there first; there is one. */
static inline struct fragment *channel_set_take(const struct channel_set *set,
						struct send_side *side)
{
	struct fragment *fragment = side->fragments[side->first];

	side->first = (side->first + 1) & set->mask;
	side->in_flight--;
	return fragment;
}

/* Take out the one that was put there last; there is one. */
static inline struct fragment *channel_set_take_last(const struct channel_set *set,
						     struct send_side *side)
{
	return side->fragments[(side->first + --side->in_flight) & set->mask];
}

/* The connection is posted to from now on. */
void channel_set_connected(struct send_side *side, struct fabric_channel *fabric);
/* The connection is gone: nothing is on it. */
void channel_set_disconnected(struct channel_set *set, struct send_side *side);
/* Nothing more goes through this channel; what is on it comes back in error, or not at all
 * where the device is gone: it has CHANNEL_FLUSH_MS from now on.  [owner] */
void channel_set_kill(struct channel_set *set, struct send_side *side, uint64_t now_ns);

#endif

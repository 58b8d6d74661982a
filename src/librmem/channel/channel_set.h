/* SPDX-License-Identifier: BSD-3-Clause */
/* The channels of a queue.  A channel per channel outlives the connections in it: a dead one
 * is freed by the queue's owner once everything on it was flushed, and the session's
 * driver puts a fresh one in its place.  */
#ifndef LIBRMEM_CHANNEL_CHANNEL_SET_H
#define LIBRMEM_CHANNEL_CHANNEL_SET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "fabric/fabric.h"
#include "librmem/lease/attachment.h"
#include "librmem/session/connection.h"
#include "librmem/channel/domain.h"

/* A channel's share of operations that are posted together, and of one that is cut: as
 * much as pays for a doorbell. */
#define CHANNEL_SHARE 16
#define CHANNEL_SHARE_BYTES UINT64_C(65536)
/* What a device may take to give back all that is on a channel that was aborted: far
 * longer than any takes that still works. */
#define CHANNEL_FLUSH_MS 1000

struct fragment;
struct rmem_queue;

enum channel_stage {
	CHANNEL_USED,       /* the owner has a channel */
	CHANNEL_WANTED,     /* ask the server for one, at retry_ns */
	CHANNEL_CLOSING,    /* to end the last one first */
	CHANNEL_ASKED,      /* for its number */
	CHANNEL_REKEY,      /* first on its endpoint: leases get keys for it */
	CHANNEL_CONNECTING, /* by the driver, without the lock */
	CHANNEL_FRESH,      /* connected, the owner has not seen it yet */
};

enum peer_end {
	PEER_END_OPEN,    /* not known to be dead: late packets may still be applied */
	PEER_END_CLOSED,  /* dead, nothing of it is applied any more */
	PEER_END_UNKNOWN, /* it cannot be known */
};

struct channel {
	/* constant */
	unsigned domain;
	uint8_t endpoint; /* its number at the server */
	bool extra;       /* beyond the number that was asked for */
	struct rmem_queue *queue;
	struct channel *follower; /* round robin */

	/* the owner's; `channel` is changed under the session's lock, too */
	struct fabric_channel *fabric;
	bool live;         /* may be posted to */
	bool proven;       /* something has completed on it */
	uint64_t flush_ns; /* not live: what is on it is given up then */
	/* what is on it, a ring; the last n_put are not posted yet */
	struct fragment **fragments;
	unsigned first, in_flight, n_put;
	unsigned requests; /* of them, in-band */

	/* what became of the server's end of the last channel.  [any] */
	_Atomic int peer_end; /* enum peer_end */

	/* under the session's lock */
	enum channel_stage stage;
	uint32_t number;
	bool doomed;  /* the driver has aborted the channel */
	bool watched; /* its alive_fd is in the session's epoll set */
	bool ended;   /* the server said so, before it was connected */
	struct fabric_channel *fresh;
	struct connection_call *call;
	uint64_t retry_ns;
	unsigned backoff_ms;
	unsigned resumes; /* of the session, when its first channel was asked for */
};

struct channel_set {
	const struct fabric_client_ops *ops;
	unsigned n;
	unsigned depth;  /* credits of each */
	unsigned mask;   /* of the places for its fragments, a power of two */
	unsigned n_dead; /* channels that have a channel which is not live */
	struct channel *all;
	struct channel *next; /* round robin */
};

/* n empty channels, spread over the domains, from those on the server's `node` on (-1: from the
 * first), and one more for each sole domain that has none then.  -ENOMEM. */
int channel_set_create(const struct domain_set *domains, int node, unsigned n,
		       unsigned depth, struct channel_set *ret_set);
/* The channels are empty. */
void channel_set_destroy(struct channel_set *set);

enum pick { PICK_OK, PICK_WAIT, PICK_NO_KEY, PICK_NEVER };
#define ENDPOINTS_ALL (~0u)

static inline struct channel *channel_set_next(struct channel_set *set)
{
	struct channel *channel = set->next;

	set->next = channel->follower;
	return channel;
}

/* It has a credit. */
static inline bool channel_set_open(const struct channel_set *set,
				    const struct channel *channel)
{
	return channel->live && channel->in_flight < set->depth;
}

/* The same, it leads to one of `endpoints`, and there is a key of the segment for it. */
static inline bool channel_set_takes(const struct channel_set *set,
				     const struct channel *channel, unsigned endpoints,
				     const struct attachment *attachment,
				     unsigned segment)
{
	return (endpoints & (1u << channel->endpoint)) &&
	       channel_set_open(set, channel) &&
	       attachment->keys[segment][channel->endpoint].present;
}

/* As channel_set_pick(), when the next one would not do. */
enum pick channel_set_search(struct channel_set *set, unsigned endpoints,
			     const struct attachment *attachment, unsigned segment,
			     struct channel **ret_channel);
/* The next channel to one of `endpoints`, a bit each by their numbers, that has a credit and
 * for whose endpoint there is a key of the segment.  PICK_NO_KEY: waiting does not help,
 * there are channels but no key; PICK_NEVER: nor are there channels to an endpoint that it is
 * lent through.  [owner] */
static inline enum pick channel_set_pick(struct channel_set *set, unsigned endpoints,
					 const struct attachment *attachment,
					 unsigned segment, struct channel **ret_channel)
{
	struct channel *channel = channel_set_next(set);

	if (!channel_set_takes(set, channel, endpoints, attachment, segment))
		return channel_set_search(set, endpoints, attachment, segment,
					  ret_channel);
	*ret_channel = channel;
	return PICK_OK;
}

/* Where its channels lead, or are going to, a bit each. */
unsigned channel_set_endpoints(const struct channel_set *set);

/* Put a fragment behind the others in the channel; it has a credit. */
static inline void channel_set_put(const struct channel_set *set,
				   struct channel *channel, struct fragment *fragment)
{
	channel->fragments[(channel->first + channel->in_flight++) & set->mask] =
		fragment;
}

/* Where the next of at most *n fragments go; *n becomes how many may lie there side by side. */
static inline struct fragment **channel_set_end(const struct channel_set *set,
						const struct channel *channel,
						unsigned *n)
{
	unsigned at = (channel->first + channel->in_flight) & set->mask;

	if (*n > set->depth - channel->in_flight)
		*n = set->depth - channel->in_flight;
	if (*n > set->mask + 1 - at)
		*n = set->mask + 1 - at;
	return &channel->fragments[at];
}

/* Take out the one that was put there first; there is one. */
static inline struct fragment *channel_set_take(const struct channel_set *set,
						struct channel *channel)
{
	struct fragment *fragment = channel->fragments[channel->first];

	channel->first = (channel->first + 1) & set->mask;
	channel->in_flight--;
	return fragment;
}

/* Take out the one that was put there last; there is one. */
static inline struct fragment *channel_set_take_last(const struct channel_set *set,
						     struct channel *channel)
{
	return channel->fragments[(channel->first + --channel->in_flight) & set->mask];
}

/* Nothing more goes through this channel; what is on it comes back in error, or not at all
 * where the device is gone: it has CHANNEL_FLUSH_MS from now on.  [owner] */
void channel_set_kill(struct channel_set *set, struct channel *channel,
		      uint64_t now_ns);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The send sides of a queue's channels: the fragments on each, and the choice of the next channel.
 * Threads: [owner of the queue]. */
#ifndef LIBRMEM_QUEUE_CHANNEL_SET_H
#define LIBRMEM_QUEUE_CHANNEL_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rare.h"
#include "fabric/client.h"
#include "librmem/channel/channel.h"
#include "librmem/channel/domain.h"
#include "librmem/lease/attachment.h"

/* A channel's share of a batch, in operations and bytes, before the next channel's turn; also the
 * least stripe of a large operation: enough work for the cost of a doorbell. */
#define CHANNEL_SHARE 16
#define CHANNEL_SHARE_BYTES UINT64_C(65536)
/* A fragment of more bytes is large. */
#define FRAGMENT_SMALL_BYTES CHANNEL_SHARE_BYTES
/* Time for a device to flush an aborted connection: far longer than any working device takes. */
#define CHANNEL_FLUSH_MS 1000

struct fragment;

/* What the operations of a run have in common: the first members of struct rmem_op. */
struct posted_head {
	uint16_t opcode, flags;
	uint32_t timeout_ms;
	struct rmem_lease *lease;
	struct rmem_buffer *buffer;
};

/* What each of them has of its own: the members that follow. */
struct posted_op {
	uint64_t offset;
	void *addr;
	uint64_t bytes;
	uint64_t cookie;
};

/* A part of what is on a connection: one fragment; or a run of n whole operations, of which nothing
 * is stored but this and, in places that follow one another, a struct posted_op for each.  They
 * become a struct op when something else than their success is to be noted, see runs.h. */
struct posted_run {
	struct fragment *fragment; /* NULL: a run, and the members below are set */
	struct posted_head head;
	uint64_t generation;       /* of the attachment it was posted with */
	struct inflight *inflight; /* see struct op */
	uint64_t deadline_ns;
	unsigned n; /* 1 of a fragment */
};

struct send_side {
	/* constant */
	struct channel *channel;
	unsigned domain;  /* the channel's */
	uint8_t endpoint; /* the channel's */
	bool deaf;        /* its device sends what is lost again for minutes: iWARP */
	struct send_side *follower; /* the next in round robin order */

	struct fabric_channel *fabric; /* the connection in use; NULL: none */
	bool live;                     /* fragments may be posted */
	bool retired; /* not live: it is replaced once what is on it has completed */
	bool proven;  /* an operation has completed on the connection */
	bool failed;  /* a request has failed, and may have broken it */
	/* neither live nor retired: its fragments are given up at this time */
	uint64_t flush_ns;
	/* ring of the operations and fragments on the connection; the last n_put are not posted
	 * yet.  A fragment's slot is not used */
	struct posted_op *posted;
	unsigned first, in_flight, n_put;
	/* ring of the same, by runs */
	struct posted_run *runs;
	unsigned first_run, n_runs;
	unsigned requests;    /* number of in-band requests among them */
	uint64_t large_bytes; /* of the large fragments among them */
	unsigned ended;       /* number of fragments that have left the ring; wraps */
	unsigned seen;        /* `ended` at the last look, and failures since */
	/* the last look that found that fragments have completed */
	uint64_t progress_ns;
	/* of a deaf channel: the first look since when none has that waits for packets alone; 0:
	 * none */
	uint64_t silent_ns;
};

struct channel_set {
	const struct fabric_client_ops *ops;
	unsigned n;
	unsigned depth;  /* limit of fragments on each channel */
	unsigned mask;   /* size of each ring, a power of two, minus 1 */
	unsigned n_dead; /* number of channels whose connection is not live */
	struct channel *all;
	struct send_side *sides; /* one for each channel of `all` */
	/* the memory of their rings */
	struct posted_op *posted;
	struct posted_run *runs;
	struct send_side *next; /* to be tried next */
	/* limit of unregistered bytes sent without a copy, by opcode: the least inline limit of all
	 * connections so far; see also channel_set_inline_never() */
	uint64_t direct_max[FABRIC_FETCH_ADD + 1];
	bool connected; /* some channel was connected */
};

#define channels_for_each(channel, set)                                             \
	for (struct channel *channel = (set)->all; channel < (set)->all + (set)->n; \
	     channel++)
#define sides_for_each(side, set)                                                   \
	for (struct send_side *side = (set)->sides; side < (set)->sides + (set)->n; \
	     side++)

/* Create n channels without connections, spread over the domains, first over those on the server's
 * `node` (-1: any) and last over those in the bit mask `avoided`, and one more for each sole domain
 * that has none then.  -ENOMEM. */
int channel_set_create(const struct domain_set *domains, int node, unsigned avoided,
		       unsigned n, unsigned depth, struct channel_set *ret_set);
/* The channels have no connections. */
void channel_set_destroy(struct channel_set *set);

enum pick { PICK_OK, PICK_WAIT, PICK_NO_KEY, PICK_NEVER };
#define ENDPOINTS_ALL (~0u)

static inline struct send_side *channel_set_next(struct channel_set *set)
{
	struct send_side *side = set->next;

	set->next = side->follower;
	return side;
}

/* The channel is connected and has room for one more fragment, a credit. */
static inline bool channel_set_open(const struct channel_set *set,
				    const struct send_side *side)
{
	return side->live && side->in_flight < set->depth;
}

/* The channel has a credit, leads to one of `endpoints`, and the segment has an rkey there. */
static inline bool channel_set_can_post(const struct channel_set *set,
					const struct send_side *side,
					unsigned endpoints,
					const struct attachment *attachment,
					unsigned segment)
{
	return (endpoints & (1u << side->endpoint)) && channel_set_open(set, side) &&
	       attachment->keys[segment][side->endpoint].present;
}

/* channel_set_pick() when the next channel cannot carry the fragment. */
RARE enum pick channel_set_search(struct channel_set *set, unsigned endpoints,
				  const struct attachment *attachment, unsigned segment,
				  struct send_side **ret_side);
/* The next channel to one of `endpoints` (a bit mask) that has a credit and for whose endpoint the
 * segment has an rkey.  PICK_WAIT: wait for a credit or a connection; PICK_NO_KEY: waiting does not
 * help, there are connections but no rkey; PICK_NEVER: no channel leads to an endpoint that lends
 * the segment.  [owner] */
static inline enum pick channel_set_pick(struct channel_set *set, unsigned endpoints,
					 const struct attachment *attachment,
					 unsigned segment, struct send_side **ret_side)
{
	struct send_side *side = channel_set_next(set);

	if (!channel_set_can_post(set, side, endpoints, attachment, segment))
		return channel_set_search(set, endpoints, attachment, segment,
					  ret_side);
	*ret_side = side;
	return PICK_OK;
}

/* channel_set_pick() for a large fragment: the channel has less than its limit of bytes, too.
 * [owner] */
enum pick channel_set_pick_large(struct channel_set *set, unsigned endpoints,
				 const struct attachment *attachment, unsigned segment,
				 struct send_side **ret_side);

/* Bit mask of the endpoints of all channels, connected or not. */
unsigned channel_set_endpoints(const struct channel_set *set);

/* The kth of the n_runs runs on the channel. */
static inline struct posted_run *
channel_set_run(const struct channel_set *set, const struct send_side *side, unsigned k)
{
	return &side->runs[(side->first_run + k) & set->mask];
}

/* Append a run of n operations to a channel that has a credit for each of them; the caller sets the
 * run's members. */
static inline struct posted_run *channel_set_put(const struct channel_set *set,
						 struct send_side *side, unsigned n)
{
	side->in_flight += n;
	return channel_set_run(set, side, side->n_runs++);
}

/* The slots for up to *n further operations; *n is reduced to the contiguous room there. */
static inline struct posted_op *channel_set_end(const struct channel_set *set,
						const struct send_side *side,
						unsigned *n)
{
	unsigned at = (side->first + side->in_flight) & set->mask;

	if (*n > set->depth - side->in_flight)
		*n = set->depth - side->in_flight;
	if (*n > set->mask + 1 - at)
		*n = set->mask + 1 - at;
	return &side->posted[at];
}

/* Remove the first n operations, which are of the first run. */
static inline void channel_set_pop(const struct channel_set *set,
				   struct send_side *side, unsigned n)
{
	struct posted_run *run = &side->runs[side->first_run];

	side->first = (side->first + n) & set->mask;
	side->in_flight -= n;
	side->ended += n;
	run->n -= n;
	if (run->n > 0)
		return;
	side->first_run = (side->first_run + 1) & set->mask;
	side->n_runs--;
}

/* Remove the last run, a fragment. */
static inline struct fragment *channel_set_pop_last(const struct channel_set *set,
						    struct send_side *side)
{
	side->in_flight--;
	return channel_set_run(set, side, --side->n_runs)->fragment;
}

/* Use the connection from now on. */
void channel_set_connected(struct channel_set *set, struct send_side *side,
			   struct fabric_channel *fabric);
/* Send no more inline data of memory without a region, which may lie in a device_only buffer. */
void channel_set_inline_never(struct channel_set *set);
/* The connection was freed. */
void channel_set_disconnected(struct channel_set *set, struct send_side *side);
/* What is on the connection completes in the ordinary way. */
static inline bool channel_set_serves(const struct send_side *side)
{
	return side->live || side->retired;
}

/* Post nothing more on the connection.  [owner] */
void channel_set_retire(struct channel_set *set, struct send_side *side);
/* Abort the connection: its fragments complete in error, or never if the device was removed; they
 * are given up after CHANNEL_FLUSH_MS.  [owner] */
void channel_set_kill(struct channel_set *set, struct send_side *side, uint64_t now_ns);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory that the daemon lends: pools, their extents, and the scrubbers that zero freed memory.
 * Only clean extents are allocated.  Threads: [loop], with scrubber threads inside.  Never logs. */
#ifndef RMEMD_POOL_POOLS_H
#define RMEMD_POOL_POOLS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "rmemd/pool/pool_params.h"

struct block;
struct pool;
struct pools;

/* A range of a pool; a value, owned by its receiver.  Offset and size are multiples of the system's
 * base page, even if the pool has huge pages: a small lease must not use up a gigabyte. */
struct extent {
	struct pool *pool;
	struct block *block; /* of the pool's bookkeeping */
	uint64_t offset;     /* bytes */
	uint64_t bytes;
};

/* The part of an extent that a shrinking pool wants back. */
struct pool_reclaim {
	uint64_t bytes;    /* 0: nothing */
	uint64_t until_ms; /* clock_now_ms() */
	enum pool_shrink then;
};

/* The leases in the part that a shrinking pool wants back, as far as they have been found. */
#define POOL_HOLDERS_NAMED 4
struct pool_holders {
	uint32_t pool;
	uint64_t after; /* the id of the last lease checked; 0: none */
	unsigned n;
	uint64_t bytes;
	struct pool_holder {
		uint64_t lease, bytes;
	} most[POOL_HOLDERS_NAMED]; /* the largest first */
};

enum pool_resizing {
	POOL_RESTS,
	POOL_GROWS,    /* memory is being added */
	POOL_CLOSES,   /* its end is being closed */
	POOL_RECLAIMS, /* its end is closed; leases there are to be freed */
	POOL_REOPENS,  /* its end is being opened again */
	POOL_CUTS,     /* its end is being removed from the bookkeeping */
	POOL_SHRINKS,  /* its end is given back to the kernel */
	POOL_EMPTY,    /* nothing is left of it: pools_remove() */
};

struct pool_status {
	const char *name;
	int node_asked;
	int node_got; /* pools_node() when it was opened or last resized */
	enum pool_pages pages_asked, pages_got;
	uint64_t page_bytes;
	int file;             /* descriptor of the memory, borrowed */
	uint64_t bytes_asked; /* or POOL_BYTES_AUTO */
	/* bytes: without the part being added; closed: free bytes in the closed end */
	uint64_t bytes, lent, scrubbing, free, closed, largest_free;
	uint64_t releasing;     /* of `lent`: set by extent_set_releasing() */
	uint64_t scrubbed_ever; /* bytes zeroed since start */
	unsigned endpoints;     /* through which it is lent, a bit each */
	enum pool_resizing resizing;
	bool leaving;        /* it is to be removed: nothing is granted from it */
	uint64_t bytes_to;   /* its next size; POOL_RESTS: `bytes` */
	uint64_t populated;  /* POOL_GROWS: of the bytes being added */
	uint64_t to_reclaim; /* POOL_RECLAIMS: lent or dirty bytes in the closed end */
};

/* The progress of pools_open(), called on its caller's thread; each may be NULL. */
struct pools_events {
	void *ctx;
	/* A pool is open; the note tells why `auto` did not take the largest pages, or is "". */
	void (*ready)(void *ctx, const struct pool_status *status, const char *note);
	/* The populated bytes of all pools: at the beginning, about every second, and with each
	 * pool that is ready.  -errno with text: stop, and fail with it. */
	int (*populating)(void *ctx, uint64_t done, uint64_t bytes);
};

/* Map, bind, prefault and pin all pools, pools of different nodes at the same time; start the
 * scrubbers.  Blocks.  If one pool fails, all are closed.
 *   -ENOMEM  not enough memory, huge pages or RLIMIT_MEMLOCK: the text names pool, cause
 *            and remedy
 *   -EINVAL  no such node, or no pages of that size
 *   params   checked by capacity_check_shares()
 *   events   may be NULL */
int pools_open(const struct pool_params *params, size_t n_params,
	       const struct pools_events *events, struct pools **ret_pools);
/* Claim a range that was lent when the last process ended, rounded up to whole base pages.  Claim
 * all ranges before pools_zero_unlent(), those of a pool with rising offsets.
 *   -ENOENT  no such pool
 *   -EINVAL  the range is not in the pool
 *   -EEXIST  it, or a part of it, is claimed already
 *   -ENOMEM */
int pools_claim(struct pools *pools, uint32_t id, uint64_t offset, uint64_t bytes,
		struct extent *ret_extent);
/* Zero the unclaimed memory of the last process; before this call none of it is lent.
 * -ENOMEM */
int pools_zero_unlent(struct pools *pools);
/* Join the threads, unmap.  NULL: no effect. */
void pools_close(struct pools *pools);

/* Polls readable when extents are clean, or a step of resizing is done; then call pools_process(),
 * which returns the number of bytes that became free, of a limited number of pieces. */
int pools_fd(const struct pools *pools);
uint64_t pools_process(struct pools *pools);

/* Hand freed memory to the scrubbers in pools_scrub() only, because to wake them takes longer than
 * all other work for a small lease.  on_freed() is called when there is memory for pools_scrub(),
 * which hands over a limited number of pieces.
 * NULL, as at first: hand it over at once. */
void pools_on_freed(struct pools *pools, void (*on_freed)(void *ctx), void *ctx);
void pools_scrub(struct pools *pools);

/* The limit of bytes zeroed per second and node; 0: none. */
void pools_set_scrub_rate(struct pools *pools, uint64_t rate);
/* A request waits for clean memory: scrub freed memory now, and without limit of the rate. */
void pools_hurry(struct pools *pools, bool hurry);

/* Set the limit of an extent's length, which every device registers at once; 0: none. */
void pools_set_extent_max(struct pools *pools, uint64_t bytes);

/* Set the endpoints through which pool i is lent, a bit each; at first all. */
void pools_set_endpoints(struct pools *pools, unsigned i, unsigned endpoints);

static inline bool pool_names_have(const struct pool_names *names, const char *name)
{
	for (unsigned i = 0; i < names->n; i++)
		if (strcmp(names->at[i], name) == 0)
			return true;
	return names->n == 0;
}

struct pool_request {
	uint64_t bytes; /* > 0 */
	uint64_t align; /* power of two; each extent's offset is a multiple of it */
	/* Preferred nodes; when they are full, any node. */
	const int *nodes;
	unsigned n_nodes;
	/* Only from pools that are lent through at least one of these; 0: through any. */
	unsigned endpoints;
	/* Only from these pools; NULL: from any.  Borrowed. */
	const struct pool_names *only;
	/* In stripes over all nodes, see stripes.h; other nodes take the part of a full node.
	 * Ignored if there is no room for stripes. */
	bool interleave;
};

/* Whether the request may get memory of a pool with this name, lent through these endpoints. */
static inline bool pool_request_allows(const struct pool_request *request,
				       const char *name, unsigned endpoints)
{
	if (!(endpoints & (request->endpoints ? request->endpoints : UINT_MAX)))
		return false;
	return !request->only || pool_names_have(request->only, name);
}

/* Allocate clean extents that together hold the bytes: as few as possible, or stripes; the last
 * extent is rounded up to a whole base page.  An extent of a huge page or more begins at a huge
 * page if possible.
 *   -ENOSPC  not in `max` extents; the text tells how much is free
 *   -EAGAIN  will be possible once bytes being scrubbed are clean
 *   -ENOMEM  for the bookkeeping */
int pools_alloc(struct pools *pools, const struct pool_request *request,
		struct extent *ret_extents, unsigned max, unsigned *ret_n);
/* A quick check: false if pools_alloc() cannot succeed now, as too little is free or in too many
 * pieces. */
bool pools_may_fit(const struct pools *pools, const struct pool_request *request,
		   unsigned max);
/* Free an extent, as it was allocated: it is zeroed, then free for allocation. */
void pools_free(struct pools *pools, struct extent extent);

/* Shorten an extent to `keep` bytes (> 0), rounded up to whole base pages, and free the rest.
 * Returns the number of freed bytes; 0 also without memory for the bookkeeping: they are freed
 * later, with the extent. */
uint64_t pools_free_tail(struct pools *pools, struct extent *extent, uint64_t keep);

/* ---- resizing; lent extents do not move ---- */

/* Start to add memory, in whole pages of the pool, to a pool in POOL_RESTS, on a thread.
 * -EAGAIN, -EMFILE, -ENOMEM: the thread cannot be started */
int pools_grow(struct pools *pools, unsigned i, uint64_t bytes);
/* Stop growing; pools_resized() reports it. */
void pools_grow_stop(struct pools *pools, unsigned i);
/* Start to close the end behind `bytes` of a pool in POOL_RESTS; in POOL_RECLAIMS extent_reclaim()
 * tells which extents are there.  0 bytes: the pool is leaving, and its leases are not revoked.
 * -EAGAIN, -EMFILE, -ENOMEM */
int pools_reclaim(struct pools *pools, unsigned i, uint64_t bytes, uint64_t until_ms);
/* Start to open the end of a pool in POOL_CLOSES or POOL_RECLAIMS. */
void pools_reclaim_cancel(struct pools *pools, unsigned i);
/* Start to give the closed end, where nothing is lent, back to the kernel, on a thread; if that is
 * all of the pool, only to remove it from the bookkeeping. */
void pools_shrink(struct pools *pools, unsigned i);
/* Do a part of the work of a pool in POOL_CLOSES, POOL_REOPENS or POOL_CUTS.  False: there is more,
 * which other clients must not wait for.  True: its state is the next one now, POOL_RECLAIMS,
 * POOL_RESTS, POOL_SHRINKS or POOL_EMPTY; always in other states. */
bool pools_move_end(struct pools *pools, unsigned i);

struct pools_resized {
	unsigned i;
	bool grown;       /* else shrunk */
	int err;          /* a pool that did not grow is unchanged */
	uint64_t wanted;  /* the size asked for */
	uint64_t bytes;   /* the size, with memory not lent yet */
	const char *text; /* of the error, or a note, or "" */
};
/* The result of growing or shrinking.  Then pools_lend() lends the added memory, or pools_shrink()
 * removes it.  The text is borrowed until the pool is resized again.  False: no result yet. */
bool pools_resized(struct pools *pools, struct pools_resized *ret_resized);
void pools_lend(struct pools *pools, unsigned i);

/* ---- pools that come and go ---- */

struct share;

/* Start to open a pool, on a thread; it has no number, and nothing is granted from it, before
 * pools_enter().
 *   params  with an id that no other pool has
 *   shares, unused  of POOL_BYTES_AUTO: capacity_share() and capacity_free(), for each kind
 *   -EAGAIN, -EMFILE, -ENOMEM */
int pools_add(struct pools *pools, const struct pool_params *params,
	      const struct share *shares, const uint64_t *unused,
	      struct pool **ret_pool);
/* Stop opening; pools_added() reports it. */
void pools_add_stop(struct pool *pool);
/* How much is populated of the bytes that it is to have; 0: not known yet. */
uint64_t pools_add_progress(const struct pool *pool, uint64_t *ret_bytes);

struct pools_added {
	struct pool *pool;
	int err;
	/* text of the error, or a note, or ""; borrowed until the next call */
	const char *text;
	struct pool_status status; /* without an error */
};
/* The result of opening a pool, which the caller enters or drops.  False: no result yet. */
bool pools_added(struct pools *pools, struct pools_added *ret_added);
/* It is lent from now on, as the last pool of the table. */
void pools_enter(struct pools *pools, struct pool *pool);
/* Give the memory of a pool that was not entered back to the kernel, on a thread. */
void pools_drop(struct pools *pools, struct pool *pool);
/* The same for a pool in POOL_EMPTY; those behind it in the table have other numbers then. */
void pools_remove(struct pools *pools, unsigned i);

struct pools_dropped {
	uint32_t id;
	char name[POOL_NAME_MAX + 1];
	uint64_t bytes; /* bytes that it had */
	bool entered;   /* it was in the table */
};
/* The kernel has all memory of a pool back.  False: of none. */
bool pools_dropped(struct pools *pools, struct pools_dropped *ret_dropped);

/* The configured size of a pool, or what happens when it shrinks, has changed; the size does not
 * become POOL_BYTES_AUTO. */
void pools_set_asked(struct pools *pools, unsigned i, const struct pool_params *params);
/* The parameters with which a pool was opened, as changed by pools_set_asked(). */
const struct pool_params *pools_params(const struct pools *pools, unsigned i);

/* For whom a new extent is lent: a name that lasts until it is freed; for pool_map_next(). */
void extent_set_owner(const struct extent *extent, const char *owner);
/* Whether the extent will be freed soon; set it to false before freeing. */
void extent_set_releasing(const struct extent *extent, bool releasing);

void *extent_addr(const struct extent *extent);
struct pool_reclaim extent_reclaim(const struct extent *extent);

/* What the extent's pool is now. */
struct extent_pool {
	const char *name;
	uint32_t id;
	int node; /* -1 unknown */
	uint64_t page_bytes;
	unsigned endpoints; /* through which it is lent, a bit each */
	bool leaving;
};
struct extent_pool extent_pool(const struct extent *extent);

unsigned pools_count(const struct pools *pools);
struct pool_status pools_status(const struct pools *pools, unsigned i);
/* Ask the kernel on which node the pages are now: an administrator may have moved them.  -1:
 * several nodes, or unknown.  Takes some tens of microseconds. */
int pools_node(const struct pools *pools, unsigned i);

#endif

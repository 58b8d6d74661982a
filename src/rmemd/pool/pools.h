/* SPDX-License-Identifier: BSD-3-Clause */
/* All the memory the daemon lends: pools, extents of them, and the scrubbers that zero
 * what is freed.  Only clean extents are allocated.
 * Threads: everything [loop]; scrubber threads inside.  Never logs. */
#ifndef RMEMD_POOL_POOLS_H
#define RMEMD_POOL_POOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pool_pages {
	POOL_PAGES_AUTO,
	POOL_PAGES_1G,
	POOL_PAGES_2M,
	POOL_PAGES_THP,
	POOL_PAGES_BASE
};

#define POOL_NAME_MAX 32
#define POOL_NODE_ANY (-1)
#define POOL_BYTES_AUTO 0
#define POOL_BYTES_MIN (UINT64_C(1) << 20) /* of an automatic size */
#define POOL_SHARE_AUTO 0
#define POOL_DEVICES_MAX 16
#define POOL_DEVICE_MAX 63

/* What happens to a pool that is to be shorter, when leases in the way are not freed. */
enum pool_shrink {
	POOL_SHRINK_REFUSE, /* it stays as long as it is */
	POOL_SHRINK_REVOKE  /* leases that are in the way end */
};

struct pool_params {
	char name[POOL_NAME_MAX + 1];
	int node;              /* NUMA node, or POOL_NODE_ANY: not bound */
	uint64_t bytes;        /* rounded up to whole pages; or POOL_BYTES_AUTO */
	enum pool_pages pages; /* AUTO: the largest that can be had */
	/* Of POOL_BYTES_AUTO alone: per cent of what is free where it is taken from, or
	 * POOL_SHARE_AUTO, which share.h tells. */
	unsigned share;
	enum pool_shrink shrink;
	uint64_t shrink_wait_ms; /* before that */
	uint32_t id;             /* how the ledger refers to it */
	int file;                /* a descriptor, borrowed; 0: a memfd of its own */
	/* The file has the pool already, on these pages: its content stays, and its size counts,
	 * not `bytes`. */
	bool kept;
	enum pool_pages pages_kept;
	uint64_t bytes_kept; /* of the file, if it is longer; 0: all */
	/* For the caller: the last process ended while the pool grew to this; 0: it did not. */
	uint64_t bytes_grown;
	/* RDMA devices it is lent through, none: all.  For the caller of
	 * pools_set_endpoints(). */
	char devices[POOL_DEVICES_MAX][POOL_DEVICE_MAX + 1];
	unsigned n_devices;
};

struct pool;
struct pools;

/* A piece of a pool; a value, owned by whoever was given it.  Offset and size are
 * multiples of the system's base page, whatever pages the pool has: a small lease must not
 * take a gigabyte. */
struct extent {
	struct pool *pool;
	uint64_t offset; /* bytes */
	uint64_t bytes;
};

/* What a pool wants back of an extent, because it becomes shorter. */
struct pool_reclaim {
	uint64_t bytes;    /* 0: nothing */
	uint64_t until_ms; /* clock_now_ms() */
	enum pool_shrink then;
};

enum pool_resizing {
	POOL_RESTS,
	POOL_GROWS,    /* memory is being added */
	POOL_RECLAIMS, /* its end is not lent any more; leases there are to be freed */
	POOL_SHRINKS,  /* the kernel gets its end */
};

struct pool_status {
	const char *name;
	int node_asked;
	int node_got; /* pools_node() when it was opened or last resized */
	enum pool_pages pages_asked, pages_got;
	uint64_t page_bytes;
	uint64_t bytes_asked; /* or POOL_BYTES_AUTO */
	/* bytes: all but what is being added; of what is free, `closed` is not lent any more */
	uint64_t bytes, lent, scrubbing, free, closed, largest_free;
	uint64_t releasing;     /* of what is lent, as extent_set_releasing() tells */
	uint64_t scrubbed_ever; /* bytes zeroed since start */
	unsigned endpoints;     /* it is lent through, a bit each */
	enum pool_resizing resizing;
	uint64_t bytes_to;  /* its size to be; at rest `bytes` */
	uint64_t populated; /* POOL_GROWS: bytes of those that are added */
	uint64_t reclaimed; /* POOL_RECLAIMS: bytes that are still in the way */
};

/* The progress of pools_open(), on the thread that called it; each may be NULL. */
struct pools_events {
	void *ctx;
	/* A pool is there; the note is a line when `auto` took less than the best. */
	void (*ready)(void *ctx, const struct pool_status *status, const char *note);
	/* How much of all pools is populated: at the beginning, about every second, with
	 * each pool that is ready, and so at the end. */
	void (*populating)(void *ctx, uint64_t done, uint64_t bytes);
};

/* Map, bind, prefault and pin all pools, those of different nodes at the same time; start
 * the scrubbers.  Blocks while it does.  When one fails nothing of the others is left.
 *   -ENOMEM  not enough memory, huge pages or RLIMIT_MEMLOCK: the text names pool, cause
 *            and remedy
 *   -EINVAL  no such node
 *   params   as auto_size_check() has found good
 *   events   may be NULL */
int pools_open(const struct pool_params *params, size_t n_params,
	       const struct pools_events *events, struct pools **ret_pools);
/* A range that was lent when the process that had the pools ended, rounded up to whole base
 * pages; all of them must be claimed before pools_settle(), by pool with rising offsets.
 *   -ENOENT  no such pool
 *   -EINVAL  no range of it, or of one that is claimed already
 *   -ENOMEM */
int pools_claim(struct pools *pools, uint32_t id, uint64_t offset, uint64_t bytes,
		struct extent *ret_extent);
/* What was not claimed of the files of a former process is zeroed.  Before it nothing of them is
 * lent.  -ENOMEM */
int pools_settle(struct pools *pools);
/* Join the threads, unmap.  NULL: nothing. */
void pools_close(struct pools *pools);

/* Polls readable when extents are clean, or a step of resizing is done; process() then takes them
 * over and returns the number of bytes that became free. */
int pools_fd(const struct pools *pools);
uint64_t pools_process(struct pools *pools);

/* Memory given back goes to the scrubbers at once, or from now on when pools_scrub() is
 * called: to wake them takes longer than all else about a small lease.  given() is called when
 * there is something again; NULL: at once, as at first. */
void pools_on_freed(struct pools *pools, void (*given)(void *ctx), void *ctx);
void pools_scrub(struct pools *pools);

/* The limit of bytes zeroed per second and node; 0: none. */
void pools_set_scrub_rate(struct pools *pools, uint64_t rate);
/* A request waits for clean memory: the limit does not count, and freed memory goes to the
 * scrubbers at once. */
void pools_hurry(struct pools *pools, bool hurry);

/* The longest extent, as a device registers no more at once; 0: no limit. */
void pools_set_extent_max(struct pools *pools, uint64_t bytes);

/* The endpoints that pools[i] is lent through, a bit each; at first all. */
void pools_set_endpoints(struct pools *pools, unsigned i, unsigned endpoints);

/* What is asked for. */
struct pool_request {
	uint64_t bytes; /* > 0 */
	uint64_t align; /* power of two; each extent's offset is a multiple of it */
	/* Preferred: others serve when these are full.  None: all are alike. */
	const int *nodes;
	unsigned n_nodes;
	/* Only of pools that are lent through one of these at least; 0: through any. */
	unsigned endpoints;
	/* In stripes over all nodes, as stripes.h says; where a node is full others have its
	 * part, and where there is no room for stripes at all it is as without this. */
	bool interleave;
};

/* Take clean extents that hold what is asked for together, as few as can be, or in stripes;
 * the last is rounded up to a whole base page.  One of a huge page or more begins at a huge
 * page if that can be.
 *   -ENOSPC  they cannot hold it (in `max` extents); the text says what is free
 *   -EAGAIN  they could, once the bytes being scrubbed are clean
 *   -ENOMEM  for the bookkeeping */
int pools_alloc(struct pools *pools, const struct pool_request *request,
		struct extent *ret_extents, unsigned max, unsigned *ret_n);
/* Give an extent back, exactly as it was taken: it is zeroed, then free again. */
void pools_free(struct pools *pools, struct extent extent);

/* Give back what an extent has behind `keep` bytes (> 0), in whole base pages: the extent
 * gets shorter.  Returns how many bytes that were; 0 too when memory for the bookkeeping is
 * short, then they come back with the rest. */
uint64_t pools_free_tail(struct pools *pools, struct extent *extent, uint64_t keep);

/* ---- resizing: what is lent stays where it is ---- */

/* In whole pages of the pool. */
uint64_t pools_round(const struct pools *pools, unsigned i, uint64_t bytes);
/* Add memory to a pool that rests, in whole pages of its own; a thread does.  Errors as those of
 * starting it: -EAGAIN, -EMFILE, -ENOMEM */
int pools_grow(struct pools *pools, unsigned i, uint64_t bytes);
/* Stop that; pools_resized() tells. */
void pools_grow_stop(struct pools *pools, unsigned i);
/* Lend nothing more of what lies behind `bytes` in a pool that rests; extent_reclaim() tells what
 * is lent there.  -ENOMEM and others of starting the thread */
int pools_reclaim(struct pools *pools, unsigned i, uint64_t bytes, uint64_t until_ms,
		  enum pool_shrink then);
/* Lend it again. */
void pools_reclaim_end(struct pools *pools, unsigned i);
/* Give what was reclaimed, and is back, to the kernel; a thread does. */
void pools_shrink(struct pools *pools, unsigned i);

struct pools_resized {
	unsigned i;
	bool grown;       /* else cut */
	int err;          /* then, if it was to grow, it is as it was */
	uint64_t wanted;  /* that it was to have */
	uint64_t bytes;   /* that it has, with those not lent yet */
	const char *text; /* of the error, or a note, or "" */
};
/* The result of growing or shrinking.  What was added is not lent before pools_lend(), or is
 * removed by pools_shrink().  The text is borrowed until the pool is resized again.  False: there
 * is none. */
bool pools_resized(struct pools *pools, struct pools_resized *ret_resized);
void pools_lend(struct pools *pools, unsigned i);

/* Its configured size has changed; not to POOL_BYTES_AUTO. */
void pools_set_asked(struct pools *pools, unsigned i, uint64_t bytes);
/* What it was opened with, and pools_set_asked(). */
const struct pool_params *pools_params(const struct pools *pools, unsigned i);

/* The extent is going to be freed soon; before it is, set this to false again. */
void extent_set_releasing(const struct extent *extent, bool releasing);

void *extent_addr(const struct extent *extent);
/* What is wanted back of it. */
void extent_reclaim(const struct extent *extent, struct pool_reclaim *ret_reclaim);
int extent_node(const struct extent *extent); /* -1 unknown */
uint32_t extent_pool_id(const struct extent *extent);
uint64_t extent_page_bytes(const struct extent *extent); /* of its pool */
unsigned extent_endpoints(const struct extent *extent);  /* of its pool */
const char *extent_pool(const struct extent *extent);    /* its name */

unsigned pools_count(const struct pools *pools);
void pools_status(const struct pools *pools, unsigned i,
		  struct pool_status *ret_status);
/* Ask the kernel once more on which node the pages are, as an administrator may have moved
 * them; -1: on several, or it does not tell.  Takes some tens of microseconds. */
int pools_node(const struct pools *pools, unsigned i);

/* The file that a pool is in, borrowed; to keep its memory is to keep that. */
int pools_file(const struct pools *pools, unsigned i);

const char *pool_pages_name(enum pool_pages pages); /* "auto" "1G" "2M" "thp" "base" */

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* What is configured of a pool.  Threads: constant. */
#ifndef RMEMD_POOL_POOL_PARAMS_H
#define RMEMD_POOL_POOL_PARAMS_H

#include <stdbool.h>
#include <stdint.h>

/* The numbers are in ledgers. */
enum pool_pages {
	POOL_PAGES_AUTO = 0,
	POOL_PAGES_THP = 3,
	POOL_PAGES_BASE = 4,
	/* all from here on are huge pages: the logarithm of their length */
	POOL_PAGES_HUGE = 14,
	POOL_PAGES_2M = 21,
	POOL_PAGES_1G = 30,
	POOL_PAGES_64G = 36
};
#define POOL_PAGES_END (POOL_PAGES_64G + 1)

/* As configured: "auto", "2M", "thp", "base"; NULL: the number stands for none. */
const char *pool_pages_name(enum pool_pages pages);

/* Whether these are huge pages, of hugetlb. */
static inline bool pages_hugetlb(enum pool_pages pages)
{
	return pages >= POOL_PAGES_HUGE;
}

#define POOL_NAME_MAX 32
#define POOL_NODE_ANY (-1)
#define POOL_BYTES_AUTO 0
#define POOL_BYTES_MIN (UINT64_C(1) << 20) /* of an automatic size */
#define POOL_SHARE_AUTO 0
#define POOL_DEVICES_MAX 16
#define POOL_DEVICE_MAX 63

/* What happens when a pool shrinks and leases in its end are not freed in time. */
enum pool_shrink {
	POOL_SHRINK_REFUSE, /* the pool keeps its size */
	POOL_SHRINK_REVOKE  /* these leases end */
};

struct pool_params {
	char name[POOL_NAME_MAX + 1];
	int node;              /* NUMA node, or POOL_NODE_ANY: not bound */
	uint64_t bytes;        /* rounded up to whole pages; or POOL_BYTES_AUTO */
	enum pool_pages pages; /* AUTO: the largest available */
	/* Of POOL_BYTES_AUTO alone: per cent of the free memory, or POOL_SHARE_AUTO: see
	 * capacity.h. */
	unsigned share;
	enum pool_shrink shrink;
	uint64_t shrink_wait_ms; /* time limit for freeing these leases */
	uint32_t id;             /* in the ledger */
	int file;                /* a descriptor, borrowed; 0: a memfd of its own */
	/* The file holds the pool already, in these pages: its content stays, and its size is used
	 * instead of `bytes`. */
	bool kept;
	enum pool_pages pages_kept;
	uint64_t bytes_kept; /* of the file, if it is longer; 0: all */
	/* For the caller: the size to which the pool grew when the last process ended, or 0. */
	uint64_t bytes_grown;
	/* RDMA devices through which the pool is lent; none: all.  For the caller of
	 * pools_set_endpoints(). */
	char devices[POOL_DEVICES_MAX][POOL_DEVICE_MAX + 1];
	unsigned n_devices;
};

/* Names of pools; n 0: all pools. */
#define POOL_NAMES_MAX 16
#define POOL_NAMES_BYTES 64
struct pool_names {
	char at[POOL_NAMES_MAX][POOL_NAMES_BYTES];
	unsigned n;
};

#endif

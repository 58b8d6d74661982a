/* SPDX-License-Identifier: BSD-3-Clause */
/* Whose each page of the daemon's own pools is, looked at from inside. */
#ifndef TESTS_UNIT_OWNERS_H
#define TESTS_UNIT_OWNERS_H

#include <stdint.h>

struct leases;
struct pools;

#define OWNERS_PAGE UINT64_C(4096)
#define OWNERS_PAGES_MAX 4096
#define OWNERS_POOLS_MAX 8

/* The pages of a pool. */
struct owners {
	const char *addr; /* NULL: none of them is in a lease */
	uint64_t n_pages, n_owned;
	uint64_t lease[OWNERS_PAGES_MAX]; /* 0: nobody's */
};
extern struct owners owners[OWNERS_POOLS_MAX];
extern unsigned n_owners;

/* Find them.  A rule: each segment is inside of its pool, no page is in two leases, the segments of
 * a lease are as long as it together, and a pool has lent what leases have. */
void owners_find(const struct leases *leases, const struct pools *pools);
/* The lease whose page this is; 0: nobody's. */
uint64_t owner_at(const char *at);

/* A rule is broken; defined by the program. */
_Noreturn void owners_fail(const char *format, ...)
	__attribute__((format(printf, 1, 2)));

#endif

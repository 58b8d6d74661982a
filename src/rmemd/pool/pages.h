/* SPDX-License-Identifier: BSD-3-Clause */
/* The kinds of pages that pools have.  Threads: [any]. */
#ifndef RMEMD_POOL_PAGES_H
#define RMEMD_POOL_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "rmemd/pool/pools.h"

/* Whether these pages are of hugetlb, and the length of one. */
bool pages_hugetlb(enum pool_pages pages);
uint64_t pages_bytes(enum pool_pages pages);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/pool/pages.h"

#include <unistd.h>

static const struct {
	const char *name;
	uint64_t bytes; /* 0: the base page of the system */
	bool hugetlb;
} kinds[] = {
	[POOL_PAGES_AUTO] = { "auto", 0, false },
	[POOL_PAGES_1G] = { "1G", UINT64_C(1) << 30, true },
	[POOL_PAGES_2M] = { "2M", UINT64_C(1) << 21, true },
	[POOL_PAGES_THP] = { "thp", UINT64_C(1) << 21, false },
	[POOL_PAGES_BASE] = { "base", 0, false },
};

const char *pool_pages_name(enum pool_pages pages)
{
	return kinds[pages].name;
}

bool pages_hugetlb(enum pool_pages pages)
{
	return kinds[pages].hugetlb;
}

uint64_t pages_bytes(enum pool_pages pages)
{
	return kinds[pages].bytes ? kinds[pages].bytes
				  : (uint64_t)sysconf(_SC_PAGESIZE);
}

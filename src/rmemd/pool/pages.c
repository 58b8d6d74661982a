/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/pool/pages.h"

#include <unistd.h>

const char *pool_pages_name(enum pool_pages pages)
{
	static const char *const names[] = {
		[POOL_PAGES_AUTO] = "auto", [POOL_PAGES_1G] = "1G",
		[POOL_PAGES_2M] = "2M",     [POOL_PAGES_THP] = "thp",
		[POOL_PAGES_BASE] = "base",
	};

	return names[pages];
}

bool pages_hugetlb(enum pool_pages pages)
{
	return pages == POOL_PAGES_1G || pages == POOL_PAGES_2M;
}

uint64_t pages_bytes(enum pool_pages pages)
{
	switch (pages) {
	case POOL_PAGES_1G:
		return UINT64_C(1) << 30;
	case POOL_PAGES_2M:
	case POOL_PAGES_THP:
		return UINT64_C(1) << 21;
	case POOL_PAGES_AUTO:
	case POOL_PAGES_BASE:
		break;
	}
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The names of page sizes. */
#include <stddef.h>

#include "rmemd/pool/pool_params.h"

/* clang-format off */
static const char *const pages_names[POOL_PAGES_END] = {
	[POOL_PAGES_AUTO] = "auto",
	[POOL_PAGES_THP] = "thp",
	[POOL_PAGES_BASE] = "base",
	[14] = "16K", "32K", "64K", "128K", "256K", "512K",
	[20] = "1M", "2M", "4M", "8M", "16M", "32M", "64M", "128M", "256M", "512M",
	[30] = "1G", "2G", "4G", "8G", "16G", "32G", "64G",
};
/* clang-format on */

const char *pool_pages_name(enum pool_pages pages)
{
	return (unsigned)pages < POOL_PAGES_END ? pages_names[pages] : NULL;
}

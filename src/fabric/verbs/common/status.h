/* SPDX-License-Identifier: BSD-3-Clause */
/* Why a call of libibverbs or librdmacm failed. */
#ifndef FABRIC_VERBS_COMMON_STATUS_H
#define FABRIC_VERBS_COMMON_STATUS_H

#include <errno.h>

/* -errno; some drivers fail without setting it, and no failure may pass for success: then
 * -EIO.  [any] */
static inline int verbs_errno(void)
{
	return errno > 0 ? -errno : -EIO;
}

#endif

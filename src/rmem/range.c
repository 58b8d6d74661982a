/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmem/range.h"

#include <errno.h>
#include <inttypes.h>

#include "base/err.h"

struct range range = { .length = UINT64_MAX };

int range_resolve(const rmem_lease *lease, uint64_t *ret_bytes)
{
	uint64_t stored = rmem_lease_bytes(lease), rest = stored - range.offset;

	if (range.offset > stored)
		return err_set(-EINVAL,
			       "--offset %" PRIu64 " is beyond the lease of %" PRIu64
			       " bytes",
			       range.offset, stored);
	if (range.length != UINT64_MAX && range.length > rest)
		return err_set(-EINVAL,
			       "--length %" PRIu64 " at offset %" PRIu64
			       " goes beyond the lease of %" PRIu64 " bytes",
			       range.length, range.offset, stored);
	*ret_bytes = range.length != UINT64_MAX ? range.length : rest;
	return 0;
}

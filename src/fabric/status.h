/* SPDX-License-Identifier: BSD-3-Clause */
/* What a server answers to an operation of its own hand: over TCP, and in-band.  Later servers may
 * have other errors: whatever is not FABRIC_DONE refuses the operation. */
#ifndef FABRIC_STATUS_H
#define FABRIC_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/checked.h"
#include "wire/errors.h"

enum fabric_status {
	FABRIC_DONE = WIRE_CODE_none,
	FABRIC_FORBIDDEN = WIRE_CODE_forbidden, /* the key lacks one of the rights */
	FABRIC_INVALID =
		WIRE_CODE_invalid, /* an atomic that is not at a multiple of 8 */
	FABRIC_OUTSIDE = WIRE_CODE_outside, /* not all of the range is the key's */
	FABRIC_STALE =
		WIRE_CODE_dead_key, /* the session has no such key, or it is dead */
};

/* Whether [addr, addr + bytes) is inside [base, base + size). */
static inline bool fabric_range_inside(uint64_t base, uint64_t size, uint64_t addr,
				       uint32_t bytes)
{
	return addr >= base && range_inside(size, addr - base, bytes);
}

#endif

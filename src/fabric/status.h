/* SPDX-License-Identifier: BSD-3-Clause */
/* What a server answers to an operation of its own hand: over TCP, and in-band.  The numbers are part
 * of the protocol, errno numbers of Linux on x86 and Arm.  Later servers may have others: whatever is
 * not FABRIC_DONE refuses the operation. */
#ifndef FABRIC_STATUS_H
#define FABRIC_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/checked.h"

enum fabric_status {
	FABRIC_DONE = 0,
	FABRIC_FORBIDDEN = 13, /* EACCES: the key lacks one of the rights */
	FABRIC_INVALID = 22,   /* EINVAL: an atomic that is not at a multiple of 8 */
	FABRIC_OUTSIDE = 34,   /* ERANGE: not all of the range is the key's */
	FABRIC_STALE = 116,    /* ESTALE: the session has no such key, or it is dead */
};

/* Whether [addr, addr + bytes) is inside [base, base + size). */
static inline bool fabric_range_inside(uint64_t base, uint64_t size, uint64_t addr,
				       uint32_t bytes)
{
	return addr >= base && range_inside(size, addr - base, bytes);
}

#endif

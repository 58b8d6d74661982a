/* SPDX-License-Identifier: BSD-3-Clause */
/* Allocations of GPUs that a session has registered by their dma-bufs, so that operations need no
 * copy.  An entry counts only for the allocation that it was made for, which its driver's number
 * tells: another one may have the same address later. */
#ifndef PYTHON_DEVICE_RANGE_H
#define PYTHON_DEVICE_RANGE_H

#include "python/memory.h"

struct session;
struct device_range;

struct device_ranges {
	struct device_range *first;
	bool off; /* one could not be registered: no other will */
};

/* Register the allocation that the memory is of, if that was not done, and hold it as long as the
 * memory, whose address becomes one for operations.  The driver is loaded, and the session entered.
 * Returns false if device, driver, librmem or the fabric have no dma-bufs for it. */
bool device_range_hold(struct session *session, int device, struct memory *memory);
/* The session has ended, and the registrations with it. */
void device_ranges_end(struct device_ranges *all);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The address of [metrics] listen, where any host that reaches it may read: the metrics, and,
 * unless [metrics] page forbids it, the status page and what that reads.  Requests to names that
 * are not of this host are refused.  Nothing acts there, and nothing is secret.  Threads: [loop].
 * Never blocks it. */
#ifndef RMEMD_ADMIN_METRICS_ADDRESS_H
#define RMEMD_ADMIN_METRICS_ADDRESS_H

#include <event2/event.h>

#include "fabric/address.h"

struct admin_sources;
struct metrics_address;

/* Serve at an address with its port.  Borrows base and sources, which must outlive it.
 *   -EADDRINUSE  the port is taken
 *   -ENOMEM, ... with text */
int metrics_address_open(struct event_base *base, const struct admin_sources *sources,
			 const struct fabric_address *address,
			 struct metrics_address **ret_address);
/* NULL: nothing. */
void metrics_address_close(struct metrics_address *address);

#endif

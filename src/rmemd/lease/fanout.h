/* SPDX-License-Identifier: BSD-3-Clause */
/* The notifications of a watched lease on their way to its watchers, of whom there may be
 * thousands: work of the lease's tenant, in slices.  Those that wait are bounded as those of a
 * memory region: of more the last is kept, with the number of those lost.  Threads: [loop]. */
#ifndef RMEMD_LEASE_FANOUT_H
#define RMEMD_LEASE_FANOUT_H

#include <stdint.h>

struct attachment;
struct fanout;
struct lease;

/* The client of the attachment watches the lease, from the next notification on that is handed
 * out.  -ENOMEM */
int fanout_watch(struct attachment *attachment);
/* Hand it out to all who watch the lease by then. */
void fanout_notify(const struct lease *lease, uint32_t value, uint32_t lost);
/* Forget what waits.  NULL: no effect. */
void fanout_free(struct fanout *fanout);

#endif

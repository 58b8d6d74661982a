/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections without a session, by the addresses that they come from, and those of them that wait
 * for a place, in their order.  Threads: [loop]. */
#ifndef RMEMD_CONTROL_NEWCOMERS_H
#define RMEMD_CONTROL_NEWCOMERS_H

#include <stdint.h>

#include "base/list.h"
#include "fabric/address.h"

struct newcomers {
	struct list origins;
	unsigned n_waiting;
	uint64_t n_come; /* that have begun to wait */
};

struct newcomer {
	struct list link;      /* in its origin's list, while it waits */
	struct origin *origin; /* NULL: it has left, or there was no memory */
	uint64_t number;       /* in the order in which they came */
};

void newcomers_init(struct newcomers *newcomers);
/* It has a place.  -ENOMEM: it counts for no address. */
int newcomers_join(struct newcomers *newcomers, struct newcomer *newcomer,
		   const struct fabric_address *address);
/* It has a place no more.  One that has left: no effect. */
void newcomers_leave(struct newcomers *newcomers, struct newcomer *newcomer);

/* It waits for a place, as the last one of its address. */
void newcomers_wait(struct newcomers *newcomers, struct newcomer *newcomer);
/* It has a place; then: it waits again, as the first one of its address. */
void newcomers_admit(struct newcomers *newcomers, struct newcomer *newcomer);
void newcomers_return(struct newcomers *newcomers, struct newcomer *newcomer);

/* How many of its address have places; 0 if it counts for none. */
unsigned newcomers_places(const struct newcomer *newcomer);
/* Who waits: the oldest of the address that has fewest places; the newest of the address from which
 * most have come.  NULL: nobody */
struct newcomer *newcomers_first(const struct newcomers *newcomers);
struct newcomer *newcomers_last(const struct newcomers *newcomers);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections that have not shown yet whose they are take slots, of which there are few.  They are
 * known by the addresses that they come from alone: the next slot is for the address that has the
 * fewest, and if there is none left, the oldest one gives way of the address that has the most.
 * Who has no slot may wait for one.  Not thread-safe. */
#ifndef FABRIC_SLOTS_H
#define FABRIC_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "fabric/address.h"

struct slots {
	struct list taken; /* the oldest first */
	unsigned n_taken;
	struct list origins; /* addresses of these, and of those that wait */
	unsigned n_waiting;
	uint64_t n_come; /* number of all that have begun to wait */
};

struct slot {
	struct list link; /* in slots->taken, or in its address's list while it waits */
	struct origin *origin; /* address; NULL: none, or no memory for it */
	uint64_t number;       /* in the order in which they came */
	bool taken;
};

void slots_init(struct slots *slots);
/* Wait for a slot, as the last one of the address.  -ENOMEM: it is of no address, and does not
 * wait, but may take a slot. */
int slot_wait(struct slots *slots, struct slot *slot,
	      const struct fabric_address *address);
/* Have a slot from now on, as the newest. */
void slot_take(struct slots *slots, struct slot *slot);
/* Neither have one nor wait.  One that has left already: no effect. */
void slot_leave(struct slots *slots, struct slot *slot);

/* Of those that wait: the oldest of the address that has the fewest slots; the newest of the
 * address from which the most have come.  NULL: none */
struct slot *slots_first(const struct slots *slots);
struct slot *slots_last(const struct slots *slots);
/* Whose slot the newcomer may have: it is of the address that has the most, counted as if the
 * newcomer had one; the oldest that does not keep it, else the oldest, and that only for an address
 * that has fewer.  keeps NULL: none does.  NULL: there is none */
struct slot *slots_victim(const struct slots *slots, const struct slot *newcomer,
			  bool (*keeps)(const struct slot *slot));

#endif

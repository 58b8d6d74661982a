/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/slots.h"

#include <errno.h>

#include "base/err.h"
#include "fabric/crowd.h"

/* Who comes from one address. */
struct origin {
	struct crowd crowd; /* all of them */
	struct list waiting;
	unsigned n_taken;
};

void slots_init(struct slots *slots)
{
	*slots = (struct slots){ .n_taken = 0 };
	list_init(&slots->taken);
	list_init(&slots->origins);
}

int slot_wait(struct slots *slots, struct slot *slot,
	      const struct fabric_address *address)
{
	struct crowd *crowd =
		crowd_join(&slots->origins, address, sizeof(struct origin));

	*slot = (struct slot){ .number = slots->n_come++ };
	list_init(&slot->link);
	if (!crowd)
		return err_set(-ENOMEM, "no memory for a connection");
	slot->origin = container_of(crowd, struct origin, crowd);
	if (crowd->n == 1)
		list_init(&slot->origin->waiting);
	list_append(&slot->origin->waiting, &slot->link);
	slots->n_waiting++;
	return 0;
}

void slot_take(struct slots *slots, struct slot *slot)
{
	if (slot->origin) {
		slot->origin->n_taken++;
		slots->n_waiting--;
	}
	slot->taken = true;
	slots->n_taken++;
	list_move(&slots->taken, &slot->link);
}

void slot_leave(struct slots *slots, struct slot *slot)
{
	list_remove(&slot->link);
	slots->n_taken -= slot->taken;
	if (slot->origin) {
		slots->n_waiting -= !slot->taken;
		slot->origin->n_taken -= slot->taken;
		crowd_leave(&slot->origin->crowd);
	}
	slot->origin = NULL;
	slot->taken = false;
}

/* ---- those that wait ---- */

/* Whether the next slot is for a rather than for b. */
static bool is_before(const struct slot *a, const struct slot *b)
{
	if (a->origin->n_taken != b->origin->n_taken)
		return a->origin->n_taken < b->origin->n_taken;
	return a->number < b->number;
}

struct slot *slots_first(const struct slots *slots)
{
	struct slot *first = NULL, *slot;

	list_for_each_entry(struct origin, origin, &slots->origins, crowd.link) {
		slot = list_first(&origin->waiting, struct slot, link);
		if (slot && (!first || is_before(slot, first)))
			first = slot;
	}
	return first;
}

/* Whether a gives way rather than b. */
static bool is_behind(const struct slot *a, const struct slot *b)
{
	if (a->origin->crowd.n != b->origin->crowd.n)
		return a->origin->crowd.n > b->origin->crowd.n;
	return a->number > b->number;
}

struct slot *slots_last(const struct slots *slots)
{
	struct slot *last = NULL, *slot;

	list_for_each_entry(struct origin, origin, &slots->origins, crowd.link) {
		slot = list_last(&origin->waiting, struct slot, link);
		if (slot && (!last || is_behind(slot, last)))
			last = slot;
	}
	return last;
}

/* ---- those that have one ---- */

static unsigned taken_with(const struct slot *newcomer, const struct slot *slot)
{
	return slot->origin ? slot->origin->n_taken + (slot->origin == newcomer->origin)
			    : 0;
}

struct slot *slots_victim(const struct slots *slots, const struct slot *newcomer,
			  bool (*keeps)(const struct slot *slot))
{
	unsigned own = taken_with(newcomer, newcomer), most = 0;
	struct slot *victim = NULL;
	bool kept = false;

	list_for_each_entry(struct slot, slot, &slots->taken, link) {
		unsigned n = taken_with(newcomer, slot);
		bool keep = keeps && keeps(slot);

		/* the first one found is older */
		if (victim && (n < most || (n == most && keep >= kept)))
			continue;
		victim = slot;
		most = n;
		kept = keep;
	}
	return kept && most <= own ? NULL : victim;
}

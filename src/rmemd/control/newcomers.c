/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/newcomers.h"

#include <errno.h>

#include "base/err.h"
#include "fabric/crowd.h"

/* Who comes from one address, without a session. */
struct origin {
	struct crowd crowd; /* all of them */
	struct list waiting;
	unsigned n_waiting;
};

void newcomers_init(struct newcomers *newcomers)
{
	list_init(&newcomers->origins);
}

int newcomers_join(struct newcomers *newcomers, struct newcomer *newcomer,
		   const struct fabric_address *address)
{
	struct crowd *crowd =
		crowd_join(&newcomers->origins, address, sizeof(struct origin));

	list_init(&newcomer->link);
	if (!crowd)
		return err_set(-ENOMEM, "no memory for a connection");
	newcomer->origin = container_of(crowd, struct origin, crowd);
	if (crowd->n == 1)
		list_init(&newcomer->origin->waiting);
	return 0;
}

static void begin(struct newcomers *newcomers, struct newcomer *newcomer,
		  struct list *before)
{
	newcomer->origin->n_waiting++;
	newcomers->n_waiting++;
	list_append(before, &newcomer->link);
}

void newcomers_wait(struct newcomers *newcomers, struct newcomer *newcomer)
{
	newcomer->number = newcomers->n_come++;
	begin(newcomers, newcomer, &newcomer->origin->waiting);
}

void newcomers_return(struct newcomers *newcomers, struct newcomer *newcomer)
{
	begin(newcomers, newcomer, newcomer->origin->waiting.next);
}

void newcomers_admit(struct newcomers *newcomers, struct newcomer *newcomer)
{
	newcomer->origin->n_waiting--;
	newcomers->n_waiting--;
	list_remove(&newcomer->link);
}

void newcomers_leave(struct newcomers *newcomers, struct newcomer *newcomer)
{
	if (!newcomer->origin)
		return;
	if (!list_empty(&newcomer->link))
		newcomers_admit(newcomers, newcomer);
	crowd_leave(&newcomer->origin->crowd);
	newcomer->origin = NULL;
}

static unsigned places_of(const struct origin *origin)
{
	return origin->crowd.n - origin->n_waiting;
}

unsigned newcomers_places(const struct newcomer *newcomer)
{
	return newcomer->origin ? places_of(newcomer->origin) : 0;
}

/* Whether the next place is for a rather than for b. */
static bool is_before(const struct newcomer *a, const struct newcomer *b)
{
	if (places_of(a->origin) != places_of(b->origin))
		return places_of(a->origin) < places_of(b->origin);
	return a->number < b->number;
}

struct newcomer *newcomers_first(const struct newcomers *newcomers)
{
	struct newcomer *first = NULL, *newcomer;

	list_for_each_entry(struct origin, origin, &newcomers->origins, crowd.link) {
		newcomer = list_first(&origin->waiting, struct newcomer, link);
		if (newcomer && (!first || is_before(newcomer, first)))
			first = newcomer;
	}
	return first;
}

/* Whether a gives way rather than b. */
static bool is_behind(const struct newcomer *a, const struct newcomer *b)
{
	if (a->origin->crowd.n != b->origin->crowd.n)
		return a->origin->crowd.n > b->origin->crowd.n;
	return a->number > b->number;
}

struct newcomer *newcomers_last(const struct newcomers *newcomers)
{
	struct newcomer *last = NULL, *newcomer;

	list_for_each_entry(struct origin, origin, &newcomers->origins, crowd.link) {
		newcomer = list_last(&origin->waiting, struct newcomer, link);
		if (newcomer && (!last || is_behind(newcomer, last)))
			last = newcomer;
	}
	return last;
}

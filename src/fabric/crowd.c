/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/crowd.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool is_of(const struct crowd *crowd, const struct fabric_address *address)
{
	size_t bytes = address->family == 6 ? 8 : 4;

	return crowd->address.family == address->family &&
	       memcmp(crowd->address.bytes, address->bytes, bytes) == 0;
}

struct crowd *crowd_join(struct list *crowds, const struct fabric_address *address,
			 size_t bytes)
{
	struct crowd *added;

	list_for_each_entry(struct crowd, crowd, crowds, link) {
		if (!is_of(crowd, address))
			continue;
		crowd->n++;
		return crowd;
	}
	added = calloc(1, bytes);
	if (!added)
		return NULL;
	added->address = *address;
	added->n = 1;
	list_append(crowds, &added->link);
	return added;
}

void crowd_leave(struct crowd *crowd)
{
	if (!crowd || --crowd->n > 0)
		return;
	list_remove(&crowd->link);
	free(crowd);
}

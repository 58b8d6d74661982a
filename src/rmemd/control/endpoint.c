/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/endpoint.h"

uint64_t endpoints_segment_max(const struct endpoints *endpoints)
{
	uint64_t max = 0;

	for (unsigned i = 0; i < endpoints->n; i++) {
		const struct endpoint *at = &endpoints->at[i];
		const struct fabric_abilities *abilities;
		struct fabric_port port;

		if (!at->ops->device ||
		    at->ops->device(at->server, at->local, &abilities, &port))
			continue;
		if (abilities->max_mr_bytes && (!max || abilities->max_mr_bytes < max))
			max = abilities->max_mr_bytes;
	}
	return max;
}

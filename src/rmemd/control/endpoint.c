/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/endpoint.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"

int endpoints_node(const struct endpoints *endpoints, const char *device, int *ret_node)
{
	for (unsigned i = 0; i < endpoints->n; i++) {
		const struct fabric_endpoint *facts = endpoints->at[i].facts;

		if (strcmp(facts->device, device) != 0)
			continue;
		*ret_node = facts->node;
		return 0;
	}
	return err_set(-ENODEV, "no RDMA device '%s' is served here", device);
}

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

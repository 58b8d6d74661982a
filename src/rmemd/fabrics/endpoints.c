/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/fabrics/endpoints.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"

static bool pool_names(const struct pool_params *pool, const char *device)
{
	for (unsigned i = 0; i < pool->n_devices; i++)
		if (strcmp(pool->devices[i], device) == 0)
			return true;
	return false;
}

unsigned endpoints_of_pool(const struct endpoints *endpoints,
			   const struct pool_params *pool)
{
	unsigned bits = 0;

	for (unsigned i = 0; i < endpoints->n; i++) {
		const char *device = endpoints->at[i].facts->device;

		if (!*device || !pool->n_devices || pool_names(pool, device))
			bits |= 1u << i;
	}
	return bits;
}

static bool device_served(const struct endpoints *endpoints, const char *device)
{
	for (unsigned i = 0; i < endpoints->n; i++)
		if (strcmp(endpoints->at[i].facts->device, device) == 0)
			return true;
	return false;
}

const char *endpoints_missing(const struct endpoints *endpoints,
			      const struct pool_params *pool)
{
	for (unsigned i = 0; i < pool->n_devices; i++)
		if (!device_served(endpoints, pool->devices[i]))
			return pool->devices[i];
	return NULL;
}

unsigned endpoints_all(const struct endpoints *endpoints)
{
	return (1u << endpoints->n) - 1;
}

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
		const struct fabric_device_attr *abilities;
		struct fabric_port_attr port;

		if (!at->ops->device ||
		    at->ops->device(at->server, at->local, &abilities, &port))
			continue;
		if (abilities->max_mr_bytes && (!max || abilities->max_mr_bytes < max))
			max = abilities->max_mr_bytes;
	}
	return max;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/endpoint_address.h"

#include "fabric/address.h"

/* Whether the server listens at this address for the endpoint's channels. */
static bool endpoint_is_at(const struct fabric_endpoint *info,
			   const struct fabric_address *address)
{
	return info->address.family == address->family &&
	       (fabric_address_is_any(&info->address) ||
		fabric_address_host_equal(&info->address, address));
}

struct fabric_address endpoint_address(const struct endpoint *endpoint,
				       const struct fabric_address *client)
{
	const struct fabric_address *listen = &endpoint->info->address;
	struct fabric_address address =
		endpoint->advertised.port ? endpoint->advertised : *listen;

	/* one that no client can use */
	if (endpoint->info->awaited)
		return (struct fabric_address){ .family = 4 };
	if (fabric_address_is_any(&address))
		address.family = client->family == listen->family ? 0 : listen->family;
	return address;
}

unsigned endpoints_nearest(const struct endpoints *endpoints, enum fabric_kind kind,
			   const struct fabric_address *reached)
{
	unsigned first = endpoints->n;

	for (unsigned i = 0; i < endpoints->n; i++) {
		const struct fabric_endpoint *info = endpoints->at[i].info;

		if (info->kind != kind || info->awaited)
			continue;
		if (endpoint_is_at(info, reached))
			return i;
		if (first == endpoints->n)
			first = i;
	}
	return first;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/session/endpoint_map.h"

#include <string.h>

static bool is_device(const struct wire_endpoint *a, const struct wire_endpoint *b)
{
	return a->fabric == b->fabric && a->version == b->version &&
	       strcmp(a->device, b->device) == 0;
}

static bool is_at(const struct wire_endpoint *a, const struct wire_endpoint *b)
{
	return a->family == b->family &&
	       memcmp(a->address, b->address, sizeof(a->address)) == 0;
}

/* Find the endpoints that have no index yet.  A device may have several: those at their old address
 * first, then the others in their order. */
static void endpoints_find(struct endpoint_map *map, const struct wire_welcome *known,
			   const struct wire_welcome *welcome, bool same_address)
{
	for (unsigned i = 0; i < known->n_endpoints; i++) {
		const struct wire_endpoint *endpoint = &known->endpoints[i];

		for (unsigned k = 0;
		     k < welcome->n_endpoints && !endpoint_is_present(map, i); k++)
			if (map->number[k] == WIRE_ENDPOINTS_MAX &&
			    is_device(&welcome->endpoints[k], endpoint) &&
			    (!same_address ||
			     is_at(&welcome->endpoints[k], endpoint))) {
				map->present |= 1u << i;
				map->index[i] = (uint8_t)k;
				map->number[k] = (uint8_t)i;
			}
	}
}

void endpoint_map_follow(struct endpoint_map *map, struct wire_welcome *known,
			 const struct wire_welcome *welcome)
{
	map->n_server = welcome->n_endpoints;
	map->present = 0;
	memset(map->number, WIRE_ENDPOINTS_MAX, sizeof(map->number));
	endpoints_find(map, known, welcome, true);
	endpoints_find(map, known, welcome, false);
	map->away = wire_endpoint_bits(known->n_endpoints) & ~map->present;
	for (unsigned i = 0; i < known->n_endpoints; i++)
		if (endpoint_is_present(map, i))
			known->endpoints[i] = welcome->endpoints[map->index[i]];
}

unsigned endpoint_mask_to_server(const struct endpoint_map *map, unsigned numbers)
{
	unsigned indices = 0;

	for (unsigned i = 0; i < WIRE_ENDPOINTS_MAX; i++)
		if (numbers & map->present & (1u << i))
			indices |= 1u << map->index[i];
	return indices;
}

unsigned endpoint_mask_from_server(const struct endpoint_map *map, unsigned indices)
{
	unsigned numbers = 0;

	for (unsigned i = 0; i < map->n_server; i++)
		if ((indices & (1u << i)) && map->number[i] < WIRE_ENDPOINTS_MAX)
			numbers |= 1u << map->number[i];
	return numbers;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The endpoints of a session have numbers: their indices in the server's first welcome.  After a
 * restart the server may list them in another order, at other addresses, or not at all.  They are
 * found by fabric and device; the numbers stay, and are translated at the control connection.
 * Endpoints that are new get no number: the session has no domains for them.
 *
 * Threads: under the session's lock. */
#ifndef LIBRMEM_SESSION_ENDPOINT_MAP_H
#define LIBRMEM_SESSION_ENDPOINT_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/msg.h"

struct endpoint_map {
	unsigned n_server; /* length of the server's present list */
	unsigned present;  /* bit mask of the numbers that are in the list */
	unsigned away;     /* bit mask of the others */
	/* by number: index in the list, if present */
	uint8_t index[WIRE_ENDPOINTS_MAX];
	/* by index in the list: the number; WIRE_ENDPOINTS_MAX: none */
	uint8_t number[WIRE_ENDPOINTS_MAX];
};

/* Find the endpoints of `known` in a welcome, and copy their present data to it.  The first welcome
 * is both. */
void endpoint_map_follow(struct endpoint_map *map, struct wire_welcome *known,
			 const struct wire_welcome *welcome);

static inline bool endpoint_is_present(const struct endpoint_map *map, unsigned number)
{
	return (map->present & (1u << number)) != 0;
}

/* A bit mask of numbers as one of indices; endpoints that are away are left out. */
unsigned endpoint_mask_to_server(const struct endpoint_map *map, unsigned numbers);
/* A bit mask of indices as one of numbers; endpoints without a number are left out. */
unsigned endpoint_mask_from_server(const struct endpoint_map *map, unsigned indices);

#endif

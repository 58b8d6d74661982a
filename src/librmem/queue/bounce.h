/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered memory of a queue through which operations on unregistered memory pass, in
 * chunks of one size.  Threads: [owner of the queue]. */
#ifndef LIBRMEM_QUEUE_BOUNCE_H
#define LIBRMEM_QUEUE_BOUNCE_H

#include <stddef.h>

#include "librmem/channel/domain.h"

struct bounce {
	const struct domain_set *domains;
	unsigned char *memory; /* NULL: nothing has passed through it yet */
	size_t bytes;
	size_t chunk_bytes;
	unsigned n_free;
	unsigned char **free; /* the chunks not in use, n_free of them */
	unsigned held;        /* domains, a bit each, that the queue has hold of */
	struct fabric_local_mr *mrs[WIRE_ENDPOINTS_MAX]; /* by domain */
};

/* Lay it out; there is no memory yet. */
void bounce_init(const struct domain_set *domains, size_t bytes,
		 struct bounce *ret_bounce);
/* Make the memory, which many queues never need.  -ENOMEM, or what registering gave. */
int bounce_create(struct bounce *bounce);
void bounce_destroy(struct bounce *bounce);
/* One domain is to be closed, or is open anew. */
void bounce_leave(struct bounce *bounce, unsigned domain);
int bounce_return(struct bounce *bounce, unsigned domain);

/* A chunk, or NULL when all are in use. */
unsigned char *bounce_take(struct bounce *bounce);
void bounce_give(struct bounce *bounce, unsigned char *chunk);

#endif

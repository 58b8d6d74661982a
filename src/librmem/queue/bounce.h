/* SPDX-License-Identifier: BSD-3-Clause */
/* The bounce buffer of a queue: registered memory through which operations on unregistered memory
 * pass, in chunks of one size.  Threads: [owner of the queue]. */
#ifndef LIBRMEM_QUEUE_BOUNCE_H
#define LIBRMEM_QUEUE_BOUNCE_H

#include <stddef.h>

#include "librmem/channel/domain.h"

struct bounce {
	const struct domain_set *domains;
	unsigned char *memory; /* NULL: not created yet */
	size_t bytes;
	size_t chunk_bytes;
	unsigned n_free;
	unsigned char **free; /* the n_free chunks that are not in use */
	unsigned held;        /* bit mask of the domains that the queue uses */
	struct fabric_local_mr *mrs[WIRE_ENDPOINTS_MAX]; /* by domain */
};

/* Compute the number and size of chunks, without memory yet. */
void bounce_init(const struct domain_set *domains, size_t bytes,
		 struct bounce *ret_bounce);
/* Allocate and register the memory, which many queues never need.  -ENOMEM, or the error of the
 * registration. */
int bounce_create(struct bounce *bounce);
void bounce_destroy(struct bounce *bounce);
/* Deregister the memory in a domain that is about to be closed. */
void bounce_leave(struct bounce *bounce, unsigned domain);
/* Use a domain that is open again: register the memory there, if it exists. */
int bounce_return(struct bounce *bounce, unsigned domain);

/* A free chunk, or NULL when all are in use or there is no memory. */
unsigned char *bounce_acquire(struct bounce *bounce);
void bounce_release(struct bounce *bounce, unsigned char *chunk);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The segments of a lease and their rkeys at each endpoint.  An attachment is constant: a change of
 * the lease creates a new attachment, and the old one stays while calls of queues may read it,
 * which they do without a lock (inflight.h).
 *
 * Threads: [any]. */
#ifndef LIBRMEM_LEASE_ATTACHMENT_H
#define LIBRMEM_LEASE_ATTACHMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/fabric.h"
#include "librmem/session/endpoint_map.h"
#include "wire/msg.h"

struct attachment_key {
	bool present;
	struct fabric_key at; /* address and rkey of the segment's first byte */
};

struct attachment {
	struct attachment *older; /* under the session's lock */
	/* number among the attachments of the session's leases; set when published */
	uint64_t generation;
	uint64_t bytes;       /* length of the lease */
	uint64_t plain_bytes; /* `bytes` if the lease has one segment, else 0 */
	unsigned n_segments;
	/* lease offset of each segment's end, rising; the last is `bytes` */
	uint64_t ends[WIRE_SEGMENTS_MAX];
	int nodes[WIRE_SEGMENTS_MAX]; /* NUMA nodes of the server, -1: unknown */
	/* bit masks of the endpoints that lend each segment: others never have an rkey */
	unsigned endpoints[WIRE_SEGMENTS_MAX];
	bool bound; /* some segment is not lent through all endpoints */
	struct attachment_key keys[][WIRE_ENDPOINTS_MAX];
};

/* Create an attachment from a server's answer, with the session's numbers of the endpoints.  One
 * that is away counts as if it lent every segment, but has no rkeys: operations that need it wait
 * for it.  Owned by the caller.
 *   -EPROTO  the answer contradicts itself
 *   -ENOMEM */
int attachment_create(const struct wire_lease *answer, const struct endpoint_map *map,
		      struct attachment **ret_attachment);
/* Whether segments and rkeys are equal. */
bool attachment_equal(const struct attachment *a, const struct attachment *b);
/* Free the attachment and all older ones.  NULL: nothing. */
void attachment_free(struct attachment *attachment);

/* The segment that contains a lease offset below `bytes`. */
unsigned attachment_segment(const struct attachment *attachment, uint64_t offset);
/* Lease offset of a segment's first byte. */
uint64_t attachment_start(const struct attachment *attachment, unsigned segment);

#endif

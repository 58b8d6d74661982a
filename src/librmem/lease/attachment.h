/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a lease lies: its segments, and through which endpoint each is reached with which
 * key.  Not changed once made: a change of the lease makes a new one, and the old one
 * stays while operations on the lease are outstanding, because queues read it without a
 * lock.
 * Threads: [any]. */
#ifndef LIBRMEM_LEASE_ATTACHMENT_H
#define LIBRMEM_LEASE_ATTACHMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/fabric.h"
#include "wire/msg.h"

struct attachment_key {
	bool present;
	struct fabric_key at; /* the segment's first byte */
};

struct attachment {
	struct attachment *older; /* under the session's lock */
	uint64_t bytes;           /* of the lease */
	unsigned n_segments;
	/* lease offset behind each segment, rising; the last is `bytes` */
	uint64_t ends[WIRE_SEGMENTS_MAX];
	int nodes[WIRE_SEGMENTS_MAX]; /* of the server, -1 unknown */
	/* that each segment is lent through, a bit each: others never have a key */
	unsigned endpoints[WIRE_SEGMENTS_MAX];
	bool bound; /* not all of it is lent through all endpoints */
	struct attachment_key keys[][WIRE_ENDPOINTS_MAX];
};

/* Make one of a server's answer.  Owned by the caller.
 *   -EPROTO  the answer contradicts itself
 *   -ENOMEM */
int attachment_create(const struct wire_lease *answer, unsigned n_endpoints,
		      struct attachment **ret_attachment);
/* Whether they say the same. */
bool attachment_equal(const struct attachment *a, const struct attachment *b);
/* Free this one and all older ones.  NULL: nothing. */
void attachment_free(struct attachment *attachment);

/* The segment that holds a lease offset, which is below `bytes`. */
unsigned attachment_segment(const struct attachment *attachment, uint64_t offset);
/* Lease offset of a segment's first byte. */
uint64_t attachment_start(const struct attachment *attachment, unsigned segment);

#endif

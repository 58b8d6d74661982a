/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a request came from: the name and the address of a client.  The leases that a session makes
 * share its origin, which outlasts the session.  Threads: [loop]. */
#ifndef RMEMD_LEASE_ORIGIN_H
#define RMEMD_LEASE_ORIGIN_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes of the address, with its end. */
#define ORIGIN_PEER_BYTES 64

struct origin {
	unsigned refs;
	uint64_t session;
	const char *client; /* its own name, any text */
	char peer[ORIGIN_PEER_BYTES];
	char text[]; /* of `client` */
};

/* With one reference; an address that is too long is cut.  NULL: no memory. */
struct origin *origin_new(uint64_t session, const char *client, const char *peer);
/* Both take NULL. */
struct origin *origin_ref(struct origin *origin);
void origin_unref(struct origin *origin);
/* Whether the origin, which may be NULL, has these texts. */
bool origin_is(const struct origin *origin, const char *client, const char *peer);

#endif

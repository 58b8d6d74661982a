/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers' GIDs that could not be resolved.  In the transition to RTR the kernel resolves the peer's
 * GID on the network, which takes a second if no host answers.  A peer may name any GID, and tries
 * again; so such a GID is refused for some time, and the worker is free for others.
 * Threads: [loop]. */
#ifndef FABRIC_VERBS_SERVER_GID_BACKOFF_H
#define FABRIC_VERBS_SERVER_GID_BACKOFF_H

#include <stdint.h>

/* With more of them the oldest is forgotten. */
#define VERBS_GID_BACKOFFS 16

struct verbs_gid_backoff {
	struct {
		uint8_t gid[16];
		uint64_t until_ms;
	} at[VERBS_GID_BACKOFFS];
	unsigned next;
};

/* Whether the GID may be resolved now.
 *   -EHOSTUNREACH  no host answered for it */
int verbs_gid_backoff_check(const struct verbs_gid_backoff *gid_backoff,
			    const uint8_t gid[16]);
/* Record how long it took to resolve the GID. */
void verbs_gid_backoff_note(struct verbs_gid_backoff *gid_backoff,
			    const uint8_t gid[16], uint64_t took_ms);

#endif

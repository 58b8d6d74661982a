/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers' GIDs that could not be resolved.  In the transition to RTR the kernel resolves the peer's
 * GID on the network, and blocks the loop, and so all sessions, for a second if no host answers.  A
 * peer may name any GID.  So a GID that blocked the loop is refused for some time, and after each
 * such wait all other GIDs are refused for a shorter time, in which the loop serves other sessions.
 * Threads: [loop]. */
#ifndef FABRIC_VERBS_SERVER_GID_BACKOFF_H
#define FABRIC_VERBS_SERVER_GID_BACKOFF_H

#include <stdint.h>

/* More GIDs than can block the loop while the first one is refused. */
#define VERBS_GID_BACKOFFS 16

struct verbs_gid_backoff {
	struct {
		uint8_t gid[16];
		uint64_t until_ms;
	} at[VERBS_GID_BACKOFFS];
	unsigned next;
	uint64_t rest_until_ms;
};

/* Whether the GID may be resolved now.
 *   -EHOSTUNREACH  no host answered for this GID
 *   -EBUSY         no host answered for another GID, just now */
int verbs_gid_backoff_check(const struct verbs_gid_backoff *gid_backoff,
			    const uint8_t gid[16]);
/* Record how long it took to resolve the GID. */
void verbs_gid_backoff_note(struct verbs_gid_backoff *gid_backoff,
			    const uint8_t gid[16], uint64_t took_ms);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers' GIDs that could not be resolved.  On the way to RTR the kernel resolves the peer's GID
 * on the network and waits a second if no host answers; the loop, and with it each session,
 * waits too.  A peer may name any GID.  So a GID that made the loop wait is refused for a
 * while, and after each such wait all new ones are refused for a shorter while, in which the
 * loop serves the other sessions.  Threads: [loop]. */
#ifndef FABRIC_VERBS_SERVER_GID_BACKOFF_H
#define FABRIC_VERBS_SERVER_GID_BACKOFF_H

#include <stdint.h>

/* More than there is time to wait for while the first is remembered. */
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
 *   -EHOSTUNREACH  it was not answered
 *   -EBUSY         another one was not answered, just now */
int verbs_gid_backoff_check(const struct verbs_gid_backoff *gid_backoff,
			    const uint8_t gid[16]);
/* Resolving it took this long. */
void verbs_gid_backoff_note(struct verbs_gid_backoff *gid_backoff,
			    const uint8_t gid[16], uint64_t took_ms);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* GIDs that nobody answers for.  On the way to RTR the kernel asks the network whose GID the
 * peer's is, and waits a second when nobody says so; the loop waits with it, and with the
 * loop every session.  A peer may name any GID, so one that kept the loop waiting is not
 * asked for again for a while, and after each such wait there is a rest for all, in which
 * the loop hears the others.  Threads: [loop]. */
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

/* Whether the GID may be asked for now.
 *   -EHOSTUNREACH  nobody answered for it
 *   -EBUSY         nobody did for another one, just now */
int verbs_gid_backoff_check(const struct verbs_gid_backoff *gid_backoff,
			    const uint8_t gid[16]);
/* It was asked for, which took so long. */
void verbs_gid_backoff_note(struct verbs_gid_backoff *gid_backoff,
			    const uint8_t gid[16], uint64_t took_ms);

#endif

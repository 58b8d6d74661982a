/* SPDX-License-Identifier: BSD-3-Clause */
/* The clients' ends of channels, which they name themselves: queue pairs by number and GID.  In the
 * step to RTR the kernel resolves the GID on the network, for a second if no host answers.
 * Threads: [loop]. */
#ifndef FABRIC_VERBS_SERVER_REMOTE_H
#define FABRIC_VERBS_SERVER_REMOTE_H

#include "fabric/verbs/server/endpoint.h"

struct verbs_channel;

/* Whether a channel may have this end.  *ret_loser: the channel that has to end first; or NULL.
 *
 * Security: a client names its own queue pair by number and GID, and the server cannot verify the
 * number.  If two channels could name one queue pair, an attacker that guesses a victim's number
 * could have the responses to its own reads delivered to the victim, as if to the victim's reads.
 * If two clients name one queue pair, the one whose control connection comes from the GID's address
 * wins, so that a guess does not keep out the owner.
 *   -EHOSTUNREACH  no host has answered for the GID a short time ago
 *   -EBUSY         another channel has it */
int verbs_remote_check(const struct verbs_endpoint *endpoint,
		       const struct fabric_qp_info *theirs,
		       struct verbs_channel **ret_loser);
/* To connect to the GID has failed after this time; 0: it has not failed. */
void verbs_gid_failed(struct fabric_server *server, const uint8_t gid[16],
		      uint64_t failed_ms);

#endif

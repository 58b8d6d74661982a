/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels that were accepted and that the client has not established yet.  A client that never
 * answers keeps such a channel, with its queue pair, until VERBS_DELAY_ESTABLISH is over; so their
 * number on a device is limited.  A client that has fewer of them than another takes the other's
 * place.  Threads: [loop]. */
#ifndef FABRIC_VERBS_SERVER_PENDING_H
#define FABRIC_VERBS_SERVER_PENDING_H

#include "fabric/verbs/server/channel.h"

/* The channel's time to be established begins; and ends. */
void verbs_pending_add(struct verbs_channel *channel);
void verbs_pending_remove(struct verbs_channel *channel);

/* Whether the session's device has room for one more. */
bool verbs_pending_room(const struct fabric_session *session);
/* Without room: the channel that gives way to one of this session, or NULL: the session is refused.
 * It is the oldest one of the session that has the most, of the tenant that has the most. */
struct verbs_channel *verbs_pending_victim(const struct fabric_session *session);

#endif

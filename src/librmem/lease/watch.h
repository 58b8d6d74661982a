/* SPDX-License-Identifier: BSD-3-Clause */
/* What the program is told of leases, until it takes it: notifications of those that the session
 * watches, and that the server wants memory back.  Threads: everything under the session's
 * lock. */
#ifndef LIBRMEM_LEASE_WATCH_H
#define LIBRMEM_LEASE_WATCH_H

#include "wire/msg.h"

struct rmem;
struct rmem_lease;

/* The server tells some. */
void watch_notified(struct rmem *session, const struct wire_notified *msg);
/* The server wants memory of a lease back, or not any more. */
void watch_wanted(struct rmem *session, const struct wire_shrinking *msg);
/* The connection was lost for a while: what the server sent into it is not known. */
void watch_resumed(struct rmem *session);
/* The lease has ended: there will be no more. */
void watch_ended(struct rmem_lease *lease);
/* The session is lost, and all its leases with it. */
void watch_lost(struct rmem *session);
/* The handle goes. */
void watch_forget(struct rmem_lease *lease);

#endif

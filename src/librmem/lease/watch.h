/* SPDX-License-Identifier: BSD-3-Clause */
/* The notices of a session's leases, until the program takes them: notifications of watched leases,
 * their loss and end, and that the server wants memory back.  Threads: everything under the
 * session's lock. */
#ifndef LIBRMEM_LEASE_WATCH_H
#define LIBRMEM_LEASE_WATCH_H

#include "librmem/lease/lease.h"
#include "wire/msg.h"

/* The server has sent a notification. */
void watch_notified(struct rmem_lease *lease, const struct wire_notice *notice);
/* The server wants memory of the lease back, or withdraws that. */
void watch_wanted(struct rmem_lease *lease, const struct wire_shrinking *msg);
/* The session has resumed: notifications sent meanwhile are lost. */
void watch_resumed(struct rmem_lease *lease);
/* The lease has ended: this is its last notice. */
void watch_ended(struct rmem_lease *lease);
/* Drop the lease's notices; the lease is not watched any more. */
void watch_cancel(struct rmem_lease *lease);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The streams of a data thread that are ready, and whose turn it is: tenants take turns, in the
 * turn of a tenant its sessions do, and in that of a session its streams.  A turn is one slice, so
 * a stream waits for one slice of each other tenant, however many streams those have.
 * Threads: the data thread's; the loop initialises groups that have no members. */
#ifndef FABRIC_TCP_READY_H
#define FABRIC_TCP_READY_H

#include <stdbool.h>

#include "base/list.h"

/* The thread's tenants, a tenant's sessions, or a session's streams. */
struct tcp_group {
	struct list link;         /* in parent->members, while it has members */
	struct list members;      /* that have something to do, the next one first */
	struct tcp_group *parent; /* NULL: the thread's */
	bool has_streams;
};

/* has_streams: a session's, whose members are streams. */
void tcp_group_init(struct tcp_group *group, struct tcp_group *parent,
		    bool has_streams);

/* A stream is ready: it comes after the others of its session. */
void tcp_group_add(struct tcp_group *session, struct list *stream);
/* No effect on a stream that is not ready. */
void tcp_group_remove(struct tcp_group *session, struct list *stream);
/* Take out the stream whose turn it is; NULL: none is ready. */
struct list *tcp_group_take(struct tcp_group *thread);

#endif

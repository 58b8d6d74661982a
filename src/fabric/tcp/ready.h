/* SPDX-License-Identifier: BSD-3-Clause */
/* The streams of a data thread that are ready, and whose turn it is: that of the tenant that has
 * used the least of the thread's time, of its session that has, and there of the stream that has
 * waited longest.  A turn is one slice, so that none starves: who uses little waits for the slice
 * under way, however many streams others have.  Threads: the data thread's; the loop initialises
 * groups that have no members. */
#ifndef FABRIC_TCP_READY_H
#define FABRIC_TCP_READY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

/* The thread's tenants, a tenant's sessions, or a session's streams. */
struct tcp_group {
	struct list link;    /* in parent->members, while it has members */
	struct list members; /* those that have something to do, the next one first */
	struct tcp_group *parent; /* NULL: the thread's */
	bool has_streams;
	uint64_t used_ns; /* of the thread's time */
	/* of the member that was served last: one that had nothing to do saves up no time */
	uint64_t least_ns;
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
/* A stream of the session was served, for so long. */
void tcp_group_charge(struct tcp_group *session, uint64_t ns);

#endif

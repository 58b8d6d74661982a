/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon's events of libevent: each callback counts for the turn of the loop from its start on.
 * Threads: [loop]. */
#ifndef RMEMD_LOOP_EVENTS_H
#define RMEMD_LOOP_EVENTS_H

#include <event2/event.h>
#include <stdint.h>

/* Make an event as libevent does.  NULL: no memory */
struct event *event_make(struct event_base *base, evutil_socket_t fd, short what,
			 event_callback_fn call, void *arg);
/* Free the event and set the pointer to NULL.  *event NULL: no effect. */
void event_drop(struct event **event);

static inline struct timeval timeval_of_ms(uint64_t ms)
{
	return (struct timeval){ .tv_sec = (time_t)(ms / 1000),
				 .tv_usec = (suseconds_t)(ms % 1000 * 1000) };
}

#endif

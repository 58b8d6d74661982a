/* SPDX-License-Identifier: BSD-3-Clause */
/* Small helpers for events of libevent.  Threads: [loop]. */
#ifndef RMEMD_LOOP_EVENTS_H
#define RMEMD_LOOP_EVENTS_H

#include <event2/event.h>
#include <stdint.h>

/* Free the event and set the pointer to NULL.  *event NULL: no effect. */
static inline void event_drop(struct event **event)
{
	if (*event)
		event_free(*event);
	*event = NULL;
}

static inline struct timeval timeval_of_ms(uint64_t ms)
{
	return (struct timeval){ .tv_sec = (time_t)(ms / 1000),
				 .tv_usec = (suseconds_t)(ms % 1000 * 1000) };
}

#endif

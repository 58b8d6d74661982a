/* SPDX-License-Identifier: BSD-3-Clause */
/* A turn of the main loop, from one poll for events to the next: how long turns take, and whether
 * the present one has time left for work that may as well be done in the next.  One poll may report
 * thousands of sockets: a turn that is over ends with the callback that runs, and the next one
 * handles the rest.
 * Threads: [loop]. */
#ifndef RMEMD_LOOP_TURN_H
#define RMEMD_LOOP_TURN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "rmemd/loop/durations.h"

/* No turn should take more time of the CPU. */
#define TURN_GOAL_NS (2 * NS_PER_MS)
/* After this time a turn begins nothing that can wait. */
#define TURN_WORK_NS NS_PER_MS
/* The longest recent turn is that of this time, and of up to twice this time. */
#define TURN_WINDOW_NS (30000 * NS_PER_MS)

/* The longest turns. */
struct turn_longest {
	uint64_t ever_ns;
	uint64_t window_ns[2]; /* of the present window, and of the one before */
};

struct event_base;

/* All zero: no turn is measured, and there is always time left. */
struct turn {
	bool running;
	struct event_base *base; /* the loop, borrowed; NULL: turns are not ended */
	uint64_t first_ns;       /* when work began, after the wait for events; or 0 */
	uint64_t cpu_ns;         /* of the thread, at the start */
	uint64_t window_ns;      /* when the present window began */
	uint64_t n, n_long; /* turns, and those longer than TURN_GOAL_NS of the CPU */
	struct turn_longest cpu, wall;
	struct durations cpu_times;
};

/* cpu_ns: the time of the CPU that the thread has used. */
void turn_begin(struct turn *turn, uint64_t cpu_ns);
void turn_end(struct turn *turn, uint64_t now_ns, uint64_t cpu_ns);
/* A callback of the loop begins: the first one tells when the work began of the turn that runs, if
 * any.  event_make() calls it; so do the callbacks of libevent's own events, of listeners and
 * HTTP. */
void turn_work(void);
/* Whether work that can wait should wait for the next turn.  If the turn is over, no other callback
 * runs in it. */
bool turn_over(struct turn *turn);

/* The longest of the last one to two windows. */
static inline uint64_t turn_recent_ns(const struct turn_longest *longest)
{
	return longest->window_ns[0] > longest->window_ns[1] ? longest->window_ns[0]
							     : longest->window_ns[1];
}

#endif

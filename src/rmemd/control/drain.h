/* SPDX-License-Identifier: BSD-3-Clause */
/* Draining: the daemon grants nothing new, tells its clients, and stops when its last lease is
 * gone.  When a deadline has come, the leases that are left are revoked.  Nothing of it outlasts
 * the process.  Threads: [loop]. */
#ifndef RMEMD_CONTROL_DRAIN_H
#define RMEMD_CONTROL_DRAIN_H

#include <errno.h>
#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "rmemd/lease/lease.h"
#include "rmemd/loop/slices.h"

struct control;

#define DRAIN_NO_DEADLINE UINT64_MAX
/* Of a deadline: 30 days. */
#define DRAIN_MS_MAX UINT64_C(2592000000)

struct drain {
	struct control *control;
	bool on;
	bool over; /* the deadline has come */
	bool done; /* the user was told */
	uint64_t since_ms;
	uint64_t deadline_ms; /* clock_now_ms(); DRAIN_NO_DEADLINE */
	uint64_t number;      /* of the last change, of which all clients are told */
	struct event *timer;
	struct slice_queue slices;
	struct slice_work revoke;
	uint64_t revoked; /* the id of the last lease that was */
};

/* -ENOMEM */
int drain_open(struct drain *drain, struct control *control);
void drain_close(struct drain *drain);

/* Begin, or give another deadline: left_ms from now, or DRAIN_NO_DEADLINE.
 *   -EBUSY   the deadline has come already
 *   -EAGAIN  the daemon stops */
int drain_begin(struct drain *drain, uint64_t left_ms);
/* Take it back; no effect if there is none.  Errors as above. */
int drain_end(struct drain *drain);

/* -ESHUTDOWN: nothing new is granted. */
static inline int drain_check(const struct drain *drain)
{
	return drain->on ? err_set(-ESHUTDOWN, LEASES_DRAINING) : 0;
}

/* The milliseconds until the deadline; DRAIN_NO_DEADLINE. */
static inline uint64_t drain_left_ms(const struct drain *drain)
{
	uint64_t now_ms = clock_now_ms();

	if (drain->deadline_ms == DRAIN_NO_DEADLINE)
		return DRAIN_NO_DEADLINE;
	return drain->deadline_ms > now_ms ? drain->deadline_ms - now_ms : 0;
}

/* No lease is left. */
void drain_none_left(struct drain *drain);
/* A request that was under way got its lease. */
void drain_granted(struct drain *drain);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/drain.h"

#include <errno.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "rmemd/control/control.h"
#include "rmemd/control/session.h"
#include "rmemd/loop/events.h"

/* Leases that are revoked before others get their turn. */
#define REVOKED_PER_SLICE 16
/* A timer far away is set again when it fires. */
#define TIMER_MS_MAX UINT64_C(86400000)

static void timer_set(struct drain *drain, uint64_t ms)
{
	struct timeval tv = timeval_of_ms(ms < TIMER_MS_MAX ? ms : TIMER_MS_MAX);

	if (event_add(drain->timer, &tv))
		log_event(LOG_ERR, "timer-failed", NULL, "no memory for the timer");
}

static bool is_empty(const struct drain *drain)
{
	const struct leases *leases = drain->control->leases;

	/* keys that a device does not give back do not hold up the end for ever */
	return drain->over ? leases_count(leases) == 0 : leases_none_left(leases);
}

static bool revoke_some(struct slice_work *work)
{
	struct drain *drain = container_of(work, struct drain, revoke);

	if (leases_revoke_after(drain->control->leases, &drain->revoked,
				REVOKED_PER_SLICE))
		return true;
	if (is_empty(drain))
		timer_set(drain, 0);
	return false;
}

static void revoke_all(struct drain *drain)
{
	drain->revoked = 0;
	slices_add(&drain->control->slices, &drain->slices, &drain->revoke);
}

/* In a turn of its own: the answer to the administrator, or to the client that has freed the last
 * lease, is written at the beginning of this turn. */
static void on_timer(evutil_socket_t, short, void *arg)
{
	struct drain *drain = arg;
	uint64_t left_ms = drain_left_ms(drain);

	if (!drain->on || drain->done)
		return;
	if (is_empty(drain) && sessions_have_unsent(drain->control->sessions)) {
		/* that a lease was revoked */
		timer_set(drain, 1);
	} else if (is_empty(drain)) {
		drain->done = true;
		drain->control->drained(drain->control->user);
	} else if (left_ms == 0 && !drain->over) {
		drain->over = true;
		log_event(LOG_NOTICE, "drain-over", NULL,
			  "the deadline has come: %u leases are revoked",
			  leases_count(drain->control->leases));
		revoke_all(drain);
	} else if (left_ms != DRAIN_NO_DEADLINE && left_ms > 0) {
		timer_set(drain, left_ms);
	}
}

int drain_open(struct drain *drain, struct control *control)
{
	drain->control = control;
	drain->deadline_ms = DRAIN_NO_DEADLINE;
	slice_queue_init(&drain->slices, SLICE_TENANT);
	slice_work_init(&drain->revoke, revoke_some);
	drain->timer = event_make(control->base, -1, 0, on_timer, drain);
	return drain->timer ? 0 : err_set(-ENOMEM, "no memory for a timer");
}

void drain_close(struct drain *drain)
{
	drain->on = false;
	event_drop(&drain->timer);
}

static int check_change(const struct drain *drain)
{
	if (drain->done || drain->control->sessions->stopping)
		return err_set(-EAGAIN, "the daemon stops");
	if (drain->over)
		return err_set(-EBUSY, "the deadline has come, and leases are being "
				       "revoked: it cannot be changed any more");
	return 0;
}

/* The state has changed. */
static void announce(struct drain *drain)
{
	drain->number++;
	leases_set_draining(drain->control->leases, drain->on);
	sessions_announce(drain->control->sessions);
}

int drain_begin(struct drain *drain, uint64_t left_ms)
{
	uint64_t now_ms = clock_now_ms();
	int err = check_change(drain);

	if (err)
		return err;
	if (!drain->on)
		drain->since_ms = now_ms;
	drain->on = true;
	drain->deadline_ms = left_ms < DRAIN_NO_DEADLINE - now_ms ? now_ms + left_ms
								  : DRAIN_NO_DEADLINE;
	announce(drain);
	/* at once, as there may be no lease */
	timer_set(drain, 0);
	return 0;
}

int drain_end(struct drain *drain)
{
	int err = drain->on ? check_change(drain) : 0;

	if (err || !drain->on)
		return err;
	drain->on = false;
	drain->deadline_ms = DRAIN_NO_DEADLINE;
	(void)event_del(drain->timer);
	announce(drain);
	return 0;
}

void drain_none_left(struct drain *drain)
{
	if (drain->on && !drain->done)
		timer_set(drain, 0);
}

void drain_granted(struct drain *drain)
{
	if (drain->over && !slice_waits(&drain->revoke))
		revoke_all(drain);
}

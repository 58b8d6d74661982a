/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/session/session.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own_fd.h"
#include "librmem/session/cancel.h"

#define WORK_EVENTS 16
/* Without the service thread: rmem_process() in another thread may receive the answer that the
 * driving thread polls for, so the driving thread looks again after this time. */
#define STEP_MS 20
/* How long a look at the descriptors counts, see session_has_fds(): less would be felt by calls. */
#define LOOK_MS 10u

/* The epoll tag of the wake-up. */
#define WAKE_TAG UINT64_C(2)

bool session_has_fds(const struct rmem *session)
{
	const struct session_observer *const *at = session->observers;

	while (*at && !((*at)->has_fds && !(*at)->has_fds(session)))
		at++;
	return !*at && wakeup_is_own(&session->wake) &&
	       fd_is_watched(session->wake.epfd, session->timer_fd) &&
	       connection_has_fd(session->connection);
}

void session_fds_close(struct rmem *session)
{
	if (wakeup_is_own(&session->wake))
		fd_watched_close(session->wake.epfd, session->timer_fd);
	wakeup_close(&session->wake);
	session->timer_fd = -1;
}

int session_fds_open(struct rmem *session)
{
	int err = wakeup_open(&session->wake, WAKE_TAG);

	if (!err)
		err = session->timer_fd = wakeup_timer(&session->wake);
	return err < 0 ? err_errno(err, "the session's descriptors") : 0;
}

/* ---- driving ---- */

void session_wake(struct rmem *session)
{
	/* the driver finds out if it fails */
	(void)wakeup_set(&session->wake);
}

static void timer_set(struct rmem *session)
{
	const struct session_observer *const *at = session->observers;
	struct itimerspec when = { .it_value = { 0, 0 } };
	uint64_t due = session_state_due(session);

	for (; *at; at++)
		if ((*at)->due && (*at)->due(session) < due)
			due = (*at)->due(session);
	if (due == session->timer_ns || session->robbed)
		return;
	session->timer_ns = due;
	if (due != UINT64_MAX)
		when.it_value = clock_timespec(due);
	/* fails only for arguments out of range */
	(void)timerfd_settime(session->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

/* Wait for events of epfd, and consume them.  Returns whether a channel's alive_fd is readable. */
static bool events_consume(struct rmem *session, int timeout_ms)
{
	struct epoll_event events[WORK_EVENTS];
	int n = epoll_wait(session->wake.epfd, events, WORK_EVENTS, timeout_ms);
	bool alive_due = false;

	for (int i = 0; i < n; i++)
		if (events[i].data.u64 == SESSION_ALIVE_TAG)
			alive_due = true;
		else if (events[i].data.u64 == WAKE_TAG)
			(void)wakeup_clear(&session->wake);
	return alive_due;
}

static bool layers_ready(struct rmem *session)
{
	const struct session_observer *const *at = session->observers;

	while (*at && !((*at)->ready && (*at)->ready(session)))
		at++;
	return *at;
}

static void look(struct rmem *session, uint64_t now)
{
	if (now < session->look_ns || session->state == SESSION_LOST)
		return;
	session->look_ns = now + LOOK_MS * NS_PER_MS;
	if (!session_has_fds(session))
		session_robbed(session);
}

/* session_tend() after events_consume(). */
static bool tend(struct rmem *session, bool alive_due)
{
	uint64_t now = clock_now_ns();

	look(session, now);
	session->alive_due |= alive_due;
	session_state_work(session, now);
	SESSION_NOTIFY(session, work, session, now);
	timer_set(session);
	return layers_ready(session);
}

bool session_tend(struct rmem *session)
{
	/* the events of a set of the program are its own */
	look(session, clock_now_ns());
	return tend(session, !session->robbed && events_consume(session, 0));
}

void session_unlock(struct rmem *session)
{
	(void)pthread_mutex_unlock(&session->lock);
	(void)pthread_cond_broadcast(&session->changed);
}

void session_run(struct rmem *session)
{
	SESSION_NOTIFY(session, run, session);
	/* heartbeats come first, then the next part of blocking work */
	if (layers_ready(session))
		session_wake(session);
	timer_set(session);
}

void session_work(struct rmem *session)
{
	bool ready = session_tend(session);

	(void)pthread_cond_broadcast(&session->changed);
	if (ready)
		session_run(session);
}

void session_nudge_now(struct rmem *session)
{
	if (session->inherited)
		return;
	(void)pthread_mutex_lock(&session->lock);
	if (session->state != SESSION_UP ||
	    clock_now_ns() >= session_state_due(session))
		session_work(session);
	(void)pthread_mutex_unlock(&session->lock);
}

int session_inherited_error(void)
{
	return err_set(-ESTALE, "the session is of the parent process: open another "
				"one in this process");
}

int session_refusal(const struct rmem *session)
{
	int status = atomic_load_explicit(&session->status, memory_order_acquire);

	return status ? status : -ECONNRESET;
}

/* The longest wait for events. */
static int step_ms(uint64_t deadline_ns)
{
	uint64_t now = clock_now_ns(),
		 left_ns = now < deadline_ns ? deadline_ns - now : 0;

	return left_ns < STEP_MS * NS_PER_MS ? (int)(left_ns / NS_PER_MS + 1) : STEP_MS;
}

void session_step(struct rmem *session, uint64_t deadline_ns)
{
	struct timespec until = clock_monotonic_timespec(deadline_ns);
	bool nested = session->connecting > 0, driving = session->driving;
	bool alive_due, ready;

	if (session->served || (driving && !nested)) {
		(void)pthread_cond_clockwait(&session->changed, &session->lock,
					     CLOCK_MONOTONIC, &until);
		return;
	}
	session->driving = true;
	timer_set(session);
	(void)pthread_mutex_unlock(&session->lock);
	alive_due = events_consume(session, step_ms(deadline_ns));
	(void)pthread_mutex_lock(&session->lock);
	ready = tend(session, alive_due);
	(void)pthread_cond_broadcast(&session->changed);
	if (ready && !nested)
		session_run(session);
	if (driving)
		return;
	session->driving = false;
	(void)pthread_cond_broadcast(&session->changed);
}

int session_step_asking(struct rmem *session, uint64_t deadline_ns)
{
	int err;

	session_step(session, session_sleep_ns(deadline_ns, clock_now_ns()));
	if (!session_thread_interrupt.interrupted)
		return 0;
	(void)pthread_mutex_unlock(&session->lock);
	err = session_interrupted(false);
	(void)pthread_mutex_lock(&session->lock);
	return err;
}

/* ---- calls ---- */

void session_receive(struct rmem *session, const bool *done, int fd, uint64_t end_ns)
{
	uint64_t until_ns = clock_now_ns() + STEP_MS * NS_PER_MS;

	if (*done && fd >= 0) {
		connection_take_back(session->connection);
		session_wake(session);
		return;
	}
	if (end_ns < until_ns)
		until_ns = end_ns;
	while (fd >= 0) {
		struct pollfd pollfd = { .fd = fd, .events = POLLIN };

		(void)pthread_mutex_unlock(&session->lock);
		(void)poll(&pollfd, 1, step_ms(until_ns));
		(void)pthread_mutex_lock(&session->lock);
		connection_take_back(session->connection);
		if (tend(session, false))
			session_wake(session);
		(void)pthread_cond_broadcast(&session->changed);
		if (*done || clock_now_ns() >= until_ns)
			return;
		fd = connection_take_over(session->connection);
	}
}

bool session_await(struct rmem *session, uint64_t end_ns,
		   bool (*waits)(const void *arg), const void *arg)
{
	int before = cancel_disable();

	while (waits(arg) && clock_now_ns() < end_ns)
		session_step(session, end_ns);
	cancel_restore(before);
	return !waits(arg);
}

void session_cancel(struct rmem *session)
{
	(void)pthread_mutex_lock(&session->lock);
	atomic_store(&session->cancelled, true);
	SESSION_NOTIFY(session, cancel, session);
	session_unlock(session);
}

/* ---- public ---- */

int rmem_fd(rmem *session)
{
	if (!session || !session->no_thread)
		return err_set(-EINVAL, "rmem_fd: the session is not open with "
					"RMEM_NO_THREAD");
	if (session_own(session))
		return err_prefix(-ESTALE, "rmem_fd");
	return err_end(session->wake.epfd);
}

int rmem_process(rmem *session)
{
	int err = 0, before;

	if (!session || !session->no_thread)
		return err_set(-EINVAL, "rmem_process: the session is not open with "
					"RMEM_NO_THREAD");
	if (session_own(session))
		return err_prefix(-ESTALE, "rmem_process");
	before = cancel_disable();
	(void)pthread_mutex_lock(&session->lock);
	session_work(session);
	if (session->state == SESSION_LOST)
		err = err_set(-ESTALE, "rmem_process: the session with %s is lost",
			      session->server);
	else if (session->state != SESSION_UP)
		err = err_set(-ECONNRESET,
			      "rmem_process: the connection to %s is lost, "
			      "trying to resume",
			      session->server);
	(void)pthread_mutex_unlock(&session->lock);
	cancel_restore(before);
	return err_end(err);
}

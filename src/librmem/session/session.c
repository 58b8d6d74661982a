/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/session/session.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own_fd.h"
#include "librmem/session/cancel.h"
#include "wire/codec.h"

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
	if (due == session->timer_ns)
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

/* ---- calls ---- */

/* A thread that waits for a reply. */
struct waiter {
	struct rmem *session;
	enum wire_type type;
	uint64_t begin_ns;
	session_take *take;
	struct session_late *late; /* NULL: a late answer is dropped */
	void *ctx;
	struct connection_call *call;
	bool done;
	struct err_saved failed;
};

static int waiter_done(void *ctx, int err, const struct wire_msg *reply)
{
	struct waiter *waiter = ctx;
	bool answered = !err;

	if (!err && waiter->take) {
		err = waiter->take(waiter->ctx, reply);
		if (err && err != -EPROTO && waiter->late) {
			waiter->late->passed = true;
			(void)waiter->late->done(waiter->ctx, 0, reply);
		}
	}
	waiter->done = true;
	err_save(&waiter->failed, err);
	return answered && err == -EPROTO ? err : 0;
}

/* Receive the reply in this thread, which saves a switch between threads, if it comes within 20 ms.
 * `fd` is of connection_take_over().  The service thread drives the session all the same. */
static void call_receive(struct rmem *session, const struct waiter *waiter, int fd,
			 uint64_t end_ns)
{
	uint64_t until_ns = clock_now_ns() + STEP_MS * NS_PER_MS;

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
		if (waiter->done || clock_now_ns() >= until_ns)
			return;
		fd = connection_take_over(session->connection);
	}
}

/* Whether a request with this for a late answer may be sent. */
static int late_check(const struct session_late *late)
{
	if (late && late->status && atomic_load(late->status) != 0)
		return err_set(-ESTALE, "it has ended meanwhile");
	return 0;
}

bool session_await(struct rmem *session, uint64_t end_ns,
		   bool (*waits)(const void *arg), const void *arg)
{
	int before = cancel_disable();

	while ((!waits || waits(arg)) && clock_now_ns() < end_ns)
		session_step(session, end_ns);
	cancel_restore(before);
	return waits && !waits(arg);
}

static bool late_waits(const void *arg)
{
	const struct session_late *late = arg;

	return late->call && !late_check(late);
}

int session_late_await(struct rmem *session, const struct session_late *late)
{
	bool over;

	(void)pthread_mutex_lock(&session->lock);
	over = session_await(session, session_end_ns(session), late_waits, late);
	(void)pthread_mutex_unlock(&session->lock);
	return over ? 0
		    : err_set(-ETIMEDOUT,
			      "no answer to an earlier request to end it, after "
			      "%u ms more",
			      session_timeout_ms(session));
}

void session_late_drop(struct session_late *late)
{
	if (late->call)
		(void)connection_abandon(late->call, NULL, NULL);
	late->call = NULL;
	late->passed = false;
}

/* Nobody waits for the reply any more. */
static void waiter_leave(struct waiter *waiter)
{
	struct session_late *late = waiter->late;
	bool kept =
		connection_abandon(waiter->call, late ? late->done : NULL, waiter->ctx);

	if (!late || !kept)
		return;
	late->passed = true;
	late->call = waiter->call;
}

/* Wait for the reply until end_ns, and unless `cancelled` is NULL only while the session is not
 * lost and *cancelled is false. */
static int call_wait(struct rmem *session, struct waiter *waiter, uint64_t end_ns,
		     const atomic_bool *cancelled)
{
	uint64_t resumes = session->resumes;
	bool lost = cancelled && atomic_load(cancelled);

	while (!waiter->done && !lost && clock_now_ns() < end_ns) {
		session_step(session, end_ns);
		lost = cancelled &&
		       (session->state != SESSION_UP || session->resumes != resumes ||
			atomic_load(cancelled));
	}
	if (waiter->done)
		return waiter->failed.err ? err_restore(&waiter->failed) : 0;
	waiter_leave(waiter);
	if (lost)
		return err_set(-ECONNRESET, "the session was lost meanwhile");
	return err_set(-ETIMEDOUT, "no answer to %s within %" PRIu64 " ms",
		       wire_type_name(waiter->type),
		       (clock_now_ns() - waiter->begin_ns) / NS_PER_MS);
}

static int call(struct rmem *session, struct waiter *waiter,
		const struct wire_msg *request, uint64_t end_ns,
		const atomic_bool *cancelled)
{
	int err = session_own(session), before, fd;

	if (err)
		return err;
	before = cancel_disable();
	waiter->session = session;
	waiter->type = request->type;
	waiter->begin_ns = clock_now_ns();
	(void)pthread_mutex_lock(&session->lock);
	err = late_check(waiter->late);
	if (err) {
		(void)pthread_mutex_unlock(&session->lock);
		cancel_restore(before);
		return err;
	}
	/* the reply may come at once */
	fd = session->served ? connection_take_over(session->connection) : -1;
	err = connection_call(session->connection, request, waiter_done, waiter,
			      &waiter->call);
	if (!err) {
		call_receive(session, waiter, fd, end_ns);
		err = call_wait(session, waiter, end_ns, cancelled);
	} else if (fd >= 0) {
		connection_take_back(session->connection);
		session_wake(session);
	}
	(void)pthread_mutex_unlock(&session->lock);
	cancel_restore(before);
	return err;
}

int session_call_late(struct rmem *session, const struct wire_msg *request,
		      session_take *take, struct session_late *late, void *ctx)
{
	struct waiter waiter = { .take = take, .late = late, .ctx = ctx };

	return call(session, &waiter, request, session_end_ns(session), NULL);
}

int session_call(struct rmem *session, const struct wire_msg *request,
		 session_take *take, void *ctx)
{
	return session_call_late(session, request, take, NULL, ctx);
}

int session_call_until(struct rmem *session, const struct wire_msg *request,
		       session_take *take, void *ctx, uint64_t end_ns,
		       const atomic_bool *cancelled)
{
	struct waiter waiter = { .take = take, .ctx = ctx };

	return call(session, &waiter, request, end_ns, cancelled);
}

void session_cancel(struct rmem *session)
{
	(void)pthread_mutex_lock(&session->lock);
	atomic_store(&session->cancelled, true);
	SESSION_NOTIFY(session, cancel, session);
	session_unlock(session);
}

void session_call_bye(struct rmem *session, uint64_t end_ns)
{
	struct wire_msg request;

	if (atomic_load(&session->status) != 0)
		return;
	wire_msg_init(&request, WIRE_TYPE_bye);
	/* without the bye, the server ends the session by its clock */
	(void)session_call_until(session, &request, NULL, NULL, end_ns, NULL);
}

void session_pause(struct rmem *session, unsigned ms)
{
	(void)pthread_mutex_lock(&session->lock);
	(void)session_await(session, clock_now_ns() + ms * NS_PER_MS, NULL, NULL);
	(void)pthread_mutex_unlock(&session->lock);
}

static bool is_away(const void *arg)
{
	const struct rmem *session = arg;

	return session->state != SESSION_UP && session->state != SESSION_LOST;
}

bool session_returned(struct rmem *session, unsigned resumes, uint64_t deadline_ns)
{
	struct wire_msg request;
	bool returned;

	if (clock_now_ns() >= deadline_ns)
		return false;
	/* a ping, as the loss may not have been noticed yet */
	wire_msg_init(&request, WIRE_TYPE_ping);
	(void)session_call_until(session, &request, NULL, NULL, deadline_ns,
				 &session->cancelled);
	(void)pthread_mutex_lock(&session->lock);
	(void)session_await(session, deadline_ns, is_away, session);
	returned =
		session->state == SESSION_UP && (unsigned)session->resumes != resumes;
	(void)pthread_mutex_unlock(&session->lock);
	return returned;
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

int rmem_ping(rmem *session, uint64_t *ret_ns)
{
	struct wire_msg request;
	uint64_t start = clock_now_ns();
	int err;

	wire_msg_init(&request, WIRE_TYPE_ping);
	if (!session)
		return err_set(-EINVAL, "rmem_ping: the session is NULL");
	err = session_call(session, &request, NULL, NULL);
	if (err)
		return err_prefix(err, "rmem_ping of %s", session->server);
	if (ret_ns)
		*ret_ns = clock_now_ns() - start;
	return err_end(0);
}

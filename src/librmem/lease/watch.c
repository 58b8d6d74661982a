/* SPDX-License-Identifier: BSD-3-Clause */
/* The notices of a session's leases, until the program takes them: notifications of watched leases,
 * their loss and end, and that the server wants memory back. */
#include "librmem/lease/lease.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/notices.h"
#include "base/own_fd.h"
#include "base/params.h"
#include "librmem/session/cancel.h"
#include "librmem/session/session.h"
#include "wire/codec.h"

/* Limit of notices that wait for the program; beyond, the latest of each lease is kept. */
#define NOTICES_MAX 1024
/* Limit of notices moved at a time. */
#define TAKE_MAX 64u
/* Longer waits are cut to this. */
#define WANTED_MS_MAX (UINT64_C(365) * 86400000)

_Static_assert(RMEM_LOST_UNKNOWN == NOTICES_LOST_MAX &&
		       RMEM_LOST_UNKNOWN == WIRE_LOST_MAX,
	       "lost notices are counted alike");

/* ---- notices of the server ---- */

/* The set watches the socket of the session's own wake-up. */
static struct wakeup notice_wakeup(const struct rmem *session)
{
	return (struct wakeup){ .epfd = session->leases->notice_fd,
				.fd = session->wake.fd,
				.inode = session->wake.inode };
}

void watch_fd_close(struct rmem *session)
{
	const struct wakeup wakeup = notice_wakeup(session);

	if (wakeup_is_own(&wakeup))
		(void)close(wakeup.epfd);
	session->leases->notice_fd = -1;
}

/* Tell the program that a notice can be taken. */
static void notices_signal(struct rmem *session)
{
	const struct wakeup wakeup = notice_wakeup(session);

	(void)wakeup_set(&wakeup);
	(void)pthread_cond_broadcast(&session->changed);
}

static void put(struct rmem_lease *lease, enum rmem_notice_type type, uint32_t value,
		uint32_t lost)
{
	struct rmem *session = lease->session;
	const struct notice notice = {
		.source = &lease->notices,
		.type = type,
		.value = value,
		.lost = lost,
	};
	bool first = notices_empty(&session->leases->notices);

	notices_put(&session->leases->notices, &notice);
	if (first)
		notices_signal(session);
}

void watch_notified(struct rmem_lease *lease, const struct wire_notice *notice)
{
	if (lease->watched)
		put(lease, RMEM_NOTICE_VALUE, notice->value, notice->lost);
}

/* Tell the program to call rmem_lease_wanted().  The first notice of a session needs memory;
 * without that the program is not told. */
static void wanted_report(struct rmem_lease *lease)
{
	struct rmem *session = lease->session;

	lease->wanted_reported = true;
	if (session->leases->notices.ring ||
	    !notices_open(&session->leases->notices, NOTICES_MAX))
		put(lease, RMEM_NOTICE_WANTED, 0, 0);
}

void watch_wanted(struct rmem_lease *lease, const struct wire_shrinking *msg)
{
	uint64_t wait_ms = msg->wait_ms < WANTED_MS_MAX ? msg->wait_ms : WANTED_MS_MAX;

	lease->wanted_bytes = msg->bytes;
	lease->wanted_until_ns = clock_now_ns() + wait_ms * NS_PER_MS;
	lease->wanted_revoke = msg->revoke;
	wanted_report(lease);
}

void watch_resumed(struct rmem_lease *lease)
{
	if (lease->watched)
		put(lease, RMEM_NOTICE_RESUMED, 0, RMEM_LOST_UNKNOWN);
	if (!lease->wanted_bytes || lease_ended(lease))
		return;
	/* the server sends the event again if it still wants memory */
	lease->wanted_bytes = 0;
	wanted_report(lease);
}

void watch_ended(struct rmem_lease *lease)
{
	if (!lease->watched)
		return;
	lease->watched = false;
	put(lease, RMEM_NOTICE_ENDED, 0, 0);
}

/* Keep the descriptor readable only while there are notices. */
static void notice_fd_update(struct rmem *session)
{
	const struct wakeup wakeup = notice_wakeup(session);

	if (notices_empty(&session->leases->notices))
		(void)wakeup_clear(&wakeup);
}

void watch_cancel(struct rmem_lease *lease)
{
	struct rmem *session = lease->session;

	lease->watched = false;
	if (notices_empty(&session->leases->notices))
		return;
	notices_drop(&session->leases->notices, &lease->notices);
	notice_fd_update(session);
}

/* ---- the calls ---- */

static int watch_step(struct call *call)
{
	struct notices *notices = &call->session->leases->notices;
	struct wire_msg request;
	int err = notices->ring ? 0 : notices_open(notices, NOTICES_MAX);

	if (err)
		return err;
	wire_msg_init(&request, WIRE_TYPE_watch);
	request.watch.lease = call->lease->id;
	return call_send(call, &request);
}

/* Under the lock, so that events after the reply find the lease watched. */
static int watch_answered(struct call *call, int err, const struct wire_msg *reply)
{
	(void)reply;
	if (!err)
		call->lease->watched = true;
	return err;
}

static const struct call_kind watch_kind = {
	.name = "rmem_watch",
	.step = watch_step,
	.answered = watch_answered,
	.describe = lease_call_describe,
};

/* A lease that has ended is not watched. */
static int unwatch_step(struct call *call)
{
	struct wire_msg request;

	if (lease_ended(call->lease))
		return 0;
	wire_msg_init(&request, WIRE_TYPE_unwatch);
	request.unwatch.lease = call->lease->id;
	return call_send(call, &request);
}

static int unwatch_answered(struct call *call, int err, const struct wire_msg *reply)
{
	(void)call;
	(void)reply;
	return err;
}

static int unwatch_end(struct call *call, int result)
{
	struct rmem_lease *lease = call->lease;

	if (result && result != -ESTALE)
		return result;
	watch_cancel(lease);
	/* the server's wish is told also of a lease that is not watched */
	if (lease->wanted_reported && !lease_ended(lease))
		wanted_report(lease);
	return 0;
}

static const struct call_kind unwatch_kind = {
	.name = "rmem_unwatch",
	.step = unwatch_step,
	.answered = unwatch_answered,
	.end = unwatch_end,
	.describe = lease_call_describe,
};

static int create(const struct call_kind *kind, const struct rmem_request *request,
		  struct call **ret_call)
{
	struct lease_call *call = lease_call_new();

	if (!call)
		return -ENOMEM;
	*ret_call = lease_call_init(call, kind, request, 0);
	return 0;
}

int lease_watch_create(const struct rmem_request *request, struct call **ret_call)
{
	return create(&watch_kind, request, ret_call);
}

int lease_unwatch_create(const struct rmem_request *request, struct call **ret_call)
{
	return create(&unwatch_kind, request, ret_call);
}

int rmem_watch(rmem_lease *lease)
{
	const struct rmem_request request = { .call = RMEM_CALL_WATCH, .lease = lease };

	if (!lease)
		return err_set(-EINVAL, "rmem_watch: the lease is NULL");
	return call_make(lease_watch_create, &request, NULL);
}

int rmem_unwatch(rmem_lease *lease)
{
	const struct rmem_request request = { .call = RMEM_CALL_UNWATCH,
					      .lease = lease };

	if (!lease)
		return err_set(-EINVAL, "rmem_unwatch: the lease is NULL");
	return call_make(lease_unwatch_create, &request, NULL);
}

int rmem_lease_wanted(rmem_lease *lease, struct rmem_wanted *wanted)
{
	uint64_t now_ns = clock_now_ns(), left_ns;
	struct rmem_wanted now;
	struct rmem *session;

	if (!lease || !wanted)
		return err_set(-EINVAL, "rmem_lease_wanted: an argument is NULL");
	session = lease->session;
	if (session_own(session))
		return lease_error(lease, -ESTALE, "rmem_lease_wanted");
	if (lease_status(lease))
		return lease_error(lease,
				   err_set(-ESTALE, "%s", lease_ended_text(lease)),
				   "rmem_lease_wanted");
	session_nudge(session);
	(void)pthread_mutex_lock(&session->lock);
	left_ns = lease->wanted_until_ns > now_ns ? lease->wanted_until_ns - now_ns : 0;
	now = (struct rmem_wanted){
		.bytes = lease->wanted_bytes,
		.wait_ms = lease->wanted_bytes ? left_ns / NS_PER_MS : 0,
		.revoke = lease->wanted_bytes && lease->wanted_revoke,
	};
	(void)pthread_mutex_unlock(&session->lock);
	return err_end(params_export(wanted, &now, sizeof(now),
				     PARAMS_UP_TO(struct rmem_wanted, revoke),
				     "rmem_lease_wanted: rmem_wanted"));
}

static unsigned take(struct rmem *session, struct rmem_notice *notices, unsigned n)
{
	struct notice taken[TAKE_MAX];
	unsigned got = notices_read(&session->leases->notices, taken,
				    n < TAKE_MAX ? n : TAKE_MAX);

	for (unsigned i = 0; i < got; i++) {
		struct rmem_lease *lease =
			container_of(taken[i].source, struct rmem_lease, notices);

		notices[i] = (struct rmem_notice){
			.lease = lease,
			.type = taken[i].type,
			.value = taken[i].value,
			.lost = taken[i].lost,
		};
		if (taken[i].type == RMEM_NOTICE_ENDED)
			notices[i].reason = rmem_lease_reason(lease);
		if (taken[i].type == RMEM_NOTICE_WANTED)
			lease->wanted_reported = false;
	}
	notice_fd_update(session);
	return got;
}

/* Under the lock, which is released during the wait. */
static int await(struct rmem *session, struct rmem_notice *notices, unsigned n,
		 uint64_t until_ns)
{
	int err;

	for (;;) {
		unsigned got = take(session, notices, n);

		if (got > 0)
			return (int)got;
		if (session->state == SESSION_LOST)
			return err_set(-ESTALE, "the session is lost");
		if (clock_now_ns() >= until_ns)
			return 0;
		err = session_step_asking(session, until_ns);
		if (err)
			return err;
	}
}

int rmem_notified(rmem *session, struct rmem_notice *notices, unsigned n,
		  int timeout_ms)
{
	uint64_t until = timeout_ms < 0
				 ? UINT64_MAX
				 : clock_now_ns() + (uint64_t)timeout_ms * NS_PER_MS;
	int got, before;

	if (!session || !notices || n == 0)
		return err_set(-EINVAL, "rmem_notified: an argument is NULL or 0");
	if (session_own(session))
		return err_prefix(-ESTALE, "rmem_notified");
	before = cancel_disable();
	(void)pthread_mutex_lock(&session->lock);
	if (session->no_thread)
		session_work(session);
	got = await(session, notices, n, until);
	(void)pthread_mutex_unlock(&session->lock);
	cancel_restore(before);
	return err_end(
		got < 0 ? err_prefix(got, "rmem_notified from %s", session->server)
			: got);
}

static int notice_fd_open(struct rmem *session)
{
	struct epoll_event event = { .events = 0 };
	int fd = own_fd(epoll_create1(EPOLL_CLOEXEC)), err;

	if (!notices_empty(&session->leases->notices))
		event.events = EPOLLOUT;
	if (fd < 0)
		return err_errno(-errno, "rmem_notified_fd: epoll_create1");
	if (epoll_ctl(fd, EPOLL_CTL_ADD, session->wake.fd, &event) < 0) {
		err = err_errno(-errno, "rmem_notified_fd: epoll_ctl");
		(void)close(fd);
		return err;
	}
	session->leases->notice_fd = fd;
	return fd;
}

int rmem_notified_fd(rmem *session)
{
	int fd;

	if (!session)
		return err_set(-EINVAL, "rmem_notified_fd: the session is NULL");
	if (session_own(session))
		return err_prefix(-ESTALE, "rmem_notified_fd");
	(void)pthread_mutex_lock(&session->lock);
	fd = session->leases->notice_fd;
	if (fd < 0)
		fd = notice_fd_open(session);
	(void)pthread_mutex_unlock(&session->lock);
	return err_end(fd);
}

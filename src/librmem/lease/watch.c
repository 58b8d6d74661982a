/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/lease/watch.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/notices.h"
#include "librmem/lease/lease.h"
#include "librmem/session/session.h"
#include "wire/codec.h"

#define NS_PER_MS UINT64_C(1000000)
/* Kept for a program that does not take them; beyond, the latest of each lease. */
#define NOTICES_MAX 1024
/* Taken from the queue at a time. */
#define TAKE_MAX 64u
/* No server waits longer for memory. */
#define WANTED_MS_MAX (UINT64_C(365) * 86400000)

_Static_assert(RMEM_LOST_UNKNOWN == NOTICES_LOST_MAX &&
		       RMEM_LOST_UNKNOWN == WIRE_LOST_MAX,
	       "lost notices are counted alike");

/* ---- what comes ---- */

/* There is something to take. */
static void stir(struct rmem *session)
{
	if (session->notice_fd >= 0)
		(void)eventfd_write(session->notice_fd, 1);
	(void)pthread_cond_broadcast(&session->changed);
}

static void put(struct rmem_lease *lease, int status, uint32_t value, uint32_t lost)
{
	struct rmem *session = lease->session;
	const struct notice notice = {
		.source = &lease->notices,
		.status = status,
		.value = value,
		.lost = lost,
	};
	bool first = notices_empty(&session->notices);

	notices_put(&session->notices, &notice);
	if (first)
		stir(session);
}

void watch_notified(struct rmem *session, const struct wire_notified *msg)
{
	struct rmem_lease *lease = NULL;

	for (unsigned i = 0; i < msg->n_notices; i++) {
		const struct wire_notice *notice = &msg->notices[i];

		if (!lease || lease->id != notice->lease)
			lease = lease_find(session, notice->lease);
		if (lease && lease->watched)
			put(lease, 0, notice->value, notice->lost);
	}
}

/* The program may ask the lease what it is; that it is told of it needs memory, once. */
static void tell_wanted(struct rmem_lease *lease)
{
	struct rmem *session = lease->session;

	lease->wanted_news = true;
	if (session->notices.ring || !notices_open(&session->notices, NOTICES_MAX))
		put(lease, -ENOSPC, 0, 0);
}

void watch_wanted(struct rmem *session, const struct wire_shrinking *msg)
{
	struct rmem_lease *lease = lease_find(session, msg->lease);
	uint64_t wait_ms = msg->wait_ms < WANTED_MS_MAX ? msg->wait_ms : WANTED_MS_MAX;

	if (!lease || lease_ended(lease))
		return;
	lease->wanted_bytes = msg->bytes;
	lease->wanted_until_ns = clock_now_ns() + wait_ms * NS_PER_MS;
	lease->wanted_revoke = msg->revoke;
	tell_wanted(lease);
}

void watch_resumed(struct rmem *session)
{
	list_for_each(node, &session->leases) {
		struct rmem_lease *lease = container_of(node, struct rmem_lease, node);

		if (lease->watched)
			put(lease, -ECONNRESET, 0, RMEM_LOST_UNKNOWN);
		if (!lease->wanted_bytes || lease_ended(lease))
			continue;
		/* the server tells it again if that is still so, and else nothing */
		lease->wanted_bytes = 0;
		tell_wanted(lease);
	}
}

void watch_ended(struct rmem_lease *lease)
{
	if (!lease->watched)
		return;
	lease->watched = false;
	put(lease, -ESTALE, 0, 0);
}

void watch_lost(struct rmem *session)
{
	list_for_each(node, &session->leases)
		watch_ended(container_of(node, struct rmem_lease, node));
}

/* The descriptor is readable as long as there is something to take. */
static void complete_check(struct rmem *session)
{
	eventfd_t count;

	if (notices_empty(&session->notices) && session->notice_fd >= 0)
		(void)eventfd_read(session->notice_fd, &count);
}

void watch_forget(struct rmem_lease *lease)
{
	struct rmem *session = lease->session;

	lease->watched = false;
	if (notices_empty(&session->notices))
		return;
	notices_drop(&session->notices, &lease->notices);
	complete_check(session);
}

/* ---- the calls ---- */

static int lease_error(const struct rmem_lease *lease, int err, const char *call)
{
	return err_prefix(err, "%s of lease %" PRIu64 " at %s", call, lease->id,
			  lease->session->server);
}

/* Events that follow the answer find it watched. */
static int watched(void *ctx, int err, const struct wire_msg *reply)
{
	struct rmem_lease *lease = ctx;

	(void)reply;
	if (!err)
		lease->watched = true;
	return err;
}

int rmem_watch(rmem_lease *lease)
{
	struct wire_msg request;
	struct rmem *session;
	int err = 0;

	wire_msg_init(&request, WIRE_TYPE_watch);
	if (!lease)
		return err_set(-EINVAL, "rmem_watch: the lease is NULL");
	session = lease->session;
	request.watch.lease = lease->id;
	(void)pthread_mutex_lock(&session->lock);
	if (!session->notices.ring)
		err = notices_open(&session->notices, NOTICES_MAX);
	(void)pthread_mutex_unlock(&session->lock);
	if (!err)
		err = session_call(session, &request, watched, lease);
	return err ? lease_error(lease, err, "rmem_watch") : 0;
}

int rmem_unwatch(rmem_lease *lease)
{
	struct wire_msg request;
	int err = 0;

	wire_msg_init(&request, WIRE_TYPE_unwatch);
	if (!lease)
		return err_set(-EINVAL, "rmem_unwatch: the lease is NULL");
	request.unwatch.lease = lease->id;
	if (atomic_load(&lease->status) == 0)
		err = session_call(lease->session, &request, NULL, NULL);
	/* what has ended is not watched any more */
	if (err && err != -ESTALE)
		return lease_error(lease, err, "rmem_unwatch");
	(void)pthread_mutex_lock(&lease->session->lock);
	watch_forget(lease);
	/* that is told of any lease */
	if (lease->wanted_news && !lease_ended(lease))
		tell_wanted(lease);
	(void)pthread_mutex_unlock(&lease->session->lock);
	return 0;
}

int rmem_lease_wanted(rmem_lease *lease, struct rmem_wanted *wanted)
{
	uint64_t now = clock_now_ns(), left_ns;
	struct rmem *session;

	if (!lease || !wanted)
		return err_set(-EINVAL, "rmem_lease_wanted: an argument is NULL");
	if (wanted->size != sizeof(*wanted))
		return err_set(-EINVAL, "rmem_lease_wanted: size is %zu, not %zu",
			       wanted->size, sizeof(*wanted));
	session = lease->session;
	if (rmem_lease_status(lease))
		return lease_error(lease, err_set(-ESTALE, "it has ended"),
				   "rmem_lease_wanted");
	session_nudge(session);
	(void)pthread_mutex_lock(&session->lock);
	left_ns = lease->wanted_until_ns > now ? lease->wanted_until_ns - now : 0;
	*wanted = (struct rmem_wanted){
		.size = sizeof(*wanted),
		.bytes = lease->wanted_bytes,
		.wait_ms = lease->wanted_bytes ? left_ns / NS_PER_MS : 0,
		.revoke = lease->wanted_bytes && lease->wanted_revoke,
	};
	(void)pthread_mutex_unlock(&session->lock);
	return 0;
}

static unsigned take(struct rmem *session, struct rmem_notice *notices, unsigned n)
{
	struct notice taken[TAKE_MAX];
	unsigned got =
		notices_take(&session->notices, taken, n < TAKE_MAX ? n : TAKE_MAX);

	for (unsigned i = 0; i < got; i++) {
		struct rmem_lease *lease =
			container_of(taken[i].source, struct rmem_lease, notices);

		notices[i] = (struct rmem_notice){
			.lease = lease,
			.status = taken[i].status,
			.value = taken[i].value,
			.lost = taken[i].lost,
		};
		if (taken[i].status == -ENOSPC)
			lease->wanted_news = false;
	}
	complete_check(session);
	return got;
}

/* Under the lock, which is released while it waits. */
static int await(struct rmem *session, struct rmem_notice *notices, unsigned n,
		 uint64_t until_ns)
{
	for (;;) {
		unsigned got = take(session, notices, n);

		if (got > 0)
			return (int)got;
		if (session->state == SESSION_LOST)
			return err_set(-ESTALE, "the session is lost");
		if (clock_now_ns() >= until_ns)
			return 0;
		session_step(session, until_ns);
	}
}

int rmem_notified(rmem *session, struct rmem_notice *notices, unsigned n,
		  int timeout_ms)
{
	uint64_t until = timeout_ms < 0
				 ? UINT64_MAX
				 : clock_now_ns() + (uint64_t)timeout_ms * NS_PER_MS;
	int got;

	if (!session || !notices || n == 0)
		return err_set(-EINVAL, "rmem_notified: an argument is NULL or 0");
	(void)pthread_mutex_lock(&session->lock);
	if (session->no_thread)
		session_work(session);
	got = await(session, notices, n, until);
	(void)pthread_mutex_unlock(&session->lock);
	return got < 0 ? err_prefix(got, "rmem_notified from %s", session->server)
		       : got;
}

int rmem_notified_fd(rmem *session)
{
	int fd;

	if (!session)
		return err_set(-EINVAL, "rmem_notified_fd: the session is NULL");
	(void)pthread_mutex_lock(&session->lock);
	if (session->notice_fd < 0)
		session->notice_fd = eventfd(!notices_empty(&session->notices),
					     EFD_CLOEXEC | EFD_NONBLOCK);
	fd = session->notice_fd < 0 ? err_errno(-errno, "rmem_notified_fd: eventfd")
				    : session->notice_fd;
	(void)pthread_mutex_unlock(&session->lock);
	return fd;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls that end a lease, for this session or for all. */
#include <rmem/rmem.h>

#include <errno.h>

#include "base/clock.h"
#include "base/err.h"
#include "librmem/lease/inflight.h"
#include "librmem/lease/lease.h"
#include "librmem/session/session.h"
#include "wire/codec.h"

int lease_check_idle(const struct rmem_lease *lease)
{
	unsigned n = lease_inflight(lease);

	if (n > 0)
		return err_set(-EBUSY, "%u operations on the lease are outstanding", n);
	return 0;
}

static bool is_leaving(const void *arg)
{
	const struct rmem_lease *lease = arg;

	return lease->state == LEASE_LEAVING || lease->state == LEASE_ENDED_LEAVING;
}

/* Wait for the request of another thread that ends the lease for all.  Under the lock, which is
 * released meanwhile.  -ETIMEDOUT */
static int ending_await(const struct rmem_lease *lease)
{
	struct rmem *session = lease->session;

	if (session_await(session, session_end_ns(session), is_leaving, lease))
		return 0;
	return err_set(-ETIMEDOUT, "another thread still ends it, after %u ms",
		       session_timeout_ms(session));
}

/* Give back one of several references and return 0; or return 1, if it is the last one or the lease
 * ends for `all`: until that request is answered no thread takes another. */
static int reference_drop(struct rmem_lease *lease, bool all)
{
	bool last;
	int err;

	(void)pthread_mutex_lock(&lease->session->lock);
	last = lease->references <= 1 || all;
	err = last ? ending_await(lease) : 0;
	if (!err && last)
		err = lease_check_idle(lease);
	if (!err && last)
		lease_move(lease, LEASE_STEP_LEAVE);
	else if (!last)
		lease->references--;
	(void)pthread_mutex_unlock(&lease->session->lock);
	return err ? err : last;
}

/* Free the handle, unless other references to it are left; a lease that has ended already is no
 * error.  Under the session's lock. */
static int reference_dropped(struct rmem_lease *lease, int err)
{
	lease_move(lease, LEASE_STEP_ANSWER);
	if (err && err != -ESTALE && err != -ENOENT)
		return err;
	if (--lease->references > 0)
		lease_end(lease, RMEM_REASON_FREED);
	else
		lease_drop(lease);
	return 0;
}

/* From here on the lease may be attached again, by another handle. */
static int ending_answered(void *ctx, const struct wire_msg *reply)
{
	(void)reply;
	return reference_dropped(ctx, 0);
}

/* The program has its handle still, of a lease that has ended. */
int lease_ended_late(void *ctx, int err, const struct wire_msg *reply)
{
	struct rmem_lease *lease = ctx;

	(void)reply;
	lease->ended_late.call = NULL;
	if (!err || err == -ESTALE || err == -ENOENT)
		lease_end(lease, err ? RMEM_REASON_UNKNOWN : RMEM_REASON_FREED);
	return 0;
}

/* End the lease, in this session or for `all`. */
static int lease_finish(struct rmem_lease *lease, bool all)
{
	struct rmem *session = lease->session;
	struct wire_msg request;
	int err = session_own(session);

	wire_msg_init(&request, all ? WIRE_TYPE_free : WIRE_TYPE_detach);
	if (all)
		request.free.lease = lease->id;
	else
		request.detach.lease = lease->id;
	if (err)
		return err;
	err = reference_drop(lease, all);
	if (err <= 0)
		return err;
	/* a second request could end what another thread has attached since the first */
	err = session_late_await(session, &lease->ended_late);
	if (!err)
		err = session_call_late(session, &request, ending_answered,
					&lease->ended_late, lease);
	/* the answer has dropped the reference */
	if (!err)
		return 0;
	(void)pthread_mutex_lock(&session->lock);
	err = reference_dropped(lease, err);
	(void)pthread_mutex_unlock(&session->lock);
	return err;
}

int rmem_detach(rmem_lease *lease)
{
	int err;

	if (!lease)
		return err_set(-EINVAL, "rmem_detach: the lease is NULL");
	err = lease_finish(lease, false);
	return err_end(err ? lease_error(lease, err, "rmem_detach") : 0);
}

int lease_check_writable(const struct rmem_lease *lease)
{
	if (lease->rights & RMEM_WRITE)
		return 0;
	return err_set(-EACCES, "it is attached for reading only");
}

int rmem_destroy(rmem_lease *lease)
{
	int err;

	if (!lease)
		return err_set(-EINVAL, "rmem_destroy: the lease is NULL");
	/* a lease that has ended needs no protection */
	err = atomic_load(&lease->status) == 0 ? lease_check_writable(lease) : 0;
	if (!err)
		err = lease_finish(lease, true);
	return err_end(err ? lease_error(lease, err, "rmem_destroy") : 0);
}
